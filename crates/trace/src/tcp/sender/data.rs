//! What a segment with data, SYN or FIN means for its own direction.
//!
//! **A gap that is filled later** is either repaired by its sender, who sent the data again after the first
//! copy was lost before the point of capture, or was never lost: the packet was overtaken. These decide, in
//! this order: the time-stamp option, if its clock ticked between the two packets; a wait as long as a time-out,
//! in which a packet was repaired, and a fast counter may have wrapped; the IP identification, if
//! the sender counts it up; the time, less than a round trip (3 ms if that is unknown) and without three
//! duplicate ACKs, in which no sender can have repaired it yet. After a loss of the last segments of a flight
//! there is no gap: what is sent again then is new data there.
//!
//! **Data after its own ACK**, because the capture recorded one direction a moment later than the
//! other, is seen for the first time: see `missed`.

use super::super::segment::{FIN, SYN, Segment};
use super::super::series::{Meaning, Sink};
use super::rtt::is_before;
use super::{
    Behind, Context, MAX_QUEUE, MAX_QUEUE_UNANSWERED, MAX_WINDOW, Missed, Path, RISING, Sender, Sent,
    Smoothed, elapsed,
};

/// A gap closed faster than this was reordering, if the round trip is unknown.
pub(super) const REORDERED_NS: u64 = 3_000_000;
/// How far into the queue a late segment is sorted in; beyond that its round trip is not measured.
const MAX_SHIFTED: usize = 4_096;
/// Keep-alives come after a second of silence or more; the clocks of two machines differ a little.
const QUIET_NS: u64 = 900_000_000;

/// What was found about a segment.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    pub meaning: Meaning,
    /// It filled the other end's window.
    pub filled: bool,
    /// Bytes of its payload that were not seen before.
    pub fresh: u32,
}

impl Placed {
    pub const fn plain(meaning: Meaning) -> Self {
        Self { meaning, filled: false, fresh: 0 }
    }
}

impl Sender {
    /// Takes an ACK without data: a probe, or `None` for what the other direction decides. `closed` says that
    /// the other end's window is.
    #[inline]
    pub fn empty(&mut self, start: i64, segment: &Segment<'_>, closed: bool) -> Option<Meaning> {
        if !self.seen {
            self.first(start);
        }
        let before_acked = self.acked == Some(start + 1);
        if self.fin_seen || !(before_acked || start == self.next - 1) {
            return None;
        }
        if closed {
            self.side.window_probes += 1;
            return Some(Meaning::WindowProbe);
        }
        // A keep-alive probes a connection on which everything is acknowledged.
        let all = before_acked && self.acked == Some(self.next);
        let idle = all && segment.is_pure_ack() && self.silence_ns(segment.time_ns) >= QUIET_NS;
        idle.then(|| self.keep_alive(segment.time_ns))
    }

    fn keep_alive(&mut self, now: i64) -> Meaning {
        self.side.keep_alives += 1;
        self.asked_ns = self.asked_ns.max(now);
        Meaning::KeepAlive
    }

    /// How long this end has requested no answer; ACKs that it sent meanwhile, even to keep-alives of the other
    /// end, do not break the silence.
    fn silence_ns(&self, now: i64) -> u64 {
        elapsed(self.last_data_ns.max(self.asked_ns), now)
    }

    /// The kind of a packet without data that is not a probe; `duplicate` says that it repeats the last ACK.
    #[inline]
    pub fn quiet(&mut self, duplicate: bool) -> Meaning {
        self.side.duplicate_acks += u64::from(duplicate);
        if duplicate { Meaning::DuplicateAck } else { Meaning::Ack }
    }

    /// Takes a SYN. True if it is the first.
    pub fn synchronise(&mut self, segment: &Segment<'_>) -> bool {
        if self.syn_seen {
            return false;
        }
        // ACKs that came before it were in answer to something older, or overtook it.
        if !self.data_seen {
            self.base = Some(segment.seq);
            (self.next, self.seen_end) = (1, 1);
            (self.acked, self.edge) = (self.acked.map(|_| 1), None);
            self.side.unseen_bytes = 0;
            self.missed = Missed::default();
            (self.side.window, self.zero_since) = (None, None);
            (self.side.zero_windows, self.side.zero_window_ns) = (0, 0);
        }
        (self.syn_seen, self.seen) = (true, true);
        self.asked_ns = segment.time_ns;
        self.side.options = segment.offer();
        true
    }

    /// A SYN that comes again, perhaps with another number.
    pub fn synchronise_again(&mut self, segment: &Segment<'_>) -> Placed {
        if self.acked.is_none() && self.base != Some(segment.seq) {
            self.other_isn = Some(segment.seq);
        }
        self.count_data(segment);
        self.count_repeat(Meaning::Handshake, segment.payload);
        Placed::plain(Meaning::Handshake)
    }

    /// The first packet that shows where this end is, apart from a SYN.
    fn first(&mut self, start: i64) {
        self.seen = true;
        // What was acknowledged before came before the capture, or before its first packet of this end.
        self.side.unseen_bytes = 0;
        self.missed = Missed::default();
        (self.next, self.seen_end) = (self.next.max(start), start);
    }

