//! Content digests.

/// Returns the BLAKE3 digest of `bytes` in hexadecimal.
#[must_use]
pub fn of(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}
