//! Histograms of times.

use hdrhistogram::Histogram;

/// Longest time that is distinguished: an hour.
const MOST_NS: u64 = 3_600_000_000_000;
/// Significant digits of a time.
const DIGITS: u8 = 2;

/// An empty histogram of times in ns; longer ones than an hour count as one.
pub fn histogram() -> Histogram<u64> {
    // One that grows by itself does not: saturating_record cuts at the bound of the moment.
    Histogram::new_with_bounds(1, MOST_NS, DIGITS).unwrap_or_else(|_| unreachable!("the bounds are right"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_times_are_not_cut_short() {
        let mut times = histogram();
        times.saturating_record(25_000_000);
        times.saturating_record(u64::MAX);
        assert!(times.min().abs_diff(25_000_000) < 250_000);
        assert!(times.max() >= MOST_NS);
    }
}
