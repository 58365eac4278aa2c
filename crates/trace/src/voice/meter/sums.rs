//! What is kept of a stream that may last for ever: a few packets at its beginning, then sums.

use super::super::facts::{Facts, KnownBy, Types, clock_between, facts_of_iax2};
use super::super::numbers::{LOOKED_AT, Numbers};
use super::super::pace::Pace;
use super::super::sdp::Media;
use super::super::track::Keep;
use super::super::{Protocol, Row};
use super::jitter::{Estimates, Jitter};
use super::losses::{Losses, Place};

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

/// Sums after the first packets.
#[derive(Clone, Debug)]
pub struct Running {
    types: Types,
    /// The type whose time stamps count.
    usual: u8,
    pub numbers: Numbers,
    first_stamp: i64,
    pub packets: u64,
    pub losses: Losses,
    pub payload_bytes: u64,
    pub markers: u64,
    pub first_ns: i64,
    pub last_ns: i64,
    /// Arrival of the last packet that was not a copy.
    arrived_ns: i64,
    pub gap_max_ns: Option<i64>,
    jitter: Estimates,
    /// The clock rate that was announced, and another one that the stamps may run at; 0 for none.
    clocks_hz: (u32, u32),
    pace: Pace,
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
        if self.held.len() == LOOKED_AT {
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
        let types = Types::of(held, media);
        let usual = types.usual();
        let mut numbers = match protocol {
            Protocol::Rtp => Numbers::Given,
            Protocol::Iax2 => Numbers::of_iax2(held),
        };
        let clocks_hz = clocks_of(&types, usual, held);
        let jitter = match numbers {
            Numbers::Given => estimates(clocks_hz),
            Numbers::ByTime { .. } => Estimates::new(&[numbers.clock_hz()]),
            Numbers::ByArrival { .. } => Estimates::none(),
        };
        let first_number = numbers.number(first);
        let mut sums = Self {
            types,
            usual,
            numbers,
            first_stamp: first.timestamp,
            packets: 0,
            losses: Losses::new(first_number),
            payload_bytes: 0,
            markers: 0,
            first_ns: first.arrival_ns,
            last_ns: first.arrival_ns,
            arrived_ns: first.arrival_ns,
            gap_max_ns: None,
            jitter,
            clocks_hz,
            pace: Pace::default(),
            speech: None,
        };
        sums.count(first);
        sums.hear(&Row { seq: first_number, ..*first }, true);
        for row in rest {
            sums.add(*row);
        }
        Some(sums)
    }

    fn put(&mut self, row: Row, media: Option<&Media>) {
        self.types.add(&row, media);
        self.add(row);
    }

    fn add(&mut self, mut row: Row) {
        row.seq = self.numbers.number(&row);
        self.count(&row);
        let is_first = self.losses.put(row.seq) == Place::First;
        if is_first {
            let gap_ns = row.arrival_ns.saturating_sub(self.arrived_ns);
            self.gap_max_ns = Some(self.gap_max_ns.map_or(gap_ns, |longest| longest.max(gap_ns)));
            self.arrived_ns = row.arrival_ns;
        } else {
            self.types.add_copy(row.payload_type);
        }
        self.hear(&row, is_first);
    }

    fn count(&mut self, row: &Row) {
        self.packets += 1;
        self.payload_bytes += u64::from(row.payload_bytes);
        self.markers += u64::from(row.marker);
        self.first_ns = self.first_ns.min(row.arrival_ns);
        self.last_ns = self.last_ns.max(row.arrival_ns);
    }

    /// Only the delay of first copies is heard.
    fn hear(&mut self, row: &Row, is_first: bool) {
        if self.numbers == Numbers::Given {
            if row.payload_type != self.usual && self.jitter.packets() == 0 {
                // Only comfort noise so far: speech begins here.
                self.usual = self.types.usual();
                self.clocks_hz = (self.types.clock_hz(self.usual), 0);
                self.jitter = estimates(self.clocks_hz);
            }
            if !self.types.speaks(row.payload_type, self.usual) {
                return;
            }
        }
        self.speech = Some((self.speech.map_or(*row, |(first, _)| first), *row));
        if is_first {
            self.pace.put(row);
            self.jitter.put(&Row { timestamp: row.timestamp.wrapping_sub(self.first_stamp), ..*row });
        }
    }

    /// What the packets are, their jitter, and in how many silences the time stamps stood still.
    pub fn judge(&self, codec: Option<u8>, media: Option<&Media>) -> (Facts, Option<Jitter>, u64) {
        let facts = if self.numbers == Numbers::Given {
            let by_ends = || self.speech.as_ref().and_then(|(first, last)| clock_between(first, last));
            let measured = || self.pace.clock(self.pace.hz().or_else(by_ends)?);
            let mut types = self.types.told_by(media);
            let guessed = types.encoding(types.usual()).is_some_and(|(_, by)| *by == KnownBy::WebRtc);
            if guessed && self.pace.other_than(types.clock_hz(types.usual())).is_some() {
                types = self.types.told_by(None);
            }
            let nominal = types.clock_hz(types.usual());
            let clock = match self.clocks_hz {
                (announced, other)
                    if announced == nominal && other > 0 && self.pace.is_rather(other, nominal) =>
                {
                    other
                }
                _ => nominal,
            };
            types.facts(media, clock, measured)
        } else {
            facts_of_iax2(codec, self.packets, self.numbers.clock_hz())
        };
        let (jitter, still) = (self.jitter.by(facts.clock_hz), self.jitter.still(facts.clock_hz));
        (facts, jitter, still)
    }

    /// Copies of telephone events that their sender made.
    pub fn repeats(&self) -> u64 {
        if self.numbers == Numbers::Given { self.types.repeats() } else { 0 }
    }

    /// Whether numbers may be missing because other packets of their stream were not captured: of telephone events,
    /// which share the numbers of the speech.
    pub fn lacks_speech(&self) -> bool {
        self.numbers == Numbers::Given && self.types.has_only_events() && self.types.missing() > 0
    }
}

/// The clock rate that was announced for a stream's usual type, and another one that its first packets run at.
fn clocks_of(types: &Types, usual: u8, held: &[Row]) -> (u32, u32) {
    let nominal = types.clock_hz(usual);
    let mut pace = Pace::default();
    for row in held.iter().filter(|row| types.speaks(row.payload_type, usual)) {
        pace.put(row);
    }
    let is_told = types.encoding(usual).is_some_and(|(_, by)| *by == KnownBy::Option);
    let other = if nominal > 0 && !is_told { pace.other_than(nominal) } else { None };
    (nominal, other.unwrap_or(0))
}

fn estimates((nominal, other): (u32, u32)) -> Estimates {
    match (nominal, other) {
        (0, _) => Estimates::new(&[]),
        (nominal, 0) => Estimates::new(&[nominal]),
        (nominal, other) => Estimates::new(&[nominal, other]),
    }
}
