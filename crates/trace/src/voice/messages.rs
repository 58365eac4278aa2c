//! Messages that are spread over several TCP segments, put together within bounds.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use super::text::{MAX_LINE, message_len};
use super::{rtsp, sip};
use crate::packet::{Datagram, u32_at};

/// Most connections with messages, unfinished messages of one and of all, and bytes of a message.
const MAX_CONNECTIONS: usize = 1 << 12;
const MAX_OPEN: usize = 8;
const MAX_OPEN_OF_ALL: usize = 256;
const MAX_BYTES: usize = 64 << 10;
/// Segments that may belong to a message whose beginning comes later.
const MAX_EARLY: usize = 64;
/// Segments that have been read, remembered for each connection.
const MAX_READ: usize = 32;
/// Where in a segment of a header or of a description a line ends at the latest.
const LONGEST_LINE: usize = 512;
/// Where the sequence number is in a TCP header.
const SEQUENCE_AT: usize = 4;

type Key = (IpAddr, u16, IpAddr, u16);

/// The beginning of a message, and the sequence number of what is missing.
#[derive(Debug)]
struct Open {
    bytes: Vec<u8>,
    next: u32,
}

/// One direction of a connection that has carried messages.
#[derive(Debug, Default)]
struct Connection {
    open: Vec<Open>,
    /// Sequence numbers that have been read: begin and end, the latest last.
    read: VecDeque<(u32, u32)>,
}

impl Connection {
    /// How many of the bytes from `sequence` on have been read before, from an earlier copy.
    fn known(&self, sequence: u32, len: usize) -> usize {
        let mut known = 0;
        while known < len {
            let at = sequence.wrapping_add(known as u32);
            let holds = |(begin, end): &&(u32, u32)| at.wrapping_sub(*begin) < end.wrapping_sub(*begin);
            let Some((_, end)) = self.read.iter().find(holds) else { break };
            known += end.wrapping_sub(at) as usize;
        }
        known.min(len)
    }

    fn note(&mut self, begin: u32, end: u32) {
        if self.read.len() == MAX_READ {
            self.read.pop_front();
        }
        self.read.push_back((begin, end));
    }
}

/// Bytes of a connection that came before those in front of them.
#[derive(Debug)]
struct Early {
    key: Key,
    sequence: u32,
    bytes: Vec<u8>,
}

/// Puts messages together, in whatever order and how often their segments come.
#[derive(Debug, Default)]
pub struct Messages {
    connections: HashMap<Key, Connection>,
    /// Unfinished messages.
    open: usize,
    early: VecDeque<Early>,
}

fn begins(bytes: &[u8]) -> bool {
    sip::is_sip(bytes) || rtsp::is_rtsp(bytes)
}

/// Whether more bytes can make this the beginning of a message: an unfinished first line.
fn may_begin(bytes: &[u8]) -> bool {
    let len = bytes.iter().take_while(|b| b.is_ascii_uppercase() || **b == b'_').count();
    let has = |start: &[u8]| bytes.iter().zip(start).all(|(a, b)| a == b);
    let unfinished = bytes.len() < MAX_LINE && !bytes.contains(&b'\n');
    let schemes = [&b" sip:"[..], b" sips:", b" tel:", b" rtsp://"];
    let request = || schemes.iter().any(|scheme| bytes[len..].iter().zip(*scheme).all(|(a, b)| a == b));
    unfinished && (has(b"SIP/2.0 ") || has(b"RTSP/") || (len > 0 && request()))
}

/// Whether this looks like a part of a message that begins elsewhere: lines of text.
fn is_text(bytes: &[u8]) -> bool {
    let is_plain = |b: &u8| (b' '..=b'~').contains(b) || b"\r\n\t".contains(b);
    let line = &bytes[..bytes.len().min(LONGEST_LINE)];
    line.iter().take(8).all(is_plain) && line.contains(&b'\r') && line.windows(2).any(|pair| pair == b"\r\n")
}

impl Messages {
    /// Whether a segment may hold a part of a message.
    #[inline]
    pub fn concern(&self, segment: &Datagram<'_>) -> bool {
        self.open > 0
            || segment.payload.first().is_some_and(u8::is_ascii_uppercase)
            || is_text(segment.payload)
    }

