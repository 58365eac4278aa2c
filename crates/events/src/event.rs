//! One event, as the programs report it (`bpf/events.h`).

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use weir_tcp::Info;
use weir_tcp::diag::State;
use weir_tcp::fields::{FIELDS, Field, Source};

/// `struct weir_event`.
pub const EVENT_BYTES: usize = 336;
const INFO: usize = 80;
/// To the end of `tcpi_rcv_wnd`.
const INFO_BYTES: usize = 236;
const CONGESTION: usize = 320;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The state changed.
    State,
    /// A segment arrived: `segs_in` and `data_segs_in` count it, all other numbers are from before.
    Received,
    /// A segment was sent again.
    Retransmitted,
}

impl Kind {
    /// Names by number.
    pub const NAMES: [&'static str; 3] = ["state", "received", "retransmitted"];

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::State => 0,
            Self::Received => 1,
            Self::Retransmitted => 2,
        }
    }

    const fn of(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::State),
            1 => Some(Self::Received),
            2 => Some(Self::Retransmitted),
            _ => None,
        }
    }
}

/// Something that happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, by `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Which connection, by the cookie of `SOCK_DIAG`.
    pub cookie: u64,
    /// Its number in `/proc/PID/fd`; 0 if no process has it.
    pub inode: u32,
    /// This end; port 0 while the kernel has not chosen one.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// The kind of event.
    pub kind: Kind,
    /// The state before, of a change of state.
    pub old_state: State,
    /// First sequence number of the segment.
    pub seq: u32,
    /// The number after its last byte; SYN and FIN count.
    pub end_seq: u32,
    /// What a segment that arrived acknowledges.
    pub ack_seq: u32,
    info: Info,
    congestion: [u8; 16],
}

impl Event {
    /// From the bytes of `struct weir_event`; `None` if they are not one.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; EVENT_BYTES] = bytes.try_into().ok()?;
        let long = |at: usize| bytes[at..].first_chunk().copied().map(u64::from_le_bytes);
        let word = |at: usize| bytes[at..].first_chunk().copied().map(u32::from_le_bytes);
        let port = |at: usize| bytes[at..].first_chunk().copied().map(u16::from_le_bytes);
        let address = |at: usize| {
            let octets: [u8; 16] = bytes[at..].first_chunk().copied()?;
            Some(IpAddr::V6(Ipv6Addr::from(octets)).to_canonical())
        };
        Some(Self {
            at_ns: long(0)?,
            cookie: long(8)?,
            inode: long(16)? as u32,
            local: SocketAddr::new(address(24)?, port(56)?),
            remote: SocketAddr::new(address(40)?, port(58)?),
            kind: Kind::of(bytes[60])?,
            old_state: State(bytes[61]),
            seq: word(64)?,
            end_seq: word(68)?,
            ack_seq: word(72)?,
            info: Info::new(&bytes[INFO..INFO + INFO_BYTES]),
            congestion: bytes[CONGESTION..].first_chunk().copied()?,
        })
    }

    /// The name of the congestion control, of a change of state; empty while there is none.
    #[must_use]
    pub fn congestion(&self) -> Cow<'_, str> {
        let end = self.congestion.iter().position(|byte| *byte == 0).unwrap_or(self.congestion.len());
        String::from_utf8_lossy(&self.congestion[..end])
    }

    /// The state, afterwards if it changed.
    #[must_use]
    pub fn state(&self) -> State {
        State(self.info.bytes().first().copied().unwrap_or_default())
    }
}

/// A quantity that events carry.
#[derive(Clone, Copy, Debug)]
pub enum Column {
    /// One that the kernel reports about a connection at any time.
    Field(&'static Field),
    /// One of events alone: name, description, and its value if an event has one.
    Own(&'static str, &'static str, fn(&Event) -> Option<u64>),
}

impl Column {
    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Field(field) => field.name,
            Self::Own(name, ..) => name,
        }
    }

    /// Its value, if an event has one.
    #[must_use]
    pub fn get(&self, event: &Event) -> Option<u64> {
        match self {
            Self::Field(field) => event.info.get(field),
            Self::Own(_, _, get) => get(event),
        }
    }
}

/// Everything that events carry.
#[must_use]
pub fn columns() -> Vec<Column> {
    let fields = FIELDS.iter().filter(|field| field.source == Source::Info && TOLD.contains(&field.name));
    OWN.iter().copied().chain(fields.map(Column::Field)).collect()
}

