//! The Internet checksum (RFC 1071), in pieces: sums can be computed in advance and added later.

/// One's complement sum of `bytes` as 16-bit words in memory order, not folded or inverted.
///
/// Adding in memory order gives a checksum in memory order (RFC 1071, section 2 (B)), so
/// that it can be stored without swapping. An odd last byte is padded with zero.
///
/// The result stays below 2³² for up to 65,536 words.
#[must_use]
pub fn ones_complement_sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks_exact(2);
    let last = words.remainder();
    let mut sum: u32 = words.map(|w| u32::from(u16::from_ne_bytes([w[0], w[1]]))).sum();
    if let [byte] = last {
        sum += u32::from(u16::from_ne_bytes([*byte, 0]));
    }
    sum
}

/// Folds a sum into 16 bits with end-around carry.
#[must_use]
pub fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // The loop ends with at most 16 bits.
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        let sum = fold(ones_complement_sum(&bytes).into());
        assert_eq!(sum.to_ne_bytes(), [0xdd, 0xf2]);
    }

    #[test]
    fn an_odd_byte_counts_as_the_high_half() {
        assert_eq!(ones_complement_sum(&[0xab]), ones_complement_sum(&[0xab, 0]));
    }
}
