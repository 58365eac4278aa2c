//! What an ACK of the other end says about the data sent.
//!
//! **Round trips.** An ACK gives a sample if the last segment that it acknowledges in full was sent once,
//! had not been reported by SACK before, and was sent after (or together with) all others that the same ACK
//! acknowledges: otherwise the ACK waited for a repeated or late segment, and the time would be that of the
//! repair (Karn; RFC 6298 section 3). Data is sampled, SYN and FIN are not: an ACK of a bare FIN, or of data
//! that was not captured, answers that and gives no sample for the data before it.

use super::super::facts::From;
use super::super::segment::{ACK, MAX_BLOCKS, Segment};
use super::super::series::{Method, RttRow, SackRow, Sink};
use super::{Advertised, Context, KEPT_QUEUE, MAX_WINDOW, Sender, acknowledges, elapsed, other};

/// Consecutive ACKs of more than any window allows, each after the one before, that are believed: the capture
/// has a gap.
const STRANGE: u8 = 3;

/// An ACK, decoded.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledged {
    /// Its number.
    pub at: i64,
    /// It repeats the last one (RFC 5681 section 2).
    pub duplicate: bool,
    /// It can belong to this connection.
    pub believed: bool,
    /// SACK blocks in it, if it can be believed, and whether the first reports a duplicate (RFC 2883).
    pub blocks: u64,
    pub dsack: bool,
}

impl Acknowledged {
    fn unbelieved(at: i64) -> Self {
        Self { at, duplicate: false, believed: false, blocks: 0, dsack: false }
    }
}

impl Sender {
    /// Takes the ACK of the other end's segment, and the window that it `advertised`; `from` is this end.
    #[inline]
    pub fn acknowledge<S: Sink>(
        &mut self,
        segment: &Segment<'_>,
        advertised: Advertised,
        from: From,
        cx: &mut Context<'_, S>,
    ) -> Acknowledged {
        if !acknowledges(segment) {
            let known = segment.has(ACK) && self.base.is_some();
            return Acknowledged::unbelieved(if known { self.unwrapped(self.next, segment.ack) } else { 0 });
        }
        if self.base.is_none() {
            self.base = Some(segment.ack);
        }
        if self.other_isn.is_some() {
            self.settle(segment.ack);
        }
        // After a gap that no window spans, the new data is nearer.
        let near = self.acked.filter(|acked| self.next - acked <= MAX_WINDOW).unwrap_or(self.next);
        let mut at = self.unwrapped(near, segment.ack);
        // An answer to the SYN by a host that remembers an older connection (RFC 9293 section 3.5.1).
        let stale = self.syn_seen && !advertised.syn_seen && self.acked.is_none() && !self.awaits(at);
        let strange = at - self.next > MAX_WINDOW || self.acked.is_some_and(|acked| at < acked - MAX_WINDOW);
        if stale || strange {
            cx.counts.impossible_acks += 1;
            if stale || !self.is_gap(segment.ack) {
                return Acknowledged::unbelieved(at);
            }
            at += if at < self.next { 1 << 32 } else { 0 };
        }
        self.strange = 0;
        let jump = at - self.next;
        if jump > 0 {
            self.pass_unseen(at, jump.unsigned_abs(), segment.time_ns, cx);
        }
        // Before the first ACK `acked` lies at the SYN, or at the first byte seen.
        let before = self.acked.unwrap_or(at.min(0));
        let advances = self.acked.is_none() || at > before;
        let repeats = !advances && at == before;
        let duplicate = repeats && self.next > at && advertised.unchanged && segment.is_pure_ack();
        if advances {
            self.advance(at, segment, from, cx);
        }
        let mut found = Acknowledged { at, duplicate, believed: true, blocks: 0, dsack: false };
        if segment.block_count() > 0 {
            found.blocks = segment.block_count() as u64;
            found.dsack = self.take_blocks(at, segment, from, cx);
        }
        if repeats {
            // A window update with SACK blocks reports a loss, a report of a duplicate does not (RFC 6675
            // section 2).
            let reports = found.blocks > u64::from(found.dsack);
            self.duplicates += u32::from(reports || (duplicate && !found.dsack));
            self.last_ack_ns = self.last_ack_ns.max(segment.time_ns);
        }
        if at >= before {
            self.edge = Some(at + i64::from(advertised.window));
        }
        found
    }

    /// Whether impossible ACKs go on for so long that the capture must have missed a window or more.
    #[cold]
    fn is_gap(&mut self, ack: u32) -> bool {
        let ahead = i64::from(ack.wrapping_sub(self.strange_ack));
        let goes_on = self.strange > 0 && (1..=MAX_WINDOW).contains(&ahead);
        (self.strange, self.strange_ack) = (if goes_on { self.strange + 1 } else { 1 }, ack);
        self.strange >= STRANGE
    }

    /// Acknowledged beyond what was seen.
    #[cold]
    fn pass_unseen<S>(&mut self, at: i64, bytes: u64, now: i64, cx: &mut Context<'_, S>) {
        if at <= self.probe_end {
            self.owed += bytes as u32;
        } else if bytes > 1 || self.data_seen || self.syn_seen || !self.seen {
            // Otherwise only ACKs of it were seen, all a byte behind: keep-alives, and nothing is missing.
            self.miss(self.next, at, now, cx);
        }
        self.next = at;
    }

