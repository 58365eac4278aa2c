//! Both directions of a connection with more than a SYN.

use super::super::facts::{Begin, End, From};
use super::super::segment::{ACK, FIN, RST, SYN, Segment};
use super::super::sender::{Acknowledged, Context, Placed, Repetitions, Sender, elapsed, other};
use super::super::series::{Meaning, SegmentRow, Sink};
use super::renumber::Renumbering;
use super::{Phase, Reason};

/// What was seen of them, and of what is between them.
#[derive(Debug, Default)]
pub struct Talk {
    sides: [Sender; 2],
    /// When they came, while they came once.
    syn_ns: Option<i64>,
    syn_ack_ns: Option<i64>,
    handshake_ns: (Option<u64>, Option<u64>),
    /// The SYN was received: something other than a RST followed.
    answered: bool,
    /// A packet beyond the handshake came.
    open: bool,
    /// Which end sent a RST, and how far both had sent before.
    resets: [bool; 2],
    reset_at: [i64; 2],
    renumbering: Renumbering,
    /// Who sent data last, and when.
    last_data: Option<(From, i64)>,
}

/// What a packet is, for the time series.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub seq: i64,
    pub ack: i64,
    pub meaning: Meaning,
    pub window: u32,
    pub flight: u64,
    pub fresh: u32,
}

impl Talk {
    pub fn phase(&self) -> Phase {
        // Nothing will be seen of a direction that was not captured.
        let is_over = |own: usize| self.sides[own].fin_seen && self.sides[1 - own].side.packets == 0;
        if self.is_closed() || is_over(0) || is_over(1) || (self.open && self.is_reset()) {
            Phase::Closed
        } else if self.is_reset() {
            Phase::Refused
        } else if self.open {
            Phase::Open
        } else {
            Phase::HalfOpen
        }
    }

    pub const fn sides(&self) -> &[Sender; 2] {
        &self.sides
    }

    pub fn into_sides(self) -> [Sender; 2] {
        self.sides
    }

    pub const fn handshake_ns(&self) -> (Option<u64>, Option<u64>) {
        self.handshake_ns
    }

    /// SYNs like the first one, which were not given one by one.
    pub fn add_syns(&mut self, repeats: &Repetitions) {
        self.syn_ns = None;
        self.sides[0].add_syns(repeats);
    }

    fn is_closed(&self) -> bool {
        self.sides[0].fin_seen && self.sides[1].fin_seen
    }

    #[inline]
    fn is_reset(&self) -> bool {
        self.resets[0] || self.resets[1]
    }

    /// Whether this can be the first packet seen of `from`, by its numbers.
    pub fn may_begin(&self, from: From, segment: &Segment<'_>) -> bool {
        let (own, peer) = (&self.sides[from as usize], &self.sides[other(from) as usize]);
        segment.has(ACK) && peer.is_near(segment.ack) && (segment.has(SYN) || own.is_near(segment.seq))
    }

    /// Whether this SYN belongs to a later connection between the same ports.
    pub fn is_replaced_by(&self, from: From, segment: &Segment<'_>) -> bool {
        let (own, peer) = (&self.sides[from as usize], &self.sides[other(from) as usize]);
        let same = own.base() == Some(segment.seq) || self.renumbering.is_renumbered(from, segment);
        let over = self.is_closed() || self.is_reset();
        // By what came after it.
        let overtaken = !own.syn_seen && own.base() == Some(segment.seq.wrapping_add(1));
        if segment.has(ACK) {
            let answers = peer.syn_seen && !own.syn_seen && peer.accepts(segment);
            // A connection seen only in this direction offers no other evidence.
            let used = !overtaken && (own.fin_seen || own.next() > 1);
            return !same && !answers && (over || used);
        }
        match (own.syn_seen, own.base()) {
            // After a RST there is no reason left to send the SYN again.
            (true, _) => !same || (self.is_reset() && !own.has_passed(segment)),
            // Both ends open at the same time (RFC 9293 section 3.5).
            (false, None) => self.open || !peer.syn_seen,
            (false, Some(_)) => !overtaken || over,
        }
    }

    pub fn begin(&self) -> Begin {
        match (self.sides[0].syn_seen, self.sides[1].syn_seen) {
            (true, true) => Begin::Handshake,
            (true, false) if !self.answered => Begin::Syn,
            (false, false) => Begin::Middle,
            _ => Begin::HalfHandshake,
        }
    }

