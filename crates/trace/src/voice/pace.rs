//! How fast the time stamps of a stream really run, whatever was announced: some senders count G.722 in its 16,000
//! samples instead of the 8,000 ticks of RFC 3551, or Opus in those of its bandwidth.

use super::Row;
use super::codecs::{CLOCKS_HZ, PICTURES_HZ, usual_clock};

/// A longer time between two packets is a silence.
const LONGEST_STEP_NS: i64 = 200_000_000;
/// Fewer steps show no rate.
const FEWEST_STEPS: u64 = 30;
/// So many show it well.
const MANY_STEPS: u64 = 1_000;
/// By how much the rate has to differ from what was announced, with few steps and with many.
const DIFFERENCE: f64 = 0.15;
const SMALL_DIFFERENCE: f64 = 0.06;
/// Usual times between packets, ms.
const PACKETS_MS: [f64; 12] = [1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 40.0, 60.0, 80.0, 100.0, 120.0, 200.0];
const PACKET_TOLERANCE: f64 = 0.06;
const SLOWEST_HZ: f64 = 500.0;
/// By how much stamps may seem to run slower or faster than at a rate that gives packets a usual time.
const LOOSE_TOLERANCE: f64 = 0.1;

/// More missing numbers may be a silence.
const MOST_MISSING: i64 = 10;

/// Ticks and time between packets, each with a higher number than those before: the ones that were overtaken say
/// nothing, as to count only neighbours would make packets seem slow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    steps: u64,
    ticks: i64,
    ns: i64,
    /// The step of most packets, by majority vote.
    usual: i64,
    votes: u64,
    newest: Option<(i64, i64, i64)>,
}

impl Pace {
    /// The next packet of speech.
    pub fn put(&mut self, row: &Row) {
        let now = (row.seq, row.timestamp, row.arrival_ns);
        let Some((seq, stamp, arrival_ns)) = self.newest.filter(|newest| newest.0 < row.seq) else {
            self.newest = self.newest.or(Some(now));
            return;
        };
        self.newest = Some(now);
        let (ticks, ns) = (row.timestamp.wrapping_sub(stamp), row.arrival_ns.wrapping_sub(arrival_ns));
        let steps = row.seq - seq;
        if steps > MOST_MISSING || ticks <= 0 || !(0..=LONGEST_STEP_NS).contains(&ns) {
            return;
        }
        self.steps += steps.unsigned_abs();
        self.ticks = self.ticks.saturating_add(ticks);
        self.ns += ns;
        let ticks = if steps == 1 { ticks } else { ticks / steps };
        if self.votes == 0 {
            self.usual = ticks;
        }
        self.votes = if self.usual == ticks { self.votes + 1 } else { self.votes - 1 };
    }

    /// Rate of the time stamps; `None` if too little shows it.
    pub fn hz(&self) -> Option<f64> {
        (self.steps >= FEWEST_STEPS && self.ns > 0).then(|| self.ticks as f64 / self.ns as f64 * 1e9)
    }

    /// The rate of the time stamps, if they clearly do not run at the `nominal` one.
    pub fn other_than(&self, nominal: u32) -> Option<u32> {
        let hz = self.hz()?;
        let least = if self.steps < MANY_STEPS { DIFFERENCE } else { SMALL_DIFFERENCE };
        if (hz / f64::from(nominal) - 1.0).abs() < least {
            return None;
        }
        let packet_ms = self.ns as f64 / self.steps as f64 / 1e6;
        let error = |usual: &f64| (packet_ms / usual - 1.0).abs();
        let packet_ms = PACKETS_MS.into_iter().min_by(|a, b| error(a).total_cmp(&error(b)))?;
        let by_packets = self.usual as f64 * 1e3 / packet_ms;
        if error(&packet_ms) <= PACKET_TOLERANCE && by_packets >= SLOWEST_HZ && by_packets.fract() == 0.0 {
            return Some(by_packets as u32).filter(|other| *other != nominal);
        }
        usual_clock(hz).filter(|other| *other != nominal)
    }

    /// The usual clock rate of stamps that seem to run at `hz`: one at which packets last a usual time, if there is such
    /// a rate. In a few packets, jitter makes 44,100 Hz of 48,000.
    pub fn clock(&self, hz: f64) -> Option<u32> {
        let packet_ms = |clock: u32| self.usual as f64 * 1e3 / f64::from(clock);
        let is_usual = |clock: &u32| PACKETS_MS.iter().any(|ms| (packet_ms(*clock) / ms - 1.0).abs() < 1e-3);
        let error = |clock: &u32| (hz / f64::from(*clock) - 1.0).abs();
        let nearest = CLOCKS_HZ.into_iter().filter(is_usual).min_by(|a, b| error(a).total_cmp(&error(b)));
        nearest
            .filter(|clock| error(clock) <= LOOSE_TOLERANCE)
            .or_else(|| usual_clock(hz).filter(|clock| nearest.is_none() || *clock == PICTURES_HZ))
    }

    /// Whether the stamps run at `other` rather than at the `nominal` rate.
    pub fn is_rather(&self, other: u32, nominal: u32) -> bool {
        self.hz().is_some_and(|hz| (hz / f64::from(other)).ln().abs() < (hz / f64::from(nominal)).ln().abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets that step by so many ticks every so many ms, with a silence in which stamps stand still.
    fn pace(ticks: i64, ms: i64, packets: i64) -> Pace {
        let mut pace = Pace::default();
        for i in 0..packets {
            let silent_ms = if i > packets / 2 { 3_000 } else { 0 };
            pace.put(&Row {
                arrival_ns: (i * ms + silent_ms + i % 3) * 1_000_000,
                seq: i,
                timestamp: i * ticks,
                payload_bytes: 160,
                payload_type: 9,
                marker: false,
                speech: true,
                stretch: 0,
            });
        }
        pace
    }

    #[test]
    fn stamps_at_another_rate_are_recognised() {
        for (ticks, ms, nominal, real) in [
            (320, 20, 8_000, 16_000),
            (160, 20, 48_000, 8_000),
            (480, 20, 48_000, 24_000),
            // G.729 counted in bytes.
            (20, 20, 8_000, 1_000),
            (320, 40, 16_000, 8_000),
        ] {
            assert_eq!(pace(ticks, ms, 100).other_than(nominal), Some(real), "{ticks} ticks in {ms} ms");
        }
        assert_eq!(pace(882, 20, 2_000).other_than(48_000), Some(44_100));
    }

    #[test]
    fn a_rate_that_nothing_announced_gives_packets_a_usual_time() {
        assert_eq!(pace(960, 20, 6).clock(43_900.0), Some(48_000));
        assert_eq!(pace(320, 20, 80).clock(22_100.0), None);
        // Pictures and AAC have none.
        assert_eq!(pace(2_880, 32, 50).clock(90_500.0), Some(90_000));
        assert_eq!(pace(1_024, 23, 50).clock(44_300.0), Some(44_100));
    }

    #[test]
    fn stamps_at_their_own_rate_are_not_and_few_packets_show_nothing() {
        assert_eq!(pace(160, 20, 100).other_than(8_000), None);
        assert_eq!(pace(240, 30, 1_000).other_than(8_000), None);
        assert_eq!(pace(320, 20, 20).other_than(8_000), None);
    }
}
