//! One stream as it passes: first a candidate that has to prove itself, then what is kept of its packets.

mod pauses;

use std::rc::Rc;

use super::changes::Changes;
use super::holes::Holes;
use super::sdp::Media;
use super::sequence::{Sequence, extend, extend16};
use super::{Key, Protocol, Row, iax2, rtp};

/// Steps forward in a row that make a candidate a stream; one is enough if SIP announced it
/// (RFC 3550 appendix A.1 takes two packets).
const STEPS: u8 = 4;
const STEPS_ANNOUNCED: u8 = 1;
/// A candidate may lose this many packets at once, and pause this long in units of any clock (some minutes).
const LONGEST_STEP: i64 = 50;
const LONGEST_PAUSE: i64 = 1 << 24;
/// A candidate that has had this many packets without proof starts anew.
pub const MAX_CANDIDATE_ROWS: u64 = 512;
/// The next mini frame of a call comes within this time, in ms.
const LONGEST_MINI_STEP: i64 = 1_000;
/// A stream without packets for an hour is over, a candidate after a minute.
const LONGEST_SILENCE_NS: u64 = 3_600_000_000_000;
const LONGEST_DOUBT_NS: u64 = 60_000_000_000;
/// A source that is silent for longer begins to speak anew.
const BETWEEN_TURNS_NS: i64 = 1_000_000_000;

/// Why a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// It is the first with its key.
    First,
    /// The source started anew with other numbers.
    Restart,
    /// The source changed its codec.
    Codec,
}

/// What a source did not send while another one was heard, or on hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    /// How many.
    pub count: u64,
    /// Numbers that it skipped.
    pub skipped: i64,
    /// How long it was silent, ns.
    pub lasted_ns: i64,
    /// The first number that it skipped, and the first after the last pause; in the first round, of 16 bits.
    pub from: i64,
    /// See `from`.
    pub until: i64,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// A row, or held until the next packet decides.
    Kept,
    /// The candidate was not a stream; this many packets belong to no stream, this one began a new candidate.
    Refuted(u64),
    /// The source started anew with the packet before this one; here are both.
    Restart(Raw, Raw),
}

/// What is kept of a stream's packets: sums, or all of them as well.
pub trait Keep {
    /// Nothing yet, of a stream of this kind.
    fn new(protocol: Protocol) -> Self;
    /// Keeps sums only, from now on and of what there was.
    fn sum_up(&mut self) {}
    /// The next packet; `media` is what SIP said until now.
    fn push(&mut self, row: Row, media: Option<&Media>);
    /// Packets added.
    fn packets(&self) -> u64;
    /// Number and arrival of the first.
    fn first(&self) -> Option<(i64, i64)>;
}

/// A packet as its header has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw {
    /// When it was captured.
    pub arrival_ns: i64,
    /// The header.
    pub header: rtp::Header,
}

/// A stream or a candidate.
#[derive(Debug)]
pub struct Track<K> {
    /// Its key.
    pub key: Key,
    /// Position of its first packet in the capture.
    pub order: u64,
    /// The same for the candidate that first had this key.
    pub birth: u64,
    /// How often the source started anew before.
    pub part: u32,
    /// Its packets, or what is kept of them; a free place has none.
    pub kept: K,
    /// What SIP said about it until it was proven.
    pub media: Option<Rc<Media>>,
    /// IAX2: the codec of its full frames.
    pub codec: Option<u8>,
    /// Packets without a place in the sequence.
    pub strays: u64,
    /// Why it begins.
    pub beginning: Beginning,
    /// Numbers lost between the packets of the codec before and its own.
    pub lead: u64,
    /// What it did not send.
    pub pauses: Pauses,
    /// Its gaps beside all else that was captured.
    pub holes: Holes,
    /// Payload types on their way.
    pub changes: Changes,
    /// The number after the last pause, and what that pause skipped.
    resumed: Option<(i64, i64)>,
    /// Packets since a pause, until it is clear which of them is the first.
    resuming: Vec<Raw>,
    /// Since when it has been sending without a long silence.
    since_ns: i64,
    /// By how much its numbers are more than the lengths of its datagrams, as long as that is the same.
    beyond_length: Option<u16>,
    /// Steps still missing; 0 for a stream.
    missing: u8,
    /// Whether the time stamp has ever moved.
    moved: bool,
    sequence: Sequence,
    pending: Option<Raw>,
    /// Arrival, number and time stamp of the packet with the highest number.
    newest: Row,
}

