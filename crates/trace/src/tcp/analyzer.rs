//! Segments in, connections out.

use super::connection::{Interface, Open, Phase, Reason, Source};
use super::facts::{Endpoint, From};
use super::segment::{ACK, FIN, RST, SYN, Segment};
use super::sender::{Context, elapsed};
use super::series::Sink;
use super::settings::{Counts, Options};
use super::table::{COARSE_NS, Table, hash};
use crate::capture::Packet;
use crate::packet::Datagram;

/// How often, by the capture's clock, connections to give up are looked for.
const SWEEP_NS: u64 = 100_000_000;

/// Which connections are given up first when room runs out: those that are over, then those that lead nowhere.
const ALL: [Phase; 5] = [Phase::Closed, Phase::Refused, Phase::Syn, Phase::HalfOpen, Phase::Open];
/// The same, of connections with more than a SYN.
const STATES: [Phase; 4] = [Phase::Closed, Phase::Refused, Phase::HalfOpen, Phase::Open];

/// Follows all TCP connections of a capture. Memory grows with the number of open connections.
pub struct Analyzer<S> {
    sink: S,
    options: Options,
    counts: Counts,
    table: Table,
    next_id: u32,
    /// Connections with more than a SYN.
    states: usize,
    outstanding: usize,
    swept_ns: i64,
    /// The shortest time-out.
    shortest_ns: u64,
}

impl<S: Sink> Analyzer<S> {
    /// An analysis that gives its findings to `sink`.
    #[must_use]
    pub fn new(options: Options, sink: S) -> Self {
        let Options { half_open_ns, idle_ns, closed_ns, refused_ns, .. } = options;
        let shortest_ns = half_open_ns.min(idle_ns).min(closed_ns).min(refused_ns);
        Self {
            sink,
            options,
            counts: Counts::default(),
            table: Table::new(),
            next_id: 0,
            states: 0,
            outstanding: 0,
            swept_ns: i64::MIN,
            shortest_ns: u64::try_from(shortest_ns).unwrap_or(0),
        }
    }

