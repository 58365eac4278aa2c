//! Numbers mixed into one.

pub const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The XOR of a product's halves: every input bit affects every output bit.
#[inline]
pub fn fold(value: u64) -> u64 {
    let product = u128::from(value ^ 0x2545_f491_4f6c_dd1d) * u128::from(FACTOR);
    (product as u64) ^ ((product >> 64) as u64)
}
