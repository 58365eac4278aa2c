//! All packets of all streams of a capture.

use std::io::Read;
use std::net::IpAddr;

use super::codecs::Told;
use super::facts::{KnownBy, Types};
use super::finder::Finder;
use super::meter::{Found, Measured, Sums};
use super::numbers::Numbers;
use super::rtcp::Reports;
use super::sdp::Media;
use super::stretches::Stretches;
use super::track::{Keep, Track};
use super::{Counts, Options, Protocol, Row, Stream, Voice};
use crate::capture::{Capture, Packet};
use crate::packet::{Decoded, Opaque, Reassembly};

const MAX_LINKS_NAMED: usize = 16;

/// Finds streams, packet by packet, and keeps their packets.
#[derive(Debug)]
pub struct Collector {
    pub(super) finder: Finder<Whole>,
    reassembly: Reassembly,
    told: Told,
    counts: Counts,
}

/// All packets of a stream, and what a meter would keep of them: both must give the same results.
#[derive(Debug)]
pub(super) struct Whole {
    /// None: another share has them.
    rows: Option<Vec<Row>>,
    sums: Sums,
}

impl Keep for Whole {
    fn new(protocol: Protocol) -> Self {
        Self { rows: Some(Vec::new()), sums: Sums::new(protocol) }
    }

    fn sum_up(&mut self) {
        self.rows = None;
    }

    fn push(&mut self, row: Row, media: Option<&Media>) {
        if let Some(rows) = &mut self.rows {
            rows.push(row);
        }
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
        Self { finder: Finder::new(options), reassembly: Reassembly::new(), told, counts: Counts::default() }
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
        let decoded = self.reassembly.decode(packet);
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
        self.finder.end(|_| true, |track, reports| streams.push((track, reports)));
        streams.sort_by_key(|(track, _)| (track.order, track.part));
        let others = self.finder.others();
        if others.fax > 0 {
            self.counts.opaque.insert(Opaque::Fax, others.fax);
        }
        let pieces = self.reassembly.counts();
        let incomplete =
            self.reassembly.unfinished() + pieces.expired + pieces.crowded_out + pieces.overlapping;
        Voice {
            streams: streams
                .into_iter()
                .filter_map(|(track, reports)| Stream::of(track, &self.told, reports))
                .collect(),
            calls: self.finder.calls().to_vec(),
            counts: Counts {
                timeless: capture.timeless(),
                misdated: capture.misdated(),
                rtcp: others.rtcp,
                rtcp_unreadable: others.rtcp_unreadable,
                interleaved: others.interleaved,
                sip: others.sip,
                iax2: others.iax2,
                other_udp: others.udp,
                incomplete,
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
    fn of(track: Track<Whole>, told: &Told, reports: Option<Reports>) -> Option<Self> {
        let found = Found::of(&track);
        let Track { key, media, kept: Whole { rows, mut sums }, .. } = track;
        let Some(mut rows) = rows else {
            let media = media.as_deref();
            let measured = Measured::of(found, media, &sums.finish(media)?, reports);
            return Some(Self { measured, kept: false, rows: Vec::new() });
        };
        let media = match key.protocol {
            Protocol::Rtp => explained(&rows, media.as_deref().cloned(), told),
            Protocol::Iax2 => None,
        };
        let media = media.as_ref();
        if media.is_some_and(|media| media.told != 0) {
            sums = Sums::new(key.protocol);
            for row in &rows {
                sums.push(*row, media);
            }
        }
        let sums = sums.finish(media)?;
        let mut measured = Measured::of(found, media, &sums, reports);
        let facts = &mut measured.facts;
        if key.protocol == Protocol::Iax2
            && facts.codec.is_empty()
            && let Some(encoding) = told.encoding(None)
        {
            (facts.codec, facts.known_by) = (encoding.name.clone(), KnownBy::Option);
        }
        match key.protocol {
            Protocol::Rtp => find_speech(&mut rows, media),
            Protocol::Iax2 => {
                let mut numbers = Numbers::of_iax2(&rows);
                for row in &mut rows {
                    (row.seq, row.payload_type) = (numbers.number(row), facts.payload_type);
                }
            }
        }
        if facts.clock_hz > 0 {
            let mut numbers = Vec::new();
            let mut stretches = Stretches::new(facts.clock_hz);
            let mut sink = |_: &Row, number| numbers.push(number);
            for row in rows.iter().filter(|row| row.speech) {
                stretches.put(row, &mut sink);
            }
            stretches.finish(&mut sink);
            for (row, number) in rows.iter_mut().filter(|row| row.speech).zip(numbers) {
                row.stretch = number;
            }
        }
        Some(Self { measured, kept: true, rows })
    }
}

/// What payload types stand for, by the user and by the capture.
fn explained(rows: &[Row], media: Option<Media>, told: &Told) -> Option<Media> {
    if told.encodings.is_empty() {
        return media;
    }
    let types = Types::of(rows, media.as_ref());
    let usual = types.usual();
    let mut formats: Vec<_> =
        told.encodings.iter().filter_map(|(number, encoding)| Some(((*number)?, encoding.clone()))).collect();
    if types.encoding(usual).is_none()
        && told.encoding(Some(usual)).is_none()
        && let Some(encoding) = told.encoding(None)
    {
        formats.push((usual, encoding.clone()));
    }
    let told =
        formats.iter().fold(0, |bits, (number, _)| bits | 1_u128.checked_shl((*number).into()).unwrap_or(0));
    // The first one counts.
    formats.extend(media.iter().flat_map(|media| media.formats.iter().cloned()));
    let media = media.unwrap_or_else(|| Media::unknown(IpAddr::from([0; 4]), 0));
    Some(Media { formats, told, ..media })
}

fn find_speech(rows: &mut [Row], media: Option<&Media>) {
    let types = Types::of(rows, media);
    let usual = types.usual();
    for row in rows {
        row.speech = types.speaks(row.payload_type, usual);
    }
}