    /// The first packet seen of this end lies before what the other end acknowledged.
    #[cold]
    fn first_behind_its_ack<S>(&mut self, start: i64, now: i64, cx: &mut Context<'_, S>) {
        if self.next - start <= MAX_WINDOW && elapsed(self.last_ack_ns, now) < REORDERED_NS {
            self.miss(start, self.next, self.last_ack_ns, cx);
        }
    }

    /// Takes `start..start + len`, data and FIN. `closed` says that the other end's window is; `there` is how
    /// long the way from here to this end and back takes.
    #[inline]
    pub fn place<S: Sink>(
        &mut self,
        start: i64,
        segment: &Segment<'_>,
        closed: bool,
        there: Smoothed,
        cx: &mut Context<'_, S>,
    ) -> Placed {
        let fin = segment.has(FIN);
        let end = start + i64::from(segment.payload) + i64::from(fin);
        if !self.seen {
            self.first(start);
            if start < self.next && self.acked.is_some() {
                self.first_behind_its_ack(start, segment.time_ns, cx);
            }
        }
        if segment.payload == 1
            && let Some(meaning) = self.probe(start, segment, closed, there)
        {
            return Placed::plain(meaning);
        }
        let mut found = if start >= self.next {
            self.take_new(start, end, segment, cx)
        } else {
            self.take_old((start, end), segment, closed, Path::new(self.smoothed, there), cx)
        };
        self.fin_seen |= fin;
        self.data_seen = true;
        if self.owed > 0 {
            found.fresh += self.owed;
            self.side.data_bytes += u64::from(std::mem::take(&mut self.owed));
        }
        self.side.unique_bytes += u64::from(found.fresh);
        if segment.payload > 0 {
            self.count_data(segment);
            self.last_data_ns = self.last_data_ns.max(segment.time_ns);
            if let Some((value, _)) = segment.timestamps() {
                self.ticks.sent(value, segment.time_ns, end);
            }
            if self.acked.is_some() {
                let flight = self.flight();
                self.side.flight_max = self.side.flight_max.max(flight);
                self.flight_sum += u128::from(flight);
                self.flight_count += 1;
            }
        }
        found
    }

    /// Whether a single byte is a probe rather than data.
    #[cold]
    fn probe(&mut self, start: i64, segment: &Segment<'_>, closed: bool, there: Smoothed) -> Option<Meaning> {
        if segment.has(FIN | SYN) {
            return None;
        }
        let again = start == self.next - 1 && self.acked.is_some_and(|acked| acked >= self.next);
        // Without the window before it, the first probe looks like data; its copies do not.
        let refused = start == self.next - 1 && self.acked == Some(start);
        if closed && (again || refused || start == self.next) {
            self.side.window_probes += 1;
            if !again {
                self.probe_end = start + 1;
            }
            self.repeats.add_probe(start);
            return Some(Meaning::WindowProbe);
        }
        // Sooner it is sent again, because its ACK was lost after the point of capture.
        let quiet_ns = QUIET_NS.max(Path::new(self.smoothed, there).timeout_ns());
        if again && self.silence_ns(segment.time_ns) >= quiet_ns {
            self.repeats.add_probe(start);
            return Some(self.keep_alive(segment.time_ns));
        }
        None
    }

    /// Nothing of it was seen before.
    #[inline]
    fn take_new<S: Sink>(
        &mut self,
        start: i64,
        end: i64,
        segment: &Segment<'_>,
        cx: &mut Context<'_, S>,
    ) -> Placed {
        if start > self.next {
            let behind = Behind {
                time_ns: segment.time_ns,
                ip_id: segment.ip_id,
                timestamp: segment.timestamps().map(|(value, _)| value),
            };
            if self.holes.add(self.next, start, behind) {
                cx.forget();
            }
        }
        let filled = self.edge.is_some_and(|edge| end >= edge && self.next < edge);
        (self.next, self.seen_end) = (end, end);
        if segment.payload > 0 {
            self.make_room(cx);
            self.queue.push_back(Sent { start, end, time_ns: segment.time_ns, repeated: false });
            *cx.outstanding += 1;
        }
        Placed { meaning: Meaning::New, filled, fresh: segment.payload }
    }

