//! A connect() of a program that waits until its destination has answered (decision 30).
//!
//! The listener of the relay answers no SYN, so the program's socket stays in SYN-SENT, as if the SYN were on its
//! way. Once the proxy is connected, the relay connects to the program's end: both have sent a SYN, and TCP makes one
//! connection of them at once (simultaneous open, RFC 9293, section 3.5). A refusal is a RST that acknowledges the SYN.

use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use weir_tcp::diag::{Diag, Id, State};

use crate::packets::{Forger, Refusal};

/// Within which this host's own TCP answers over loopback.
const PATIENCE: Duration = Duration::from_secs(5);
/// A program may want this much of its peers (RFC 5082).
const TTL: u32 = 255;
/// Of segments that a program's socket must not receive.
const LOST_TTL: u32 = 1;
/// `IP_LOCAL_PORT_RANGE` (linux/in.h), which libc lacks; Linux 6.3.
const IP_LOCAL_PORT_RANGE: libc::c_int = 51;
/// How often another local port is tried.
const TRIES: usize = 8;
/// `IPV6_MINHOPCOUNT` (linux/in6.h), which libc lacks.
const IPV6_MINHOPCOUNT: libc::c_int = 73;

/// A program's connect() that waits.
#[derive(Debug)]
pub struct Held {
    /// The program's end.
    pub from: SocketAddr,
    /// The destination that it named.
    pub to: SocketAddr,
    /// The end of the relay to which the SYN went.
    relay: SocketAddr,
    /// None: it has been answered.
    means: Option<Means>,
}

/// What a refusal is sent by.
#[derive(Debug)]
enum Means {
    /// Forged: this is the sequence number of the SYN.
    Forged(Arc<Forger>, u32),
    /// A socket in SYN-RECEIVED, which has got the SYN; what it answers is lost, as its TTL is below what the
    /// program's socket takes. Its end is a RST.
    Armed(Socket),
}

impl Held {
    /// One whose SYN has the sequence number `sequence`.
    pub fn new(
        from: SocketAddr,
        to: SocketAddr,
        relay: SocketAddr,
        forger: Arc<Forger>,
        sequence: u32,
    ) -> Self {
        Self { from, to, relay, means: Some(Means::Forged(forger, sequence)) }
    }

    /// Starts to connect a program's own non-blocking socket to the relay, on behalf of `to`. Needs no privileges.
    ///
    /// # Errors
    /// Those of connect(2).
    pub fn begin(program: &Socket, to: SocketAddr, relay: SocketAddr) -> io::Result<Self> {
        let (bound, own) = (program.local_addr()?.as_socket(), plain(relay));
        raise_least_ttl(program, own)?;
        let mut problem = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for _ in 0..TRIES {
            // This SYN is dropped.
            start(program, relay)?;
            match arm(program, bound, own) {
                // This one reaches the armed socket.
                Ok((from, range, armed)) => {
                    let started = start(program, relay);
                    if let Some(range) = range {
                        set(program, libc::IPPROTO_IP, IP_LOCAL_PORT_RANGE, range)?;
                    }
                    match started {
                        Ok(()) => {
                            return Ok(Self { from, to, relay: own, means: Some(Means::Armed(armed)) });
                        }
                        // The port has been taken meanwhile.
                        Err(e) if e.kind() == io::ErrorKind::AddrNotAvailable => problem = e,
                        Err(e) => return Err(e),
                    }
                }
                Err(e) => problem = e,
            }
            disconnect(program)?;
        }
        Err(problem)
    }

    /// Whether the program still waits: it has not closed its socket, and the kernel has not given up.
    pub fn is_waiting(&self, diag: &mut Diag) -> bool {
        let id = Id { local: self.from, remote: self.relay, interface: 0, cookie: Id::ANY_COOKIE };
        // If the kernel does not say, it waits.
        diag.one(&id).map_or(true, |found| found.is_some_and(|one| one.state == State::SYN_SENT))
    }

    /// The connection, from the relay's end; the program's connect() has succeeded.
    ///
    /// # Errors
    /// The program waits no longer.
    pub fn accept(mut self) -> io::Result<TcpStream> {
        let socket = own_end(self.relay, TTL)?;
        if matches!(self.means, Some(Means::Armed(_))) {
            // It has the same ends. What it sends at its end is lost.
            self.means = None;
        }
        socket.connect_timeout(&self.from.into(), PATIENCE)?;
        self.means = None;
        Ok(socket.into())
    }

