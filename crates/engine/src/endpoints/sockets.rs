//! A port of the system: a UDP socket, as ordinary programs have it. The system makes and checks the headers.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

use weir_wire::{IPV4_LEN, UDP_LEN};

use super::calls::{write_ipv4, write_udp};
use super::port::{BATCH, Port};
use crate::packet::socket;
use crate::thread::check;
use weir_clock::now_ns;

const HEAD: usize = IPV4_LEN + UDP_LEN;
const ROOM: usize = 2048;
const UDP: u8 = 17;
/// As much may wait as at a port that bypasses the system.
const RECEIVE_BUFFER_BYTES: i32 = 4 << 20;
const EXPEDITED: i32 = 46 << 2;

/// The port.
pub struct Sockets {
    socket: OwnedFd,
    buffer: Box<[u8; ROOM]>,
    ends: [Ipv4Addr; 2],
    udp_port: u16,
}

impl Sockets {
    /// Between two addresses, at both of them with the same UDP port; in the calling thread's namespace.
    ///
    /// `with_checksum`: for packets that are sent. ESP has its own (RFC 3948, 2.1).
    pub fn open(here: Ipv4Addr, there: Ipv4Addr, udp_port: u16, with_checksum: bool) -> io::Result<Self> {
        let socket = UdpSocket::bind(SocketAddrV4::new(here, udp_port))?;
        socket.connect(SocketAddrV4::new(there, udp_port))?;
        socket.set_nonblocking(true)?;
        let socket = OwnedFd::from(socket);
        socket::set(&socket, libc::IPPROTO_IP, libc::IP_TOS, EXPEDITED)?;
        if !with_checksum {
            socket::set(&socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1)?;
        }
        // Without the privilege the usual buffer has to do: what does not fit is lost, and counted.
        let _ = socket::set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES);
        Ok(Self { socket, buffer: Box::new([0; ROOM]), ends: [there, here], udp_port })
    }
}

impl Port for Sockets {
    const ADDS_CHECKSUM: bool = false;

    fn receive(&mut self, take: &mut dyn FnMut(&mut [u8])) -> io::Result<usize> {
        for taken in 0..BATCH {
            let room = &mut self.buffer[HEAD..];
            // SAFETY: the kernel writes at most the length given.
            let len = unsafe {
                libc::recv(self.socket.as_raw_fd(), room.as_mut_ptr().cast(), room.len(), libc::MSG_DONTWAIT)
            };
            if len < 0 {
                tolerated()?;
                return Ok(taken);
            }
            let len = HEAD + len as usize;
            // ESP wants whole packets. These headers are not those that came, which the system has checked.
            let [from, to] = self.ends;
            write_ipv4(&mut self.buffer[..], len as u16, UDP, from, to);
            write_udp(&mut self.buffer[IPV4_LEN..], self.udp_port, (len - IPV4_LEN) as u16);
            take(&mut self.buffer[..len]);
        }
        Ok(BATCH)
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<bool> {
        let Some(payload) = packet.get(HEAD..) else { return Ok(false) };
        // SAFETY: the kernel reads the bytes given.
        let sent = unsafe {
            libc::send(self.socket.as_raw_fd(), payload.as_ptr().cast(), payload.len(), libc::MSG_DONTWAIT)
        };
        if sent >= 0 {
            return Ok(true);
        }
        tolerated()?;
        Ok(false)
    }

    fn flush(&mut self) -> io::Result<usize> {
        Ok(0)
    }

    fn wait(&mut self, until_ns: u64) -> io::Result<()> {
        let left_ns = until_ns.saturating_sub(now_ns());
        let timeout = libc::timespec {
            tv_sec: (left_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (left_ns % 1_000_000_000) as libc::c_long,
        };
        let mut polled = libc::pollfd { fd: self.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry, and a valid time.
        let status = unsafe { libc::ppoll(&raw mut polled, 1, &raw const timeout, std::ptr::null()) };
        match check(status) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    fn give_way(&mut self, _: u64, _: u64) {}
}

/// There is nothing, there is no room, or the other end is not there yet: all of it passes.
fn tolerated() -> io::Result<()> {
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ECONNREFUSED | libc::EINTR) => Ok(()),
        _ => Err(error),
    }
}
