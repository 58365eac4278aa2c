//! All packets of all streams of a capture.

use std::io::Read;
use std::net::IpAddr;

use super::codecs::{Kind, Told};
use super::facts::{KnownBy, Types};
use super::finder::Finder;
use super::meter::{Found, Measured, Sums};
use super::numbers::Numbers;
use super::sdp::Media;
use super::stretches::Stretches;
use super::track::{Keep, Track};
use super::{Counts, Options, Protocol, Row, Stream, Voice};
use crate::capture::{Capture, Packet};
use crate::packet::{Decoded, decode};

const MAX_LINKS_NAMED: usize = 16;

/// Finds streams, packet by packet, and keeps their packets.
#[derive(Debug)]
pub struct Collector {
    pub(super) finder: Finder<Whole>,
    told: Told,
    counts: Counts,
}

/// All packets of a stream, and what a meter would keep of them: both must give the same results.
#[derive(Debug)]
pub(super) struct Whole {
    rows: Vec<Row>,
    sums: Sums,
}

impl Keep for Whole {
    fn new(protocol: Protocol) -> Self {
        Self { rows: Vec::new(), sums: Sums::new(protocol) }
    }

    fn push(&mut self, row: Row, media: Option<&Media>) {
        self.rows.push(row);
        self.sums.push(row, media);
    }

    fn packets(&self) -> u64 {
        self.sums.packets()
    }

    fn first(&self) -> Option<(i64, i64)> {
        self.sums.first()
    }
}

impl Collector {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let told = options.told.clone();
        Self { finder: Finder::new(options), told, counts: Counts::default() }
    }

    /// The next packet.
    pub fn put(&mut self, packet: &Packet<'_>) {
        let counts = &mut self.counts;
        let first = counts.packets == 0;
        counts.first_ns = if first { packet.time_ns } else { counts.first_ns.min(packet.time_ns) };
        counts.last_ns = if first { packet.time_ns } else { counts.last_ns.max(packet.time_ns) };
        counts.packets += 1;
        counts.bytes += u64::from(packet.original_len);
        counts.truncated += u64::from(packet.original_len as usize > packet.data.len());
        let decoded = decode(packet);
        if self.finder.put(packet, &decoded) {
            return;
        }
        match decoded {
            Decoded::Fragment => counts.fragments += 1,
            Decoded::NotIp => counts.not_ip += 1,
            Decoded::Opaque(what) => *counts.opaque.entry(what).or_default() += 1,
            Decoded::Malformed => counts.malformed += 1,
            Decoded::UnknownLink => {
                counts.unknown_link += 1;
                if counts.unknown_links.len() < MAX_LINKS_NAMED {
                    counts.unknown_links.insert(packet.link.0);
                }
            }
            _ => counts.not_udp += 1,
        }
    }

    /// All streams; `capture` has been read to its end.
    pub fn finish<R: Read>(mut self, capture: &Capture<R>) -> Voice {
        let mut streams = Vec::new();
        self.finder.end(|_| true, |track| streams.push(track));
        streams.sort_by_key(|track| (track.order, track.part));
        let others = self.finder.others();
        Voice {
            streams: streams.into_iter().filter_map(|track| Stream::of(track, &self.told)).collect(),
            counts: Counts {
                timeless: capture.timeless(),
                misdated: capture.misdated(),
                rtcp: others.rtcp,
                sip: others.sip,
                iax2: others.iax2,
                other_udp: others.udp,
                ..self.counts
            },
            format: capture.format(),
            compression: capture.compression(),
            cut_short: capture.cut_short(),
        }
    }
}

impl Stream {
    /// The facts about the stream: codecs from the user, otherwise from the capture.
    fn of(track: Track<Whole>, told: &Told) -> Option<Self> {
        let Track { key, order, part, strays, codec, media, kept: Whole { mut rows, mut sums }, .. } = track;
        let media = match key.protocol {
            Protocol::Rtp => Explained::new(&rows, media.as_deref().cloned(), told),
            Protocol::Iax2 => Explained::default(),
        };
        if !media.told.is_empty() {
            sums = Sums::new(key.protocol);
            for row in &rows {
                sums.push(*row, media.all());
            }
        }
        let sums = sums.finish(media.all())?;
        let found = Found { key, order, part, strays, codec, media: media.all() };
        let mut measured = Measured::of(found, &sums);
        let facts = &mut measured.facts;
        if media.told.contains(&facts.payload_type) {
            facts.known_by = KnownBy::Option;
        } else if key.protocol == Protocol::Iax2
            && facts.codec.is_empty()
            && let Some(encoding) = told.encoding(None)
        {
            (facts.codec, facts.known_by) = (encoding.name.clone(), KnownBy::Option);
        }
        match key.protocol {
            Protocol::Rtp => find_speech(&mut rows, media.all()),
            Protocol::Iax2 => {
                let mut numbers = Numbers::of_iax2(&rows);
                for row in &mut rows {
                    (row.seq, row.payload_type) = (numbers.number(row), facts.payload_type);
                }
            }
        }
        if facts.clock_hz > 0 {
            let mut stretches = Stretches::new(facts.clock_hz);
            for row in rows.iter_mut().filter(|row| row.speech) {
                row.stretch = stretches.put(row);
            }
        }
        Some(Self { measured, rows })
    }
}

/// What payload types stand for, and which of them the user gave.
#[derive(Debug, Default)]
struct Explained {
    media: Option<Media>,
    told: Vec<u8>,
}

impl Explained {
    fn new(rows: &[Row], media: Option<Media>, told: &Told) -> Self {
        if told.encodings.is_empty() {
            return Self { media, told: Vec::new() };
        }
        let types = Types::of(rows, media.as_ref());
        let usual = types.usual();
        let mut formats: Vec<_> = told
            .encodings
            .iter()
            .filter_map(|(number, encoding)| Some(((*number)?, encoding.clone())))
            .collect();
        if types.encoding(usual).is_none()
            && told.encoding(Some(usual)).is_none()
            && let Some(encoding) = told.encoding(None)
        {
            formats.push((usual, encoding.clone()));
        }
        let told = formats.iter().map(|(number, _)| *number).collect();
        // The first one counts.
        formats.extend(media.iter().flat_map(|media| media.formats.iter().cloned()));
        let kind = media.as_ref().map_or(Kind::Unknown, |media| media.kind);
        let (address, port) = media.map_or((IpAddr::from([0; 4]), 0), |media| (media.address, media.port));
        Self { media: Some(Media { address, port, kind, formats }), told }
    }

    const fn all(&self) -> Option<&Media> {
        self.media.as_ref()
    }
}

fn find_speech(rows: &mut [Row], media: Option<&Media>) {
    let types = Types::of(rows, media);
    let usual = types.usual();
    for row in rows {
        row.speech = types.speaks(row.payload_type, usual);
    }
}
