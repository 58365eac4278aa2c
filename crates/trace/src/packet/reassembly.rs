//! Reassembly of fragments of IPv4 (RFC 791) and IPv6 (RFC 8200 section 4.5), within bounds.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use super::ip::{Found, Head, Piece, Rest};
use super::{Decoded, Tags, Way, dissect, ip, plain};
use crate::capture::Packet;

/// How long a datagram may take to arrive; Linux waits 30 s for IPv4. Beyond that, identifications are reused
/// for other datagrams (RFC 4963).
const MAX_AGE_NS: i64 = 30_000_000_000;
/// Most datagrams under way at a time.
const MAX_OPEN: usize = 1 << 10;
/// Most bytes that they hold.
const MAX_BYTES: usize = 4 << 20;
/// Most fragments of one, which is more than 64 KiB need on any link that IPv6 allows.
const MAX_PIECES: usize = 1 << 10;
/// What a fragment costs besides its bytes.
const PIECE_BYTES: usize = size_of::<Span>();
/// Longest payload that the offsets of either version can describe.
const MAX_LEN: usize = u16::MAX as usize;

/// What became of fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FragmentCounts {
    /// Fragments seen.
    pub fragments: u64,
    /// Datagrams made of them.
    pub datagrams: u64,
    /// Fragments seen twice, of which one was used.
    pub duplicates: u64,
    /// Datagrams discarded because fragments overlap or contradict each other, which no sender does and
    /// attackers do to be read differently by different hosts (RFC 1858, RFC 5722).
    pub overlapping: u64,
    /// Datagrams that were not complete after 30 s.
    pub expired: u64,
    /// Datagrams given up for lack of room.
    pub crowded_out: u64,
    /// Fragments that cannot be part of a datagram: empty, beyond its greatest length, or no multiple of 8
    /// bytes long.
    pub malformed: u64,
}

/// Decodes packets and reassembles fragments. Holds at most 4 MiB of them.
#[derive(Debug, Default)]
pub struct Reassembly {
    open: HashMap<Key, Open>,
    /// In the order of first fragments, with numbers of birth: ones that are gone may still be here.
    order: VecDeque<(Key, u64)>,
    births: u64,
    bytes: usize,
    /// The datagram that was completed last.
    whole: Vec<u8>,
    counts: FragmentCounts,
}

/// Fragments of one key make a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    src: IpAddr,
    dst: IpAddr,
    id: u32,
    /// 0 in IPv6, where fragments need not agree (RFC 8200 section 4.5).
    protocol: u8,
    tags: Tags,
    interface: (u32, u32),
}

/// Where a fragment belongs, and where its bytes lie in `Open::bytes`.
#[derive(Clone, Copy, Debug)]
struct Span {
    offset: usize,
    len: usize,
    at: usize,
    captured: usize,
}

/// A datagram on its way.
#[derive(Debug)]
struct Open {
    birth: u64,
    first_ns: i64,
    /// By offset, none over another.
    spans: Vec<Span>,
    bytes: Vec<u8>,
    len: usize,
    /// Known from its last fragment.
    total: Option<usize>,
    /// Header of the fragment at 0, and the protocol it names.
    first: Option<(Head, u8)>,
    marked: bool,
    /// Thrown away; what still comes of it is too.
    refused: bool,
}

/// What a fragment did.
enum Put {
    Kept,
    Duplicate,
    Overlapping,
    TooMany,
}

impl Reassembly {
    /// Nothing under way.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What became of the fragments until now.
    #[must_use]
    pub const fn counts(&self) -> &FragmentCounts {
        &self.counts
    }

