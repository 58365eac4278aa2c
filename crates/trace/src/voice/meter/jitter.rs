//! Jitter while packets come in, also where the clock rate will only be known in the end.

use super::super::codecs::CLOCKS_HZ;

const NS: i64 = 1_000_000_000;

/// Interarrival jitter of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter {
    /// Mean over the packets of the estimate after each, ns.
    pub mean_ns: f64,
    /// Greatest estimate, ns.
    pub max_ns: f64,
}

/// The estimate of RFC 3550 appendix A.8 for one clock rate.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    clock_hz: u32,
    /// Arrival less media time of the last packet.
    transit_ns: i64,
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
    /// For a clock rate, or if it is 0 for all usual ones.
    pub fn new(clock_hz: u32) -> Self {
        let of = |clock_hz| Estimate { clock_hz, transit_ns: 0, now_ns: 0.0, sum_ns: 0.0, max_ns: 0.0 };
        let each = if clock_hz == 0 { CLOCKS_HZ.map(of).to_vec() } else { vec![of(clock_hz)] };
        Self { each, packets: 0 }
    }

    /// The next packet, its time stamp counted from the stream's first.
    pub fn put(&mut self, arrival_ns: i64, stamp: i64) {
        for estimate in &mut self.each {
            let transit_ns = arrival_ns.wrapping_sub(media_ns(stamp, estimate.clock_hz.into()));
            if self.packets > 0 {
                let change = transit_ns.wrapping_sub(estimate.transit_ns).unsigned_abs() as f64;
                estimate.now_ns += (change - estimate.now_ns) / 16.0;
                estimate.sum_ns += estimate.now_ns;
                estimate.max_ns = estimate.max_ns.max(estimate.now_ns);
            }
            estimate.transit_ns = transit_ns;
        }
        self.packets += 1;
    }

    /// Packets put in.
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// By this clock; None without two packets, or where nobody expected the clock.
    pub fn by(&self, clock_hz: u32) -> Option<Jitter> {
        let estimate = self.each.iter().find(|estimate| estimate.clock_hz == clock_hz)?;
        let known = self.packets.checked_sub(1).filter(|known| *known > 0)?;
        Some(Jitter { mean_ns: estimate.sum_ns / known as f64, max_ns: estimate.max_ns })
    }
}

/// Media time; seconds apart, for a day of 90,000 ticks a second times 1e9 has more than 63 bits. What
/// overflows all the same was no time stamp.
const fn media_ns(stamp: i64, clock_hz: i64) -> i64 {
    let (whole_s, ticks) = (stamp.div_euclid(clock_hz), stamp.rem_euclid(clock_hz));
    whole_s.wrapping_mul(NS).wrapping_add(ticks.wrapping_mul(NS) / clock_hz)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_follows_rfc_3550() {
        let mut estimates = Estimates::new(8_000);
        // 20 ms apart by their stamps; 0, 4 ms and 0 late.
        for (arrival_ns, stamp) in [(0, 0), (24_000_000, 160), (40_000_000, 320)] {
            estimates.put(arrival_ns, stamp);
        }
        let first = 4e6 / 16.0;
        let second = first + (4e6 - first) / 16.0;
        let expected = Jitter { mean_ns: f64::midpoint(first, second), max_ns: second };
        assert_eq!(estimates.by(8_000), Some(expected));
    }

    #[test]
    fn one_packet_has_no_jitter_and_an_unexpected_clock_none_either() {
        let mut estimates = Estimates::new(8_000);
        estimates.put(0, 0);
        assert_eq!(estimates.by(8_000), None);
        estimates.put(20_000_000, 160);
        assert_eq!((estimates.by(16_000), estimates.by(8_000).is_some()), (None, true));
    }

    #[test]
    fn every_usual_clock_is_tried_where_none_is_known() {
        let mut estimates = Estimates::new(0);
        for i in 0..10 {
            estimates.put(i * 20_000_000, i * 960);
        }
        assert_eq!(estimates.by(48_000), Some(Jitter { mean_ns: 0.0, max_ns: 0.0 }));
        assert!(estimates.by(8_000).unwrap().mean_ns > 1e6);
    }
}
