//! Delay buckets: exact below 128 ns, then 128 an octave (at most 0.79 % wide), up to 17 s.

use crate::layout::{HIST_BUCKETS, HIST_SUB};

/// Number of buckets; the last one also takes everything longer.
pub const BUCKETS: usize = HIST_BUCKETS;

const SUB_BITS: u32 = HIST_SUB.trailing_zeros();

/// The bucket of a delay; the same as `bucket()` in `bpf/receiver.bpf.c`.
#[must_use]
pub const fn bucket(delay_ns: u64) -> usize {
    if delay_ns < HIST_SUB as u64 {
        return delay_ns as usize;
    }
    let octave = delay_ns.ilog2() - SUB_BITS;
    let index = (octave as usize + 1) * HIST_SUB + ((delay_ns >> octave) as usize & (HIST_SUB - 1));
    if index < BUCKETS { index } else { BUCKETS - 1 }
}

/// Lower (inclusive) and upper (exclusive) bound of a bucket in ns.
#[must_use]
pub const fn bounds_ns(bucket: usize) -> (u64, u64) {
    if bucket < HIST_SUB {
        return (bucket as u64, bucket as u64 + 1);
    }
    let octave = bucket / HIST_SUB - 1;
    let lower = ((HIST_SUB + bucket % HIST_SUB) as u64) << octave;
    (lower, lower + (1 << octave))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_touch_and_cover_everything_from_zero() {
        for i in 1..BUCKETS {
            assert_eq!(bounds_ns(i - 1).1, bounds_ns(i).0);
        }
        assert_eq!(bounds_ns(0).0, 0);
        assert!(bounds_ns(BUCKETS - 1).1 > 10_000_000_000);
    }

    #[test]
    fn a_bucket_is_at_most_one_percent_wide_from_100_ns_to_10_s() {
        for (lower, upper) in (100..BUCKETS).map(bounds_ns) {
            assert!((upper - lower) as f64 <= 0.01 * lower as f64, "{lower}..{upper}");
        }
    }

    proptest! {
        #[test]
        fn every_delay_lies_within_its_bucket(delay in 0u64..17_000_000_000) {
            let (lower, upper) = bounds_ns(bucket(delay));
            prop_assert!(lower <= delay && delay < upper);
        }

        #[test]
        fn no_delay_is_beyond_the_last_bucket(delay: u64) {
            prop_assert!(bucket(delay) < BUCKETS);
        }
    }
}
