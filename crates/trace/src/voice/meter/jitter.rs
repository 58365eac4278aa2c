//! Jitter while packets come in, even if the clock rate is known only at the end.

use super::super::Row;
use super::super::codecs::CLOCKS_HZ;
use super::super::stretches::{Stretches, media_ns};

/// Interarrival jitter of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter {
    /// Mean over the packets of the estimate after each, ns.
    pub mean_ns: f64,
    /// Greatest estimate, ns.
    pub max_ns: f64,
}

/// The estimate of RFC 3550 appendix A.8 for one clock rate.
#[derive(Clone, Debug)]
struct Estimate {
    stretches: Stretches,
    sum: Sum,
}

/// What is known until now.
#[derive(Clone, Copy, Debug)]
struct Sum {
    clock_hz: u32,
    /// Stretch of the last packet, and its arrival less its media time.
    last: Option<(u32, i64)>,
    /// Number of differences between two packets that were added.
    known: u64,
    now_ns: f64,
    sum_ns: f64,
    max_ns: f64,
}

/// Estimates for every clock rate that the stream may have.
#[derive(Clone, Debug)]
pub struct Estimates {
    each: Vec<Estimate>,
    packets: u64,
}

impl Estimates {
    /// For these clock rates; for all usual ones if there are none.
    pub fn new(clocks_hz: &[u32]) -> Self {
        let clocks_hz = if clocks_hz.is_empty() { &CLOCKS_HZ } else { clocks_hz };
        let of = |clock_hz: &u32| Estimate {
            stretches: Stretches::new(*clock_hz),
            sum: Sum { clock_hz: *clock_hz, last: None, known: 0, now_ns: 0.0, sum_ns: 0.0, max_ns: 0.0 },
        };
        Self { each: clocks_hz.iter().map(of).collect(), packets: 0 }
    }

    /// If time stamps mean nothing.
    pub const fn none() -> Self {
        Self { each: Vec::new(), packets: 0 }
    }

    /// The next packet, its time stamp counted from the stream's first. When time stamps start anew, nothing is
    /// known of the time between two packets.
    pub fn put(&mut self, row: &Row) {
        for estimate in &mut self.each {
            estimate.put(row);
        }
        self.packets += 1;
    }

    /// Packets added.
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// With this clock; `None` without two packets, or if the clock was not expected.
    pub fn by(&self, clock_hz: u32) -> Option<Jitter> {
        let mut estimate = self.each.iter().find(|estimate| estimate.sum.clock_hz == clock_hz)?.clone();
        estimate.finish();
        let sum = estimate.sum;
        let known = Some(sum.known).filter(|known| *known > 0)?;
        Some(Jitter { mean_ns: sum.sum_ns / known as f64, max_ns: sum.max_ns })
    }

    /// In how many silences the time stamps stood still, with this clock.
    pub fn still(&self, clock_hz: u32) -> u64 {
        let estimate = self.each.iter().find(|estimate| estimate.sum.clock_hz == clock_hz);
        estimate.map_or(0, |estimate| {
            let mut estimate = estimate.clone();
            estimate.finish();
            estimate.stretches.still()
        })
    }
}

impl Estimate {
    fn put(&mut self, row: &Row) {
        let sum = &mut self.sum;
        self.stretches.put(row, &mut |row, stretch| sum.add(row, stretch));
    }

    fn finish(&mut self) {
        let sum = &mut self.sum;
        self.stretches.finish(&mut |row, stretch| sum.add(row, stretch));
    }
}

impl Sum {
    fn add(&mut self, row: &Row, stretch: u32) {
        let transit_ns = row.arrival_ns.wrapping_sub(media_ns(row.timestamp, self.clock_hz.into()));
        match self.last {
            // Late, from the stretch before.
            Some((last, _)) if stretch < last => return,
            Some((last, last_ns)) if stretch == last => {
                let change = transit_ns.wrapping_sub(last_ns).unsigned_abs() as f64;
                self.now_ns += (change - self.now_ns) / 16.0;
                self.sum_ns += self.now_ns;
                self.max_ns = self.max_ns.max(self.now_ns);
                self.known += 1;
            }
            _ => {}
        }
        self.last = Some((stretch, transit_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(seq: i64, arrival_ns: i64, timestamp: i64) -> Row {
        Row {
            arrival_ns,
            seq,
            timestamp,
            payload_bytes: 160,
            payload_type: 0,
            marker: false,
            speech: true,
            stretch: 0,
        }
    }

    #[test]
    fn the_estimate_follows_rfc_3550() {
        let mut estimates = Estimates::new(&[8_000]);
        // 20 ms apart by their stamps; 0, 4 ms and 0 late.
        for (seq, arrival_ns, stamp) in [(0, 0, 0), (1, 24_000_000, 160), (2, 40_000_000, 320)] {
            estimates.put(&row(seq, arrival_ns, stamp));
        }
        let first = 4e6 / 16.0;
        let second = first + (4e6 - first) / 16.0;
        let expected = Jitter { mean_ns: f64::midpoint(first, second), max_ns: second };
        assert_eq!(estimates.by(8_000), Some(expected));
    }

    #[test]
    fn one_packet_has_no_jitter_and_an_unexpected_clock_none_either() {
        let mut estimates = Estimates::new(&[8_000]);
        estimates.put(&row(0, 0, 0));
        assert_eq!(estimates.by(8_000), None);
        estimates.put(&row(1, 20_000_000, 160));
        assert_eq!((estimates.by(16_000), estimates.by(8_000).is_some()), (None, true));
    }

    #[test]
    fn time_stamps_that_begin_anew_are_no_jitter() {
        let mut estimates = Estimates::new(&[8_000]);
        for i in 0..20 {
            let moved = if i < 10 { 0 } else { 344_000 };
            estimates.put(&row(i, i * 20_000_000, i * 160 + moved));
        }
        assert_eq!(estimates.by(8_000), Some(Jitter { mean_ns: 0.0, max_ns: 0.0 }));
    }

    #[test]
    fn every_usual_clock_is_tried_where_none_is_known() {
        let mut estimates = Estimates::new(&[]);
        for i in 0..10 {
            estimates.put(&row(i, i * 20_000_000, i * 960));
        }
        assert_eq!(estimates.by(48_000), Some(Jitter { mean_ns: 0.0, max_ns: 0.0 }));
        assert!(estimates.by(8_000).unwrap().mean_ns > 1e6);
    }
}
