//! Captures in one pass: every packet is decoded once and given to all analyses that can use it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::ops::ControlFlow;

use crate::capture::{self, CaptureError, Compression, Format, Interface, Packet};
use crate::packet::{Decoded, FragmentCounts, Opaque, Reassembly};
use crate::voice::{Measured, Meter, Others};
use crate::{esp, tcp, voice};

const MAX_LINKS_NAMED: usize = 16;
/// Packets between two calls of `go_on`.
const BETWEEN_QUESTIONS: u64 = 1 << 16;

/// How to analyse.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Bounds of the analysis of TCP.
    pub tcp: tcp::Options,
    /// How voice is found.
    pub voice: voice::Options,
    /// Only packets within this span of time are analysed.
    pub span: Span,
}

/// Times from `from_ns` on and before `to_ns`; `None`: no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First time, ns.
    pub from_ns: Option<i64>,
    /// First time beyond.
    pub to_ns: Option<i64>,
    /// Whether times count from the first packet rather than from 1970.
    pub relative: bool,
}

/// Takes the findings.
pub trait Sink: tcp::Sink {
    /// A voice stream is over, or the capture is.
    fn stream(&mut self, stream: Measured);
}

/// What was read, and what was skipped. Packets outside the span or not selected count in `packets` only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets in the files.
    pub packets: u64,
    /// Time of the first of these, from which relative times count, ns; None without packets.
    pub origin_ns: Option<i64>,
    /// Packets that were analysed.
    pub selected: u64,
    /// Bytes of these, as sent.
    pub bytes: u64,
    /// Earliest time of these, ns; None without packets.
    pub first_ns: Option<i64>,
    /// Latest time.
    pub last_ns: Option<i64>,
    /// Of these, packets that the capture cut off.
    pub truncated: u64,
    /// TCP segments.
    pub tcp: u64,
    /// UDP datagrams.
    pub udp: u64,
    /// ESP packets, in UDP or not.
    pub esp: u64,
    /// ICMP and the like.
    pub other_ip: u64,
    /// ARP and the like.
    pub not_ip: u64,
    /// Packets that may contain IP and are not decoded.
    pub opaque: BTreeMap<Opaque, u64>,
    /// Packets with contradictory headers.
    pub malformed: u64,
    /// Packets of an unknown link layer.
    pub unknown_link: u64,
    /// The numbers of such link layers, the first few.
    pub unknown_links: BTreeSet<u16>,
}

/// What is known about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// pcap or pcapng.
    pub format: Format,
    /// Its compression.
    pub compression: Compression,
    /// Its interfaces.
    pub interfaces: Vec<Interface>,
    /// Packets in it.
    pub packets: u64,
    /// Whether it ends inside a packet.
    pub cut_short: bool,
    /// Packets without a time, left out.
    pub timeless: u64,
    /// Packets with an impossible time, left out.
    pub misdated: u64,
    /// Packets whose time is before that of the packet before them.
    pub backwards: u64,
    /// Packets whose time is far from those of both neighbours, which count with the one before.
    pub redated: u64,
    /// The first of these.
    pub first_redated: Option<capture::Redated>,
}

/// The remaining results at the end.
#[derive(Clone, Debug)]
pub struct Facts {
    /// What was read.
    pub counts: Counts,
    /// What TCP could not use in full.
    pub tcp: tcp::Counts,
    /// What became of fragments.
    pub fragments: FragmentCounts,
    /// Datagrams that belong to no voice stream.
    pub voice: Others,
    /// ESP flows in the order of their first packets.
    pub esp: Vec<esp::Flow>,
    /// ESP packets of flows beyond the limit.
    pub esp_left_out: u64,
}

/// An analysis under way: captures go in one after the other, as if they were a single one.
pub struct Analysis<S: Sink> {
    tcp: tcp::Analyzer<S>,
    voice: Meter,
    esp: esp::Flows,
    reassembly: Reassembly,
    counts: Counts,
    span: Span,
}

impl<S: Sink> Analysis<S> {
    /// Nothing read yet.
    pub fn new(options: Options, sink: S) -> Self {
        Self {
            tcp: tcp::Analyzer::new(options.tcp, sink),
            voice: Meter::new(options.voice),
            esp: esp::Flows::default(),
            reassembly: Reassembly::new(),
            counts: Counts::default(),
            span: options.span,
        }
    }

