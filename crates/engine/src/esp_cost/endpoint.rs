//! What an endpoint of calls does with a packet before ESP and after it: with UDP, without, and by way of layers.

use std::collections::{HashMap, VecDeque};
use std::hint::black_box;
use std::io;
use std::net::UdpSocket;

use weir_wire::{IPV4_LEN, UDP_LEN, fold, ones_complement_sum};

use super::CostError;

/// Each has a port and a synchronization source of its own.
const CALLS: u32 = 64;
const FIRST_PORT: u32 = 20_000;
const FIRST_SOURCE: u32 = 0x5a00_0000;
const RTP_LEN: usize = 12;
const UDP: u8 = 17;
/// For experiments (RFC 3692): RTP has no number of its own.
const RTP: u8 = 253;

/// What is kept of a call.
#[derive(Default)]
struct Call {
    packets: u64,
    highest: u16,
    timestamp: u32,
}

/// What a protocol above IP does with a packet.
type Handler = fn(&mut Endpoint, &[u8]) -> Result<(), CostError>;

/// The calls of an endpoint, and the ways to its program.
pub struct Endpoint {
    calls: HashMap<u32, Call>,
    handlers: HashMap<u8, Handler>,
    queue: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    system: UdpSocket,
    program: UdpSocket,
    room: Vec<u8>,
}

impl Endpoint {
    pub fn new() -> io::Result<Self> {
        let ours = |first: u32| (0..CALLS).map(move |number| (first + number, Call::default()));
        let program = UdpSocket::bind("127.0.0.1:0")?;
        let system = UdpSocket::bind("127.0.0.1:0")?;
        system.connect(program.local_addr()?)?;
        Ok(Self {
            calls: ours(FIRST_PORT).chain(ours(FIRST_SOURCE)).collect(),
            handlers: HashMap::from([(UDP, Self::take_udp as Handler), (RTP, Self::take_rtp as Handler)]),
            queue: VecDeque::new(),
            spare: vec![],
            system,
            program,
            room: vec![0; 2048],
        })
    }

    /// Length and checksum of UDP are checked; its port tells the call.
    pub fn take_udp(&mut self, packet: &[u8]) -> Result<(), CostError> {
        let udp = &packet[IPV4_LEN..];
        let len = usize::from(u16::from_be_bytes([udp[4], udp[5]]));
        if len != udp.len() || checksum(packet) != 0 {
            return Err(CostError::Damaged);
        }
        let port = u32::from(u16::from_be_bytes([udp[2], udp[3]]));
        self.hear(port, &udp[UDP_LEN..])
    }

    /// The synchronization source tells the call.
    pub fn take_rtp(&mut self, packet: &[u8]) -> Result<(), CostError> {
        let rtp = &packet[IPV4_LEN..];
        self.hear(source_of(rtp), rtp)
    }

    /// As between the layers of a system: the packet is copied into a buffer of its own and queued. IP takes it from
    /// there, checks its header, and finds the handler by its protocol.
    pub fn take_by_layers(&mut self, packet: &[u8]) -> Result<(), CostError> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(packet);
        self.queue.push_back(buffer);
        while let Some(buffer) = self.queue.pop_front() {
            let header = fold(ones_complement_sum(&buffer[..IPV4_LEN]).into());
            let handler = self.handlers.get(&buffer[9]).filter(|_| header == u16::MAX).copied();
            handler.ok_or(CostError::Damaged)?(self, &buffer)?;
            self.spare.push(buffer);
        }
        Ok(())
    }

    /// What is in UDP goes through the system's own UDP and a socket, as to another program.
    pub fn take_by_system(&mut self, packet: &[u8]) -> Result<(), CostError> {
        self.system.send(&packet[IPV4_LEN + UDP_LEN..])?;
        let len = self.program.recv(&mut self.room)?;
        let room = std::mem::take(&mut self.room);
        let taken = self.hear(source_of(&room[..len]), &room[..len]);
        self.room = room;
        taken
    }

    fn hear(&mut self, of: u32, rtp: &[u8]) -> Result<(), CostError> {
        let call = self.calls.get_mut(&of).ok_or(CostError::Damaged)?;
        if rtp[0] >> 6 != 2 {
            return Err(CostError::Damaged);
        }
        call.packets += 1;
        call.highest = u16::from_be_bytes([rtp[2], rtp[3]]);
        call.timestamp = u32::from_be_bytes([rtp[4], rtp[5], rtp[6], rtp[7]]);
        black_box(call);
        Ok(())
    }
}

fn source_of(rtp: &[u8]) -> u32 {
    u32::from_be_bytes([rtp[8], rtp[9], rtp[10], rtp[11]])
}

/// Writes the headers of call `number` into an IPv4 packet with speech: with UDP, or without.
pub fn write(packet: &mut [u8], number: usize, in_udp: bool) {
    let len = packet.len() as u16;
    let call = number as u32 % CALLS;
    packet[..IPV4_LEN]
        .copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, UDP, 0, 0, 198, 18, 0, 1, 198, 19, 0, 1]);
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    let rtp_at = if in_udp { IPV4_LEN + UDP_LEN } else { IPV4_LEN };
    let rtp = &mut packet[rtp_at..rtp_at + RTP_LEN];
    rtp[..2].copy_from_slice(&[0x80, 0]);
    rtp[2..4].copy_from_slice(&(number as u16).to_be_bytes());
    rtp[4..8].copy_from_slice(&(number as u32).wrapping_mul(160).to_be_bytes());
    rtp[8..].copy_from_slice(&(FIRST_SOURCE + call).to_be_bytes());
    if in_udp {
        let udp = &mut packet[IPV4_LEN..IPV4_LEN + UDP_LEN];
        udp[..2].copy_from_slice(&30_000u16.to_be_bytes());
        udp[2..4].copy_from_slice(&((FIRST_PORT + call) as u16).to_be_bytes());
        udp[4..6].copy_from_slice(&(len - IPV4_LEN as u16).to_be_bytes());
        udp[6..].fill(0);
        let sum = checksum(packet);
        packet[IPV4_LEN + 6..IPV4_LEN + 8].copy_from_slice(&sum.to_ne_bytes());
    } else {
        packet[9] = RTP;
    }
    let sum = !fold(ones_complement_sum(&packet[..IPV4_LEN]).into());
    packet[10..12].copy_from_slice(&sum.to_ne_bytes());
}

/// Of UDP and its pseudo header (RFC 768), in the order of the bytes of the packet; 0 where it is right.
fn checksum(packet: &[u8]) -> u16 {
    let udp = &packet[IPV4_LEN..];
    let pseudo = [&packet[12..IPV4_LEN], &[0, UDP], &udp[4..6]].map(ones_complement_sum);
    let sum = pseudo.into_iter().map(u64::from).sum::<u64>() + u64::from(ones_complement_sum(udp));
    !fold(sum)
}