    pub fn end(&self, reason: Reason) -> End {
        let half = self.sides.iter().any(|side| side.fin_seen);
        match reason {
            _ if self.is_closed() => End::Closed,
            _ if self.is_reset() => End::Reset,
            Reason::Replaced => End::Replaced,
            _ if half => End::HalfClosed,
            Reason::Idle => End::Idle,
            Reason::CaptureEnded => End::Open,
        }
    }

    /// From the point of capture to `a` and to `b`. If data was sent only one way, the handshake compares
    /// better: the least of many is less than one of the same kind.
    pub fn least_round_trips(&self) -> (Option<u64>, Option<u64>) {
        let by_data = [self.sides[1].rtt.min_ns(), self.sides[0].rtt.min_ns()];
        let by_handshake = [self.handshake_ns.1, self.handshake_ns.0];
        if let ([None, _] | [_, None], [Some(to_a), Some(to_b)]) = (by_data, by_handshake) {
            return (Some(to_a), Some(to_b));
        }
        let least = |at: usize| by_data[at].into_iter().chain(by_handshake[at]).min();
        (least(0), least(1))
    }

    // Separate from its caller: the two together need more registers than a processor has.
    #[inline(never)]
    pub fn take<S: Sink>(&mut self, from: From, segment: &Segment<'_>, cx: &mut Context<'_, S>) {
        let [a, b] = &mut self.sides;
        let (own, peer) = if from == From::A { (a, b) } else { (b, a) };
        let original;
        let segment = if segment.has(SYN) || self.renumbering.is_known() {
            original = self.renumbering.undo(from, segment, [own, peer]);
            own.side.renumbered += u64::from(original != *segment);
            &original
        } else {
            segment
        };
        own.count(segment);
        peer.answered();
        let is_syn = segment.flags & (SYN | RST) == SYN;
        let is_foreign = is_syn && !own.syn_seen && !peer.accepts(segment);
        let is_first_syn = is_syn && !is_foreign && own.synchronise(segment);
        let start = own.position(segment);
        if let Some(at) = own.copied(start, segment, is_first_syn, peer) {
            own.note_copy(at, segment, cx);
            return Self::take_copy(own, peer, from, start, segment, cx);
        }
        own.wait_for_answer(segment, peer);
        let advertised = own.advertise(segment);
        let ack = peer.acknowledge(segment, advertised, other(from), cx);
        own.side.sack_blocks += ack.blocks;
        own.side.dsacks += u64::from(ack.dsack);
        let closed = peer.window_is_closed();
        let has_data = segment.payload > 0 || segment.has(FIN);
        let placed = if segment.has(RST) {
            Placed::plain(Meaning::Reset)
        } else if is_syn && !is_first_syn {
            if is_foreign { Placed::plain(Meaning::New) } else { own.synchronise_again(segment) }
        } else if has_data {
            // After the SYN's own number (RFC 7413).
            own.place(start + i64::from(is_syn), segment, closed, peer.smoothed, cx)
        } else if is_syn {
            Placed::plain(Meaning::New)
        } else {
            let probe = own.empty(start, segment, closed);
            Placed::plain(probe.unwrap_or_else(|| own.quiet(ack.duplicate)))
        };
        peer.side.window_full += u64::from(placed.filled && peer.shift_known);
        if !segment.has(RST) {
            // An ACK does where no data do.
            let is_new = placed.fresh > 0 || (segment.payload == 0 && own.side.unique_bytes == 0);
            own.passed(segment, is_new);
        }
        if S::ROWS {
            let (seq, ack, window, flight) = (start, ack.at, advertised.window, own.flight());
            let Placed { meaning, fresh, .. } = placed;
            Row { seq, ack, meaning, window, flight, fresh }.give(from, segment, cx);
            if segment.payload > 0 {
                peer.take_echo(segment, other(from), cx);
            } else {
                own.remember_ack(segment);
            }
        }
        if segment.payload > 0 && !segment.has(RST) {
            self.take_turn(from, segment.time_ns, placed.fresh > 0);
        }
        let established = self.open && self.answered && self.syn_ack_ns.is_none() && !self.is_reset();
        if !established || segment.flags & (RST | SYN) != 0 {
            self.follow(from, segment, start, is_first_syn, ack);
        }
    }

    /// A packet that was copied on the way: what it says has already been said.
    #[cold]
    fn take_copy<S: Sink>(
        own: &mut Sender,
        peer: &Sender,
        from: From,
        seq: i64,
        segment: &Segment<'_>,
        cx: &mut Context<'_, S>,
    ) {
        own.side.copies += 1;
        own.count_data(segment);
        own.passed(segment, false);
        let (meaning, ack, flight) = (Meaning::Copy, peer.position_of_ack(segment), own.flight());
        Row { seq, ack, meaning, window: own.scaled(segment), flight, fresh: 0 }.give(from, segment, cx);
    }

