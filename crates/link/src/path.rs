//! One direction of a link.

use crate::counters::Counters;
use crate::delay::Delay;
use crate::line::Line;
use crate::queue::{Dropped, Fate, Waiting, WaitingLine};
use crate::seeds::{Stream, seed};
use crate::selection::{Chooser, Selection};
use crate::spec::{PathSpec, SpecError};
use crate::transmitter::Transmitter;

/// One direction of a link, with the frames that are on it.
///
/// Time is whatever the caller counts in ns. Arrivals must be reported in order. What was due before an
/// arrival was reported is unaffected by it, so report all arrivals up to a time before taking what departs.
#[derive(Clone, Debug)]
pub struct Path<T> {
    spec: PathSpec,
    fates: Fates,
    waiting: WaitingLine<T>,
    transmitter: Transmitter,
    /// With a trace, the frame of which a part was carried, and how much of it is left.
    part: Option<(Waiting<T>, u32)>,
    delay: Delay,
    line: Line<Flight<T>>,
    counters: Counters,
    last_arrival_ns: u64,
    pacing: Pacing,
}

/// A frame that leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure<T> {
    /// The frame.
    pub frame: T,
    /// Its length as reported on arrival.
    pub bytes: u32,
    /// When it is to leave.
    pub due_ns: u64,
    /// How it follows the one before.
    pub pace: Pace,
}

/// How a frame follows the one that left before, for measuring the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// No information: there is no constant rate, or the frame does not leave in its turn.
    Apart,
    /// The transmitter was idle before.
    Begins,
    /// The transmitter sent this many bits, without a pause, since the last frame that was not [`Pace::Apart`].
    Follows(u64),
}

/// A frame after the transmitter.
#[derive(Clone, Debug)]
struct Flight<T> {
    frame: T,
    bytes: u32,
    pace: Pace,
}

/// What is drawn on arrival.
#[derive(Clone, Debug)]
struct Fates {
    loss: Chooser,
    duplicate: Chooser,
    reorder: Chooser,
}

/// Bits since the last frame that left in its turn.
#[derive(Clone, Copy, Debug, Default)]
struct Pacing {
    bits: u64,
    is_idle_between: bool,
}

impl<T: Clone> Path<T> {
    /// An empty path; a trace begins at `now_ns`.
    ///
    /// # Errors
    /// [`SpecError`]: the specification is invalid.
    pub fn new(spec: PathSpec, now_ns: u64) -> Result<Self, SpecError> {
        spec.check()?;
        let transmitter = Transmitter::new(spec.rate.as_ref(), now_ns);
        let bps = transmitter.transmission(now_ns).bps;
        Ok(Self {
            fates: Fates::new(&spec),
            waiting: WaitingLine::new(&spec.queue, bps, seed(spec.seed, Stream::Red), now_ns),
            transmitter,
            part: None,
            delay: Delay::new(&spec),
            line: Line::new(),
            counters: Counters::default(),
            last_arrival_ns: now_ns,
            pacing: Pacing { bits: 0, is_idle_between: true },
            spec,
        })
    }

    /// Follows `spec` from `now_ns` on. What is under way arrives as it would have, what waits goes on waiting
    /// for the new transmitter; patterns count from 1 again, and a trace begins.
    ///
    /// # Errors
    /// [`SpecError`]; nothing has changed then.
    pub fn change(&mut self, spec: PathSpec, now_ns: u64) -> Result<(), SpecError> {
        spec.check()?;
        let now_ns = now_ns.max(self.last_arrival_ns);
        self.advance(now_ns);
        if let Some((frame, _)) = self.part.take() {
            self.fly(frame, now_ns, Pace::Apart);
        }
        self.transmitter = Transmitter::new(spec.rate.as_ref(), now_ns);
        let bps = self.transmitter.transmission(now_ns).bps;
        self.waiting.change(&spec.queue, bps, seed(spec.seed, Stream::Red), now_ns);
        self.fates = Fates::new(&spec);
        self.delay.change(&spec);
        self.pacing = Pacing { bits: 0, is_idle_between: true };
        self.spec = spec;
        self.advance(now_ns);
        Ok(())
    }

