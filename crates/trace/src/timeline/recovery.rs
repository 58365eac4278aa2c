//! When a sender repairs losses.

use super::Events;

/// Share of a round trip within which a segment that others have overtaken arrives; a retransmission takes longer.
const OVERTAKEN: f64 = 0.5;
/// Least time-out of a retransmission, and longest delay of an ACK, s (Linux; RFC 6298 has longer ones).
const LEAST_TIMEOUT_S: f64 = 0.2;
/// Round trips, besides a delayed ACK, within which data follows a segment that a time-out sent.
const FOLLOWS_TRIPS: f64 = 2.0;

/// Whether a recovery lasts: from a retransmission until all sent by then is acknowledged.
pub(super) fn recoveries(again: &[bool], events: &Events) -> Vec<bool> {
    let mut inside = vec![false; again.len()];
    let mut until = 0;
    for at in 0..again.len() {
        if again[at] && at >= until {
            until = events.acked.partition_point(|&acked| acked < events.sent[at]);
            inside[at..until.max(at)].fill(true);
        }
    }
    inside
}

/// Whether data is missing before that at `at`, and does not come so soon after it that it was only overtaken.
pub(super) fn is_behind_loss(events: &Events, at: usize, least_s: f64) -> bool {
    let missing = at > 0 && events.sent[at] - i64::from(events.payload_bytes[at]) > events.sent[at - 1];
    let until_ns = events.at_ns[at] + OVERTAKEN * least_s * 1e9;
    let is_old = |later: usize| events.data[later] && events.sent[later] == events.sent[later - 1];
    missing && !(at + 1..events.at_ns.len()).take_while(|&later| events.at_ns[later] <= until_ns).any(is_old)
}

/// Whether a full segment came alone: `gap_s` after the data before, and the next data a round trip later. So a sender begins
/// again after a time-out, if all that it had sent was lost on the way. An application would have written less, or more.
pub(super) fn is_timeout(gap_s: f64, next_s: Option<f64>, least_s: f64) -> bool {
    let soon = OVERTAKEN * least_s..=FOLLOWS_TRIPS * least_s + LEAST_TIMEOUT_S;
    gap_s >= LEAST_TIMEOUT_S && next_s.is_some_and(|next_s| next_s < gap_s && soon.contains(&next_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_lasts_until_what_had_been_sent_is_acknowledged() {
        let events = Events {
            at_ns: vec![0.0; 6],
            data: vec![true; 6],
            acks: vec![false; 6],
            sent: vec![10, 20, 30, 40, 40, 50],
            acked: vec![0, 0, 0, 30, 30, 40],
            payload_bytes: vec![10; 6],
        };
        let again = [false, false, true, false, true, false];
        assert_eq!(recoveries(&again, &events), again);
    }

    #[test]
    fn a_segment_alone_after_a_silence_is_that_of_a_time_out() {
        assert!(is_timeout(1.6, Some(0.05), 0.05));
        // A burst; the next message; a short gap; the last data.
        for (gap_s, next_s) in [(1.6, Some(0.0)), (1.6, Some(1.6)), (0.1, Some(0.05)), (1.6, None)] {
            assert!(!is_timeout(gap_s, next_s, 0.05));
        }
    }
}
