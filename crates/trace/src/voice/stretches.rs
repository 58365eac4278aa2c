//! Where time stamps start anew in the middle of a stream, while its numbers continue: gateways do so when
//! they switch from one source of sound to another, and some senders let them stand still in silence.

use super::Row;
use super::codecs::PICTURES_HZ;

const NS: i64 = 1_000_000_000;
/// A jump of the time stamps beyond this is not caused by the network.
const JUMP_NS: i64 = NS;
/// Packets that come so much later than their stamps say were sent after a silence in which the stamps stood still, or
/// were held up by the network.
const SILENCE_NS: i64 = 100_000_000;
/// The first packets after a silence may be lost. With more, another way that takes longer is the likelier cause, unless
/// it would take very much longer.
const MOST_LOST: i64 = 10;
const MOST_LOST_LATE: i64 = 100;
const LONG_NS: i64 = 500_000_000;
/// Held up, they come at once. After a silence, of so many packets the later half gains at most this share of its time
/// on the earlier one, and none makes up for so much of the time by which the first was late.
const PACED: usize = 24;
const FEWEST_PACED: usize = 3;
const MOST_GAIN: f64 = 0.2;
const MOST_CAUGHT_UP: f64 = 0.5;

/// Follows the time stamps of one stream from stretch to stretch.
///
/// They started anew if they go back although the numbers continue, if they run ahead of the clock here,
/// and at the beginning of a talk spurt also if they fall behind it. They stood still if packets come later than
/// their stamps say, one after the other as they are sent. Packets that the network held up come faster.
#[derive(Clone, Debug)]
pub struct Stretches {
    clock_hz: u32,
    number: u32,
    /// Number of the first packet of this stretch.
    first_seq: i64,
    newest: Option<Newest>,
    /// Packets since one that may begin a stretch, until it is clear whether it does.
    held: Vec<Row>,
    /// How late the first of them came.
    late_ns: i64,
    /// How often stamps stood still.
    still: u64,
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
        Self {
            clock_hz,
            number: 0,
            first_seq: i64::MIN,
            newest: None,
            held: Vec::new(),
            late_ns: 0,
            still: 0,
        }
    }

    /// The next packet of speech. `sink` is given packets in their order, each with the stretch that it belongs
    /// to, counted from 0.
    #[inline]
    pub fn put(&mut self, row: &Row, sink: &mut impl FnMut(&Row, u32)) {
        if self.held.is_empty() {
            let Some(late_ns) = self.late_after_silence(row) else {
                let stretch = self.place(row);
                return sink(row, stretch);
            };
            self.late_ns = late_ns;
        }
        self.hold(row, sink);
    }

    /// What was held; nothing comes any more.
    pub fn finish(&mut self, sink: &mut impl FnMut(&Row, u32)) {
        while !self.held.is_empty() {
            let is_silence = self.forward().count() >= FEWEST_PACED && self.is_paced();
            self.release(is_silence, sink);
        }
    }

    /// In how many silences the stamps stood still.
    pub const fn still(&self) -> u64 {
        self.still
    }

    #[cold]
    fn hold(&mut self, row: &Row, sink: &mut impl FnMut(&Row, u32)) {
        self.held.push(*row);
        if self.forward().count() >= PACED || self.held.len() >= 4 * PACED {
            let is_silence = self.is_paced();
            self.release(is_silence, sink);
        }
    }

    /// Packets that were held, and go on from the first of them.
    fn forward(&self) -> impl Iterator<Item = &Row> {
        let mut highest = i64::MIN;
        self.held.iter().filter(move |row| {
            let ahead = row.seq > highest;
            highest = highest.max(row.seq);
            ahead
        })
    }

    /// Whether they came as slowly as they were sent, but for the delay of the first: the fastest of the later half are
    /// hardly faster than the fastest of the earlier one.
    fn is_paced(&self) -> bool {
        let clock_hz = self.clock_hz.into();
        let Some(first) = self.held.first() else { return false };
        let since = |row: &Row| {
            let media_ns =
                media_ns(row.timestamp, clock_hz).saturating_sub(media_ns(first.timestamp, clock_hz));
            (media_ns, row.arrival_ns.saturating_sub(first.arrival_ns).saturating_sub(media_ns))
        };
        let late: Vec<_> = self.forward().map(since).collect();
        let (earlier, later) = late.split_at(late.len() / 2);
        let least = |half: &[(i64, i64)]| half.iter().map(|(_, late_ns)| *late_ns).min();
        let (Some(before_ns), Some(after_ns), Some(begin), Some(end)) =
            (least(earlier), least(later), later.first(), later.last())
        else {
            return false;
        };
        let lasted_ns = end.0.saturating_sub(begin.0).saturating_add(end.0 / late.len() as i64);
        lasted_ns > 0
            && before_ns.saturating_sub(after_ns) as f64 <= MOST_GAIN * lasted_ns as f64
            && MOST_CAUGHT_UP * self.late_ns as f64 > -before_ns.min(after_ns) as f64
    }

    /// Gives the first of the held packets its place, and looks at the others again.
    fn release(&mut self, is_silence: bool, sink: &mut impl FnMut(&Row, u32)) {
        let held = std::mem::take(&mut self.held);
        let Some((first, rest)) = held.split_first() else { return };
        if is_silence {
            let media_ns = media_ns(first.timestamp, self.clock_hz.into());
            self.number += 1;
            self.still += 1;
            self.begin(first, media_ns, first.arrival_ns.wrapping_sub(media_ns));
            sink(first, self.number);
        } else {
            let stretch = self.place(first);
            sink(first, stretch);
        }
        for row in rest {
            self.put(row, sink);
        }
    }

    /// By how much this packet, with about the next number, comes later than its stamp says, if that is much.
    #[inline]
    fn late_after_silence(&self, row: &Row) -> Option<i64> {
        let newest = self.newest?;
        let ahead = row.seq.wrapping_sub(newest.seq);
        if !(1..=1 + MOST_LOST_LATE).contains(&ahead) || self.clock_hz == PICTURES_HZ {
            return None;
        }
        let gap_ns = row.arrival_ns.saturating_sub(newest.arrival_ns);
        if gap_ns <= SILENCE_NS {
            return None;
        }
        let step_ns = media_ns(row.timestamp, self.clock_hz.into()).saturating_sub(newest.media_ns);
        let least_ns = if ahead > 1 + MOST_LOST { LONG_NS } else { SILENCE_NS };
        Some(gap_ns.saturating_sub(step_ns)).filter(|late_ns| step_ns >= 0 && *late_ns > least_ns)
    }

    fn place(&mut self, row: &Row) -> u32 {
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

    fn row(seq: i64, arrival_ms: i64, timestamp: i64, marker: bool) -> Row {
        Row {
            arrival_ns: arrival_ms * 1_000_000,
            seq,
            timestamp,
            payload_bytes: 160,
            payload_type: 0,
            marker,
            speech: true,
            stretch: 0,
        }
    }

    /// Packets of 20 ms: number, lateness in ms, by how many ms its time stamp is moved, marker.
    fn stretches(packets: &[(i64, i64, i64, bool)]) -> Vec<u32> {
        let mut stretches = Stretches::new(8_000);
        let mut found = Vec::new();
        let mut sink = |row: &Row, stretch| found.push((row.seq, stretch));
        for (seq, late_ms, moved_ms, marker) in packets {
            let packet = row(*seq, seq * 20 + late_ms, (seq * 20 + moved_ms) * 8, *marker);
            stretches.put(&packet, &mut sink);
        }
        stretches.finish(&mut sink);
        assert!(
            found.iter().map(|(seq, _)| *seq).eq(packets.iter().map(|packet| packet.0)),
            "in their order"
        );
        found.into_iter().map(|(_, stretch)| stretch).collect()
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
        // Without it, and without the next number, they were held up.
        assert_eq!(stretches(&silence(false)), [0, 0, 0]);
    }

    /// Packets of a speaker whose stamps stand still in silences of so many ms, after 30 packets each.
    fn with_silences(silences_ms: &[i64], marker: bool) -> Vec<(i64, i64, i64, bool)> {
        let mut packets = Vec::new();
        let mut silent_ms = 0;
        for (spurt, ms) in (0..).zip([&[0], silences_ms].concat()) {
            silent_ms += ms;
            packets.extend((0..30).map(|i| (spurt * 30 + i, silent_ms + i % 3, 0, marker && i == 0)));
        }
        packets
    }

    #[test]
    fn stamps_that_stand_still_in_silences_begin_anew_with_and_without_a_marker() {
        for marker in [true, false] {
            let found = stretches(&with_silences(&[2_000, 300, 700], marker));
            assert_eq!(found, [[0; 30], [1; 30], [2; 30], [3; 30]].concat(), "{marker}");
        }
    }

    #[test]
    fn packets_that_were_held_up_go_on_however_long_and_fast_they_catch_up() {
        for (held_ms, apart_ms) in [(150, 0), (300, 5), (900, 10), (4_000, 0)] {
            let held_up: Vec<_> = (0..500)
                .map(|i| {
                    let behind = if i < 100 { 0 } else { (held_ms - (i - 100) * (20 - apart_ms)).max(0) };
                    (i, behind, 0, i == 0)
                })
                .collect();
            assert!(stretches(&held_up).iter().all(|stretch| *stretch == 0), "{held_ms} ms");
        }
    }

    #[test]
    fn packets_of_a_long_time_each_that_catch_up_go_on() {
        // Every packet has eight times 20 ms; one is late by 120 ms, and those after it less and less.
        let lateness = |i: i64| [120, 40, 0].get((i - 20) as usize).copied().unwrap_or(0);
        let mut stretches = Stretches::new(8_000);
        let mut found = Vec::new();
        let mut sink = |_: &Row, stretch: u32| found.push(stretch);
        for i in 0..60 {
            let late_ms = if i < 20 { 0 } else { lateness(i) };
            stretches.put(&row(i, i * 160 + late_ms, i * 160 * 8, false), &mut sink);
        }
        stretches.finish(&mut sink);
        assert_eq!(found, [0; 60]);
    }

    #[test]
    fn stamps_that_stood_still_begin_anew_where_the_first_packets_are_lost() {
        let mut packets = with_silences(&[2_000, 300], false);
        packets.retain(|(seq, ..)| ![30, 31, 60].contains(seq));
        assert_eq!(stretches(&packets), [vec![0; 30], vec![1; 28], vec![2; 29]].concat());
    }

    #[test]
    fn packets_after_many_lost_ones_go_on() {
        let lost: Vec<_> =
            (0..60).map(|i| if i < 30 { (i, 0, 0, i == 0) } else { (i + 20, 250, 0, false) }).collect();
        assert!(stretches(&lost).iter().all(|stretch| *stretch == 0));
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
        let mut found = Vec::new();
        for (seq, arrival_ms) in [(0, 0), (1, 33), (2, 5_000)] {
            let picture = row(seq, arrival_ms, seq * 3_000, true);
            pictures.put(&picture, &mut |_, stretch| found.push(stretch));
        }
        assert_eq!(found, [0; 3]);
    }
}