impl<K: Keep> Track<K> {
    /// Begins with an RTP packet. `trusted`: it needs no proof.
    pub fn new(key: Key, order: u64, part: u32, first: Raw, trusted: bool) -> Self {
        let row = Row {
            seq: first.header.sequence.into(),
            timestamp: first.header.timestamp.into(),
            ..Row::of(first.arrival_ns, &first.header)
        };
        let beyond_length = Some(first.header.beyond_length());
        let beginning = if part == 0 { Beginning::First } else { Beginning::Restart };
        let mut holes = Holes::default();
        holes.put(first.header.sequence, first.arrival_ns, order);
        Self { beyond_length, beginning, holes, ..Self::begin(key, order, part, row, trusted) }
    }

    /// Begins with an IAX2 frame.
    pub fn new_iax2(key: Key, order: u64, part: u32, arrival_ns: i64, speech: &iax2::Speech) -> Self {
        let row = Row { timestamp: speech.stamp.into(), ..Row::of_iax2(arrival_ns, speech) };
        Self { codec: speech.codec, ..Self::begin(key, order, part, row, false) }
    }

    fn begin(key: Key, order: u64, part: u32, row: Row, trusted: bool) -> Self {
        let mut kept = K::new(key.protocol);
        kept.push(row, None);
        Self::with(kept, key, order, part, row, trusted)
    }

    fn with(kept: K, key: Key, order: u64, part: u32, row: Row, trusted: bool) -> Self {
        Self {
            key,
            order,
            birth: order,
            part,
            kept,
            media: None,
            codec: None,
            strays: 0,
            beginning: Beginning::First,
            lead: 0,
            pauses: Pauses::default(),
            holes: Holes::default(),
            changes: Changes::default(),
            resumed: None,
            resuming: Vec::new(),
            since_ns: row.arrival_ns,
            beyond_length: None,
            missing: if trusted { 0 } else { STEPS },
            moved: false,
            sequence: Sequence::new(row.seq as u16),
            pending: None,
            newest: row,
        }
    }

    /// Whether this is a stream.
    pub const fn is_proven(&self) -> bool {
        self.missing == 0
    }

    /// Whether the present proof is enough, given that SIP announced the stream.
    pub const fn is_proven_if_announced(&self) -> bool {
        self.missing <= STEPS - STEPS_ANNOUNCED
    }

    /// SIP announced it: less proof is enough.
    pub fn announce(&mut self, media: Option<Rc<Media>>) {
        if media.is_some() && self.is_proven_if_announced() {
            self.missing = 0;
        }
        self.media = media;
    }

    /// The next packet with this key, at this position in the capture.
    pub fn put(&mut self, raw: Raw, order: u64) -> Put {
        let header = &raw.header;
        if self.sequence.place(header.sequence).is_none() {
            return self.far_away(raw, order);
        }
        let seq = self.numbered(self.sequence.place_near(header.sequence));
        let timestamp = extend(self.newest.timestamp, header.timestamp);
        if self.refutes(seq - self.newest.seq, timestamp - self.newest.timestamp, header) {
            return self.start_over(raw, order);
        }
        self.push(Row { seq, timestamp, ..Row::of(raw.arrival_ns, header) });
        Put::Kept
    }

    /// Numbers between its newest packet and this one; 0 if it is not ahead, or far away.
    pub fn missing_before(&self, raw: &Raw) -> u64 {
        let place = self.sequence.place(raw.header.sequence).map(|place| self.numbered(place));
        place.map_or(0, |place| u64::try_from(place - self.newest.seq - 1).unwrap_or(0))
    }

    /// Whether a packet at this time is part of it. Ports, SSRCs and call numbers are used again, and a candidate
    /// that is silent for long is given up.
    pub const fn goes_on(&self, time_ns: i64) -> bool {
        let longest_ns = if self.is_proven() { LONGEST_SILENCE_NS } else { LONGEST_DOUBT_NS };
        time_ns.abs_diff(self.newest.arrival_ns) < longest_ns
    }

    /// The next IAX2 frame of this call: frames have no numbers, only times.
    pub fn put_iax2(&mut self, arrival_ns: i64, speech: &iax2::Speech) {
        let elapsed_ms = arrival_ns.saturating_sub(self.newest.arrival_ns) / 1_000_000;
        // Silence may last longer than the 65.536 s of 16 bits, so the clock here helps.
        let timestamp = extend16(self.newest.timestamp.saturating_add(elapsed_ms), speech.stamp);
        self.codec = self.codec.or(speech.codec);
        let step = timestamp - self.newest.timestamp;
        if !self.is_proven() {
            match step {
                1..=LONGEST_MINI_STEP => self.missing -= 1,
                _ => self.missing = STEPS,
            }
        }
        let row = Row { timestamp, ..Row::of_iax2(arrival_ns, speech) };
        if step >= 0 {
            self.newest = row;
        }
        self.kept.push(row, self.media.as_deref());
    }