    /// Bytes in no captured packet, although an ACK at `now` covers them.
    pub(super) fn miss<S>(&mut self, start: i64, end: i64, now: i64, cx: &mut Context<'_, S>) {
        self.side.unseen_bytes += start.abs_diff(end);
        // The first packet of an end that was never seen starts anew.
        if self.seen && self.missed.add(start, end, now) {
            cx.forget();
        }
    }

    /// Acknowledges gaps before `at`.
    #[cold]
    fn pass_holes<S>(&mut self, at: i64, now: i64, cx: &mut Context<'_, S>) {
        while let Some((start, end)) = self.holes.take_below(at) {
            self.miss(start, end, now, cx);
        }
    }

    #[inline]
    fn advance<S: Sink>(&mut self, at: i64, segment: &Segment<'_>, from: From, cx: &mut Context<'_, S>) {
        let now = segment.time_ns;
        if self.holes.reaches_below(at) {
            self.pass_holes(at, now, cx);
        }
        let mut last = None;
        let mut latest_ns = i64::MIN;
        while let Some(sent) = self.queue.front() {
            if sent.end > at {
                break;
            }
            latest_ns = latest_ns.max(sent.time_ns);
            last = Some(*sent);
            self.queue.pop_front();
            *cx.outstanding = cx.outstanding.saturating_sub(1);
        }
        if self.queue.capacity() > 2 * KEPT_QUEUE && self.queue.is_empty() {
            self.queue.shrink_to(KEPT_QUEUE);
        }
        // Otherwise it answers what came after: a FIN, a probe, or data that the capture missed.
        let answers_data =
            last.is_none_or(|sent| sent.end == at || self.queue.front().is_some_and(|next| next.start < at));
        let sample = last.filter(|sent| {
            answers_data && !sent.repeated && latest_ns <= sent.time_ns && !self.sacked.contains(sent.end - 1)
        });
        if let Some(sent) = sample {
            let rtt_ns = elapsed(sent.time_ns, now);
            self.rtt.add(rtt_ns);
            self.smoothed.add(rtt_ns);
            if S::ROWS {
                let (connection, seq, method) = (cx.connection, sent.end, Method::Ack);
                cx.sink.rtt(&RttRow { connection, from, time_ns: now, rtt_ns, seq, method });
            }
        }
        let echoed = segment.timestamps().and_then(|(_, echo)| self.ticks.echo(echo));
        if let Some((time_ns, end)) = echoed.filter(|_| answers_data) {
            let rtt_ns = elapsed(time_ns, now);
            self.rtt_timestamp.add(rtt_ns);
            if S::ROWS {
                let (connection, seq, method) = (cx.connection, end, Method::Timestamp);
                cx.sink.rtt(&RttRow { connection, from, time_ns: now, rtt_ns, seq, method });
            }
        }
        self.sacked.cut_below(at);
        self.acked = Some(at);
        self.last_ack_ns = self.last_ack_ns.max(now);
        self.duplicates = 0;
    }

    /// Remembers the time stamp of an ACK without data that this end sent.
    pub fn remember_ack(&mut self, segment: &Segment<'_>) {
        if segment.is_pure_ack()
            && let Some((value, _)) = segment.timestamps()
        {
            self.ack_ticks.sent(value, segment.time_ns, self.next);
        }
    }

    /// Takes the time stamp that the other end's data echoes; `from` is this end.
    pub fn take_echo<S: Sink>(&mut self, segment: &Segment<'_>, from: From, cx: &mut Context<'_, S>) {
        let echoed = segment.timestamps().and_then(|(_, echo)| self.ack_ticks.echo(echo));
        if let Some((time_ns, seq)) = echoed {
            let (connection, rtt_ns, method) =
                (cx.connection, elapsed(time_ns, segment.time_ns), Method::Echo);
            cx.sink.rtt(&RttRow { connection, from, time_ns: segment.time_ns, rtt_ns, seq, method });
        }
    }

    /// Whether the first block reports a duplicate.
    fn take_blocks<S: Sink>(
        &mut self,
        at: i64,
        segment: &Segment<'_>,
        from: From,
        cx: &mut Context<'_, S>,
    ) -> bool {
        let mut unwrapped = [(0, 0); MAX_BLOCKS];
        for (place, (left, right)) in unwrapped.iter_mut().zip(segment.blocks()) {
            let start = self.unwrapped(at, left);
            *place = (start, start + i64::from(right.wrapping_sub(left)));
        }
        let list = &unwrapped[..segment.block_count()];
        let (left, right) = list[0];
        // RFC 2883 section 4: below the ACK, or inside the block that follows.
        let duplicate = left < at || list.get(1).is_some_and(|next| next.0 <= left && right <= next.1);
        for (index, &(left, right)) in list.iter().enumerate() {
            let duplicate = duplicate && index == 0;
            if S::ROWS {
                let (connection, time_ns) = (cx.connection, segment.time_ns);
                cx.sink.sack(&SackRow { connection, from: other(from), time_ns, left, right, duplicate });
            }
            if right - left > MAX_WINDOW {
                continue;
            }
            if duplicate {
                self.side.retransmissions.spurious += self.repeats.report(left, right);
            } else if left >= at && right <= self.next && self.sacked.add(left, right, ()) {
                cx.forget();
            }
        }
        self.last_ack_ns = self.last_ack_ns.max(segment.time_ns);
        duplicate
    }
}
