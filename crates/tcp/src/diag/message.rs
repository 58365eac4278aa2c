//! Messages of `NETLINK_SOCK_DIAG`; bytes in, values out.
//!
//! Layout: `include/uapi/linux/netlink.h`, `sock_diag.h` and `inet_diag.h`. Netlink is in the byte order of the
//! host, addresses and ports are in that of the network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use thiserror::Error;

use super::{Connection, Id, State};
use crate::fields::Source;
use crate::sample::{Congestion, Info, MESSAGE_BYTES, Raw, Sample};

const HEADER_BYTES: usize = 16;
const REQUEST_BYTES: usize = HEADER_BYTES + 56;
const ATTRIBUTE_BYTES: usize = 4;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_DUMP_INTR: u16 = 0x10;

const INFO: u16 = 2;
const VEGASINFO: u16 = 3;
const CONG: u16 = 4;
const SKMEMINFO: u16 = 7;
const DCTCPINFO: u16 = 9;
const BBRINFO: u16 = 16;

/// What is requested besides the message itself. `VEGASINFO` stands for whatever the congestion control has.
const EXTENSIONS: u8 = 1 << (INFO - 1) | 1 << (VEGASINFO - 1) | 1 << (CONG - 1) | 1 << (SKMEMINFO - 1);

/// An invalid answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the kernel's answer cannot be understood at byte {at}")]
pub struct Malformed {
    /// Where.
    pub at: usize,
}

/// One message of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A connection.
    Connection(Box<Connection>),
    /// The end of a list; true if the list changed meanwhile and may lack or repeat connections.
    Done(bool),
    /// An error number, positive.
    Error(i32),
}

/// Requests all connections of a family in `states` (a bit each) between these ports; 0 is any.
#[must_use]
pub fn request_all(ipv6: bool, states: u32, local_port: u16, remote_port: u16, sequence: u32) -> Vec<u8> {
    let mut request = head(ipv6, NLM_F_DUMP, states, sequence);
    request.extend(local_port.to_be_bytes());
    request.extend(remote_port.to_be_bytes());
    request.resize(REQUEST_BYTES, 0);
    request
}

/// Requests one exact connection.
#[must_use]
pub fn request_one(id: &Id, sequence: u32) -> Vec<u8> {
    let mut request = head(id.local.is_ipv6(), 0, u32::MAX, sequence);
    request.extend(id.local.port().to_be_bytes());
    request.extend(id.remote.port().to_be_bytes());
    for end in [id.local, id.remote] {
        let address = match end.ip() {
            IpAddr::V4(address) => Ipv6Addr::from_bits(u128::from(address.to_bits()) << 96).octets(),
            IpAddr::V6(address) => address.octets(),
        };
        request.extend(address);
    }
    request.extend(id.interface.to_le_bytes());
    request.extend(id.cookie.to_le_bytes());
    request
}

fn head(ipv6: bool, flags: u16, states: u32, sequence: u32) -> Vec<u8> {
    let family = if ipv6 { libc::AF_INET6 } else { libc::AF_INET };
    let mut request = Vec::with_capacity(REQUEST_BYTES);
    request.extend((REQUEST_BYTES as u32).to_le_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_le_bytes());
    request.extend((NLM_F_REQUEST | flags).to_le_bytes());
    request.extend(sequence.to_le_bytes());
    request.extend([0; 4]);
    request.extend([family as u8, libc::IPPROTO_TCP as u8, EXTENSIONS, 0]);
    request.extend(states.to_le_bytes());
    request
}

/// The messages of what one recv(2) returned that answer the request numbered `sequence`.
#[derive(Clone, Debug)]
pub struct Replies<'a> {
    bytes: &'a [u8],
    at: usize,
    sequence: u32,
}

