//! One connection: what its packets mean, from the first to the last.

mod renumber;
mod talk;

use super::facts::{Connection, Endpoint, From};
use super::place::place;
use super::segment::{ACK, FIN, RST, SYN, Segment};
use super::sender::{Context, Repetitions, Sender, elapsed, is_soon};
use super::series::{Meaning, Sink};
use crate::packet::Tags;
use talk::{Row, Talk};

/// An interface of the capture, and of its link layer if that names one.
pub type Interface = (u32, u32);

/// Where packets of one direction come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    pub interface: Interface,
    pub tags: Tags,
}

/// A connection that is open, or was until recently.
#[derive(Debug)]
pub struct Open {
    pub id: u32,
    pub a: Endpoint,
    pub b: Endpoint,
    /// Where packets of either end come from; `None` while none has come.
    pub sources: [Option<Source>; 2],
    pub first_from: From,
    pub first_ns: i64,
    pub last_ns: i64,
    idle_max_ns: u64,
    phase: Phase,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Nothing but a SYN of `a`: small, because there may be a million of them.
    Syn(Lone),
    Talk(Box<Talk>),
}

/// A SYN, and its repetitions.
#[derive(Debug)]
struct Lone {
    syn: Segment<'static>,
    repeats: Repetitions,
}

/// What a connection waits for; each has its time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    Syn = 0,
    HalfOpen = 1,
    Open = 2,
    /// Both ends sent FIN, or one sent RST.
    Closed = 3,
    /// A RST answered the handshake.
    Refused = 4,
}

/// Why a connection is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    CaptureEnded,
    Idle,
    Replaced,
}

/// Takes rows that were given before.
struct Mute;

impl Sink for Mute {
    const ROWS: bool = false;
    fn connection(&mut self, _: Connection) {}
}

impl Open {
    /// A connection that begins with `segment`, sent by `first_from`.
    pub fn new(
        id: u32,
        ends: (Endpoint, Endpoint),
        source: Source,
        first_from: From,
        segment: &Segment<'_>,
    ) -> Self {
        let mut sources = [None; 2];
        sources[first_from as usize] = Some(source);
        Self {
            id,
            a: ends.0,
            b: ends.1,
            sources,
            first_from,
            first_ns: segment.time_ns,
            last_ns: segment.time_ns,
            idle_max_ns: 0,
            phase: Phase::HalfOpen,
            state: State::Talk(Box::default()),
        }
    }

    /// The same for a SYN without data, which takes little memory.
    pub fn with_syn(mut self, syn: &Segment<'_>) -> Self {
        // Counted by `take`, as all packets are.
        self.phase = Phase::Syn;
        self.state = State::Syn(Lone { syn: syn.detached(), repeats: Repetitions::default() });
        self
    }

    #[inline]
    pub fn is_small(&self) -> bool {
        matches!(self.state, State::Syn(_))
    }

    #[inline]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Segments it remembers.
    pub fn outstanding(&self) -> usize {
        match &self.state {
            State::Syn(_) => 0,
            State::Talk(talk) => talk.sides().iter().map(Sender::outstanding).sum(),
        }
    }

    /// Whether this can be the first packet seen of `from`, by its numbers. They tell it from packets between
    /// the same addresses and ports of another network.
    pub fn may_begin(&self, from: From, segment: &Segment<'_>) -> bool {
        match &self.state {
            State::Syn(lone) => segment.has(ACK) && segment.ack == lone.syn.seq.wrapping_add(1),
            State::Talk(talk) => talk.may_begin(from, segment),
        }
    }

    /// Whether this packet belongs to a later connection between the same ports.
    #[inline]
    pub fn is_replaced_by(&self, from: From, segment: &Segment<'_>) -> bool {
        if segment.flags & (SYN | RST) != SYN {
            return false;
        }
        match &self.state {
            State::Syn(lone) => {
                from == From::A && lone.syn.seq != segment.seq && !renumber::is_renumbered(&lone.syn, segment)
            }
            State::Talk(talk) => talk.is_replaced_by(from, segment),
        }
    }

    /// Takes a packet; `is_first` if it made the connection.
    #[inline]
    pub fn take<S: Sink>(
        &mut self,
        from: From,
        segment: &Segment<'_>,
        is_first: bool,
        cx: &mut Context<'_, S>,
    ) {
        let now = segment.time_ns;
        cx.counts.backwards += u64::from(now < self.last_ns);
        self.idle_max_ns = self.idle_max_ns.max(elapsed(self.last_ns, now));
        (self.first_ns, self.last_ns) = (self.first_ns.min(now), self.last_ns.max(now));
        if let State::Syn(lone) = &mut self.state {
            let syn = lone.syn;
            let same = from == From::A && segment.is_first_syn() && segment.seq == syn.seq;
            // Recognising a copy needs more state.
            let behind_ns = elapsed(syn.time_ns, now);
            let stamped = segment.timestamps().is_some() && segment.timestamps() == syn.timestamps();
            let copied = segment.ip_id == syn.ip_id && (stamped || is_soon(segment.ip_id, behind_ns));
            if is_first || (same && segment.payload == 0 && !segment.has(FIN) && !copied) {
                let meaning = if is_first { Meaning::New } else { Meaning::Handshake };
                if !is_first {
                    lone.repeats.add(lone.syn.time_ns, segment);
                }
                let window = u32::from(segment.window);
                return Row { seq: 0, ack: 0, meaning, window, flight: 0, fresh: 0 }.give(from, segment, cx);
            }
            self.state = State::Talk(Box::new(lone.grow(cx)));
        }
        if let State::Talk(talk) = &mut self.state {
            talk.take(from, segment, cx);
            // Most packets change nothing.
            if self.phase != Phase::Open || segment.flags & (SYN | FIN | RST) != 0 {
                self.phase = talk.phase();
            }
        }
    }

    /// Reports it.
    pub fn finish<S: Sink>(self, reason: Reason, cx: &mut Context<'_, S>) {
        let talk = match self.state {
            State::Talk(talk) => talk,
            State::Syn(lone) => Box::new(lone.grow(cx)),
        };
        let (begin, end) = (talk.begin(), talk.end(reason));
        let (to_a, to_b) = talk.least_round_trips();
        let handshake_ns = talk.handshake_ns();
        let sides = talk.into_sides().map(|side| side.into_side(self.last_ns));
        cx.sink.connection(Connection {
            id: self.id,
            a: self.a,
            b: self.b,
            tags: self.sources.map(|source| source.map(|source| source.tags)),
            interface: self.sources[self.first_from as usize].map_or((0, 0), |source| source.interface),
            first_ns: self.first_ns,
            last_ns: self.last_ns,
            begin,
            end,
            handshake_ns,
            idle_max_ns: self.idle_max_ns,
            place: place(to_a, to_b, &sides),
            sides,
        });
    }
}

impl Lone {
    /// The state that its packets lead to.
    fn grow<S>(&self, cx: &mut Context<'_, S>) -> Talk {
        let mut talk = Talk::default();
        let mut unused = super::settings::Counts::default();
        let mut mute = Context {
            sink: &mut Mute,
            counts: &mut unused,
            outstanding: cx.outstanding,
            max_outstanding: cx.max_outstanding,
            connection: cx.connection,
        };
        talk.take(From::A, &self.syn, &mut mute);
        if self.repeats.count > 0 {
            talk.add_syns(&self.repeats);
        }
        talk
    }
}
