//! Numbers of a file, in the byte order of the file.

/// Byte order of a file's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Least byte first.
    Little,
    /// Greatest byte first.
    Big,
}

impl Order {
    /// The number at `at`; 0 beyond the end, which callers rule out.
    #[inline]
    pub fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let raw = bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        match self {
            Self::Little => u16::from_le_bytes(raw),
            Self::Big => u16::from_be_bytes(raw),
        }
    }

    /// The same for 32 bits.
    #[inline]
    pub fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let raw = bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        match self {
            Self::Little => u32::from_le_bytes(raw),
            Self::Big => u32::from_be_bytes(raw),
        }
    }

    /// The same for 64 bits.
    pub fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let raw = bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        match self {
            Self::Little => u64::from_le_bytes(raw),
            Self::Big => u64::from_be_bytes(raw),
        }
    }

    /// Options of a pcapng block (section 3.5 of the draft): code and value, until their end or until one
    /// does not fit.
    pub fn options(self, bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let code = self.u16(bytes.get(at..at + 4)?, 0);
            let length = usize::from(self.u16(bytes, at + 2));
            let value = bytes.get(at + 4..at + 4 + length)?;
            at += 4 + length.next_multiple_of(4);
            (code != 0).then_some((code, value))
        })
    }
}
