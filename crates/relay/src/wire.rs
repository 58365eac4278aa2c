//! How a session carries connections, one after another: the near end names the destination, the proxy answers, and then
//! both directions consist of parts up to their ends.
//!
//! ```text
//! Request   magic "WEIRPXY" (7), version (1), port (2), zeros (6), address (16), sequence (8), number (8)
//! Reply     magic "WEIRPXY" (7), version (1), status (1), zeros (7)
//! Part      kind (1), length (3), bytes
//! ```
//!
//! Numbers are little-endian. The address is an IPv6 address; IPv4 is mapped into it (RFC 4291, section 2.5.5.2).
//! Requests of one sequence are connected in the order of their numbers, which begin with 0.

use std::net::{Ipv6Addr, SocketAddr};

use thiserror::Error;

/// Bytes of a [`Request`].
pub const REQUEST_BYTES: usize = 48;
/// Bytes that a request and a reply begin with, in every version.
pub const HEAD_BYTES: usize = 8;
/// Bytes of a [`Status`].
pub const REPLY_BYTES: usize = 16;
/// Bytes before those of a [`Part`].
pub const PART_BYTES: usize = 4;
/// Most bytes of a [`Part`].
pub const MOST_OF_PART: usize = (1 << 24) - 1;
/// Version of all.
pub const VERSION: u8 = 3;

const MAGIC: [u8; 7] = *b"WEIRPXY";

/// What is wrong with a request or a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// Something else.
    #[error("the other end of the session is neither weir psock run nor weir psock proxy")]
    NotProxy,
    /// Another version.
    #[error("the other end has version {0} of the proxy's protocol, this end version {VERSION}")]
    Version(u8),
    /// Valid first bytes, but an invalid rest.
    #[error("the other end of the session sends what cannot be")]
    Malformed,
}

/// The place of a connection among those to the same destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Which sequence: drawn at random, of one destination of one near end.
    pub sequence: u64,
    /// How many came before it.
    pub number: u64,
}

/// The request of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The destination; an address of IPv4 is not mapped, and no address has a zone.
    pub to: SocketAddr,
    /// Its place among the requests to this destination.
    pub position: Position,
}

impl Request {
    /// As it is sent.
    #[must_use]
    pub fn emit(&self) -> [u8; REQUEST_BYTES] {
        let address = match self.to {
            SocketAddr::V4(v4) => v4.ip().to_ipv6_mapped(),
            SocketAddr::V6(v6) => *v6.ip(),
        };
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..7].copy_from_slice(&MAGIC);
        bytes[7] = VERSION;
        bytes[8..10].copy_from_slice(&self.to.port().to_le_bytes());
        bytes[16..32].copy_from_slice(&address.octets());
        bytes[32..40].copy_from_slice(&self.position.sequence.to_le_bytes());
        bytes[40..].copy_from_slice(&self.position.number.to_le_bytes());
        bytes
    }

    /// What was sent.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Result<Self, WireError> {
        check(&bytes[..HEAD_BYTES])?;
        let (mut address, port) = ([0; 16], u16::from_le_bytes([bytes[8], bytes[9]]));
        address.copy_from_slice(&bytes[16..32]);
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(number)
        };
        let ip = Ipv6Addr::from(address).to_canonical();
        if port == 0 || bytes[10..16] != [0; 6] || ip.is_unspecified() || ip.is_multicast() {
            return Err(WireError::Malformed);
        }
        let position = Position { sequence: number(32), number: number(40) };
        Ok(Self { to: SocketAddr::new(ip, port), position })
    }
}

/// The answer of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Status {
    /// What follows goes to the destination, and comes from it.
    #[error("connected")]
    Connected,
    /// It speaks another version, which the answer's is.
    #[error("the proxy speaks another version of its protocol")]
    Version,
    /// It was not told to allow this destination.
    #[error("the proxy does not allow this destination (--allow)")]
    Forbidden,
    /// It has too many sessions.
    #[error("the proxy takes no more sessions")]
    Full,
    /// The destination refuses connections.
    #[error("the destination refused the connection")]
    Refused,
    /// It cannot be reached.
    #[error("the proxy cannot reach the destination")]
    Unreachable,
    /// The destination does not answer.
    #[error("the destination did not answer the proxy")]
    Late,
    /// Something else.
    #[error("the proxy could not make the connection")]
    Failed,
    /// There is no route to its network.
    #[error("the proxy has no route to the destination")]
    NoRoute,
}

impl Status {
    const ALL: [Self; 9] = [
        Self::Connected,
        Self::Version,
        Self::Forbidden,
        Self::Full,
        Self::Refused,
        Self::Unreachable,
        Self::Late,
        Self::Failed,
        Self::NoRoute,
    ];

    /// As it is sent.
    #[must_use]
    pub fn emit(self) -> [u8; REPLY_BYTES] {
        let mut bytes = [0; REPLY_BYTES];
        bytes[..7].copy_from_slice(&MAGIC);
        bytes[7] = VERSION;
        bytes[8] = self as u8;
        bytes
    }

    /// What was sent.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn parse(bytes: &[u8; REPLY_BYTES]) -> Result<Self, WireError> {
        check(&bytes[..HEAD_BYTES])?;
        if bytes[9..] != [0; 7] {
            return Err(WireError::Malformed);
        }
        Self::ALL.get(usize::from(bytes[8])).copied().ok_or(WireError::Malformed)
    }
}

