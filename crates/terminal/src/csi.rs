//! CSI sequences, split into their parts.

/// A CSI sequence, split into its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Csi<'t> {
    /// `?`, `>`, `=` or `<` before the parameters.
    pub(crate) marker: Option<u8>,
    params: &'t [u8],
    /// The bytes between the parameters and the final byte; usually empty.
    pub(crate) intermediates: &'t [u8],
    /// The final byte, which selects the function.
    pub(crate) last: u8,
}

impl<'t> Csi<'t> {
    /// Parses a complete CSI sequence; `None` if `bytes` is not one.
    pub(crate) fn parse(bytes: &'t [u8]) -> Option<Self> {
        let (&last, body) = bytes.strip_prefix(b"\x1b[")?.split_last()?;
        if !(0x40..=0x7e).contains(&last) {
            return None;
        }
        let (marker, body) = match body {
            [marker @ 0x3c..=0x3f, rest @ ..] => (Some(*marker), rest),
            _ => (None, body),
        };
        let params_end =
            body.iter().position(|byte| !(0x30..=0x3b).contains(byte)).unwrap_or(body.len());
        let (params, intermediates) = body.split_at(params_end);
        Some(Self { marker, params, intermediates, last })
    }

    /// Returns the parameters, separated by `;` or `:`. An omitted parameter is 0, so there is
    /// always at least one. Values above 65535 saturate.
    pub(crate) fn params(&self) -> impl Iterator<Item = u16> + use<'t> {
        self.params.split(|byte| matches!(byte, b';' | b':')).map(|digits| {
            digits.iter().fold(0u16, |number, digit| {
                number.saturating_mul(10).saturating_add(u16::from(digit - b'0'))
            })
        })
    }

    /// Returns the first parameter (default: 0).
    pub(crate) fn first(&self) -> u16 {
        self.params().next().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_splits_marker_params_intermediates_and_final_byte() {
        let parts = Csi::parse(b"\x1b[?12;;3:4$p").unwrap();
        assert_eq!((parts.marker, parts.intermediates, parts.last), (Some(b'?'), &b"$"[..], b'p'));
        assert_eq!(parts.params().collect::<Vec<_>>(), [12, 0, 3, 4]);

        let plain = Csi::parse(b"\x1b[m").unwrap();
        assert_eq!((plain.marker, plain.intermediates, plain.last), (None, &b""[..], b'm'));
        assert_eq!(plain.params().collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn parse_saturates_large_params_and_rejects_other_sequences() {
        assert_eq!(Csi::parse(b"\x1b[99999 q").unwrap().first(), u16::MAX);
        assert_eq!(Csi::parse(b"\x1b[12"), None);
        assert_eq!(Csi::parse(b"\x1bM"), None);
    }
}
