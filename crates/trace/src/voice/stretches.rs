//! Where time stamps start anew in the middle of a stream, while its numbers continue: gateways do so when
//! they switch from one source of sound to another.

use super::Row;

const NS: i64 = 1_000_000_000;
/// A jump of the time stamps beyond this is not caused by the network.
const JUMP_NS: i64 = NS;
/// Formats whose marker ends a picture instead of beginning a talk spurt (RFC 3551 sections 4.1 and 5).
const PICTURES_HZ: u32 = 90_000;

/// Follows the time stamps of one stream from stretch to stretch.
///
/// They started anew if they go back although the numbers continue, if they run ahead of the clock here,
/// and at the beginning of a talk spurt also if they fall behind it. Only there: later in a spurt, packets
/// that come later than their stamps say were delayed on the way.
#[derive(Clone, Copy, Debug)]
pub struct Stretches {
    clock_hz: u32,
    number: u32,
    /// Number of the first packet of this stretch.
    first_seq: i64,
    newest: Option<Newest>,
}

/// The packet with the highest number, and the least time that any packet of the stretch took.
#[derive(Clone, Copy, Debug)]
struct Newest {
    seq: i64,
    arrival_ns: i64,
    media_ns: i64,
    fastest_ns: i64,
}

impl Stretches {
    /// For a stream whose time stamps run at this rate, which is above 0.
    pub const fn new(clock_hz: u32) -> Self {
        Self { clock_hz, number: 0, first_seq: i64::MIN, newest: None }
    }

    /// The stretch that the next packet of speech belongs to, counted from 0.
    pub fn put(&mut self, row: &Row) -> u32 {
        let media_ns = media_ns(row.timestamp, self.clock_hz.into());
        let transit_ns = row.arrival_ns.wrapping_sub(media_ns);
        let Some(newest) = self.newest else {
            self.begin(row, media_ns, transit_ns);
            return self.number;
        };
        if row.seq <= newest.seq {
            // Overtaken by the first packet of this stretch, it belongs to the one before.
            return self.number.saturating_sub(u32::from(row.seq < self.first_seq));
        }
        let late_ns = transit_ns.wrapping_sub(newest.arrival_ns.wrapping_sub(newest.media_ns));
        let goes_back = media_ns.saturating_sub(newest.media_ns) < -JUMP_NS;
        let runs_ahead = transit_ns.saturating_sub(newest.fastest_ns) < -JUMP_NS;
        let falls_behind = row.marker && self.clock_hz != PICTURES_HZ && late_ns > JUMP_NS;
        if goes_back || runs_ahead || falls_behind {
            self.number += 1;
            self.begin(row, media_ns, transit_ns);
        } else {
            let fastest_ns = newest.fastest_ns.min(transit_ns);
            self.newest = Some(Newest { seq: row.seq, arrival_ns: row.arrival_ns, media_ns, fastest_ns });
        }
        self.number
    }

    const fn begin(&mut self, row: &Row, media_ns: i64, fastest_ns: i64) {
        self.first_seq = row.seq;
        self.newest = Some(Newest { seq: row.seq, arrival_ns: row.arrival_ns, media_ns, fastest_ns });
    }
}

/// Media time; for a day of 90,000 ticks a second, seconds times 1e9 has more than 63 bits. Anything that
/// still overflows was not a time stamp.
pub const fn media_ns(stamp: i64, clock_hz: i64) -> i64 {
    let (whole_s, ticks) = (stamp.div_euclid(clock_hz), stamp.rem_euclid(clock_hz));
    whole_s.wrapping_mul(NS).wrapping_add(ticks.wrapping_mul(NS) / clock_hz)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of 20 ms: number, lateness in ms, by how many ms its time stamp is moved, marker.
    fn stretches(packets: &[(i64, i64, i64, bool)]) -> Vec<u32> {
        let mut stretches = Stretches::new(8_000);
        let row = |&(seq, late_ms, moved_ms, marker): &(i64, i64, i64, bool)| Row {
            arrival_ns: (seq * 20 + late_ms) * 1_000_000,
            seq,
            timestamp: (seq * 20 + moved_ms) * 8,
            payload_bytes: 160,
            payload_type: 0,
            marker,
            speech: true,
            stretch: 0,
        };
        packets.iter().map(|packet| stretches.put(&row(packet))).collect()
    }

    #[test]
    fn stamps_that_go_back_or_run_ahead_begin_anew() {
        for moved in [-43_000, 43_000] {
            assert_eq!(stretches(&[(0, 0, 0, true), (1, 0, 0, false), (2, 0, moved, false)]), [0, 0, 1]);
        }
    }

    #[test]
    fn stamps_that_stood_still_in_a_silence_begin_anew_with_the_talk_spurt() {
        let silence = |marker| [(0, 0, 0, true), (1, 0, 0, false), (200, 0, -3_960, marker)];
        assert_eq!(stretches(&silence(true)), [0, 0, 1]);
        // Without it they were held up.
        assert_eq!(stretches(&silence(false)), [0, 0, 0]);
    }

    #[test]
    fn packets_that_were_held_up_and_come_all_at_once_go_on() {
        let held_up: Vec<_> =
            (0..100).map(|i| (i, if i < 50 { 0 } else { (150 - i) * 20 }, 0, i == 0)).collect();
        assert!(stretches(&held_up).iter().all(|stretch| *stretch == 0));
    }

    #[test]
    fn a_packet_that_the_new_stretch_overtook_belongs_to_the_old_one() {
        let packets = [(0, 0, 0, true), (2, 0, 43_000, true), (1, 30, 0, false), (3, 0, 43_000, false)];
        assert_eq!(stretches(&packets), [0, 1, 0, 1]);
    }

    #[test]
    fn the_marker_of_a_picture_is_none_of_a_talk_spurt() {
        let mut pictures = Stretches::new(PICTURES_HZ);
        let row = |seq: i64, arrival_ms: i64| Row {
            arrival_ns: arrival_ms * 1_000_000,
            seq,
            timestamp: seq * 3_000,
            payload_bytes: 900,
            payload_type: 96,
            marker: true,
            speech: true,
            stretch: 0,
        };
        assert_eq!([row(0, 0), row(1, 33), row(2, 5_000)].map(|row| pictures.put(&row)), [0; 3]);
    }
}
