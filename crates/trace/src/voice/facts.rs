//! What is known about a stream once it is over: payload types, codec, clock.

use std::collections::BTreeMap;

use super::codecs::{Encoding, Kind, assigned, usual_clock};
use super::sdp::Media;
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
    /// The clock rate alone, from how fast the time stamps run.
    Estimated,
}

/// The contents of a stream's packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The usual payload type.
    pub payload_type: u8,
    /// Payload types, their packets and encoding names.
    pub payload_types: Vec<(u8, u64, String)>,
    /// Rate of the time stamps, Hz; 0 if not known.
    pub clock_hz: u32,
    /// Encoding name; empty if not known.
    pub codec: String,
    /// Sound or pictures.
    pub kind: Kind,
    /// Source of this knowledge.
    pub known_by: KnownBy,
}

/// What is known about a payload type.
type Known = Option<(Encoding, KnownBy)>;

/// The payload types of a stream: packets of each, and what they stand for.
#[derive(Clone, Debug, Default)]
pub(super) struct Types {
    known: BTreeMap<u8, (u64, Known)>,
}

impl Types {
    /// Of these packets.
    pub fn of(rows: &[Row], media: Option<&Media>) -> Self {
        let mut types = Self::default();
        for row in rows {
            types.add(row.payload_type, media);
        }
        types
    }

    /// Counts one more packet.
    pub fn add(&mut self, payload_type: u8, media: Option<&Media>) {
        self.known.entry(payload_type).or_insert_with(|| (0, encoding_of(payload_type, media))).0 += 1;
    }

    /// The same packets with what is known now.
    pub fn told_by(&self, media: Option<&Media>) -> Self {
        let known =
            self.known.iter().map(|(number, (count, _))| (*number, (*count, encoding_of(*number, media))));
        Self { known: known.collect() }
    }

    /// The type of most packets; speech before other types.
    pub fn usual(&self) -> u8 {
        let is_speech = |known: &Known| known.as_ref().is_none_or(|(e, _)| e.is_speech());
        let usual = self.known.iter().max_by_key(|(_, (count, known))| (is_speech(known), *count));
        usual.map_or(0, |(payload_type, _)| *payload_type)
    }

    /// What a type stands for, and the source.
    pub fn encoding(&self, payload_type: u8) -> Option<&(Encoding, KnownBy)> {
        self.known.get(&payload_type).and_then(|(_, known)| known.as_ref())
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
            None => payload_type == usual,
        }
    }

    /// The facts; `measured_hz` returns how fast time stamps run if the rate is not known.
    pub fn facts(self, media: Option<&Media>, measured_hz: impl FnOnce() -> Option<f64>) -> Facts {
        let usual = self.usual();
        let (codec, clock_hz, kind, known_by) = match self.encoding(usual).cloned() {
            Some((encoding, by)) => (encoding.name, encoding.clock_hz, encoding.kind, by),
            None => match measured_hz().and_then(usual_clock) {
                Some(hz) => (String::new(), hz, Kind::Unknown, KnownBy::Estimated),
                None => (String::new(), 0, Kind::Unknown, KnownBy::Nothing),
            },
        };
        let name = |known: Known| known.map_or(String::new(), |(encoding, _)| encoding.name);
        Facts {
            payload_type: usual,
            payload_types: self
                .known
                .into_iter()
                .map(|(number, (count, known))| (number, count, name(known)))
                .collect(),
            clock_hz,
            codec,
            kind: if kind == Kind::Unknown { media.map_or(kind, |media| media.kind) } else { kind },
            known_by,
        }
    }
}

fn encoding_of(payload_type: u8, media: Option<&Media>) -> Known {
    let told = media.and_then(|media| media.encoding(payload_type).cloned());
    told.map(|e| (e, KnownBy::Sdp)).or_else(|| Some((assigned(payload_type)?, KnownBy::Static)))
}

/// What is known about a stream over IAX2.
pub(super) fn facts_of_iax2(codec: Option<u8>, packets: u64, clock_hz: u32) -> Facts {
    let payload_type = codec.unwrap_or(NO_CODEC);
    let codec = codec.and_then(iax2::encoding).map_or(String::new(), |e| e.name);
    Facts {
        payload_type,
        payload_types: vec![(payload_type, packets, codec.clone())],
        clock_hz,
        codec,
        kind: Kind::Audio,
        known_by: KnownBy::Iax2,
    }
}

/// How fast time stamps run from one packet to another, in Hz.
pub(super) fn clock_between(first: &Row, last: &Row) -> Option<f64> {
    let (ticks, ns) = (last.timestamp - first.timestamp, last.arrival_ns.saturating_sub(first.arrival_ns));
    (ticks > 0 && ns > 0).then(|| ticks as f64 / ns as f64 * 1e9)
}