    /// The program's connect() fails. An armed socket has one answer: `ECONNREFUSED`.
    pub fn refuse(mut self, why: Refusal) {
        self.end(why);
    }

    fn end(&mut self, why: Refusal) {
        match self.means.take() {
            None => {}
            Some(Means::Forged(forger, sequence)) => forger.refuse(self.relay, self.from, sequence, why),
            Some(Means::Armed(socket)) => {
                let _ = set_ttl(&socket, self.relay, TTL);
            }
        }
    }
}

/// Nobody waits for an answer that never comes.
impl Drop for Held {
    fn drop(&mut self) {
        self.end(Refusal::HostUnreachable);
    }
}

/// For a program's socket in SYN-SENT: its end, its range of ports if that has to be restored, and a socket in SYN-SENT
/// to there, whose SYN is lost. The program's socket is as before connect() then, but will use the same port.
fn arm(
    program: &Socket,
    bound: Option<SocketAddr>,
    relay: SocketAddr,
) -> io::Result<(SocketAddr, Option<u32>, Socket)> {
    let from = program.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
    let armed = own_end(relay, LOST_TTL)?;
    start(&armed, plain(from))?;
    disconnect(program)?;
    // Of no effect on a port that the program has chosen.
    let range = get(program, libc::IPPROTO_IP, IP_LOCAL_PORT_RANGE).ok();
    if range.is_some() {
        set(program, libc::IPPROTO_IP, IP_LOCAL_PORT_RANGE, u32::from(from.port()) * 0x1_0001)?;
    } else {
        // Its address stays free, unless the program has chosen it; a port that it has chosen is still its own (EINVAL).
        // One of a connection that has just ended cannot be had like this.
        let ip = bound.map_or_else(|| from.ip(), |bound| bound.ip());
        match program.bind(&SocketAddr::new(ip, from.port()).into()) {
            Err(e) if e.raw_os_error() != Some(libc::EINVAL) => return Err(e),
            _ => {}
        }
    }
    Ok((plain(from), range, armed))
}

fn get(socket: &Socket, level: libc::c_int, name: libc::c_int) -> io::Result<u32> {
    let (mut value, mut len) = (0_u32, size_of::<u32>() as libc::socklen_t);
    // SAFETY: the kernel writes one int.
    let done =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len) };
    if done == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

fn set(socket: &Socket, level: libc::c_int, name: libc::c_int, value: u32) -> io::Result<()> {
    let len = size_of::<u32>() as libc::socklen_t;
    // SAFETY: the kernel reads one int.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A socket at the address of a listener of the relay, that ends with a RST until it is connected.
fn own_end(relay: SocketAddr, ttl: u32) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(relay), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_port(true)?;
    set_ttl(&socket, relay, ttl)?;
    socket.bind(&relay.into())?;
    if ttl == LOST_TTL {
        socket.set_nonblocking(true)?;
        socket.set_linger(Some(Duration::ZERO))?;
    }
    Ok(socket)
}

fn set_ttl(socket: &Socket, relay: SocketAddr, ttl: u32) -> io::Result<()> {
    if relay.is_ipv4() { socket.set_ttl_v4(ttl) } else { socket.set_unicast_hops_v6(ttl) }
}

/// Segments with [`LOST_TTL`] do not reach the program's socket (RFC 5082 calls this GTSM).
fn raise_least_ttl(program: &Socket, relay: SocketAddr) -> io::Result<()> {
    let (level, name) = match relay.ip() {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MINTTL),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, IPV6_MINHOPCOUNT),
    };
    let least = get(program, level, name).unwrap_or_default();
    set(program, level, name, least.max(LOST_TTL + 1))
}

/// Starts to connect a non-blocking socket.
fn start(socket: &Socket, to: SocketAddr) -> io::Result<()> {
    match socket.connect(&to.into()) {
        Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
        _ => Ok(()),
    }
}

