//! Block latency: since the last report, and since the start.

use hdrhistogram::Histogram;

use crate::control::LatencyNs;
use crate::times::histogram;

/// The latencies of one connection's blocks.
#[derive(Debug)]
pub struct Latency {
    recent: Histogram<u64>,
    total: Histogram<u64>,
}

impl Latency {
    /// None yet.
    pub fn new() -> Self {
        Self { recent: histogram(), total: histogram() }
    }

    /// One block.
    pub fn record(&mut self, ns: u64) {
        self.recent.saturating_record(ns);
    }

    /// Latencies since the last call.
    pub fn take(&mut self) -> LatencyNs {
        let found = told(&self.recent);
        // Both have the same bounds, so nothing is too large.
        let _ = self.total.add(&self.recent);
        self.recent.reset();
        found
    }

    /// Since the start.
    pub fn total(&mut self) -> LatencyNs {
        self.take();
        told(&self.total)
    }
}

fn told(histogram: &Histogram<u64>) -> LatencyNs {
    if histogram.is_empty() {
        return LatencyNs::default();
    }
    LatencyNs {
        count: histogram.len(),
        min: histogram.min(),
        mean: histogram.mean() as u64,
        p50: histogram.value_at_quantile(0.5),
        p99: histogram.value_at_quantile(0.99),
        max: histogram.max(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_reported_counts_in_the_total_once() {
        let mut latency = Latency::new();
        latency.record(1_000);
        latency.record(3_000);
        assert_eq!((latency.take().count, latency.take().count), (2, 0));
        latency.record(2_000);
        let total = latency.total();
        assert_eq!(total.count, 3);
        assert_eq!(latency.total(), total);
        for (found, expected) in
            [(total.min, 1_000), (total.p50, 2_000), (total.mean, 2_000), (total.max, 3_000)]
        {
            assert!(found.abs_diff(expected) * 100 <= expected, "{found} is not {expected}");
        }
    }

    #[test]
    fn nothing_is_too_long() {
        let mut latency = Latency::new();
        latency.record(u64::MAX);
        assert_eq!(latency.take().count, 1);
    }
}