    /// A frame of `bytes` comes in. A time before that of the last arrival counts as that time.
    pub fn arrive(&mut self, now_ns: u64, frame: T, bytes: u32) {
        let now_ns = now_ns.max(self.last_arrival_ns);
        self.last_arrival_ns = now_ns;
        self.advance(now_ns);
        self.counters.arrived += 1;
        self.counters.arrived_bytes += u64::from(bytes);
        let billed = self.transmitter.bill(bytes, self.spec.overhead_bytes);
        let frame = Waiting { frame, bytes, billed, arrived_ns: now_ns, fate: self.fates.draw() };
        if matches!(self.transmitter, Transmitter::AtOnce) {
            self.fly(frame, now_ns, Pace::Apart);
            return;
        }
        let is_taken_at_once = self.is_idle(now_ns);
        let transmission = self.transmitter.transmission(now_ns);
        match self.waiting.enter(frame, transmission, is_taken_at_once) {
            Ok(()) => self.advance(now_ns),
            Err(Dropped::Full) => self.counters.dropped_full += 1,
            Err(Dropped::Early) => self.counters.dropped_early += 1,
        }
    }

    /// A frame of `bytes` came, for which a queue in front of this path had no room.
    pub const fn turn_away(&mut self, bytes: u32) {
        self.counters.arrived += 1;
        self.counters.arrived_bytes += bytes as u64;
        self.counters.dropped_full += 1;
    }

    /// The next frame that is due by `now_ns`. Report all arrivals up to then before calling it.
    pub fn depart(&mut self, now_ns: u64) -> Option<Departure<T>> {
        self.advance(now_ns);
        let (due_ns, Flight { frame, bytes, pace }) = self.line.pop(now_ns)?;
        self.counters.departed += 1;
        self.counters.departed_bytes += u64::from(bytes);
        Some(Departure { frame, bytes, due_ns, pace })
    }

