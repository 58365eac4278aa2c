//! Packets that end a connect(): forged as if the network had sent them, over loopback.

use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use weir_wire::{fold, ones_complement_sum};

const TCP: u8 = 6;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const HOP_LIMIT: u8 = 255;
/// `RST` and `ACK`, `SYN` (RFC 9293, section 3.1).
const RST_ACK: u8 = 0x14;
const SYN: u8 = 0x02;

/// Why a connect() fails: `ECONNREFUSED`, `EHOSTUNREACH`, `ENETUNREACH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The destination refuses the connection.
    Refused,
    /// The destination cannot be reached.
    HostUnreachable,
    /// There is no route to its network.
    NetworkUnreachable,
}

impl Refusal {
    /// Of a destination that is unreachable: type and code of the message (RFC 792, RFC 4443).
    const fn message(self, is_v4: bool) -> Option<[u8; 2]> {
        match (self, is_v4) {
            (Self::Refused, _) => None,
            (Self::HostUnreachable, true) => Some([3, 1]),
            (Self::HostUnreachable, false) => Some([1, 3]),
            (Self::NetworkUnreachable, true) => Some([3, 0]),
            (Self::NetworkUnreachable, false) => Some([1, 0]),
        }
    }
}

/// Sends such packets.
#[derive(Debug)]
pub struct Forger {
    v4: Socket,
    v6: Option<Socket>,
}

impl Forger {
    /// Needs `CAP_NET_RAW`.
    ///
    /// # Errors
    /// There is no raw socket.
    pub fn open() -> io::Result<Self> {
        // These send headers as they are given, and receive nothing (raw(7)).
        let open = |domain| Socket::new(domain, Type::RAW, Some(Protocol::from(libc::IPPROTO_RAW)));
        Ok(Self { v4: open(Domain::IPV4)?, v6: open(Domain::IPV6).ok() })
    }

    /// Has the connect() fail whose SYN went from `program` to `relay` with the number `sequence`.
    pub fn refuse(&self, relay: SocketAddr, program: SocketAddr, sequence: u32, why: Refusal) {
        let Some(socket) = (if program.is_ipv4() { Some(&self.v4) } else { self.v6.as_ref() }) else {
            return;
        };
        let send = |packet: &[u8]| {
            let _ = socket.send_to(packet, &SocketAddr::new(program.ip(), 0).into());
        };
        if let Some(message) = why.message(program.is_ipv4()) {
            send(&unreachable(relay, program, sequence, message));
        }
        // The kernel ignores ICMP while the program is in a call on this socket (tcp_v4_err), and this segment once
        // there is no connection.
        send(&segment(relay, program, (0, sequence.wrapping_add(1)), RST_ACK));
    }
}

/// A TCP segment without data, with its IP header.
fn segment(from: SocketAddr, to: SocketAddr, (sequence, acknowledgment): (u32, u32), flags: u8) -> Vec<u8> {
    let mut tcp = Vec::with_capacity(20);
    tcp.extend(from.port().to_be_bytes());
    tcp.extend(to.port().to_be_bytes());
    tcp.extend(sequence.to_be_bytes());
    tcp.extend(acknowledgment.to_be_bytes());
    // Five words long; window, checksum, urgent pointer.
    tcp.extend([5 << 4, flags, 0, 0, 0, 0, 0, 0]);
    let sum = checksum(&[&pseudo_header(from.ip(), to.ip(), TCP, tcp.len()), &tcp]);
    tcp[16..18].copy_from_slice(&sum);
    packet(from.ip(), to.ip(), TCP, &tcp)
}

/// That `relay` cannot be reached, for the one that sent it a SYN.
fn unreachable(relay: SocketAddr, program: SocketAddr, sequence: u32, message: [u8; 2]) -> Vec<u8> {
    let mut icmp = vec![message[0], message[1], 0, 0, 0, 0, 0, 0];
    icmp.extend(segment(program, relay, (sequence, 0), SYN));
    let (protocol, pseudo) = match program {
        SocketAddr::V4(_) => (ICMP, Vec::new()),
        SocketAddr::V6(_) => (ICMPV6, pseudo_header(relay.ip(), program.ip(), ICMPV6, icmp.len())),
    };
    let sum = checksum(&[&pseudo, &icmp]);
    icmp[2..4].copy_from_slice(&sum);
    packet(relay.ip(), program.ip(), protocol, &icmp)
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(v4) => v4.octets().into(),
        IpAddr::V6(v6) => v6.octets().into(),
    }
}

/// What checksums of TCP and `ICMPv6` cover besides (RFC 9293, section 3.1; RFC 8200, section 8.1).
fn pseudo_header(from: IpAddr, to: IpAddr, protocol: u8, len: usize) -> Vec<u8> {
    let [high, low] = (len as u16).to_be_bytes();
    [octets(from), octets(to), vec![0, protocol, high, low]].concat()
}

fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let sum: u64 = parts.iter().map(|part| u64::from(ones_complement_sum(part))).sum();
    (!fold(sum)).to_ne_bytes()
}

/// With its IP header; the kernel adds the checksum of IPv4's (raw(7)).
fn packet(from: IpAddr, to: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = if from.is_ipv4() {
        let [high, low] = (20 + payload.len() as u16).to_be_bytes();
        vec![0x45, 0, high, low, 0, 0, 0, 0, HOP_LIMIT, protocol, 0, 0]
    } else {
        let [high, low] = (payload.len() as u16).to_be_bytes();
        vec![0x60, 0, 0, 0, high, low, protocol, HOP_LIMIT]
    };
    header.extend([octets(from), octets(to), payload.to_vec()].concat());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(v4: bool) -> (SocketAddr, SocketAddr) {
        let [a, b] = if v4 { ["127.0.0.1:29102", "127.0.0.1:4321"] } else { ["[::1]:29102", "[::1]:4321"] };
        (a.parse().unwrap(), b.parse().unwrap())
    }

    #[test]
    fn a_reset_acknowledges_the_syn() {
        let (relay, program) = ends(true);
        let bytes = segment(relay, program, (0, 8), RST_ACK);
        assert_eq!(bytes[..12], [0x45, 0, 0, 40, 0, 0, 0, 0, 255, 6, 0, 0]);
        assert_eq!(bytes[12..20], [127, 0, 0, 1, 127, 0, 0, 1]);
        assert_eq!(bytes[20..34], [0x71, 0xae, 0x10, 0xe1, 0, 0, 0, 0, 0, 0, 0, 8, 0x50, 0x14]);
    }

    #[test]
    fn checksums_hold() {
        for is_v4 in [true, false] {
            let (relay, program) = ends(is_v4);
            let head = if is_v4 { 20 } else { 40 };
            let tcp = segment(relay, program, (0, 1), RST_ACK);
            let pseudo = pseudo_header(relay.ip(), program.ip(), TCP, 20);
            assert_eq!(checksum(&[&pseudo, &tcp[head..]]), [0, 0]);
            let message = Refusal::HostUnreachable.message(is_v4).unwrap();
            let icmp = unreachable(relay, program, 1, message);
            let pseudo = pseudo_header(relay.ip(), program.ip(), ICMPV6, icmp.len() - head);
            let covered = if is_v4 { Vec::new() } else { pseudo };
            assert_eq!(checksum(&[&covered, &icmp[head..]]), [0, 0]);
        }
    }
}
