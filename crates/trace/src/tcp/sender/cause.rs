//! Why a packet was sent again.
//!
//! The sender does not say why; what it had received and how long it had waited does:
//!
//! * *fast*: the receiver had reported something after the segment by SACK, or had sent three duplicate
//!   ACKs, or the segment belongs to a loss episode that began that way;
//! * *time-out*: none of these, it is the first segment not yet acknowledged, and it had been on its way
//!   as long as RFC 6298 requires; also everything sent again after it up to what was sent when the timer
//!   ran out, since that is the same loss episode;
//! * *tail probe*: the last segment sent, again after about two round trips of silence, without evidence of
//!   a loss (RFC 8985 section 7). If it is also the first that is not acknowledged, a wait as long as a
//!   time-out's is called a time-out;
//! * *unexplained*: the rest.
//!
//! Round trips are those of the whole path, so that this holds wherever the capture was taken.

use super::super::facts::Retransmissions;
use super::super::series::Meaning;
use super::{Path, Sender, elapsed};

/// Duplicate ACKs that make a sender repeat (RFC 5681 section 3.2).
const DUPLICATES: u32 = 3;

impl Sender {
    /// The cause of sending `start..end` again at `now`; `sent` is when it was sent before and whether that
    /// was a repetition already.
    pub(super) fn cause(
        &self,
        (start, end): (i64, i64),
        sent: Option<(i64, bool)>,
        now: i64,
        path: Path,
    ) -> Meaning {
        let acked = self.acked.unwrap_or(0);
        let within = |until: i64| until > 0 && acked < until && start < until;
        if within(self.timeout_until) {
            return Meaning::Timeout;
        }
        let timeout_ns = path.timeout_ns();
        let waited_ns = elapsed(sent.map_or(self.last_data_ns, |(time, _)| time), now);
        let repeated = sent.is_some_and(|(_, repeated)| repeated);
        let is_first = start <= acked;
        let is_last = end >= self.next;
        let evidence = self.sacked.end().is_some_and(|right| right > end)
            || (self.duplicates >= DUPLICATES && is_first)
            || within(self.recovery_until);
        if evidence {
            // A loss that repetition did not repair: the timer decides, or nothing was received in its time.
            let silence_ns = elapsed(self.last_ack_ns, now);
            let timer = is_first && waited_ns >= timeout_ns && (repeated || silence_ns >= timeout_ns);
            return if timer { Meaning::Timeout } else { Meaning::Fast };
        }
        let silence_ns = elapsed(self.last_data_ns, now);
        if is_last && !repeated && path.rtt_ns().is_some_and(|rtt| silence_ns >= rtt + rtt / 2) {
            return if is_first && waited_ns >= timeout_ns { Meaning::Timeout } else { Meaning::TailProbe };
        }
        if is_first && path.least_timeout_ns().map_or(waited_ns >= timeout_ns, |least| waited_ns >= least) {
            return Meaning::Timeout;
        }
        Meaning::Unexplained
    }

    /// Counts a packet sent again, and the consequences.
    pub(super) fn count_repeat(&mut self, meaning: Meaning, payload: u32) {
        let repeats: &mut Retransmissions = &mut self.side.retransmissions;
        repeats.total += 1;
        repeats.bytes += u64::from(payload);
        repeats.fins += u64::from(payload == 0 && meaning != Meaning::Handshake);
        match meaning {
            Meaning::Timeout => {
                repeats.timeout += 1;
                self.timeout_until = self.timeout_until.max(self.next);
            }
            Meaning::Fast => {
                repeats.fast += 1;
                self.recovery_until = self.recovery_until.max(self.next);
            }
            Meaning::TailProbe => repeats.tail_probe += 1,
            Meaning::Handshake => repeats.handshake += 1,
            _ => repeats.unexplained += 1,
        }
    }
}
