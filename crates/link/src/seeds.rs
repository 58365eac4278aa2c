//! Seeds of the random sequences of a path.

/// One for each random sequence.
#[derive(Clone, Copy)]
pub enum Stream {
    Loss,
    Duplicate,
    Reorder,
    Jitter,
    Red,
}

/// A separate seed for each random sequence (the finaliser of SplitMix64).
pub const fn seed(seed: u64, stream: Stream) -> u64 {
    let mut z = seed.wrapping_add((stream as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
