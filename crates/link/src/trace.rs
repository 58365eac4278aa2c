//! Delivery opportunities as Mahimahi records and replays them (R. Netravali et al., "Mahimahi: Accurate
//! Record-and-Replay for HTTP", USENIX ATC 2015; `mm-link(1)`).

use thiserror::Error;

const MS: u64 = 1_000_000;

/// What an opportunity carries: an IP packet of 1500 bytes and the 4 bytes that Mahimahi's tunnel adds to each.
pub const OPPORTUNITY_BYTES: u32 = 1504;

/// From the bytes of an Ethernet frame to those that Mahimahi counts: no Ethernet header, the tunnel's 4 bytes.
pub(crate) const COUNTED_BYTES: i64 = 4 - 14;

/// Times of opportunities, which start again after the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// In ms; never falling, and the last one above 0.
    at_ms: Vec<u64>,
}

/// Why a text is not a trace. Nothing of the text is quoted: it may be a secret of this host, whose file someone named
/// as a trace.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TraceError {
    /// There is nothing in it.
    #[error("the trace is empty: expected a time in ms on each line")]
    Empty,
    /// A line is not a time.
    #[error("line {line} is no time: expected whole ms")]
    NoTime {
        /// Its number, from 1.
        line: usize,
    },
    /// Time goes back.
    #[error("line {line} is earlier than the line before: times must not go back")]
    Back {
        /// Its number, from 1.
        line: usize,
    },
    /// All opportunities are at 0.
    #[error("the last time is 0 ms: the trace begins again there, so it must be later")]
    NoTimePasses,
}

impl Trace {
    /// Reads a file in Mahimahi's format: a line for each opportunity, with its time in whole ms since the start.
    ///
    /// # Errors
    /// [`TraceError`], which names the line.
    pub fn parse(text: &[u8]) -> Result<Self, TraceError> {
        let mut at_ms: Vec<u64> = Vec::new();
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        for (i, line) in text.split(|&byte| byte == b'\n').enumerate() {
            if text.is_empty() {
                break;
            }
            let found = String::from_utf8_lossy(line.trim_ascii());
            // A century: anything longer would not fit into a time in ns.
            let time = found.parse::<u64>().ok().filter(|&ms| ms < 100 * 366 * 86_400_000);
            let time = time.ok_or(TraceError::NoTime { line: i + 1 })?;
            match at_ms.last() {
                Some(&before_ms) if time < before_ms => {
                    return Err(TraceError::Back { line: i + 1 });
                }
                _ => at_ms.push(time),
            }
        }
        match at_ms.last() {
            None => Err(TraceError::Empty),
            Some(0) => Err(TraceError::NoTimePasses),
            Some(_) => Ok(Self { at_ms }),
        }
    }

    /// Time after which it starts again, in ns.
    #[must_use]
    pub fn period_ns(&self) -> u64 {
        self.at_ms.last().map_or(0, |ms| ms * MS)
    }

    /// What it carries in the long run, in bit/s.
    #[must_use]
    pub fn mean_bps(&self) -> f64 {
        self.at_ms.len() as f64 * f64::from(8 * OPPORTUNITY_BYTES) * 1e9 / self.period_ns() as f64
    }

    /// How many opportunities it has.
    pub(crate) fn opportunities(&self) -> u64 {
        self.at_ms.len() as u64
    }

    /// Time of the `n`-th opportunity, from 0, in ns since the start of the trace.
    pub(crate) fn at_ns(&self, n: u64) -> u64 {
        let len = self.opportunities();
        (n / len).saturating_mul(self.period_ns()).saturating_add(self.at_ms[(n % len) as usize] * MS)
    }

    /// Number of the first opportunity later than `at_ns`.
    pub(crate) fn first_after(&self, at_ns: u64) -> u64 {
        let round = at_ns / self.period_ns();
        let within_ms = at_ns % self.period_ns() / MS;
        // If a round ends exactly at `at_ns`, an opportunity at 0 of the next one is not later.
        round.saturating_mul(self.opportunities()) + self.at_ms.partition_point(|&ms| ms <= within_ms) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_begins_again_at_its_last_time() {
        // Two opportunities at 3 ms, and at 10 ms = 0 ms the last of a round and the first of the next.
        let trace = Trace::parse(b"0\n3\n3\n10\n").expect("a trace");
        let at_ms: Vec<u64> = (0..9).map(|n| trace.at_ns(n) / MS).collect();
        assert_eq!(at_ms, [0, 3, 3, 10, 10, 13, 13, 20, 20]);
        assert_eq!(trace.period_ns(), 10 * MS);
        assert!((trace.mean_bps() - 4.0 * 1504.0 * 8.0 / 0.010).abs() < 1e-6);
    }

    #[test]
    fn the_first_opportunity_after_a_time_is_later_and_the_one_before_is_not() {
        let trace = Trace::parse(b"1\n2\n2\n7").expect("a trace");
        for at_ns in (0..40 * MS).step_by(MS as usize / 4) {
            let n = trace.first_after(at_ns);
            assert!(trace.at_ns(n) > at_ns, "{at_ns}");
            assert!(n == 0 || trace.at_ns(n - 1) <= at_ns, "{at_ns}");
        }
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_line() {
        assert_eq!(Trace::parse(b""), Err(TraceError::Empty));
        assert_eq!(Trace::parse(b"0\n0\n"), Err(TraceError::NoTimePasses));
        assert_eq!(Trace::parse(b"1\n5\n4\n"), Err(TraceError::Back { line: 3 }));
        let lines: [&[u8]; 4] = [b"1\n\n3\n", b"1\n2.5\n", b"1\n99999999999999999999\n", b"1\n\xff\n"];
        for text in lines {
            assert_eq!(Trace::parse(text), Err(TraceError::NoTime { line: 2 }), "{text:?}");
        }
    }

    #[test]
    fn files_of_other_systems_end_their_lines_otherwise() {
        assert_eq!(Trace::parse(b"1\r\n2\r\n"), Trace::parse(b"1\n2"));
    }
}