impl<'a> Replies<'a> {
    /// Reads `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8], sequence: u32) -> Self {
        Self { bytes, at: 0, sequence }
    }

    fn read(&mut self) -> Option<Result<Reply, Malformed>> {
        while self.at < self.bytes.len() {
            let start = self.at;
            let broken = Malformed { at: start };
            let rest = &self.bytes[start..];
            let len = match u32_at(rest, 0) {
                Some(len) if (len as usize) >= HEADER_BYTES && len as usize <= rest.len() => len as usize,
                _ => {
                    self.at = self.bytes.len();
                    return Some(Err(broken));
                }
            };
            self.at = (start + align(len)).min(self.bytes.len());
            let message = &rest[..len];
            if u32_at(message, 8) != Some(self.sequence) {
                continue;
            }
            let body = &message[HEADER_BYTES..];
            return Some(match u16_at(message, 4) {
                Some(NLMSG_DONE) => {
                    let interrupted = u16_at(message, 6).is_some_and(|flags| flags & NLM_F_DUMP_INTR != 0);
                    match u32_at(body, 0).map(u32::cast_signed) {
                        Some(error) if error < 0 => Ok(Reply::Error(error.saturating_neg())),
                        _ => Ok(Reply::Done(interrupted)),
                    }
                }
                Some(NLMSG_ERROR) => match u32_at(body, 0).map(u32::cast_signed) {
                    Some(error) => Ok(Reply::Error(error.saturating_neg())),
                    None => Err(broken),
                },
                Some(SOCK_DIAG_BY_FAMILY) => {
                    connection(body).map(|found| Reply::Connection(Box::new(found))).ok_or(broken)
                }
                _ => continue,
            });
        }
        None
    }
}

impl Iterator for Replies<'_> {
    type Item = Result<Reply, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read()
    }
}

fn connection(body: &[u8]) -> Option<Connection> {
    let message = body.get(..MESSAGE_BYTES)?;
    let end = |port_at: usize, address_at: usize| {
        let port = u16::from_be_bytes(message.get(port_at..port_at + 2)?.try_into().ok()?);
        let octets: [u8; 16] = message.get(address_at..address_at + 16)?.try_into().ok()?;
        let address = match i32::from(message[0]) {
            libc::AF_INET => Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]).into(),
            libc::AF_INET6 => Ipv6Addr::from(octets).into(),
            _ => return None,
        };
        Some(SocketAddr::new(address, port))
    };
    let cookie = u64::from(u32_at(message, 44)?) | u64::from(u32_at(message, 48)?) << 32;
    let id = Id { local: end(4, 8)?, remote: end(6, 24)?, interface: u32_at(message, 40)?, cookie };
    let mut found = Connection {
        id,
        state: State(message[1]),
        uid: u32_at(message, 64)?,
        inode: u32_at(message, 68)?,
        congestion: String::new(),
        sample: Sample { message: Raw::new(message), ..Sample::default() },
    };
    let mut rest = &body[MESSAGE_BYTES..];
    while let (Some(len), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        let len = usize::from(len);
        let value = rest.get(ATTRIBUTE_BYTES..len)?;
        let sample = &mut found.sample;
        let congestion = |source| Congestion { source: Some(source), raw: Raw::new(value) };
        match kind {
            INFO => sample.info = Info::new(value),
            SKMEMINFO => sample.memory = Raw::new(value),
            VEGASINFO => sample.congestion = congestion(Source::Vegas),
            DCTCPINFO => sample.congestion = congestion(Source::Dctcp),
            BBRINFO => sample.congestion = congestion(Source::Bbr),
            CONG => {
                let name = value.split(|byte| *byte == 0).next().unwrap_or_default();
                found.congestion = String::from_utf8_lossy(name).into_owned();
            }
            _ => {}
        }
        rest = rest.get(align(len)..).unwrap_or_default();
    }
    Some(found)
}

