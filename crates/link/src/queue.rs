//! What waits for the transmitter.

use std::collections::VecDeque;

use crate::codel::{Controller, Head};
use crate::red::Early;
use crate::spec::{Discipline, Limit, Queue, Red};

/// A frame on its way to the transmitter.
#[derive(Clone, Debug)]
pub struct Waiting<T> {
    pub frame: T,
    /// Bytes of the frame.
    pub bytes: u32,
    /// What it costs the rate.
    pub billed: u32,
    pub arrived_ns: u64,
    pub fate: Fate,
}

/// What happens to a frame after the transmitter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    pub is_lost: bool,
    pub is_duplicated: bool,
    pub is_held_back: bool,
}

/// Why a frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// There was no room.
    Full,
    /// By RED or CoDel.
    Early,
}

/// Frames in order of arrival, and the discipline that drops some of them.
#[derive(Clone, Debug)]
pub struct WaitingLine<T> {
    frames: VecDeque<Waiting<T>>,
    bytes: u64,
    limit: Limit,
    discipline: State,
    /// Largest frame so far: CoDel leaves a queue of no more than that alone.
    largest: u32,
}

#[derive(Clone, Debug)]
enum State {
    TailDrop,
    Red(Early, Unit),
    CoDel(Controller),
}

#[derive(Clone, Copy, Debug)]
enum Unit {
    Packets,
    Bytes,
}

/// State of the transmitter, needed to check for room.
#[derive(Clone, Copy, Debug)]
pub struct Transmission {
    /// How long the one in transmission still takes.
    pub left_ns: u64,
    /// In bit/s.
    pub bps: f64,
}

impl Transmission {
    fn ns(self, bytes: f64) -> f64 {
        bytes * 8e9 / self.bps
    }
}

impl<T> WaitingLine<T> {
    /// `bps` is what the transmitter carries in the long run.
    pub fn new(queue: &Queue, bps: f64, seed: u64, now_ns: u64) -> Self {
        Self {
            frames: VecDeque::new(),
            bytes: 0,
            limit: queue.limit,
            discipline: state(&queue.discipline, bps, seed, now_ns),
            largest: 0,
        }
    }

    /// As [`Self::new`], with frames that already wait; for them there is room.
    pub fn change(&mut self, queue: &Queue, bps: f64, seed: u64, now_ns: u64) {
        self.limit = queue.limit;
        self.discipline = state(&queue.discipline, bps, seed, now_ns);
    }

    pub fn len(&self) -> usize {
        self.frames.len()
    }

    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Takes a frame in, or returns why not. One that is `taken_at_once` needs no room.
    pub fn enter(
        &mut self,
        frame: Waiting<T>,
        transmission: Transmission,
        taken_at_once: bool,
    ) -> Result<(), Dropped> {
        let now_ns = frame.arrived_ns;
        if let State::Red(early, unit) = &mut self.discipline {
            let length = match unit {
                Unit::Packets => self.frames.len() as f64,
                Unit::Bytes => self.bytes as f64,
            };
            if early.drops(now_ns, length, transmission.ns(frame.billed.into())) {
                if self.frames.is_empty() {
                    early.ran_empty(now_ns);
                }
                return Err(Dropped::Early);
            }
        }
        if !taken_at_once && !self.has_room(frame.billed, transmission) {
            return Err(Dropped::Full);
        }
        self.bytes += u64::from(frame.billed);
        self.largest = self.largest.max(frame.billed);
        self.frames.push_back(frame);
        Ok(())
    }

    /// The frame to transmit at `now_ns`; `drop` gets those that are dropped meanwhile.
    pub fn leave(&mut self, now_ns: u64, drop: impl FnMut(Waiting<T>)) -> Option<Waiting<T>> {
        let (frames, bytes, largest) = (&mut self.frames, &mut self.bytes, u64::from(self.largest));
        let mut next = || {
            let frame = frames.pop_front()?;
            *bytes -= u64::from(frame.billed);
            Some(Head { arrived_ns: frame.arrived_ns, is_last: *bytes <= largest, item: frame })
        };
        let left = match &mut self.discipline {
            State::CoDel(controller) => controller.dequeue(now_ns, next, drop),
            State::TailDrop | State::Red(..) => next().map(|head| head.item),
        };
        if let State::Red(early, _) = &mut self.discipline
            && self.frames.is_empty()
        {
            early.ran_empty(now_ns);
        }
        left
    }

    /// When the frame at the head arrived.
    pub fn head_arrived_ns(&self) -> Option<u64> {
        self.frames.front().map(|frame| frame.arrived_ns)
    }

    fn has_room(&self, billed: u32, transmission: Transmission) -> bool {
        match self.limit {
            Limit::Packets(most) => (self.frames.len() as u64) < most,
            Limit::Bytes(most) => self.bytes + u64::from(billed) <= most,
            Limit::Time(most_ns) => {
                transmission.left_ns as f64 + transmission.ns(self.bytes as f64) <= most_ns as f64
            }
        }
    }
}

fn state(discipline: &Discipline, bps: f64, seed: u64, now_ns: u64) -> State {
    match discipline {
        Discipline::TailDrop => State::TailDrop,
        Discipline::CoDel(settings) => State::CoDel(Controller::new(*settings)),
        Discipline::Red(red) => {
            let (min, max, unit) = thresholds(red, bps);
            State::Red(Early::new(*red, min, max, seed, now_ns), unit)
        }
    }
}

/// In packets or bytes; a time counts as what is transmitted in it.
fn thresholds(red: &Red, bps: f64) -> (f64, f64, Unit) {
    let unit = if matches!(red.max, Limit::Packets(_)) { Unit::Packets } else { Unit::Bytes };
    let threshold = |limit: Limit| match limit {
        Limit::Packets(amount) | Limit::Bytes(amount) => amount as f64,
        Limit::Time(ns) => ns as f64 * bps / 8e9,
    };
    (threshold(red.min), threshold(red.max), unit)
}