    /// Datagrams that are not complete yet.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.open.values().filter(|open| !open.refused).count() as u64
    }

    /// Takes a packet apart; the fragment that completes a datagram stands for all of it.
    #[inline]
    pub fn decode<'a>(&'a mut self, packet: &Packet<'a>) -> Decoded<'a> {
        // Made where it goes, and not copied from there: this is done for every packet.
        match plain(packet) {
            Some(segment) => Decoded::Tcp(segment),
            None => self.decode_any(packet),
        }
    }

    #[inline(never)]
    fn decode_any<'a>(&'a mut self, packet: &Packet<'a>) -> Decoded<'a> {
        let piece = match dissect(packet) {
            Found::Whole(decoded) => return decoded,
            Found::Piece(piece) => piece,
        };
        self.complete(piece, packet)
    }

    #[cold]
    fn complete<'a>(&'a mut self, piece: Piece<'_>, packet: &Packet<'_>) -> Decoded<'a> {
        self.counts.fragments += 1;
        self.expire(packet.time_ns);
        let way = piece.way;
        let Some((head, protocol, len)) = self.put(&piece, packet) else { return Decoded::Fragment };
        self.counts.datagrams += 1;
        let way = Way { missing: len - self.whole.len(), ..way };
        match ip::payload(head, Rest { protocol, data: &self.whole, len }, &way) {
            Found::Whole(decoded) => decoded,
            // Of a tunnel whose inside was cut up before: once is enough.
            Found::Piece(_) => Decoded::Fragment,
        }
    }

    /// Keeps a fragment; header, protocol and length of the datagram that it completes.
    fn put(&mut self, piece: &Piece<'_>, packet: &Packet<'_>) -> Option<(Head, u8, usize)> {
        let (offset, len) = (piece.offset, piece.rest.len);
        if len == 0 || offset + len > MAX_LEN || (piece.more && len % 8 != 0) {
            self.counts.malformed += 1;
            return None;
        }
        let is_v6 = piece.head.src.is_ipv6();
        let key = Key {
            src: piece.head.src,
            dst: piece.head.dst,
            id: piece.id,
            protocol: if is_v6 { 0 } else { piece.rest.protocol },
            tags: piece.way.tags,
            interface: (packet.interface, piece.way.point),
        };
        let open = self.open.entry(key).or_insert_with(|| {
            self.births += 1;
            self.order.push_back((key, self.births));
            Open::new(self.births, packet.time_ns)
        });
        if open.refused {
            return None;
        }
        let before = open.held();
        match open.put(piece) {
            Put::Kept => {}
            Put::Duplicate => self.counts.duplicates += 1,
            Put::Overlapping => {
                self.counts.overlapping += 1;
                open.refuse();
            }
            Put::TooMany => {
                self.counts.crowded_out += 1;
                open.refuse();
            }
        }
        self.bytes = self.bytes - before + open.held();
        if open.total == Some(open.len)
            && let Some((mut head, protocol)) = open.first
        {
            // RFC 3168 section 5.3: a mark on a fragment is one on the datagram.
            head.ecn = if open.marked { 3 } else { head.ecn };
            let len = open.len;
            open.assemble(&mut self.whole);
            self.remove(&key);
            return Some((head, protocol, len));
        }
        self.make_room();
        None
    }

    fn remove(&mut self, key: &Key) -> Option<Open> {
        let open = self.open.remove(key)?;
        self.bytes -= open.held();
        Some(open)
    }

    /// Gives up the datagrams that take too long.
    fn expire(&mut self, now_ns: i64) {
        while let Some(&(key, birth)) = self.order.front() {
            let open = self.open.get(&key).filter(|open| open.birth == birth);
            if open.is_some_and(|open| now_ns.saturating_sub(open.first_ns) <= MAX_AGE_NS) {
                break;
            }
            let here = open.is_some();
            self.order.pop_front();
            if here && self.remove(&key).is_some_and(|open| !open.refused) {
                self.counts.expired += 1;
            }
        }
    }

    /// Gives up the oldest datagrams where there are too many.
    fn make_room(&mut self) {
        while self.open.len() > MAX_OPEN || self.bytes > MAX_BYTES {
            let Some((key, birth)) = self.order.pop_front() else { return };
            if self.open.get(&key).is_some_and(|open| open.birth == birth)
                && self.remove(&key).is_some_and(|open| !open.refused)
            {
                self.counts.crowded_out += 1;
            }
        }
        if self.order.len() > 2 * MAX_OPEN {
            let open = &self.open;
            self.order.retain(|(key, birth)| open.get(key).is_some_and(|open| open.birth == *birth));
        }
    }
}

impl Open {
    const fn new(birth: u64, first_ns: i64) -> Self {
        Self {
            birth,
            first_ns,
            spans: Vec::new(),
            bytes: Vec::new(),
            len: 0,
            total: None,
            first: None,
            marked: false,
            refused: false,
        }
    }

    /// Memory, as far as it grows with fragments.
    const fn held(&self) -> usize {
        self.bytes.capacity() + self.spans.capacity() * PIECE_BYTES
    }

    fn refuse(&mut self) {
        (self.spans, self.bytes) = (Vec::new(), Vec::new());
        self.refused = true;
    }

    fn put(&mut self, piece: &Piece<'_>) -> Put {
        let (offset, rest) = (piece.offset, piece.rest);
        let end = offset + rest.len;
        let place = self.spans.partition_point(|span| span.offset < offset);
        if let Some(span) = self.spans.get(place)
            && (span.offset, span.len) == (offset, rest.len)
            && self.bytes[span.at..span.at + span.captured] == *rest.data
        {
            return Put::Duplicate;
        }
        let over_last = place > 0 && self.spans[place - 1].offset + self.spans[place - 1].len > offset;
        let over_next = self.spans.get(place).is_some_and(|span| span.offset < end);
        let behind_end = self.total.is_some_and(|total| end > total || !piece.more);
        let before_others = !piece.more && self.spans.last().is_some_and(|s| s.offset + s.len > end);
        if over_last || over_next || behind_end || before_others {
            return Put::Overlapping;
        }
        if self.spans.len() == MAX_PIECES {
            return Put::TooMany;
        }
        let span = Span { offset, len: rest.len, at: self.bytes.len(), captured: rest.data.len() };
        self.spans.insert(place, span);
        self.bytes.extend_from_slice(rest.data);
        self.len += rest.len;
        self.marked |= piece.head.ecn == 3;
        if offset == 0 {
            self.first = Some((piece.head, rest.protocol));
        }
        if !piece.more {
            self.total = Some(end);
        }
        Put::Kept
    }

    /// Copies the bytes in their order, as far as they were captured without a gap.
    fn assemble(&self, whole: &mut Vec<u8>) {
        whole.clear();
        for span in &self.spans {
            whole.extend_from_slice(&self.bytes[span.at..span.at + span.captured]);
            if span.captured < span.len {
                break;
            }
        }
    }
}