    /// Counts how long the sender of this data took to answer data of the other end.
    #[inline]
    fn take_turn(&mut self, from: From, now: i64, is_new: bool) {
        if let Some((last, since)) = self.last_data
            && last != from
            && is_new
        {
            let (to_a, to_b) = self.least_round_trips();
            // Without a round trip, the way there and back might be all of it.
            if let Some(way_ns) = if from == From::A { to_a } else { to_b } {
                let took_ns = elapsed(since, now).saturating_sub(way_ns);
                let side = &mut self.sides[from as usize].side;
                side.answers += 1;
                side.answers_ns = side.answers_ns.saturating_add(took_ns);
                side.answer_max_ns = side.answer_max_ns.max(took_ns);
            }
        }
        // What is sent again after an answer of the other end asks for nothing.
        if is_new || self.last_data.is_none_or(|(last, _)| last == from) {
            self.last_data = Some((from, now));
        }
    }

    /// The handshake, and the end.
    #[inline(never)]
    fn follow(
        &mut self,
        from: From,
        segment: &Segment<'_>,
        start: i64,
        is_first_syn: bool,
        ack: Acknowledged,
    ) {
        let (own, peer) = (from as usize, other(from) as usize);
        if segment.has(RST) {
            let (sender, receiver) = (&self.sides[own], &self.sides[peer]);
            let is_opening = !self.open && receiver.syn_seen && !sender.syn_seen;
            let believed = if is_opening {
                segment.has(ACK) && receiver.awaits(ack.at)
            } else {
                sender.may_reset_at(start, receiver)
            };
            if believed {
                self.resets[own] = true;
                self.reset_at = [self.sides[0].next(), self.sides[1].next()];
            }
            return;
        }
        // No end acknowledges what comes after a RST that was believed.
        if ack.believed && self.is_reset() && ack.at > self.reset_at[peer] {
            self.resets = [false; 2];
        }
        if segment.has(ACK) && !ack.believed {
            // An answer to another connection's packets.
            return;
        }
        let now = segment.time_ns;
        if segment.has(SYN) {
            self.agree();
            let time = if segment.has(ACK) { &mut self.syn_ack_ns } else { &mut self.syn_ns };
            *time = is_first_syn.then_some(now);
            if segment.has(ACK)
                && let (Some(syn), true) = (self.syn_ns, is_first_syn)
            {
                let rtt_ns = elapsed(syn, now);
                self.handshake_ns.0 = Some(rtt_ns);
                self.sides[peer].smoothed.add(rtt_ns);
            }
        } else if !self.open || self.syn_ack_ns.is_some() {
            self.open = true;
            // Only the SYN's sender answers a SYN/ACK.
            if from == From::A
                && segment.has(ACK)
                && let Some(syn_ack) = self.syn_ack_ns.take()
            {
                let rtt_ns = elapsed(syn_ack, now);
                self.handshake_ns.1 = Some(rtt_ns);
                self.sides[1].smoothed.add(rtt_ns);
            }
        }
        self.answered |= from == From::B || segment.has(ACK);
    }

    /// Window scaling is on if both SYNs offer it (RFC 7323 section 2.2).
    fn agree(&mut self) {
        if let [Some(a), Some(b)] = [self.sides[0].side.options, self.sides[1].side.options] {
            let both = a.window_scale.zip(b.window_scale).unwrap_or((0, 0));
            (self.sides[0].shift, self.sides[1].shift) = both;
            (self.sides[0].shift_known, self.sides[1].shift_known) = (true, true);
        }
    }
}

impl Row {
    #[inline]
    pub fn give<S: Sink>(self, from: From, segment: &Segment<'_>, cx: &mut Context<'_, S>) {
        if S::ROWS {
            cx.sink.segment(&SegmentRow {
                connection: cx.connection,
                from,
                time_ns: segment.time_ns,
                seq: self.seq,
                payload_bytes: segment.payload,
                new_bytes: self.fresh,
                ack: self.ack,
                window_bytes: self.window,
                flags: segment.flags,
                meaning: self.meaning,
                flight_bytes: u32::try_from(self.flight).unwrap_or(u32::MAX),
                sack_blocks: segment.block_count() as u8,
                tsval: segment.timestamps().map(|(value, _)| value),
            });
        }
    }
}