    /// Nothing that has already arrived departs before this; `None`: nothing is on the path.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        let served = if self.waiting.is_empty() && self.part.is_none() {
            None
        } else {
            self.transmitter.next_ns().map(|ns| ns.saturating_add(self.delay.least_ns()))
        };
        self.line.due_ns().into_iter().chain(served).min()
    }

    /// The shortest delay that a frame can have.
    #[must_use]
    pub fn least_delay_ns(&self) -> u64 {
        self.delay.least_ns()
    }

    /// What became of frames so far.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Frames on the path: those that wait, and those under way.
    #[must_use]
    pub fn held(&self) -> u64 {
        (self.waiting.len() + usize::from(self.part.is_some()) + self.line.len()) as u64
    }

    /// Frames that wait for the transmitter.
    #[must_use]
    pub fn queued(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Their bytes, overhead included.
    #[must_use]
    pub const fn queued_bytes(&self) -> u64 {
        self.waiting.bytes()
    }

    /// The specification it follows.
    #[must_use]
    pub const fn spec(&self) -> &PathSpec {
        &self.spec
    }

    /// Whether a frame that arrives now would be transmitted at once.
    fn is_idle(&self, now_ns: u64) -> bool {
        match &self.transmitter {
            Transmitter::Constant(constant) => self.waiting.is_empty() && constant.free_ns() <= now_ns,
            Transmitter::AtOnce | Transmitter::Traced(_) => false,
        }
    }

    /// Does everything that happens up to and at `until_ns`.
    fn advance(&mut self, until_ns: u64) {
        match &mut self.transmitter {
            Transmitter::AtOnce => {
                while let Some(frame) = take(&mut self.waiting, &mut self.counters, until_ns) {
                    self.fly(frame, until_ns, Pace::Apart);
                }
            }
            Transmitter::Constant(_) => self.transmit(until_ns),
            Transmitter::Traced(_) => self.use_opportunities(until_ns),
        }
    }

    fn transmit(&mut self, until_ns: u64) {
        while let Transmitter::Constant(constant) = &mut self.transmitter
            && let Some(arrived_ns) = self.waiting.head_arrived_ns()
        {
            let start_ns = constant.free_ns().max(arrived_ns);
            if start_ns > until_ns {
                return;
            }
            let Some(frame) = take(&mut self.waiting, &mut self.counters, start_ns) else { return };
            // Those before it may have been dropped at the head.
            let start_ns = start_ns.max(frame.arrived_ns);
            self.pacing.is_idle_between |= start_ns > constant.free_ns();
            let through_ns = constant.transmit(start_ns, frame.billed);
            self.pacing.bits += 8 * u64::from(frame.billed);
            let pace = self.pacing.next(frame.fate);
            self.fly(frame, through_ns, pace);
        }
    }

    fn use_opportunities(&mut self, until_ns: u64) {
        while let Transmitter::Traced(traced) = &mut self.transmitter {
            if self.part.is_none() && self.waiting.is_empty() {
                return traced.skip(until_ns);
            }
            let at_ns = traced.next_ns();
            if at_ns > until_ns {
                return;
            }
            let mut room = traced.take();
            while room > 0 {
                let next = || {
                    let frame = take(&mut self.waiting, &mut self.counters, at_ns)?;
                    let billed = frame.billed;
                    Some((frame, billed))
                };
                let Some((frame, left)) = self.part.take().or_else(next) else { break };
                if left > room {
                    self.part = Some((frame, left - room));
                    break;
                }
                room -= left;
                self.fly(frame, at_ns, Pace::Apart);
            }
        }
    }

    /// A frame has passed the transmitter.
    fn fly(&mut self, waiting: Waiting<T>, through_ns: u64, pace: Pace) {
        let Waiting { frame, bytes, fate, .. } = waiting;
        if fate.is_lost {
            self.counters.lost += 1;
            return;
        }
        let copy = fate.is_duplicated.then(|| frame.clone());
        match &self.spec.reorder {
            Some(reorder) if fate.is_held_back => {
                let due_ns = self.delay.drawn(through_ns) + reorder.by_ns;
                self.counters.held_back += 1;
                self.line.push_aside(due_ns, Flight { frame, bytes, pace: Pace::Apart });
            }
            _ => {
                let due_ns = self.delay.due(through_ns);
                self.line.push(due_ns, Flight { frame, bytes, pace });
            }
        }
        if let Some(frame) = copy {
            let due_ns = self.delay.due(through_ns);
            self.counters.duplicated += 1;
            self.line.push(due_ns, Flight { frame, bytes, pace: Pace::Apart });
        }
    }
}

/// The next frame for the transmitter; those that are dropped at the head are counted.
fn take<T>(waiting: &mut WaitingLine<T>, counters: &mut Counters, now_ns: u64) -> Option<Waiting<T>> {
    waiting.leave(now_ns, |_| counters.dropped_early += 1)
}

impl Fates {
    fn new(spec: &PathSpec) -> Self {
        let chooser =
            |selection: &Selection, stream| Chooser::new(selection.clone(), seed(spec.seed, stream));
        let reorder = spec.reorder.as_ref().map_or(&Selection::Never, |reorder| &reorder.selection);
        Self {
            loss: chooser(&spec.loss, Stream::Loss),
            duplicate: chooser(&spec.duplicate, Stream::Duplicate),
            reorder: chooser(reorder, Stream::Reorder),
        }
    }

    fn draw(&mut self) -> Fate {
        Fate {
            is_lost: self.loss.takes_next(),
            is_duplicated: self.duplicate.takes_next(),
            is_held_back: self.reorder.takes_next(),
        }
    }
}

impl Pacing {
    /// How a frame that has passed the transmitter follows the one before.
    fn next(&mut self, fate: Fate) -> Pace {
        if fate.is_lost || fate.is_held_back {
            return Pace::Apart;
        }
        let pace = if self.is_idle_between { Pace::Begins } else { Pace::Follows(self.bits) };
        *self = Self::default();
        pace
    }
}
