//! Numbers of IAX2 frames, which have none (RFC 5456 section 8.1.2): derived from their times, if these are those of
//! the speech.

use super::{Row, iax2};

/// Longest and shortest packet time of any codec, in ms.
const LONGEST_PACKET_MS: usize = 200;
const SHORTEST_PACKET_MS: usize = 5;
/// Frames that decide how a stream is numbered.
pub const LOOKED_AT: usize = 64;

/// Where the numbers of a stream's packets come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// RTP: from the packets themselves.
    Given,
    /// The time since the first frame in units of the usual step, both in ms.
    ByTime {
        /// From one frame to the next.
        step: i64,
        /// Time of the first.
        first: i64,
    },
    /// Frames as they came: their times are those of sending, and do not show missing frames.
    ByArrival {
        /// Number of the next one.
        next: i64,
    },
}

impl Numbers {
    /// For a stream over IAX2, from its first frames. Times are those of the speech if they step by the packet time,
    /// or by a multiple of it if frames are missing. Senders that take times from a clock have irregular steps.
    pub fn of_iax2(rows: &[Row]) -> Self {
        let rows = &rows[..rows.len().min(LOOKED_AT)];
        let steps = || rows.windows(2).filter_map(|pair| step(&pair[0], &pair[1]));
        let mut counts = [0_u64; LONGEST_PACKET_MS + 1];
        for step in steps() {
            if let Some(count) = counts.get_mut(step) {
                *count += 1;
            }
        }
        // The most frequent one; of equals, the smaller.
        let usual =
            (1..counts.len()).max_by_key(|step| (counts[*step], std::cmp::Reverse(*step))).unwrap_or(1);
        let fitting = steps().filter(|step| step.is_multiple_of(usual)).count();
        if usual < SHORTEST_PACKET_MS || fitting * 2 < steps().count() {
            return Self::ByArrival { next: 0 };
        }
        Self::ByTime { step: usual as i64, first: rows.first().map_or(0, |row| row.timestamp) }
    }

    /// The number of the next packet.
    pub const fn number(&mut self, row: &Row) -> i64 {
        match self {
            Self::Given => row.seq,
            Self::ByTime { step, first } => {
                row.timestamp.wrapping_sub(*first).wrapping_add(*step / 2).div_euclid(*step)
            }
            Self::ByArrival { next } => {
                *next += 1;
                *next - 1
            }
        }
    }

    /// Rate of the time stamps of IAX2; 0 if they are not those of the speech.
    pub const fn clock_hz(self) -> u32 {
        if matches!(self, Self::ByTime { .. }) { iax2::CLOCK_HZ } else { 0 }
    }
}

/// From one frame to the next in ms; `None` if that is not a step ahead.
fn step(one: &Row, next: &Row) -> Option<usize> {
    usize::try_from(next.timestamp - one.timestamp).ok().filter(|step| *step > 0)
}
