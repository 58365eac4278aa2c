//! What is known about a stream once it is over: payload types, codec, clock.

use std::collections::BTreeMap;

use super::codecs::{Encoding, Kind, PICTURES_HZ, TELEPHONE_EVENT, assigned};
use super::sdp::{Media, USUAL_TAG_BYTES};
use super::{NO_CODEC, Row, iax2};

/// Source of the codec or clock rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownBy {
    /// Not known.
    Nothing,
    /// A session description.
    Sdp,
    /// The payload type's fixed meaning.
    Static,
    /// A full frame, or the protocol.
    Iax2,
    /// The user.
    Option,
    /// The clock rate alone, from how fast the time stamps run, or telephone events by their looks.
    Estimated,
    /// A usual meaning in WebRTC, whose session descriptions are encrypted.
    WebRtc,
}

/// The contents of a stream's packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The usual payload type.
    pub payload_type: u8,
    /// Payload types, their packets and encoding names.
    pub payload_types: Vec<(u8, u64, String)>,
    /// Rate at which the time stamps run, Hz; 0 if not known.
    pub clock_hz: u32,
    /// The rate that they should run at; 0 if not known.
    pub nominal_hz: u32,
    /// Encoding name; empty if not known.
    pub codec: String,
    /// Sound or pictures.
    pub kind: Kind,
    /// Source of this knowledge.
    pub known_by: KnownBy,
    /// Whether payloads are encrypted (SRTP).
    pub is_secure: bool,
    /// By how much this makes them longer.
    pub tag_bytes: u8,
}

/// What is known about a payload type.
type Known = Option<(Encoding, KnownBy)>;

/// Packets of one payload type.
#[derive(Clone, Debug)]
struct OfType {
    known: Known,
    packets: u64,
    copies: u64,
    /// Steps to the next number, and those in which the time stamp stood still.
    steps: u64,
    still: u64,
    least_bytes: u16,
    most_bytes: u16,
}

/// The sizes of the payload of a telephone event, and of some with those before them (RFC 4733 sections 2.3 and 2.5).
const EVENT_BYTES: std::ops::RangeInclusive<u16> = 4..=20;
/// Of the steps between packets of pictures, at least a fifth are within a picture; a packet is at least so large.
const STEPS_PER_PICTURE: u64 = 5;
const FEWEST_PICTURE_STEPS: u64 = 20;
const PICTURE_BYTES: u16 = 200;

impl OfType {
    /// Whether this looks like telephone events: four bytes, and stamps that stand still while one lasts.
    const fn looks_like_events(&self) -> bool {
        self.known.is_none()
            && self.steps >= 2
            && self.still * 2 >= self.steps
            && *EVENT_BYTES.start() <= self.least_bytes
            && self.most_bytes <= *EVENT_BYTES.end()
    }

    const fn looks_like_pictures(&self) -> bool {
        self.known.is_none()
            && self.steps >= FEWEST_PICTURE_STEPS
            && self.still * STEPS_PER_PICTURE >= self.steps
            && self.most_bytes >= PICTURE_BYTES
    }

    fn is_event(&self) -> bool {
        self.looks_like_events() || self.known.as_ref().is_some_and(|(e, _)| e.is_event())
    }
}

/// The payload types of a stream: packets of each, and what they stand for.
#[derive(Clone, Debug, Default)]
pub(super) struct Types {
    each: BTreeMap<u8, OfType>,
    newest: Option<(i64, i64, u8)>,
    /// Numbers that are missing between packets with different time stamps.
    missing: u64,
}

impl Types {
    /// Of these packets.
    pub fn of(rows: &[Row], media: Option<&Media>) -> Self {
        let mut types = Self::default();
        for row in rows {
            types.add(row, media);
        }
        types
    }

    /// Counts one more packet.
    pub fn add(&mut self, row: &Row, media: Option<&Media>) {
        let of_type = self.each.entry(row.payload_type).or_insert_with(|| OfType {
            known: encoding_of(row.payload_type, media),
            packets: 0,
            copies: 0,
            steps: 0,
            still: 0,
            least_bytes: u16::MAX,
            most_bytes: 0,
        });
        of_type.packets += 1;
        of_type.least_bytes = of_type.least_bytes.min(row.payload_bytes);
        of_type.most_bytes = of_type.most_bytes.max(row.payload_bytes);
        if let Some((seq, stamp, payload_type)) = self.newest {
            let is_still = stamp == row.timestamp;
            if row.seq - seq == 1 && payload_type == row.payload_type {
                of_type.steps += 1;
                of_type.still += u64::from(is_still);
            } else if row.seq - seq > 1 && !is_still {
                self.missing += (row.seq - seq - 1).unsigned_abs();
            }
        }
        if self.newest.is_none_or(|(seq, ..)| seq < row.seq) {
            self.newest = Some((row.seq, row.timestamp, row.payload_type));
        }
    }

    /// A packet of this type was a copy.
    pub fn add_copy(&mut self, payload_type: u8) {
        if let Some(of_type) = self.each.get_mut(&payload_type) {
            of_type.copies += 1;
        }
    }

    /// Copies of telephone events, whose sender repeats packets (RFC 4733 section 2.5.1.4).
    pub fn repeats(&self) -> u64 {
        self.each.values().filter(|of_type| of_type.is_event()).map(|of_type| of_type.copies).sum()
    }

