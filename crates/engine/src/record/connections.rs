//! The TCP connections of one test: of all that an interface carries, only their headers are recorded.
//!
//! Their ports are known only when they exist. Until they are named, the headers of connections that begin meanwhile
//! wait in memory; those of all others are dropped at once. Payload is never kept.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};

use super::source::{Direction, Frame};

/// Memory for headers that wait.
const WAITING_BYTES: usize = 32 << 20;
/// What a waiting frame takes besides its bytes.
const WAITING_FRAME_BYTES: usize = size_of::<Waiting>();
/// Connections that may begin before the test's own ones are named.
const MOST_BEGUN: usize = 65_536;

const VLAN_TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const MOST_TAGS: usize = 4;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
/// RFC 8200: hop-by-hop options, routing, fragment, destination options; RFC 4302: authentication header.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const MOST_EXTENSIONS: usize = 8;
const SYN: u8 = 0x02;

/// The two ends of a connection, the lesser one first.
type Ends = [(IpAddr, u16); 2];

/// The connections to record, which another thread names.
#[derive(Clone, Debug)]
pub struct Connections {
    port: u16,
    named: Arc<OnceLock<HashSet<Ends>>>,
}

impl Connections {
    /// Connections from or to this TCP port, none of which exists yet.
    #[must_use]
    pub fn of_port(port: u16) -> Self {
        Self { port, named: Arc::default() }
    }

    /// Names all of them by their ends; whatever else waits is dropped. Those of another port do not count, and further
    /// calls have no effect.
    pub fn name(&self, connections: impl IntoIterator<Item = (SocketAddr, SocketAddr)>) {
        let end = |of: SocketAddr| (of.ip().to_canonical(), of.port());
        let found = connections.into_iter().map(|(one, other)| ends(end(one), end(other)));
        let _ = self.named.set(found.filter(|ends| self.has(ends)).collect());
    }

    fn has(&self, ends: &Ends) -> bool {
        ends.iter().any(|end| end.1 == self.port)
    }
}

fn ends(one: (IpAddr, u16), other: (IpAddr, u16)) -> Ends {
    if one <= other { [one, other] } else { [other, one] }
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// This many of its first bytes are written: its headers.
    Keep(usize),
    /// It is not of the test.
    Drop,
    /// It waits until the connections are named.
    Wait,
    /// There is no room for it to wait.
    Lose,
}

/// A frame that waits; its bytes are in [`Selection::bytes`].
struct Waiting {
    ends: Ends,
    time_ns: i64,
    interface: usize,
    direction: Direction,
    original_len: u32,
    len: usize,
}

/// Selects frames by their connection.
pub struct Selection {
    connections: Connections,
    /// The connections are named, and what has waited was handed over.
    is_decided: bool,
    begun: HashSet<Ends>,
    waiting: Vec<Waiting>,
    bytes: Vec<u8>,
    most_bytes: usize,
}

impl Selection {
    pub fn new(connections: Connections) -> Self {
        Self {
            connections,
            is_decided: false,
            begun: HashSet::new(),
            waiting: Vec::new(),
            bytes: Vec::new(),
            most_bytes: WAITING_BYTES,
        }
    }

    /// Decides on a frame, and keeps what has to wait of it.
    pub fn take(&mut self, frame: &Frame<'_>) -> Fate {
        let Some(head) = Head::of(frame.data) else { return Fate::Drop };
        if self.is_decided {
            let is_kept = self.connections.named.get().is_some_and(|named| named.contains(&head.ends));
            return if is_kept { Fate::Keep(head.bytes) } else { Fate::Drop };
        }
        if !self.connections.has(&head.ends) {
            return Fate::Drop;
        }
        if !self.begun.contains(&head.ends) {
            if !head.is_syn {
                return Fate::Drop;
            }
            if self.begun.len() >= MOST_BEGUN {
                return Fate::Lose;
            }
            self.begun.insert(head.ends);
        }
        let bytes = self.bytes.len() + head.bytes + (self.waiting.len() + 1) * WAITING_FRAME_BYTES;
        if bytes > self.most_bytes {
            return Fate::Lose;
        }
        self.bytes.extend_from_slice(&frame.data[..head.bytes]);
        self.waiting.push(Waiting {
            ends: head.ends,
            time_ns: frame.time_ns,
            interface: frame.interface,
            direction: frame.direction,
            original_len: frame.original_len,
            len: head.bytes,
        });
        Fate::Wait
    }