const fn align(len: usize) -> usize {
    (len + 3) & !3
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::fields::field;

    const SEQUENCE: u32 = 7;

    fn id() -> Id {
        let end = |text: &str| text.parse().unwrap();
        Id {
            local: end("192.0.2.1:443"),
            remote: end("198.51.100.7:40000"),
            interface: 3,
            cookie: 0x0102_0304_0506_0708,
        }
    }

    /// The answer to `request_one`: the same identity, followed by `attributes`.
    fn answer(id: &Id, attributes: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut body = vec![if id.local.is_ipv6() { 10 } else { 2 }, 1, 0, 0];
        body.extend(&request_one(id, SEQUENCE)[HEADER_BYTES + 8..]);
        for word in [11_u32, 22, 33, 1000, 4711] {
            body.extend(word.to_le_bytes());
        }
        for (kind, value) in attributes {
            body.extend((ATTRIBUTE_BYTES as u16 + value.len() as u16).to_le_bytes());
            body.extend(kind.to_le_bytes());
            body.extend(value);
            body.resize(align(body.len()), 0);
        }
        message(SOCK_DIAG_BY_FAMILY, SEQUENCE, &body)
    }

    fn message(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let mut message = ((HEADER_BYTES + body.len()) as u32).to_le_bytes().to_vec();
        message.extend(kind.to_le_bytes());
        message.extend([0; 2]);
        message.extend(sequence.to_le_bytes());
        message.extend([0; 4]);
        message.extend(body);
        message
    }

    fn only(bytes: &[u8]) -> Result<Reply, Malformed> {
        let mut found: Vec<_> = Replies::new(bytes, SEQUENCE).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    #[test]
    fn a_request_for_one_connection_is_as_the_kernel_expects_it() {
        let request = request_one(&id(), SEQUENCE);
        assert_eq!(request.len(), 72);
        assert_eq!(request[..16], [72, 0, 0, 0, 20, 0, 1, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(request[16..24], [2, 6, 0b0100_1110, 0, 255, 255, 255, 255]);
        assert_eq!(request[24..28], [0x01, 0xbb, 0x9c, 0x40]);
        assert_eq!(request[28..44], [192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(request[60..72], [3, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1]);
    }

    #[test]
    fn an_answer_has_the_identity_that_was_asked_for_and_all_attributes() {
        for id in
            [id(), Id { local: "[::1]:1".parse().unwrap(), remote: "[fe80::2]:2".parse().unwrap(), ..id() }]
        {
            let mut info = vec![0; 104];
            info[68..72].copy_from_slice(&1234_u32.to_le_bytes());
            let bytes = answer(&id, &[(INFO, info), (CONG, b"bbr\0".to_vec()), (BBRINFO, vec![1; 20])]);
            let Ok(Reply::Connection(found)) = only(&bytes) else { panic!() };
            assert_eq!(found.id, id);
            assert_eq!((found.uid, found.inode, found.state.name()), (1000, 4711, "established"));
            assert_eq!(found.congestion, "bbr");
            let get = |name| found.sample.get(field(name).unwrap());
            assert_eq!(get("rtt_us"), Some(1234));
            assert_eq!((get("rqueue_bytes"), get("wqueue_bytes")), (Some(22), Some(33)));
            assert_eq!(get("bbr_min_rtt_us"), Some(0x0101_0101));
            assert_eq!((get("vegas_rtt_us"), get("bytes_acked"), get("skmem_drops")), (None, None, None));
        }
    }

    #[test]
    fn errors_and_ends_are_told_apart() {
        let error = |number: i32| number.to_le_bytes().to_vec();
        let not_there = message(NLMSG_ERROR, SEQUENCE, &error(-libc::ENOENT));
        assert_eq!(only(&not_there), Ok(Reply::Error(libc::ENOENT)));
        assert_eq!(only(&message(NLMSG_DONE, SEQUENCE, &error(0))), Ok(Reply::Done(false)));
        assert_eq!(only(&message(NLMSG_DONE, SEQUENCE, &error(-libc::EPERM))), Ok(Reply::Error(libc::EPERM)));
    }

    #[test]
    fn answers_to_earlier_requests_are_left_out() {
        let mut bytes = message(NLMSG_DONE, SEQUENCE - 1, &[0; 4]);
        bytes.extend(message(NLMSG_DONE, SEQUENCE, &[0; 4]));
        assert_eq!(only(&bytes), Ok(Reply::Done(false)));
    }

    #[test]
    fn a_length_beyond_the_end_is_refused_where_it_stands() {
        let mut bytes = answer(&id(), &[]);
        let whole = bytes.len();
        bytes.extend([99, 0, 0, 0]);
        let found: Vec<_> = Replies::new(&bytes, SEQUENCE).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found[1], Err(Malformed { at: whole }));
    }

    proptest! {
        #[test]
        fn garbage_neither_panics_nor_goes_on_for_ever(bytes in vec(any::<u8>(), 0..600)) {
            prop_assert!(Replies::new(&bytes, SEQUENCE).count() <= bytes.len() / HEADER_BYTES + 1);
        }

        #[test]
        fn a_damaged_answer_neither_panics_nor_goes_on_for_ever(
            at in 0_usize..400, value in any::<u8>(), cut in 0_usize..400
        ) {
            let mut bytes = answer(&id(), &[(INFO, vec![5; 280]), (SKMEMINFO, vec![6; 36])]);
            let len = bytes.len();
            bytes[at % len] = value;
            bytes.truncate(len - cut % len);
            prop_assert!(Replies::new(&bytes, SEQUENCE).count() <= len / HEADER_BYTES + 1);
        }
    }
}