    /// Reads a capture to its end. Packets for which `select` returns false are skipped; `go_on` is called
    /// now and then, and a break ends the reading early.
    ///
    /// # Errors
    /// [`CaptureError`] for data that is not a capture, or is damaged; packets before the damage are analysed.
    pub fn read(
        &mut self,
        source: impl Read,
        mut select: impl FnMut(&Packet<'_>) -> bool,
        mut go_on: impl FnMut(&S) -> ControlFlow<()>,
    ) -> Result<File, CaptureError> {
        let mut capture = capture::open(source)?;
        let before = self.counts.packets;
        while let Some(packet) = capture.next_packet()? {
            self.counts.packets += 1;
            if self.is_within(packet.time_ns) && select(&packet) {
                self.put(&packet);
            }
            if self.counts.packets.is_multiple_of(BETWEEN_QUESTIONS) && go_on(self.tcp.sink()).is_break() {
                break;
            }
        }
        Ok(File {
            format: capture.format(),
            compression: capture.compression(),
            interfaces: capture.interfaces().to_vec(),
            packets: self.counts.packets - before,
            cut_short: capture.cut_short(),
            timeless: capture.timeless(),
            misdated: capture.misdated(),
            backwards: capture.backwards(),
            redated: capture.redated(),
            first_redated: capture.first_redated(),
        })
    }

    /// Ends the analysis: connections and streams that are still open are given to the sink.
    pub fn finish(mut self) -> (S, Facts) {
        let (voice, tcp) = (&mut self.voice, &mut self.tcp);
        voice.finish(|stream| tcp.sink_mut().stream(stream));
        let (sink, tcp) = self.tcp.finish();
        let esp_left_out = self.esp.left_out();
        let facts = Facts {
            counts: self.counts,
            tcp,
            fragments: *self.reassembly.counts(),
            voice: self.voice.others(),
            esp: self.esp.finish().collect(),
            esp_left_out,
        };
        (sink, facts)
    }

    #[inline]
    fn is_within(&mut self, time_ns: i64) -> bool {
        let origin_ns = *self.counts.origin_ns.get_or_insert(time_ns);
        let time_ns = if self.span.relative { time_ns - origin_ns } else { time_ns };
        self.span.from_ns.is_none_or(|from| time_ns >= from) && self.span.to_ns.is_none_or(|to| time_ns < to)
    }

    #[inline]
    fn put(&mut self, packet: &Packet<'_>) {
        let counts = &mut self.counts;
        counts.selected += 1;
        counts.bytes += u64::from(packet.original_len);
        counts.truncated += u64::from(packet.original_len as usize > packet.data.len());
        let time_ns = packet.time_ns;
        counts.first_ns = Some(counts.first_ns.map_or(time_ns, |first| first.min(time_ns)));
        counts.last_ns = Some(counts.last_ns.map_or(time_ns, |last| last.max(time_ns)));
        let decoded = self.reassembly.decode(packet);
        match &decoded {
            Decoded::Tcp(segment) => {
                counts.tcp += 1;
                self.tcp.put(packet, segment);
            }
            Decoded::Udp(_) => counts.udp += 1,
            Decoded::Esp(_) => {}
            Decoded::OtherIp => counts.other_ip += 1,
            // Counted where they are reassembled.
            Decoded::Fragment => {}
            Decoded::NotIp => counts.not_ip += 1,
            Decoded::Opaque(what) => *counts.opaque.entry(*what).or_default() += 1,
            Decoded::Malformed => counts.malformed += 1,
            Decoded::UnknownLink => {
                counts.unknown_link += 1;
                if counts.unknown_links.len() < MAX_LINKS_NAMED {
                    counts.unknown_links.insert(packet.link.0);
                }
            }
        }
        if self.esp.put(packet, &decoded) {
            counts.esp += 1;
        } else {
            let tcp = &mut self.tcp;
            self.voice.put(packet, &decoded, |stream| tcp.sink_mut().stream(stream));
        }
    }
}