/// A part of one direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// So many bytes follow.
    Data(usize),
    /// So many bytes follow, the last of which is urgent (RFC 9293, section 3.8.5).
    Urgent(usize),
    /// There is nothing more in this direction.
    End,
    /// The program is gone: nothing more comes from it, and nobody reads what comes for it. From the near end alone.
    Close,
}

impl Part {
    /// Its first bytes, as they are sent; of data, at most [`MOST_OF_PART`].
    #[must_use]
    pub const fn emit(self) -> [u8; PART_BYTES] {
        let (kind, len) = match self {
            Self::Data(len) => (1, len as u32),
            Self::Urgent(len) => (2, len as u32),
            Self::End => (3, 0),
            Self::Close => (4, 0),
        };
        (len << 8 | kind).to_le_bytes()
    }

    /// What was sent.
    ///
    /// # Errors
    /// [`WireError::Malformed`].
    pub const fn parse(bytes: [u8; PART_BYTES]) -> Result<Self, WireError> {
        let number = u32::from_le_bytes(bytes);
        match (number & 0xff, (number >> 8) as usize) {
            (1, len @ 1..) => Ok(Self::Data(len)),
            (2, len @ 1..) => Ok(Self::Urgent(len)),
            (3, 0) => Ok(Self::End),
            (4, 0) => Ok(Self::Close),
            _ => Err(WireError::Malformed),
        }
    }
}

/// Whether a request or a reply may begin with these [`HEAD_BYTES`].
///
/// # Errors
/// [`WireError`].
pub fn check(bytes: &[u8]) -> Result<(), WireError> {
    if bytes[..7] != MAGIC {
        return Err(WireError::NotProxy);
    }
    if bytes[7] == VERSION { Ok(()) } else { Err(WireError::Version(bytes[7])) }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_is_laid_out_as_it_is_written_down() {
        let position = Position { sequence: 0x0102_0304_0506_0708, number: 3 };
        let request = Request { to: "192.0.2.1:443".parse().unwrap(), position };
        let expected = b"WEIRPXY\x03\xbb\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\x00\x02\x01\
            \x08\x07\x06\x05\x04\x03\x02\x01\x03\0\0\0\0\0\0\0";
        assert_eq!(&request.emit(), expected);
        assert_eq!(Request::parse(expected), Ok(request));
    }

    const FIRST: Position = Position { sequence: 1, number: 0 };

    #[test]
    fn every_status_has_a_number_of_its_own() {
        for (number, status) in Status::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(status.emit()[8]), number);
            assert_eq!(Status::parse(&status.emit()), Ok(status));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let good = Request { to: "[2001:db8::1]:80".parse().unwrap(), position: FIRST }.emit();
        let with = |at: usize, byte: u8| {
            let mut bytes = good;
            bytes[at] = byte;
            Request::parse(&bytes)
        };
        assert_eq!(with(0, b'X'), Err(WireError::NotProxy));
        assert_eq!(with(7, 1), Err(WireError::Version(1)));
        assert_eq!(with(8, 0), Err(WireError::Malformed), "port 0");
        for at in 10..16 {
            assert_eq!(with(at, 1), Err(WireError::Malformed));
        }
        for ip in ["0.0.0.0", "::", "224.0.0.1", "ff02::1"] {
            let to = SocketAddr::new(ip.parse().unwrap(), 80);
            assert_eq!(
                Request::parse(&Request { to, position: FIRST }.emit()),
                Err(WireError::Malformed),
                "{ip}"
            );
        }
        let mut reply = Status::Connected.emit();
        reply[8] = Status::ALL.len() as u8;
        assert_eq!(Status::parse(&reply), Err(WireError::Malformed));
    }

    fn addresses() -> impl Strategy<Value = IpAddr> {
        let v4 = any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)));
        let v6 = any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)));
        prop_oneof![v4, v6]
    }

    proptest! {
        #[test]
        fn what_is_asked_for_is_what_was_asked(
            ip in addresses(), port in 1..=u16::MAX, sequence: u64, number: u64,
        ) {
            prop_assume!(!ip.is_unspecified() && !ip.is_multicast());
            let position = Position { sequence, number };
            let request = Request { to: SocketAddr::new(ip.to_canonical(), port), position };
            prop_assume!(!request.to.ip().is_unspecified() && !request.to.ip().is_multicast());
            prop_assert_eq!(Request::parse(&request.emit()), Ok(request));
        }

        /// There is one way to write a request: whatever is accepted is written again as it was.
        #[test]
        fn any_bytes_are_refused_or_are_a_request(bytes: [[u8; 8]; 5], has_head: bool) {
            let mut all = [0; REQUEST_BYTES];
            all[HEAD_BYTES..].copy_from_slice(bytes.as_flattened());
            if has_head {
                all[..HEAD_BYTES].copy_from_slice(b"WEIRPXY\x03");
                // Else hardly any would have these zeros.
                all[10..16].fill(0);
            }
            if let Ok(request) = Request::parse(&all) {
                prop_assert_eq!(request.emit(), all);
            }
        }

        #[test]
        fn any_bytes_are_refused_or_are_a_part(kind in 0..6_u8, rest: [u8; 3], is_short: bool) {
            let bytes = if is_short { [kind, 0, 0, 0] } else { [kind, rest[0], rest[1], rest[2]] };
            if let Ok(part) = Part::parse(bytes) {
                prop_assert_eq!(part.emit(), bytes);
            }
        }

        #[test]
        fn any_bytes_are_refused_or_are_a_reply(bytes: [u8; REPLY_BYTES]) {
            if let Ok(status) = Status::parse(&bytes) {
                prop_assert_eq!(status.emit(), bytes);
            }
        }
    }
}
