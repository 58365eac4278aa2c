//! All packets of all streams of a capture.

use std::io::Read;

use super::finder::Finder;
use super::{Counts, Options, Row, Stream, Voice};
use crate::capture::{Capture, Packet};
use crate::packet::{Decoded, decode};

const MAX_LINKS_NAMED: usize = 16;

/// Finds streams, packet by packet, and keeps their packets.
#[derive(Debug)]
pub struct Collector {
    pub(super) finder: Finder<Vec<Row>>,
    counts: Counts,
}

impl Collector {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { finder: Finder::new(options), counts: Counts::default() }
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
            streams: streams.into_iter().map(Stream::of).collect(),
            counts: Counts {
                timeless: capture.timeless(),
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