    /// Once the connections are named, hands over the frames that have waited, in order, each with whether it is of
    /// the test.
    pub fn decide(&mut self, mut take: impl FnMut(Frame<'_>, bool)) {
        if self.is_decided {
            return;
        }
        let named = Arc::clone(&self.connections.named);
        let Some(named) = named.get() else { return };
        self.is_decided = true;
        self.begun = HashSet::new();
        let (bytes, mut at) = (std::mem::take(&mut self.bytes), 0);
        for waiting in std::mem::take(&mut self.waiting) {
            let frame = Frame {
                time_ns: waiting.time_ns,
                interface: waiting.interface,
                direction: waiting.direction,
                original_len: waiting.original_len,
                lost_before: 0,
                lost_since_ns: None,
                data: &bytes[at..at + waiting.len],
            };
            at += waiting.len;
            take(frame, named.contains(&waiting.ends));
        }
    }

    /// The interfaces of the frames that still wait.
    pub fn undecided(&self) -> impl Iterator<Item = usize> {
        self.waiting.iter().map(|waiting| waiting.interface)
    }
}

/// The headers of a TCP segment.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    ends: Ends,
    is_syn: bool,
    /// From the start of the frame to the payload, or to where the frame was cut.
    bytes: usize,
}

impl Head {
    /// Of an Ethernet frame; `None` unless it has the ports of a TCP segment.
    fn of(frame: &[u8]) -> Option<Self> {
        let (kind, at) = network(frame)?;
        let (from, to, at) = match kind {
            IPV4 => ipv4(frame, at)?,
            IPV6 => ipv6(frame, at)?,
            _ => return None,
        };
        let header = frame.get(at..at + 14)?;
        let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let header_bytes = usize::from(header[12] >> 4) * 4;
        if header_bytes < 20 {
            return None;
        }
        Some(Self {
            ends: ends((from, port(0)), (to, port(2))),
            is_syn: header[13] & SYN != 0,
            bytes: (at + header_bytes).min(frame.len()),
        })
    }
}

/// The kind of the network layer, behind VLAN tags, and where it begins.
fn network(frame: &[u8]) -> Option<(u16, usize)> {
    let mut at = 12;
    for _ in 0..=MOST_TAGS {
        let kind = u16::from_be_bytes(*frame.get(at..)?.first_chunk()?);
        if !VLAN_TAGS.contains(&kind) {
            return Some((kind, at + 2));
        }
        at += 4;
    }
    None
}

type Addresses = (IpAddr, IpAddr, usize);

/// Addresses, and where TCP begins (RFC 791). Later fragments have no ports.
fn ipv4(frame: &[u8], at: usize) -> Option<Addresses> {
    let header: &[u8; 20] = frame.get(at..)?.first_chunk()?;
    let header_bytes = usize::from(header[0] & 0x0f) * 4;
    let offset = u16::from_be_bytes([header[6], header[7]]) & 0x1fff;
    if header[0] >> 4 != 4 || header_bytes < 20 || header[9] != TCP || offset != 0 {
        return None;
    }
    let address =
        |at: usize| IpAddr::V4(Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]));
    Some((address(12), address(16), at + header_bytes))
}

