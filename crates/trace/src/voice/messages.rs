//! Messages that are spread over several TCP segments, put together within bounds.

use std::collections::HashMap;
use std::net::IpAddr;

use super::text::message_len;
use super::{rtsp, sip};
use crate::packet::{Datagram, u32_at};

/// Most connections with an unfinished message, and the most that one holds.
const MAX_OPEN: usize = 256;
const MAX_BYTES: usize = 64 << 10;
/// Where the sequence number is in a TCP header.
const SEQUENCE_AT: usize = 4;

type Key = (IpAddr, u16, IpAddr, u16);

/// The beginning of a message, and the sequence number of what is missing.
#[derive(Debug)]
struct Open {
    bytes: Vec<u8>,
    next: u32,
}

/// Puts messages together.
#[derive(Debug, Default)]
pub struct Messages {
    open: HashMap<Key, Open>,
}

fn begins(bytes: &[u8]) -> bool {
    sip::is_sip(bytes) || rtsp::is_rtsp(bytes)
}

impl Messages {
    /// Whether a segment may hold a part of a message.
    #[inline]
    pub fn concern(&self, segment: &Datagram<'_>) -> bool {
        !self.open.is_empty() || segment.payload.first().is_some_and(u8::is_ascii_uppercase)
    }

    /// The messages that are complete with this segment. One that the capture cut off is given as it is.
    pub fn put(&mut self, segment: &Datagram<'_>) -> Vec<Vec<u8>> {
        let key = (segment.src, segment.src_port, segment.dst, segment.dst_port);
        let Some(sequence) = u32_at(segment.header, SEQUENCE_AT) else { return Vec::new() };
        if segment.payload_len == 0 {
            return Vec::new();
        }
        let mut bytes = match self.open.remove(&key) {
            Some(open) if open.next == sequence => [&open.bytes, segment.payload].concat(),
            // Sent again.
            Some(open) if open.next.wrapping_sub(sequence).cast_signed() > 0 => {
                self.open.insert(key, open);
                return Vec::new();
            }
            _ if begins(segment.payload) => segment.payload.to_vec(),
            _ => return Vec::new(),
        };
        let mut found = Vec::new();
        if segment.payload.len() < segment.payload_len {
            return vec![bytes];
        }
        loop {
            // Between messages, empty lines keep connections alive (RFC 5626 section 4.4.1).
            let blank = bytes.iter().take_while(|b| b"\r\n".contains(b)).count();
            bytes.drain(..blank);
            if !begins(&bytes) {
                return found;
            }
            match message_len(&bytes) {
                Some(len) if len <= bytes.len() => {
                    let rest = bytes.split_off(len);
                    found.push(std::mem::replace(&mut bytes, rest));
                }
                _ if bytes.len() < MAX_BYTES && self.open.len() < MAX_OPEN => {
                    let next = sequence.wrapping_add(segment.payload_len as u32);
                    self.open.insert(key, Open { bytes, next });
                    return found;
                }
                _ => return found,
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

    #[test]
    fn a_message_in_several_segments_is_whole_wherever_it_is_cut() {
        for cut in 20..MESSAGE.len() {
            let (one, other) = MESSAGE.split_at(cut);
            assert_eq!(put(&[(7, one), (7, one), (7 + cut as u32, other)]), [MESSAGE], "{cut}");
        }
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