    /// Whether there are telephone events and no other packets.
    pub fn has_only_events(&self) -> bool {
        self.each.values().all(OfType::is_event)
    }

    /// Numbers that are missing between packets with different time stamps.
    pub const fn missing(&self) -> u64 {
        self.missing
    }

    /// The same packets with what is known now.
    pub fn told_by(&self, media: Option<&Media>) -> Self {
        let each = self.each.iter().map(|(number, of_type)| {
            (*number, OfType { known: encoding_of(*number, media), ..of_type.clone() })
        });
        Self { each: each.collect(), ..*self }
    }

    /// The type of most packets; speech before other types.
    pub fn usual(&self) -> u8 {
        let is_speech = |of_type: &OfType| {
            !of_type.is_event() && of_type.known.as_ref().is_none_or(|(e, _)| e.is_speech())
        };
        let usual = self.each.iter().max_by_key(|(_, of_type)| (is_speech(of_type), of_type.packets));
        usual.map_or(0, |(payload_type, _)| *payload_type)
    }

    /// What a type stands for, and the source.
    pub fn encoding(&self, payload_type: u8) -> Option<&(Encoding, KnownBy)> {
        self.each.get(&payload_type).and_then(|of_type| of_type.known.as_ref())
    }

    /// Clock rate of a type; 0 if not known.
    pub fn clock_hz(&self, payload_type: u8) -> u32 {
        self.encoding(payload_type).map_or(0, |(e, _)| e.clock_hz)
    }

    /// Whether the time stamps of this type follow the packets in one of mostly `usual`. A second type counts
    /// as speech only if it is known to be, with the same clock.
    pub fn speaks(&self, payload_type: u8, usual: u8) -> bool {
        let clock = self.clock_hz(usual);
        match self.encoding(payload_type) {
            Some((e, _)) => e.is_speech() && (clock == 0 || e.clock_hz == clock),
            None => payload_type == usual && !self.has_only_events(),
        }
    }

    /// The facts; `clock_hz` is the rate at which the stamps run if that is known, otherwise `measured_hz` returns
    /// it from how fast they run.
    pub fn facts(
        self,
        media: Option<&Media>,
        clock_hz: u32,
        measured_hz: impl FnOnce() -> Option<u32>,
    ) -> Facts {
        let usual = self.usual();
        let of_type = self.each.get(&usual);
        let looks_like_events = of_type.is_some_and(OfType::looks_like_events);
        let looks_like_pictures = of_type.is_some_and(OfType::looks_like_pictures);
        let (codec, nominal_hz, clock_hz, kind, known_by) = match self.encoding(usual).cloned() {
            Some((encoding, by)) => (encoding.name, encoding.clock_hz, clock_hz, encoding.kind, by),
            None if looks_like_events => (TELEPHONE_EVENT.to_owned(), 0, 0, Kind::Audio, KnownBy::Estimated),
            None => match measured_hz() {
                Some(hz) => (String::new(), 0, hz, Kind::Unknown, KnownBy::Estimated),
                None => (String::new(), 0, 0, Kind::Unknown, KnownBy::Nothing),
            },
        };
        let name = |of_type: OfType| match of_type.known {
            Some((encoding, _)) => encoding.name,
            None if of_type.looks_like_events() => TELEPHONE_EVENT.to_owned(),
            None => String::new(),
        };
        let is_video = looks_like_pictures || (known_by == KnownBy::Estimated && clock_hz == PICTURES_HZ);
        let kind = match kind {
            Kind::Unknown if is_video => Kind::Video,
            Kind::Unknown => media.map_or(kind, |media| media.kind),
            known => known,
        };
        Facts {
            payload_type: usual,
            payload_types: self
                .each
                .into_iter()
                .map(|(number, of_type)| (number, of_type.packets, name(of_type)))
                .collect(),
            clock_hz,
            nominal_hz,
            codec,
            kind,
            known_by,
            is_secure: media.is_some_and(|media| media.is_secure),
            tag_bytes: media
                .filter(|media| media.is_secure)
                .map_or(0, |media| media.tag_bytes.unwrap_or(USUAL_TAG_BYTES)),
        }
    }
}

/// What a payload type stands for, by a session description or by its fixed meaning.
pub(super) fn encoding_of(payload_type: u8, media: Option<&Media>) -> Known {
    let told =
        media.and_then(|media| Some((media.encoding(payload_type)?.clone(), media.source(payload_type))));
    told.or_else(|| Some((assigned(payload_type)?, KnownBy::Static)))
}

/// What is known about a stream over IAX2.
pub(super) fn facts_of_iax2(codec: Option<u8>, packets: u64, clock_hz: u32) -> Facts {
    let payload_type = codec.unwrap_or(NO_CODEC);
    let codec = codec.and_then(iax2::encoding).map_or(String::new(), |e| e.name);
    Facts {
        payload_type,
        payload_types: vec![(payload_type, packets, codec.clone())],
        clock_hz,
        nominal_hz: clock_hz,
        codec,
        kind: Kind::Audio,
        known_by: KnownBy::Iax2,
        is_secure: false,
        tag_bytes: 0,
    }
}

/// How fast time stamps run from one packet to another, in Hz.
pub(super) fn clock_between(first: &Row, last: &Row) -> Option<f64> {
    let (ticks, ns) = (last.timestamp - first.timestamp, last.arrival_ns.saturating_sub(first.arrival_ns));
    (ticks > 0 && ns > 0).then(|| ticks as f64 / ns as f64 * 1e9)
}
