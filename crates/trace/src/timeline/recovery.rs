//! When a sender repairs losses.

use super::Events;

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
}