    /// The messages that are complete with this segment. One that the capture cut off is given as it is.
    pub fn put(&mut self, segment: &Datagram<'_>) -> Vec<Vec<u8>> {
        let key = (segment.src, segment.src_port, segment.dst, segment.dst_port);
        let Some(mut sequence) = u32_at(segment.header, SEQUENCE_AT) else { return Vec::new() };
        let mut payload = segment.payload;
        if payload.is_empty() {
            return Vec::new();
        }
        let known = self.connections.get(&key).map_or(0, |known| known.known(sequence, segment.payload_len));
        if known >= payload.len() {
            return Vec::new();
        }
        payload = &payload[known..];
        sequence = sequence.wrapping_add(known as u32);
        let is_cut = segment.payload.len() < segment.payload_len;
        let mut found = Vec::new();
        if !self.take(key, sequence, payload, is_cut, &mut found) && !is_cut && is_text(payload) {
            self.keep_early(key, sequence, payload);
        }
        if self.open > 0 {
            // What was early may be next.
            while let Some(at) = self.next_early(&key) {
                let Some(Early { sequence, bytes, .. }) = self.early.remove(at) else { break };
                self.take(key, sequence, &bytes, false, &mut found);
            }
        }
        found
    }

    fn keep_early(&mut self, key: Key, sequence: u32, payload: &[u8]) {
        if self.early.len() == MAX_EARLY {
            self.early.pop_front();
        }
        self.early.push_back(Early { key, sequence, bytes: payload.to_vec() });
    }

    /// Where the bytes are that an unfinished message of this connection lacks.
    fn next_early(&self, key: &Key) -> Option<usize> {
        let connection = self.connections.get(key)?;
        let is_next = |early: &Early| connection.open.iter().any(|open| open.next == early.sequence);
        self.early.iter().position(|early| early.key == *key && is_next(early))
    }