    /// When its newest packet was captured.
    pub const fn newest_ns(&self) -> i64 {
        self.newest.arrival_ns
    }

    /// Removes the track from its place, which is free then.
    pub fn vacate(&mut self) -> Self {
        let nothing = K::new(self.key.protocol);
        let free = Self::with(nothing, self.key, self.order, self.part, self.newest, false);
        std::mem::replace(self, free)
    }

    /// The end: packets of another type that waited belong to it, one far away does not.
    pub fn end(&mut self) {
        for raw in self.resume().into_iter().chain(self.changes.rest()) {
            self.put(raw, self.order);
        }
        self.strays += u64::from(self.pending.take().is_some());
    }

    fn push(&mut self, row: Row) {
        if row.seq > self.newest.seq {
            if row.arrival_ns.saturating_sub(self.newest.arrival_ns) > BETWEEN_TURNS_NS {
                self.since_ns = row.arrival_ns;
            }
            self.newest = row;
        }
        self.sequence.advance(row.seq + self.pauses.skipped);
        self.kept.push(row, self.media.as_deref());
    }

    /// A number without those that were not sent.
    const fn numbered(&self, place: i64) -> i64 {
        match self.resumed {
            // Late, from before the pause.
            Some((resumed, skipped)) if place < resumed => place - (self.pauses.skipped - skipped),
            _ => place - self.pauses.skipped,
        }
    }

    /// Counts steps towards the proof; true if this cannot be a stream.
    fn refutes(&mut self, step: i64, pause: i64, header: &rtp::Header) -> bool {
        if self.is_proven() {
            return false;
        }
        self.beyond_length = self.beyond_length.filter(|beyond| *beyond == header.beyond_length());
        if step > LONGEST_STEP || pause.abs() >= LONGEST_PAUSE || self.kept.packets() >= MAX_CANDIDATE_ROWS {
            return true;
        }
        self.moved |= step > 0 && pause > 0;
        // Time stamps stand still within a picture; the last step has to show that they move.
        if step > 0 && pause >= 0 && (self.missing > 1 || self.moved) {
            // Numbers that follow the lengths of the datagrams are lengths, as in BACnet/IP.
            if self.missing == 1 && self.beyond_length.is_some() {
                return true;
            }
            self.missing -= 1;
        }
        false
    }

    fn start_over(&mut self, raw: Raw, order: u64) -> Put {
        let dropped = self.kept.packets();
        *self = Self { birth: self.birth, ..Self::new(self.key, order, self.part, raw, false) };
        Put::Refuted(dropped)
    }

    /// RFC 3550 appendix A.1: one packet far away is a stray; when the next one follows it, the source has
    /// started anew, or there was a long gap.
    fn far_away(&mut self, raw: Raw, order: u64) -> Put {
        if !self.is_proven() {
            return self.start_over(raw, order);
        }
        let Some(first) = self.pending.take() else {
            self.pending = Some(raw);
            return Put::Kept;
        };
        if first.header.sequence.wrapping_add(1) != raw.header.sequence {
            self.strays += 1;
            self.pending = Some(raw);
            return Put::Kept;
        }
        let expected = self.packets_in(first.arrival_ns.saturating_sub(self.newest.arrival_ns));
        let Some(seq) = expected.and_then(|n| self.sequence.beyond(first.header.sequence, n)) else {
            return Put::Restart(first, raw);
        };
        for (seq, raw) in [(self.numbered(seq), first), (self.numbered(seq + 1), raw)] {
            let timestamp = extend(self.newest.timestamp, raw.header.timestamp);
            self.push(Row { seq, timestamp, ..Row::of(raw.arrival_ns, &raw.header) });
        }
        Put::Kept
    }

    /// How many packets are sent in this many ns, by the stream so far; `None` if that is not known.
    fn packets_in(&self, elapsed_ns: i64) -> Option<f64> {
        let (first_seq, first_ns) = self.kept.first()?;
        let sent = self.newest.seq - first_seq;
        let lasted = self.newest.arrival_ns.saturating_sub(first_ns) - self.pauses.lasted_ns;
        (sent > 0 && lasted > 0).then(|| elapsed_ns as f64 * sent as f64 / lasted as f64)
    }
}