    /// What was met so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Connections open now.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.table.len()
    }

    /// Where findings go.
    #[must_use]
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// The same, to take out what it holds.
    pub fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Takes a packet and the segment decoded from it.
    #[inline]
    pub fn put(&mut self, packet: &Packet<'_>, datagram: &Datagram<'_>) {
        let Some(segment) = Segment::parse(packet, datagram) else {
            self.counts.truncated += 1;
            return;
        };
        self.counts.segments += 1;
        let now = segment.time_ns;
        if self.swept_ns.abs_diff(now) >= SWEEP_NS {
            self.swept_ns = now;
            self.sweep(now);
        }
        if !self.options.share.has(|| hash(datagram)) {
            return;
        }
        let interface = (packet.interface, datagram.point);
        let found = self.table.find(interface, datagram, &segment);
        let found = found.filter(|(at, from)| self.goes_on(*at, *from, &segment));
        let (at, from, is_first) = match found {
            Some((at, from)) => (at, from, false),
            None => {
                let (at, from) = self.open(interface, datagram, &segment);
                (at, from, true)
            }
        };
        let Some((open, place)) = self.table.queued_mut(at) else { return };
        let was_small = open.is_small();
        let mut cx = Context {
            sink: &mut self.sink,
            counts: &mut self.counts,
            outstanding: &mut self.outstanding,
            max_outstanding: self.options.max_outstanding,
            connection: open.id,
        };
        open.take(from, &segment, is_first, &mut cx);
        let grown = was_small && !open.is_small();
        if place.is_wrong_for(open) {
            self.table.touch(at);
            self.limit_refused();
        }
        if grown {
            self.states += 1;
            self.limit_states();
        }
    }

    /// Ends the capture: reports what is open, and returns the sink.
    pub fn finish(mut self) -> (S, Counts) {
        for at in self.table.all() {
            // Not all that are over were given up yet.
            let is_over = self.table.get(at).is_some_and(|open| self.is_over(open, self.swept_ns));
            self.give_away(at, if is_over { Reason::Idle } else { Reason::CaptureEnded });
        }
        (self.sink, self.counts)
    }

    /// Whether this packet belongs to the connection at `at`, and not to a later one between the same ports.
    #[inline]
    fn goes_on(&mut self, at: u32, from: From, segment: &Segment<'_>) -> bool {
        let Some(open) = self.table.get(at) else { return false };
        // Nearly every packet is like this.
        if !segment.has(SYN) && elapsed(open.last_ns, segment.time_ns) <= self.shortest_ns {
            return true;
        }
        let reason = if open.is_replaced_by(from, segment) {
            Reason::Replaced
        } else if self.is_over(open, segment.time_ns) {
            Reason::Idle
        } else {
            return true;
        };
        self.give_away(at, reason);
        false
    }

    fn is_over(&self, open: &Open, now: i64) -> bool {
        elapsed(open.last_ns, now) > self.limit_ns(open.phase())
    }

    /// How long a connection may be silent.
    fn limit_ns(&self, phase: Phase) -> u64 {
        let limit_ns = match phase {
            Phase::Syn | Phase::HalfOpen => self.options.half_open_ns,
            Phase::Open => self.options.idle_ns,
            Phase::Closed => self.options.closed_ns,
            Phase::Refused => self.options.refused_ns,
        };
        u64::try_from(limit_ns).unwrap_or(0)
    }

    #[inline(never)]
    fn open(&mut self, interface: Interface, datagram: &Datagram<'_>, segment: &Segment<'_>) -> (u32, From) {
        if let Some(at) = self.table.crowded(datagram) {
            self.counts.evicted += 1;
            self.give_away(at, Reason::Idle);
        }
        while self.table.len() >= self.options.max_connections.max(1) && self.evict(&ALL) {}
        let src = Endpoint { addr: datagram.src, port: datagram.src_port };
        let dst = Endpoint { addr: datagram.dst, port: datagram.dst_port };
        // A SYN/ACK answers a SYN that was not captured.
        let (from, ends) = if segment.flags & (SYN | ACK | RST) == SYN | ACK {
            (From::B, (dst, src))
        } else {
            (From::A, (src, dst))
        };
        let id = if self.options.share.is_all() { self.next_id } else { self.counts.segments as u32 };
        self.next_id = self.next_id.wrapping_add(1);
        let source = Source { interface, tags: datagram.tags };
        let mut open = Open::new(id, ends, source, from, segment);
        let small = segment.is_first_syn() && segment.payload == 0 && !segment.has(FIN);
        if small {
            open = open.with_syn(segment);
        } else {
            // Before it is inserted: it must not be the one given up.
            self.states += 1;
            self.limit_states();
        }
        (self.table.put(open, datagram), from)
    }

    #[cold]
    /// Gives up the connections that have been silent for too long, by the times that order them: it depends on no
    /// other connection when one is given up.
    fn sweep(&mut self, now: i64) {
        for phase in [Phase::Syn, Phase::HalfOpen, Phase::Open, Phase::Closed, Phase::Refused] {
            while let Some(at) = self.table.oldest(phase as usize) {
                if elapsed(self.table.queued_ns(at), now) <= self.limit_ns(phase).saturating_add(COARSE_NS) {
                    break;
                }
                self.give_away(at, Reason::Idle);
            }
        }
    }

    #[cold]
    fn limit_states(&mut self) {
        while self.states > self.options.max_states.max(1) && self.evict(&STATES) {}
    }

    fn limit_refused(&mut self) {
        while self.table.len_of(Phase::Refused as usize) > self.options.max_refused.max(1)
            && self.evict(&[Phase::Refused])
        {}
    }

    /// Gives up the longest silent connection of the first phase that has one; false if none has.
    fn evict(&mut self, phases: &[Phase]) -> bool {
        let oldest = phases.iter().find_map(|phase| self.table.oldest(*phase as usize));
        if let Some(at) = oldest {
            self.counts.evicted += 1;
            self.give_away(at, Reason::Idle);
        }
        oldest.is_some()
    }

    fn give_away(&mut self, at: u32, reason: Reason) {
        let Some(open) = self.table.take(at) else { return };
        self.states -= usize::from(!open.is_small());
        self.outstanding = self.outstanding.saturating_sub(open.outstanding());
        let mut cx = Context {
            sink: &mut self.sink,
            counts: &mut self.counts,
            outstanding: &mut self.outstanding,
            max_outstanding: self.options.max_outstanding,
            connection: open.id,
        };
        open.finish(reason, &mut cx);
    }
}
