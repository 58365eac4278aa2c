//! Voice streams in a capture: RTP by its looks, its continuity and what SIP says; IAX2 by its port.

mod changes;
mod codecs;
mod collector;
mod facts;
mod finder;
mod holes;
mod iax2;
mod messages;
mod meter;
mod numbers;
mod pace;
mod playout;
mod rtcp;
mod rtp;
mod rtsp;
mod sdp;
mod sequence;
mod sip;
mod stretches;
mod text;
mod track;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::ops::RangeInclusive;

pub use codecs::{Encoding, Kind, Told};
pub use collector::Collector;
pub use facts::{Facts, KnownBy};
pub use finder::Others;
pub use holes::Missed;
pub use meter::{Jitter, Loss, Measured, Meter};
pub use playout::{AdaptiveBuffer, Arrival, Depths};
pub use rtcp::{CapturedNumbers, Claim, Reports, RoundTrips};
pub use sdp::Direction;
pub use sip::{Call, Party};
pub use track::{Beginning, Pauses};

use crate::Share;
use crate::capture::{Compression, Format};
use crate::packet::{Opaque, Tags};

/// How to analyse.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// UDP ports whose packets are taken for RTP without proof.
    pub decode_as: Vec<RangeInclusive<u16>>,
    /// What payload types stand for; takes precedence over the capture.
    pub told: Told,
    /// The streams whose packets are kept; sums are kept of all.
    pub share: Share,
}

/// What a stream runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// RFC 3550.
    Rtp,
    /// RFC 5456.
    Iax2,
}

/// Packets of one key are one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// SSRC, or IAX2's source call number.
    pub source: u32,
    /// Protocol.
    pub protocol: Protocol,
    /// VLAN.
    pub tags: Tags,
    /// Interface of the capture: a packet seen at two interfaces is not counted twice.
    pub interface: (u32, u32),
}

/// A packet of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// When it was captured, ns since 1970.
    pub arrival_ns: i64,
    /// Sequence number, continued beyond 16 bits.
    pub seq: i64,
    /// Time stamp, continued beyond 32 bits.
    pub timestamp: i64,
    /// As sent.
    pub payload_bytes: u16,
    /// Of RTP; in IAX2 the codec's bit.
    pub payload_type: u8,
    /// RTP's marker.
    pub marker: bool,
    /// Whether its time stamp follows the packets.
    pub speech: bool,
    /// How often the time stamps have started anew; delays of one stretch say nothing about another.
    pub stretch: u32,
}

impl Key {
    /// The same on every machine.
    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        Hash::hash(self, &mut hasher);
        hasher.finish()
    }
}

impl Row {
    fn of(arrival_ns: i64, header: &rtp::Header) -> Self {
        Self {
            arrival_ns,
            seq: 0,
            timestamp: 0,
            payload_bytes: header.payload_bytes,
            payload_type: header.payload_type,
            marker: header.marker,
            speech: true,
            stretch: 0,
        }
    }

    fn of_iax2(arrival_ns: i64, speech: &iax2::Speech) -> Self {
        Self {
            arrival_ns,
            seq: 0,
            timestamp: 0,
            payload_bytes: speech.payload_bytes,
            payload_type: speech.codec.unwrap_or(NO_CODEC),
            marker: false,
            speech: true,
            stretch: 0,
        }
    }
}

/// In IAX2's mini frames: the codec of the last full frame.
const NO_CODEC: u8 = u8::MAX;

/// What was read, and what was skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets.
    pub packets: u64,
    /// Their bytes as sent.
    pub bytes: u64,
    /// Earliest time, ns; 0 without packets.
    pub first_ns: i64,
    /// Latest time.
    pub last_ns: i64,
    /// Cut off by the capture.
    pub truncated: u64,
    /// Fragments of datagrams that did not complete one.
    pub fragments: u64,
    /// Datagrams of which fragments are missing.
    pub incomplete: u64,
    /// ARP and the like.
    pub not_ip: u64,
    /// Packets that may contain IP and are not decoded.
    pub opaque: BTreeMap<Opaque, u64>,
    /// TCP, ICMP and the like.
    pub not_udp: u64,
    /// Packets with contradictory headers.
    pub malformed: u64,
    /// Packets of an unknown link layer.
    pub unknown_link: u64,
    /// The numbers of such link layers, the first few.
    pub unknown_links: BTreeSet<u16>,
    /// RTCP.
    pub rtcp: u64,
    /// RTCP that is encrypted or damaged.
    pub rtcp_unreadable: u64,
    /// Streams that RTSP set up within its own TCP connection.
    pub interleaved: u64,
    /// SIP, over UDP or TCP.
    pub sip: u64,
    /// IAX2's signalling.
    pub iax2: u64,
    /// Datagrams that are none of these and not voice.
    pub other_udp: u64,
    /// Packets without a time.
    pub timeless: u64,
    /// Packets with an impossible time.
    pub misdated: u64,
}

/// A stream with its packets.
#[derive(Debug)]
pub struct Stream {
    /// Everything that is known about it.
    pub measured: Measured,
    /// Whether its packets are kept.
    pub kept: bool,
    /// Packets in order of arrival.
    pub rows: Vec<Row>,
}

/// The contents of a capture.
#[derive(Debug)]
pub struct Voice {
    /// Streams in the order of their first packets.
    pub streams: Vec<Stream>,
    /// Calls by SIP in the order of their first messages.
    pub calls: Vec<Call>,
    /// Everything counted.
    pub counts: Counts,
    /// Of the file.
    pub format: Format,
    /// Around it.
    pub compression: Compression,
    /// Whether it ends inside a packet.
    pub cut_short: bool,
}

#[cfg(test)]
mod tests;
