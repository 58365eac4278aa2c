//! What is known about a stream once it is over: payload types, codec, clock, numbers of IAX2 frames.

use std::collections::BTreeMap;

use super::codecs::{Encoding, Kind, assigned, usual_clock};
use super::sdp::Media;
use super::track::Track;
use super::{Key, NO_CODEC, Protocol, Row, iax2};

/// Where codec or clock rate are known from.
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
    /// The clock rate alone, from how fast the time stamps run.
    Estimated,
}

/// What the packets of a stream are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The usual payload type.
    pub payload_type: u8,
    /// Payload types, their packets and encoding names.
    pub payload_types: Vec<(u8, u64, String)>,
    /// Of the time stamps; 0 where not known.
    pub clock_hz: u32,
    /// Encoding name; empty where not known.
    pub codec: String,
    /// Sound or pictures.
    pub kind: Kind,
    /// How that is known.
    pub known_by: KnownBy,
}

/// A stream.
#[derive(Debug)]
pub struct Stream {
    /// Which it is.
    pub key: Key,
    /// How often the source had started anew before.
    pub part: u32,
    /// Packets in order of arrival.
    pub rows: Vec<Row>,
    /// Packets that belong to no place in the sequence, left out.
    pub strays: u64,
    /// What they are.
    pub facts: Facts,
}

impl Stream {
    pub(super) fn of(mut track: Track) -> Self {
        let facts = match track.key.protocol {
            Protocol::Rtp => of_rtp(track.media.as_deref(), &mut track.rows),
            Protocol::Iax2 => of_iax2(track.codec, &mut track.rows),
        };
        Self { key: track.key, part: track.part, rows: track.rows, strays: track.strays, facts }
    }
}

/// What is known about a payload type.
type Known = Option<(Encoding, KnownBy)>;

fn of_rtp(media: Option<&Media>, rows: &mut [Row]) -> Facts {
    let encoding_of = |payload_type: u8| -> Known {
        let told = media.and_then(|media| media.encoding(payload_type).cloned());
        told.map(|e| (e, KnownBy::Sdp)).or_else(|| Some((assigned(payload_type)?, KnownBy::Static)))
    };
    let mut types: BTreeMap<u8, (u64, Known)> = BTreeMap::new();
    for row in rows.iter() {
        types.entry(row.payload_type).or_insert_with(|| (0, encoding_of(row.payload_type))).0 += 1;
    }
    let is_speech = |known: &Known| known.as_ref().is_none_or(|(e, _)| e.is_speech());
    let usual = types.iter().max_by_key(|(_, (count, known))| (is_speech(known), *count));
    let usual = usual.map_or(0, |(payload_type, _)| *payload_type);
    let main = types.get(&usual).and_then(|(_, known)| known.clone());
    let clock = main.as_ref().map_or(0, |(e, _)| e.clock_hz);
    for row in rows.iter_mut() {
        // A second type speaks only if it is known to, by the same clock.
        row.speech = match types.get(&row.payload_type) {
            Some((_, Some((e, _)))) => e.is_speech() && (clock == 0 || e.clock_hz == clock),
            _ => row.payload_type == usual,
        };
    }
    let (codec, clock_hz, kind, known_by) = match main {
        Some((encoding, by)) => (encoding.name, encoding.clock_hz, encoding.kind, by),
        None => match measured_clock(rows).and_then(usual_clock) {
            Some(hz) => (String::new(), hz, Kind::Unknown, KnownBy::Estimated),
            None => (String::new(), 0, Kind::Unknown, KnownBy::Nothing),
        },
    };
    let name = |known: Known| known.map_or(String::new(), |(encoding, _)| encoding.name);
    Facts {
        payload_type: usual,
        payload_types: types
            .into_iter()
            .map(|(number, (count, known))| (number, count, name(known)))
            .collect(),
        clock_hz,
        codec,
        kind: if kind == Kind::Unknown { media.map_or(kind, |media| media.kind) } else { kind },
        known_by,
    }
}

fn of_iax2(codec: Option<u8>, rows: &mut [Row]) -> Facts {
    number_by_time(rows);
    let payload_type = codec.unwrap_or(NO_CODEC);
    for row in rows.iter_mut() {
        row.payload_type = payload_type;
    }
    let codec = codec.and_then(iax2::encoding).map_or(String::new(), |e| e.name);
    Facts {
        payload_type,
        payload_types: vec![(payload_type, rows.len() as u64, codec.clone())],
        clock_hz: iax2::CLOCK_HZ,
        codec,
        kind: Kind::Audio,
        known_by: KnownBy::Iax2,
    }
}

/// How fast the time stamps of speech run.
fn measured_clock(rows: &[Row]) -> Option<f64> {
    let mut speech = rows.iter().filter(|row| row.speech);
    let first = speech.next()?;
    let last = speech.next_back()?;
    let (ticks, ns) = (last.timestamp - first.timestamp, last.arrival_ns.saturating_sub(first.arrival_ns));
    (ticks > 0 && ns > 0).then(|| ticks as f64 / ns as f64 * 1e9)
}

/// Longest packet time of any codec, in ms.
const LONGEST_PACKET_MS: usize = 200;

/// Gives IAX2 frames numbers: their time in units of the usual step.
fn number_by_time(rows: &mut [Row]) {
    let Some(first) = rows.first().map(|row| row.timestamp) else { return };
    let mut steps = [0_u64; LONGEST_PACKET_MS + 1];
    for pair in rows.windows(2) {
        let step = usize::try_from(pair[1].timestamp - pair[0].timestamp).unwrap_or(0);
        if let Some(count) = steps.get_mut(step).filter(|_| step > 0) {
            *count += 1;
        }
    }
    let usual =
        (1..steps.len()).max_by_key(|step| (steps[*step], std::cmp::Reverse(*step))).unwrap_or(1) as i64;
    for row in rows {
        row.seq = (row.timestamp - first + usual / 2).div_euclid(usual);
    }
}
