//! What is kept of a stream that may last for ever: a few packets at its beginning, then sums.

use super::super::facts::{Facts, Types, clock_between, facts_of_iax2, numbered, usual_step};
use super::super::sdp::Media;
use super::super::track::Keep;
use super::super::{Protocol, Row, iax2};
use super::jitter::{Estimates, Jitter};
use super::losses::{Losses, Place};

/// Packets by which the usual payload type and, over IAX2, the usual packet time are told.
const HELD: usize = 64;

/// A stream's packets, summed up.
#[derive(Debug)]
pub struct Sums {
    protocol: Protocol,
    packets: u64,
    /// Number and arrival.
    first: Option<(i64, i64)>,
    held: Vec<Row>,
    running: Option<Box<Running>>,
}

/// Sums behind the first packets.
#[derive(Clone, Debug)]
pub struct Running {
    types: Types,
    /// The type whose time stamps count.
    usual: u8,
    /// Usual time from one IAX2 frame to the next, and the time of the first.
    step: i64,
    first_stamp: i64,
    pub losses: Losses,
    pub payload_bytes: u64,
    pub markers: u64,
    pub first_ns: i64,
    pub last_ns: i64,
    /// Arrival of the last packet that was no copy.
    arrived_ns: i64,
    pub gap_max_ns: Option<i64>,
    jitter: Estimates,
    /// First and last packet of speech.
    speech: Option<(Row, Row)>,
}

impl Keep for Sums {
    fn new(protocol: Protocol) -> Self {
        Self { protocol, packets: 0, first: None, held: Vec::new(), running: None }
    }

    fn push(&mut self, row: Row, media: Option<&Media>) {
        self.packets += 1;
        self.first.get_or_insert((row.seq, row.arrival_ns));
        if let Some(running) = &mut self.running {
            return running.put(row, media);
        }
        self.held.push(row);
        if self.held.len() == HELD {
            let held = std::mem::take(&mut self.held);
            self.running = Running::of(self.protocol, &held, media).map(Box::new);
        }
    }

    fn packets(&self) -> u64 {
        self.packets
    }

    fn first(&self) -> Option<(i64, i64)> {
        self.first
    }
}

impl Sums {
    /// The sums; None without a packet.
    pub fn finish(self, media: Option<&Media>) -> Option<Running> {
        match self.running {
            Some(running) => Some(*running),
            None => Running::of(self.protocol, &self.held, media),
        }
    }
}

impl Running {
    fn of(protocol: Protocol, held: &[Row], media: Option<&Media>) -> Option<Self> {
        let (first, rest) = held.split_first()?;
        let mut types = Types::default();
        for row in held {
            types.add(row.payload_type, media);
        }
        let usual = types.usual();
        let (step, clock_hz) = match protocol {
            Protocol::Rtp => (0, types.clock_hz(usual)),
            Protocol::Iax2 => (usual_step(held), iax2::CLOCK_HZ),
        };
        let mut sums = Self {
            types,
            usual,
            step,
            first_stamp: first.timestamp,
            losses: Losses::new(if step > 0 { 0 } else { first.seq }),
            payload_bytes: 0,
            markers: 0,
            first_ns: first.arrival_ns,
            last_ns: first.arrival_ns,
            arrived_ns: first.arrival_ns,
            gap_max_ns: None,
            jitter: Estimates::new(clock_hz),
            speech: None,
        };
        sums.count(first);
        sums.hear(first, true);
        for row in rest {
            sums.add(*row);
        }
        Some(sums)
    }

    fn put(&mut self, row: Row, media: Option<&Media>) {
        self.types.add(row.payload_type, media);
        self.add(row);
    }

    fn add(&mut self, mut row: Row) {
        if self.step > 0 {
            row.seq = numbered(row.timestamp.wrapping_sub(self.first_stamp), self.step);
        }
        self.count(&row);
        let is_first = self.losses.put(row.seq) == Place::First;
        if is_first {
            let gap_ns = row.arrival_ns.saturating_sub(self.arrived_ns);
            self.gap_max_ns = Some(self.gap_max_ns.map_or(gap_ns, |longest| longest.max(gap_ns)));
            self.arrived_ns = row.arrival_ns;
        }
        self.hear(&row, is_first);
    }

    fn count(&mut self, row: &Row) {
        self.payload_bytes += u64::from(row.payload_bytes);
        self.markers += u64::from(row.marker);
        self.first_ns = self.first_ns.min(row.arrival_ns);
        self.last_ns = self.last_ns.max(row.arrival_ns);
    }

    /// Only of first copies anybody hears the delay.
    fn hear(&mut self, row: &Row, is_first: bool) {
        if self.step == 0 {
            if row.payload_type != self.usual && self.jitter.packets() == 0 {
                // Comfort noise alone until now: who speaks begins here.
                self.usual = self.types.usual();
                self.jitter = Estimates::new(self.types.clock_hz(self.usual));
            }
            if !self.types.speaks(row.payload_type, self.usual) {
                return;
            }
        }
        self.speech = Some((self.speech.map_or(*row, |(first, _)| first), *row));
        if is_first {
            self.jitter.put(row.arrival_ns, row.timestamp.wrapping_sub(self.first_stamp));
        }
    }

    /// What the packets are, and their jitter. `packets` of them came.
    pub fn judge(&self, packets: u64, codec: Option<u8>, media: Option<&Media>) -> (Facts, Option<Jitter>) {
        let facts = if self.step > 0 {
            facts_of_iax2(codec, packets)
        } else {
            let measured = || self.speech.as_ref().and_then(|(first, last)| clock_between(first, last));
            self.types.told_by(media).facts(media, measured)
        };
        let jitter = self.jitter.by(facts.clock_hz);
        (facts, jitter)
    }
}