/// The same, behind extension headers (RFC 8200).
fn ipv6(frame: &[u8], at: usize) -> Option<Addresses> {
    let header: &[u8; 40] = frame.get(at..)?.first_chunk()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let address =
        |at: usize| header[at..].first_chunk::<16>().map(|bytes| IpAddr::V6(Ipv6Addr::from(*bytes)));
    let (from, to) = (address(8)?.to_canonical(), address(24)?.to_canonical());
    let (mut kind, mut at) = (header[6], at + 40);
    for _ in 0..=MOST_EXTENSIONS {
        if kind == TCP {
            return Some((from, to, at));
        }
        let extension: &[u8; 8] = frame.get(at..)?.first_chunk()?;
        at += match kind {
            HOP_BY_HOP | ROUTING | DESTINATION => (usize::from(extension[1]) + 1) * 8,
            AUTHENTICATION => (usize::from(extension[1]) + 2) * 4,
            FRAGMENT if u16::from_be_bytes([extension[2], extension[3]]) & 0xfff8 == 0 => 8,
            _ => return None,
        };
        kind = extension[0];
    }
    None
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const CLIENT: &str = "192.0.2.1:40000";
    const SERVER: &str = "198.51.100.7:29100";

    #[allow(clippy::unwrap_used, reason = "a test may panic")]
    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// A segment with a payload of 100 bytes behind `options` bytes of TCP options.
    pub fn segment(from: &str, to: &str, flags: u8, options: usize) -> Vec<u8> {
        let (from, to) = (at(from), at(to));
        let mut frame = vec![0; 12];
        let mut tcp = vec![0; 20 + options];
        tcp[..2].copy_from_slice(&from.port().to_be_bytes());
        tcp[2..4].copy_from_slice(&to.port().to_be_bytes());
        tcp[12] = (((20 + options) / 4) << 4) as u8;
        tcp[13] = flags;
        match (from.ip(), to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                frame.extend([0x08, 0, 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, TCP, 0, 0]);
                frame.extend(from.octets().into_iter().chain(to.octets()));
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, TCP, 64]);
                frame.extend(from.octets().into_iter().chain(to.octets()));
            }
            _ => panic!("of one family"),
        }
        frame.extend(tcp);
        frame.extend([b'x'; 100]);
        frame
    }

    fn frame(data: &[u8]) -> Frame<'_> {
        Frame {
            time_ns: 0,
            interface: 0,
            direction: Direction::Inbound,
            original_len: data.len() as u32,
            lost_before: 0,
            lost_since_ns: None,
            data,
        }
    }

    fn named(connections: &[(&str, &str)]) -> Selection {
        let of = Connections::of_port(29100);
        of.name(connections.iter().map(|(one, other)| (at(one), at(other))));
        let mut selection = Selection::new(of);
        selection.decide(|_, _| panic!("nothing has waited"));
        selection
    }

    #[test]
    fn only_the_headers_of_named_connections_are_kept_both_ways() {
        let mut selection = named(&[(CLIENT, SERVER), (CLIENT, "198.51.100.7:29101")]);
        assert_eq!(selection.take(&frame(&segment(CLIENT, SERVER, 0, 12))), Fate::Keep(14 + 20 + 32));
        assert_eq!(selection.take(&frame(&segment(SERVER, CLIENT, 0, 0))), Fate::Keep(14 + 20 + 20));
        for (from, to) in [
            ("192.0.2.1:40001", SERVER),
            ("192.0.2.2:40000", SERVER),
            (CLIENT, "198.51.100.7:29101"),
            (CLIENT, "198.51.100.8:29100"),
            ("192.0.2.1:29100", "198.51.100.7:40000"),
        ] {
            assert_eq!(selection.take(&frame(&segment(from, to, SYN, 0))), Fate::Drop, "{from} {to}");
        }
    }

    #[test]
    fn headers_are_cut_behind_tags_options_and_extensions() {
        let mut selection = named(&[("[2001:db8::1]:40000", "[2001:db8::2]:29100"), (CLIENT, SERVER)]);
        let plain = segment("[2001:db8::2]:29100", "[2001:db8::1]:40000", 0, 20);
        assert_eq!(selection.take(&frame(&plain)), Fate::Keep(14 + 40 + 40));

        let mut extended = plain.clone();
        extended[20] = HOP_BY_HOP;
        extended.splice(
            54..54,
            [DESTINATION, 0, 0, 0, 0, 0, 0, 0, TCP, 1, 0, 0, 0, 0, 0, 0].into_iter().chain([0; 8]),
        );
        assert_eq!(selection.take(&frame(&extended)), Fate::Keep(14 + 40 + 24 + 40));

        let mut tagged = segment(CLIENT, SERVER, 0, 0);
        tagged.splice(12..12, [0x88, 0xa8, 0, 1, 0x81, 0, 0, 2]);
        assert_eq!(selection.take(&frame(&tagged)), Fate::Keep(14 + 8 + 40));

        let mut with_options = segment(CLIENT, SERVER, 0, 0);
        with_options[14] = 0x46;
        with_options.splice(34..34, [1; 4]);
        assert_eq!(selection.take(&frame(&with_options)), Fate::Keep(14 + 24 + 20));
    }

    #[test]
    fn an_ipv4_address_within_ipv6_is_the_same_address() {
        let mut selection = named(&[("[::ffff:192.0.2.1]:40000", "[::ffff:198.51.100.7]:29100")]);
        assert_eq!(selection.take(&frame(&segment(CLIENT, SERVER, 0, 0))), Fate::Keep(54));
    }

    #[test]
    fn later_fragments_other_protocols_and_nonsense_are_dropped() {
        let mut selection = named(&[(CLIENT, SERVER)]);
        let whole = segment(CLIENT, SERVER, 0, 0);
        let changed = |at: usize, byte: u8| {
            let mut data = whole.clone();
            data[at] = byte;
            data
        };
        // Fragment offset, UDP, version 5, IP and TCP headers of 4 words and of 4 words.
        for data in [changed(21, 1), changed(23, 17), changed(14, 0x55), changed(14, 0x44), changed(46, 0x40)]
        {
            assert_eq!(selection.take(&frame(&data)), Fate::Drop);
        }
        for len in 0..48 {
            assert_eq!(selection.take(&frame(&whole[..len])), Fate::Drop, "{len} bytes");
        }
        assert_eq!(selection.take(&frame(&whole[..50])), Fate::Keep(50), "cut within its options");
    }

    #[test]
    fn what_begins_before_the_connections_are_named_waits_without_its_payload() {
        let connections = Connections::of_port(29100);
        let mut selection = Selection::new(connections.clone());
        let other = "192.0.2.9:50000";
        assert_eq!(selection.take(&frame(&segment(other, SERVER, 0x10, 0))), Fate::Drop, "it existed before");
        assert_eq!(selection.take(&frame(&segment("192.0.2.1:1", "198.51.100.7:2", SYN, 0))), Fate::Drop);
        for (from, to, flags) in [(CLIENT, SERVER, SYN), (other, SERVER, SYN), (SERVER, CLIENT, SYN | 0x10)] {
            assert_eq!(selection.take(&frame(&segment(from, to, flags, 4))), Fate::Wait);
        }
        selection.decide(|_, _| panic!("nobody has named them"));
        connections.name([(at(CLIENT), at(SERVER))]);
        let late = selection.take(&frame(&segment(CLIENT, SERVER, 0, 4)));
        assert_eq!(late, Fate::Wait, "it does not overtake those that wait");
        let mut found = Vec::new();
        selection.decide(|frame, is_kept| found.push((frame.data.len(), frame.original_len, is_kept)));
        assert_eq!(found, [(58, 158, true), (58, 158, false), (58, 158, true), (58, 158, true)]);
        selection.decide(|_, _| panic!("they were handed over"));
    }

    #[test]
    fn frames_that_find_no_room_to_wait_are_lost() {
        let mut selection = Selection::new(Connections::of_port(29100));
        selection.most_bytes = 2 * (54 + WAITING_FRAME_BYTES);
        let fates: Vec<_> =
            (0..3).map(|_| selection.take(&frame(&segment(CLIENT, SERVER, SYN, 0)))).collect();
        assert_eq!(fates, [Fate::Wait, Fate::Wait, Fate::Lose]);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_head_within_them_or_none(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            if let Some(head) = Head::of(&bytes) {
                proptest::prop_assert!(head.bytes <= bytes.len());
            }
        }
    }
}