/// Undoes connect() (connect(2), `AF_UNSPEC`).
fn disconnect(socket: &Socket) -> io::Result<()> {
    // SAFETY: of numbers alone, for which 0 is a value: `AF_UNSPEC`.
    let nowhere: libc::sockaddr_in = unsafe { mem::zeroed() };
    let len = size_of_val(&nowhere) as libc::socklen_t;
    // SAFETY: the kernel reads the address.
    let done = unsafe { libc::connect(socket.as_raw_fd(), (&raw const nowhere).cast(), len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Address and port alone, those of IPv4 as such.
pub fn plain(at: SocketAddr) -> SocketAddr {
    SocketAddr::new(at.ip().to_canonical(), at.port())
}

#[cfg(test)]
pub mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::relay::listen;

    const TO: &str = "192.0.2.1:80";

    /// A listener that answers no SYN.
    pub struct Relay {
        listener: TcpListener,
        _only: TcpStream,
    }

    pub fn relay(at: &str) -> Relay {
        let (listener, only) = listen(at.parse().unwrap()).unwrap();
        Relay { listener, _only: only.unwrap() }
    }

    impl std::ops::Deref for Relay {
        type Target = TcpListener;

        fn deref(&self) -> &TcpListener {
            &self.listener
        }
    }

    fn begin(program: &Socket, relay: &Relay) -> Held {
        program.set_nonblocking(true).unwrap();
        let at = relay.local_addr().unwrap();
        let local = program.local_addr().unwrap();
        let at = match at {
            SocketAddr::V4(v4) if local.is_ipv6() => {
                SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
            }
            _ => at,
        };
        Held::begin(program, TO.parse().unwrap(), at).unwrap()
    }

    /// A program's socket whose connect() waits.
    pub fn held() -> (Socket, Held, Relay) {
        let (program, relay) = (Socket::new(Domain::IPV4, Type::STREAM, None).unwrap(), relay("127.0.0.1:0"));
        let held = begin(&program, &relay);
        (program, held, relay)
    }

    /// What poll() says of a socket within this time.
    pub fn events(socket: &Socket, within_ms: libc::c_int) -> libc::c_short {
        let mut at = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: one entry.
        unsafe { libc::poll(&raw mut at, 1, within_ms) };
        at.revents
    }

    #[test]
    fn a_connection_is_made_when_it_is_accepted_and_carries_bytes_both_ways() {
        for (at, domain) in
            [("127.0.0.1:0", Domain::IPV4), ("127.0.0.1:0", Domain::IPV6), ("[::1]:0", Domain::IPV6)]
        {
            let (relay, mut program) = (relay(at), Socket::new(domain, Type::STREAM, None).unwrap());
            let held = begin(&program, &relay);
            let mut diag = Diag::open().unwrap();
            assert!(held.is_waiting(&mut diag));
            assert_eq!(events(&program, 0), 0);
            let mut stream = held.accept().unwrap();
            assert_eq!(events(&program, -1), libc::POLLOUT);
            assert!(program.take_error().unwrap().is_none());
            program.set_nonblocking(false).unwrap();
            program.write_all(b"there").unwrap();
            stream.read_exact(&mut [0; 5]).unwrap();
            stream.write_all(b"back").unwrap();
            program.read_exact(&mut [0; 4]).unwrap();
        }
    }

    #[test]
    fn a_connection_that_is_refused_fails_at_once_and_one_that_is_forgotten_too() {
        for is_forgotten in [false, true] {
            let (program, held, _relay) = held();
            if is_forgotten {
                drop(held);
            } else {
                held.refuse(Refusal::Refused);
            }
            assert_eq!(events(&program, -1) & libc::POLLERR, libc::POLLERR);
            let error = program.take_error().unwrap().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        }
    }

    #[test]
    fn whoever_has_given_up_waits_no_longer() {
        let (program, held, _relay) = held();
        drop(program);
        assert!(!held.is_waiting(&mut Diag::open().unwrap()));
        assert!(held.accept().is_err());
    }

    #[test]
    fn a_port_that_the_program_chose_is_kept_and_its_address_stays_free() {
        let (relay, program) = (relay("127.0.0.1:0"), Socket::new(Domain::IPV4, Type::STREAM, None).unwrap());
        program.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let own = program.local_addr().unwrap().as_socket().unwrap();
        let held = begin(&program, &relay);
        assert_eq!(held.from, own);
        drop(held);
        // It is nobody's choice: the socket may connect from another address.
        let (program, held, _relay) = super::tests::held();
        drop(held);
        disconnect(&program).unwrap();
        assert!(program.local_addr().unwrap().as_socket().unwrap().ip().is_unspecified());
    }
}