    /// Reads bytes that go on with a message or begin one; false if they do neither.
    fn take(
        &mut self,
        key: Key,
        sequence: u32,
        payload: &[u8],
        is_cut: bool,
        found: &mut Vec<Vec<u8>>,
    ) -> bool {
        let going_on = self
            .connections
            .get(&key)
            .and_then(|connection| connection.open.iter().position(|open| open.next == sequence));
        let mut bytes = Vec::new();
        if let Some(at) = going_on {
            bytes = self.connections.entry(key).or_default().open.remove(at).bytes;
            self.open -= 1;
        } else {
            let blank = payload.iter().take_while(|b| b"\r\n".contains(b)).count();
            if !begins(&payload[blank..]) {
                if !may_begin(payload) {
                    return false;
                }
                // A few letters may as well be a part of what comes later.
                self.keep_early(key, sequence, payload);
            } else if blank > 0 {
                // So may the end of lines.
                self.keep_early(key, sequence, &payload[..blank]);
            }
            if !self.connections.contains_key(&key) && self.connections.len() == MAX_CONNECTIONS {
                self.connections.retain(|_, connection| !connection.open.is_empty());
                if self.connections.len() == MAX_CONNECTIONS {
                    return false;
                }
            }
        }
        bytes.extend_from_slice(payload);
        if self.open == MAX_OPEN_OF_ALL {
            // Most of them will never be finished.
            self.connections.values_mut().for_each(|connection| connection.open.clear());
            self.open = 0;
        }
        let next = sequence.wrapping_add(payload.len() as u32);
        let connection = self.connections.entry(key).or_default();
        connection.note(sequence, next);
        if is_cut {
            found.push(bytes);
            return true;
        }
        loop {
            // Between messages, empty lines keep connections alive (RFC 5626 section 4.4.1).
            let blank = bytes.iter().take_while(|b| b"\r\n".contains(b)).count();
            bytes.drain(..blank);
            let begins = begins(&bytes);
            if !begins && !may_begin(&bytes) {
                return true;
            }
            match message_len(&bytes).filter(|_| begins) {
                Some(len) if len <= bytes.len() => {
                    let rest = bytes.split_off(len);
                    found.push(std::mem::replace(&mut bytes, rest));
                }
                _ if bytes.len() < MAX_BYTES => {
                    if connection.open.len() == MAX_OPEN {
                        connection.open.remove(0);
                        self.open -= 1;
                    }
                    connection.open.push(Open { bytes, next });
                    self.open += 1;
                    return true;
                }
                _ => return true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Tags;

    const MESSAGE: &[u8] = b"SIP/2.0 200 OK\r\nCall-ID: 1\r\nContent-Length: 6\r\n\r\nv=0\r\n\n";

    /// Parts of a connection, each with its place; what became of them.
    fn put(parts: &[(u32, &[u8])]) -> Vec<Vec<u8>> {
        let mut messages = Messages::default();
        let mut found = Vec::new();
        for (sequence, payload) in parts {
            let header = [&[0; 4][..], &sequence.to_be_bytes()].concat();
            found.extend(messages.put(&Datagram {
                src: IpAddr::from([192, 0, 2, 1]),
                dst: IpAddr::from([192, 0, 2, 2]),
                src_port: 5_060,
                dst_port: 5_061,
                tags: Tags::default(),
                point: 0,
                ecn: 0,
                ip_id: 0,
                header: &header,
                payload,
                payload_len: payload.len(),
            }));
        }
        found
    }

    const REQUEST: &[u8] =
        b"INVITE sip:b@example.net SIP/2.0\r\nCall-ID: 1\r\nl: 16\r\n\r\nv=0\r\no=- 1 1\r\ns=";

    #[test]
    fn a_message_in_several_segments_is_whole_wherever_it_is_cut() {
        for message in [MESSAGE, REQUEST] {
            for cut in 1..message.len() {
                let (one, other) = message.split_at(cut);
                assert_eq!(put(&[(7, one), (7, one), (7 + cut as u32, other)]), [message], "{cut}");
            }
        }
    }

    #[test]
    fn segments_out_of_order_make_the_same_messages_once() {
        let all = [REQUEST, MESSAGE, REQUEST].concat();
        let start = u32::MAX - 60;
        for first in 1..all.len() - 60 {
            for second in [first + 30, all.len() - 20] {
                let at = |place: usize| start.wrapping_add(place as u32);
                let parts = [(0, first), (first, second), (second, all.len())];
                let [a, b, c] = parts.map(|(from, to)| (at(from), &all[from..to]));
                // A segment from the middle is known by its lines; a part of a method could be another one.
                let known = |(number, part): (u32, &[u8])| {
                    let at = number.wrapping_sub(start) as usize;
                    at == 0 || if begins(part) { !all[at - 1].is_ascii_uppercase() } else { is_text(part) }
                };
                for order in [[a, b, c], [a, c, b], [a, b, a], [b, a, c], [c, b, a], [c, a, b]] {
                    if order[1..].contains(&order[0]) || !order.into_iter().all(known) {
                        continue;
                    }
                    let mut found = put(&[order, order].concat());
                    found.sort();
                    assert_eq!(found, [REQUEST, REQUEST, MESSAGE], "{first} {second} {order:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_sent_again_together_with_more_goes_on_behind_what_is_known() {
        let all = [REQUEST, MESSAGE].concat();
        let again = put(&[(7, &all[..50]), (7, &all), (7, &all), (7, &all[..90])]);
        assert_eq!(again, [REQUEST, MESSAGE]);
    }

    #[test]
    fn text_of_other_protocols_begins_no_message() {
        let mut messages = Messages::default();
        for payload in [&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], b"EHLO example.net\r\n", b"A1 OK"] {
            let header = [0; 20];
            let (src, dst) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
            messages.put(&Datagram {
                src,
                dst,
                src_port: 1,
                dst_port: 80,
                tags: Tags::default(),
                point: 0,
                ecn: 0,
                ip_id: 0,
                header: &header,
                payload,
                payload_len: payload.len(),
            });
        }
        assert!(messages.connections.is_empty());
    }

    #[test]
    fn several_messages_in_a_segment_are_one_each() {
        let both = [MESSAGE, b"\r\n\r\n", MESSAGE, &MESSAGE[..30]].concat();
        let rest = &MESSAGE[30..];
        assert_eq!(put(&[(1, &both), (1 + both.len() as u32, rest)]), [MESSAGE, MESSAGE, MESSAGE]);
    }

    #[test]
    fn a_message_with_a_lost_segment_is_given_up() {
        let (one, other) = MESSAGE.split_at(40);
        assert!(put(&[(7, one), (60, other)]).is_empty());
        assert_eq!(put(&[(7, one), (60, other), (90, MESSAGE)]), [MESSAGE]);
    }
}