    /// Some or all of it lies before the end of what was sent. `closed` says that the other end's window is.
    fn take_old<S: Sink>(
        &mut self,
        (start, end): (i64, i64),
        segment: &Segment<'_>,
        closed: bool,
        path: Path,
        cx: &mut Context<'_, S>,
    ) -> Placed {
        let now = segment.time_ns;
        // It lies behind a window that ends where it begins: some stacks probe with what they have to send.
        let is_refused = closed && segment.payload > 0 && self.acked == Some(start);
        let hole = self.holes.first_in(start, end);
        self.missed.expire(now);
        let is_expected = self.missed.overlaps(start, end);
        let is_gap = |at| self.holes.contains(at) || self.missed.contains(at);
        let fin_is_new = segment.has(FIN) && (end > self.next || is_gap(end - 1));
        let before = self.sent(start, end);
        // Decided before anything changes: this is what the sender knew.
        let meaning = match hole {
            _ if is_expected && start >= self.seen_end => Meaning::New,
            _ if is_expected => Meaning::OutOfOrder,
            _ if is_refused => Meaning::WindowProbe,
            Some(behind) if self.was_overtaken(&behind, segment, path) => Meaning::OutOfOrder,
            Some(behind) => self.cause((start, end), before.or(Some((behind.time_ns, false))), now, path),
            None => self.cause((start, end), before, now, path),
        };
        let mut filled = if hole.is_some() { self.holes.cut(start, end) } else { 0 };
        if is_expected {
            let found = self.missed.take(start, end);
            self.side.unseen_bytes -= found;
            filled += found;
        }
        let beyond = u64::try_from(end - self.next).unwrap_or(0);
        let fresh = (filled + beyond).saturating_sub(u64::from(fin_is_new));
        let repeated = !matches!(meaning, Meaning::New | Meaning::OutOfOrder);
        (self.next, self.seen_end) = (self.next.max(end), self.seen_end.max(end));
        let mut sent = Sent { start, end, time_ns: now, repeated };
        let mut is_new = (filled > 0 || beyond > 0) && segment.payload > 0;
        if repeated {
            // A DSACK that answers a probe calls no retransmission needless.
            if is_refused {
                self.side.window_probes += 1;
            } else {
                self.count_repeat(meaning, segment.payload);
                self.repeats.add(start, end);
            }
            self.remember_more(cx);
            is_new &= !self.mark_repeated(&mut sent, is_new, cx);
        } else {
            self.side.out_of_order += u64::from(meaning == Meaning::OutOfOrder);
        }
        if is_new {
            self.sort_in(sent, cx);
        }
        Placed { meaning, filled: false, fresh: u32::try_from(fresh).unwrap_or(u32::MAX) }
    }

    /// Whether new data out of place was only late.
    fn was_overtaken(&self, behind: &Behind, segment: &Segment<'_>, path: Path) -> bool {
        if let (Some(there), Some((here, _))) = (behind.timestamp, segment.timestamps())
            && there != here
        {
            return is_before(here, there);
        }
        let behind_ns = elapsed(behind.time_ns, segment.time_ns);
        if behind_ns >= path.timeout_ns() {
            return false;
        }
        if self.counts_ids() && behind.ip_id != 0 && segment.ip_id != 0 && behind.ip_id != segment.ip_id {
            return (segment.ip_id.wrapping_sub(behind.ip_id) as i16) < 0;
        }
        let limit_ns = path.rtt_ns().unwrap_or(REORDERED_NS);
        self.duplicates < 3 && behind_ns < limit_ns
    }

    /// Whether the IP identification rises packet by packet, apart from reordering.
    fn counts_ids(&self) -> bool {
        self.rising_ids >= RISING
    }

    /// When data of `start..end` was sent last, and whether that was a repetition.
    fn sent(&self, start: i64, end: i64) -> Option<(i64, bool)> {
        let at = self.queue.partition_point(|sent| sent.end <= start);
        self.queue.get(at).filter(|sent| sent.start < end).map(|sent| (sent.time_ns, sent.repeated))
    }

    /// Merges all segments that were `sent` again, so that the next time is as cheap, including what was
    /// not seen before if `with_new`. False if there are none.
    fn mark_repeated<S>(&mut self, sent: &mut Sent, with_new: bool, cx: &mut Context<'_, S>) -> bool {
        let from = self.queue.partition_point(|other| other.end <= sent.start);
        let to = self.queue.partition_point(|other| other.start < sent.end);
        if from >= to {
            return false;
        }
        let (first, last) = (self.queue[from].start, self.queue[to - 1].end);
        let (start, end) = if with_new { (sent.start, sent.end) } else { (first, last) };
        self.queue[from] = Sent { start: first.min(start), end: last.max(end), ..*sent };
        self.queue.drain(from + 1..to);
        *cx.outstanding = cx.outstanding.saturating_sub(to - from - 1);
        true
    }

    fn sort_in<S: Sink>(&mut self, sent: Sent, cx: &mut Context<'_, S>) {
        // Acknowledged already: nothing to wait for.
        if self.acked.is_some_and(|acked| sent.end <= acked) {
            return;
        }
        self.make_room(cx);
        let at = self.queue.partition_point(|other| other.start <= sent.start);
        if self.queue.len() - at > MAX_SHIFTED {
            return cx.forget();
        }
        self.queue.insert(at, sent);
        *cx.outstanding += 1;
    }

    /// Drops the oldest segment if there are too many.
    #[inline]
    fn make_room<S: Sink>(&mut self, cx: &mut Context<'_, S>) {
        let most = if self.acked.is_some() { MAX_QUEUE } else { MAX_QUEUE_UNANSWERED };
        if (self.queue.len() >= most || *cx.outstanding >= cx.max_outstanding)
            && self.queue.pop_front().is_some()
        {
            *cx.outstanding = cx.outstanding.saturating_sub(1);
            // Without ACKs there is no round trip to miss.
            cx.counts.forgotten += u64::from(self.acked.is_some());
        }
    }
}
