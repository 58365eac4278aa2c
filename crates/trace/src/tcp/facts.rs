//! What is reported about a TCP connection when it is over.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::packet::Tags;

/// Who sends: `A` sent the SYN, or the first packet that was captured; `B` is the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum From {
    /// The initiator.
    A = 0,
    /// Its peer.
    B = 1,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Endpoint {
    /// Address.
    pub addr: IpAddr,
    /// Port.
    pub port: u16,
}

/// A connection, from its first packet to its last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Connection {
    /// Numbered in the order of first packets, from 0.
    pub id: u32,
    /// The initiator.
    pub a: Endpoint,
    /// Its peer.
    pub b: Endpoint,
    /// VLANs in which `a` and `b` were seen; `None` if they were not.
    pub tags: [Option<Tags>; 2],
    /// Interface of the capture, and of its link layer if that names one.
    pub interface: (u32, u32),
    /// First packet, ns since 1970.
    pub first_ns: i64,
    /// Last packet.
    pub last_ns: i64,
    /// How it began.
    pub begin: Begin,
    /// How it ended.
    pub end: End,
    /// SYN to SYN/ACK and SYN/ACK to the ACK that follows, ns; `None` if not captured or repeated.
    pub handshake_ns: (Option<u64>, Option<u64>),
    /// Longest time without a packet of either side, ns.
    pub idle_max_ns: u64,
    /// Where on the path it was captured.
    pub place: Place,
    /// What `a` and `b` sent.
    pub sides: [Side; 2],
}

/// How a connection begins in the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Begin {
    /// With its handshake: the SYNs of both ends.
    Handshake,
    /// With the SYN of one end; that of the other was not captured.
    HalfHandshake,
    /// With a SYN that was not answered, or was refused.
    Syn,
    /// In the middle.
    Middle,
}

/// How a connection ends in the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// The capture ended first.
    Open,
    /// Both ends sent FIN.
    Closed,
    /// One end sent FIN.
    HalfClosed,
    /// With a RST.
    Reset,
    /// It was silent for so long that it was given up.
    Idle,
    /// Its ports were used again.
    Replaced,
}

/// Where on the path a connection was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// At the initiator, or right next to it.
    AtA,
    /// At its peer.
    AtB,
    /// Somewhere between.
    Between,
    /// Too little was seen to tell.
    Unknown,
}

/// What one end of a connection sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Packets.
    pub packets: u64,
    /// Their bytes on the link.
    pub link_bytes: u64,
    /// Packets with payload.
    pub data_packets: u64,
    /// Payload, repeated bytes included.
    pub data_bytes: u64,
    /// Payload, each sequence number once.
    pub unique_bytes: u64,
    /// Packets that are an ACK and nothing else.
    pub pure_acks: u64,
    /// First and last packet with payload, ns since 1970.
    pub data_ns: Option<(i64, i64)>,
    /// Largest payload of a packet, bytes.
    pub payload_max: u32,
    /// Packets with SYN.
    pub syns: u64,
    /// Packets with FIN.
    pub fins: u64,
    /// Packets with RST.
    pub resets: u64,
    /// What its SYN offered; `None` if it was not captured.
    pub options: Option<SynOptions>,
    /// Packets that were sent again.
    pub retransmissions: Retransmissions,
    /// New data that arrived out of place: reordered on the way to the point of capture.
    pub out_of_order: u64,
    /// Data that had passed the point of capture and that no sender would repeat: copies made on the way.
    pub copies: u64,
    /// Bytes that were acknowledged and never seen: the capture missed them.
    pub unseen_bytes: u64,
    /// Probes of a silent connection (RFC 9293 section 3.8.4).
    pub keep_alives: u64,
    /// Probes of a closed window (RFC 9293 section 3.8.6.1).
    pub window_probes: u64,
    /// ACKs by which this side repeated its last one (RFC 5681 section 2).
    pub duplicate_acks: u64,
    /// SACK blocks that this side sent.
    pub sack_blocks: u64,
    /// Of these, blocks that report a duplicate (RFC 2883).
    pub dsacks: u64,
    /// Window that this side advertised, bytes, scaled: least and greatest after the handshake.
    pub window: Option<(u32, u32)>,
    /// Times that it closed its window.
    pub zero_windows: u64,
    /// How long its window was closed in all, ns.
    pub zero_window_ns: u64,
    /// How long its window had been closed at the end, ns; 0 if it was open.
    pub shut_ns: u64,
    /// Times that the peer filled this side's window.
    pub window_full: u64,
    /// Round trips from this side's data to its ACK (Karn: only data sent once).
    pub rtt: Summary,
    /// Round trips by the time-stamp option (RFC 7323).
    pub rtt_timestamp: Summary,
    /// Most data sent and not yet acknowledged, bytes, as seen at the point of capture.
    pub flight_max: u64,
    /// Mean of that over this side's data packets, bytes.
    pub flight_mean: f64,
    /// Longest time between two packets of this side, ns.
    pub idle_max_ns: u64,
    /// Packets with the ECN codepoint CE (RFC 3168).
    pub congestion_marks: u64,
    /// Packets whose sequence numbers a device had changed; the capture has them before and behind it.
    pub renumbered: u64,
    /// Packets with data after the last packet of the other end: nobody answered them.
    pub unanswered: u64,
    /// From the first of these to the last, ns.
    pub unanswered_ns: u64,
    /// From the last packet of the other end to the first of these, ns.
    pub unanswered_after_ns: u64,
    /// Times that its new data came after data of the other end, as answers do.
    pub answers: u64,
    /// How long these took in all, beyond the least round trip to this end, ns.
    pub answers_ns: u64,
    /// The longest of them, ns.
    pub answer_max_ns: u64,
}