const OWN: [Column; 4] = [
    Column::Own("old_state", "state before a change of state, as a number", |event| {
        (event.kind == Kind::State).then_some(event.old_state.0.into())
    }),
    Column::Own("seq", "first sequence number of the segment, as on the wire", |event| {
        (event.kind != Kind::State).then_some(event.seq.into())
    }),
    Column::Own("end_seq", "sequence number behind the segment's last byte; SYN and FIN count", |event| {
        (event.kind != Kind::State).then_some(event.end_seq.into())
    }),
    Column::Own("ack_seq", "what a segment that came acknowledges", |event| {
        (event.kind == Kind::Received).then_some(event.ack_seq.into())
    }),
];

/// What `read_info()` in `bpf/events.bpf.c` fills in.
const TOLD: [&str; 25] = [
    "state",
    "ca_state",
    "snd_mss_bytes",
    "unacked",
    "sacked",
    "lost",
    "retrans",
    "rtt_us",
    "rttvar_us",
    "snd_ssthresh",
    "snd_cwnd",
    "total_retrans",
    "bytes_acked",
    "bytes_received",
    "segs_out",
    "segs_in",
    "notsent_bytes",
    "min_rtt_us",
    "data_segs_in",
    "data_segs_out",
    "delivered",
    "bytes_sent",
    "bytes_retrans",
    "snd_wnd_bytes",
    "rcv_wnd_bytes",
];

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An event of the connection `cookie` from 192.0.2.1:PORT to [2001:db8::1]:443.
    pub fn bytes(cookie: u64, at_ns: u64, kind: Kind, state: u8, port: u16, inode: u64) -> Vec<u8> {
        let mut bytes = vec![0; EVENT_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &at_ns.to_le_bytes());
        put(8, &cookie.to_le_bytes());
        put(16, &inode.to_le_bytes());
        put(34, &[0xff, 0xff, 192, 0, 2, 1]);
        put(40, &[0x20, 0x01, 0x0d, 0xb8]);
        put(55, &[1]);
        put(56, &port.to_le_bytes());
        put(58, &443_u16.to_le_bytes());
        put(60, &[kind.number(), 2]);
        put(64, &1_000_u32.to_le_bytes());
        put(68, &2_448_u32.to_le_bytes());
        put(72, &77_u32.to_le_bytes());
        put(80, &[state]);
        put(80 + 68, &25_000_u32.to_le_bytes());
        put(80 + 232, &65_535_u32.to_le_bytes());
        put(320, b"cubic");
        bytes
    }

    fn told(event: &Event) -> Vec<(&'static str, u64)> {
        columns().iter().filter_map(|column| Some((column.name(), column.get(event)?))).collect()
    }

    #[test]
    fn every_number_is_where_the_programs_write_it() {
        let event = Event::parse(&bytes(9, 5, Kind::Received, 1, 4_000, 7)).unwrap();
        assert_eq!((event.at_ns, event.cookie, event.inode), (5, 9, 7));
        assert_eq!(event.local.to_string(), "192.0.2.1:4000");
        assert_eq!(event.remote.to_string(), "[2001:db8::1]:443");
        assert_eq!((event.seq, event.end_seq, event.ack_seq), (1_000, 2_448, 77));
        assert_eq!((event.state(), &*event.congestion()), (State(1), "cubic"));
        let told = told(&event);
        for expected in [("rtt_us", 25_000), ("rcv_wnd_bytes", 65_535), ("seq", 1_000), ("ack_seq", 77)] {
            assert!(told.contains(&expected), "{expected:?}");
        }
        assert_eq!(told.len(), TOLD.len() + 3, "no state before: it did not change");
    }

    #[test]
    fn what_an_event_does_not_have_is_absent() {
        let names = |kind| -> Vec<_> {
            let event = Event::parse(&bytes(9, 5, kind, 1, 4_000, 7)).unwrap();
            told(&event).iter().map(|(name, _)| *name).take_while(|name| *name != "state").collect()
        };
        assert_eq!(names(Kind::State), ["old_state"]);
        assert_eq!(names(Kind::Received), ["seq", "end_seq", "ack_seq"]);
        assert_eq!(names(Kind::Retransmitted), ["seq", "end_seq"]);
    }

    #[test]
    fn every_field_that_is_told_exists_and_lies_within_the_bytes() {
        for name in TOLD {
            let field = FIELDS.iter().find(|field| field.name == name).unwrap();
            assert_eq!((field.source, field.needs() <= INFO_BYTES), (Source::Info, true), "{name}");
        }
    }

    #[test]
    fn other_bytes_are_no_event() {
        assert_eq!(Event::parse(&[0; EVENT_BYTES - 1]), None);
        let mut unknown = bytes(9, 5, Kind::State, 1, 4_000, 7);
        unknown[60] = 3;
        assert_eq!(Event::parse(&unknown), None);
    }
}
