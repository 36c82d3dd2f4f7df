//! Digests, for telling whether two things are the same.

/// The digest of `bytes`, in hexadecimal digits.
#[must_use]
pub fn of(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}