/// Packets that were sent again, each counted once by its cause; they add up to `total`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retransmissions {
    /// All.
    pub total: u64,
    /// Their payload, bytes.
    pub bytes: u64,
    /// After a time-out (RFC 6298).
    pub timeout: u64,
    /// After duplicate ACKs or SACK blocks (RFC 5681, 6675, 8985).
    pub fast: u64,
    /// Probes of the tail (RFC 8985 section 7).
    pub tail_probe: u64,
    /// SYN or SYN/ACK.
    pub handshake: u64,
    /// For no visible reason.
    pub unexplained: u64,
    /// Of all these, FINs without data: with the handshake, what is no data.
    pub fins: u64,
    /// Of all these, packets that the receiver already had: reported by DSACK.
    pub spurious: u64,
}

/// Options of a SYN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SynOptions {
    /// Maximum segment size, bytes.
    pub mss: Option<u16>,
    /// Shift of the window.
    pub window_scale: Option<u8>,
    /// SACK permitted.
    pub sack: bool,
    /// Time stamps.
    pub timestamps: bool,
}

/// Times, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many.
    pub count: u64,
    /// Least, ns.
    pub min_ns: u64,
    /// Greatest, ns.
    pub max_ns: u64,
    /// Mean, ns.
    pub mean_ns: f64,
    /// Standard deviation, ns.
    pub sd_ns: f64,
}

impl Begin {
    /// Name, as in tables and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::HalfHandshake => "half_handshake",
            Self::Syn => "syn",
            Self::Middle => "middle",
        }
    }
}

impl End {
    /// Name, as in tables and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::HalfClosed => "half_closed",
            Self::Reset => "reset",
            Self::Idle => "idle",
            Self::Replaced => "replaced",
        }
    }
}

impl Place {
    /// Name, as in tables and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AtA => "at_a",
            Self::AtB => "at_b",
            Self::Between => "between",
            Self::Unknown => "unknown",
        }
    }
}

impl Connection {
    /// Its VLAN: `10.100`; empty without one. If each direction has its own: `10/20`, that of `a` first, and
    /// `-` for none.
    #[must_use]
    pub fn vlan(&self) -> String {
        let [a, b] = match self.tags {
            [Some(a), Some(b)] if a != b => [a, b],
            [a, b] => return a.or(b).unwrap_or_default().to_string(),
        };
        let [a, b] = [a, b].map(|tags| if tags.ids().is_empty() { "-".into() } else { tags.to_string() });
        format!("{a}/{b}")
    }

    /// Interface of the file, and that of the link layer behind a point if it names one.
    #[must_use]
    pub fn interface_name(&self) -> String {
        match self.interface {
            (of_file, 0) => of_file.to_string(),
            (of_file, of_link) => format!("{of_file}.{of_link}"),
        }
    }
}
