//! Threads of this process stand for programs: a filter is a thread's own, and needs no privileges.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use super::process::{SHORTEST_SOCKADDR_IN6, process_of};
use super::*;

const DESTINATION: &str = "192.0.2.1:80";

/// Puts the calling thread under the filter.
fn enter() -> OwnedFd {
    let (number, mut filter) = connect_filter().unwrap();
    let program = libc::sock_fprog { len: (filter.len() / 8) as u16, filter: filter.as_mut_ptr().cast() };
    // SAFETY: the kernel copies the filter.
    let made = unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        libc::syscall(number, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    };
    // SAFETY: nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(done(made).unwrap() as RawFd) }
}

struct Bed<T> {
    supervisor: Supervisor,
    _relay: crate::held::tests::Relay,
    program: JoinHandle<T>,
}

/// `work` under a filter, beside a relay for all destinations.
fn bed<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Bed<T> {
    let relay = crate::held::tests::relay("127.0.0.1:0");
    let (tell, told) = mpsc::channel();
    let program = thread::spawn(move || {
        // SAFETY: of nothing.
        let thread = unsafe { libc::gettid() };
        tell.send((enter(), thread as u32)).unwrap();
        work()
    });
    let (listener, process) = told.recv().unwrap();
    let watched = Watched { listener, process, open: relay.as_raw_fd() };
    let ports = [relay.local_addr().unwrap().port(), 0];
    let rules = Rules::parse(&["any"]).unwrap();
    let cookie = netns_cookie(&*relay).unwrap();
    Bed { supervisor: Supervisor::start(watched, cookie, ports, rules).unwrap(), _relay: relay, program }
}

impl<T> Bed<T> {
    /// What poll() says of the listener when it says something.
    fn events(&self) -> libc::c_short {
        let mut at = libc::pollfd { fd: self.supervisor.fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry.
        while unsafe { libc::poll(&raw mut at, 1, -1) } != 1 {}
        at.revents
    }

    /// Answers all calls, and accepts all connections, until the program has ended; what it returned.
    fn serve(mut self) -> (Supervisor, Vec<(SocketAddr, SocketAddr, TcpStream)>, T) {
        let mut accepted = Vec::new();
        while self.events() & libc::POLLIN != 0 {
            self.supervisor.answer();
            while let Some(held) = self.supervisor.next() {
                accepted.push((held.from, held.to, held.accept().unwrap()));
            }
        }
        assert!(self.supervisor.watch().has_ended());
        (self.supervisor, accepted, self.program.join().unwrap())
    }
}

#[test]
fn the_filter_has_seven_instructions_and_notifies_of_two_calls_alone() {
    let (_, filter) = connect_filter().unwrap();
    let word = |at: usize| u32::from_ne_bytes(filter[at..at + 4].try_into().unwrap());
    let values: Vec<_> = (0..7).map(|index| word(8 * index + 4)).collect();
    // struct seccomp_data: the number is at 0, the architecture at 4.
    assert_eq!(values[0], 4);
    assert_eq!(values[2], 0);
    assert_eq!(values[3..5], [libc::SYS_connect, libc::SYS_getpeername].map(|number| number as u32));
    assert_eq!(values[5..], [libc::SECCOMP_RET_USER_NOTIF, libc::SECCOMP_RET_ALLOW]);
    let jumps = [1, 3, 4].map(|index| [filter[8 * index + 2], filter[8 * index + 3]]);
    // Another architecture and another call lead to the last instruction, the two calls to the one before.
    assert_eq!(jumps, [[0, 4], [1, 0], [0, 1]]);
    assert_eq!(filter.len(), 56);
}

#[test]
fn addresses_are_read_as_the_kernel_does() {
    let mut v4 = [0_u8; 16];
    v4[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    v4[2..8].copy_from_slice(&[0, 80, 192, 0, 2, 1]);
    assert_eq!(sockaddr(&v4), Some(DESTINATION.parse().unwrap()));
    assert_eq!(sockaddr(&v4[..15]), None);
    let mut v6 = [0_u8; 28];
    v6[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
    v6[2..4].copy_from_slice(&[1, 187]);
    v6[8..12].copy_from_slice(&[0x20, 1, 0x0d, 0xb8]);
    for len in SHORTEST_SOCKADDR_IN6..=28 {
        assert_eq!(sockaddr(&v6[..len]), Some("[2001:db8::]:443".parse().unwrap()));
    }
    assert_eq!(sockaddr(&v6[..23]), None);
    v6[0..2].copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
    for len in 0..28 {
        assert_eq!(sockaddr(&v6[..len]), None);
    }
}

#[test]
fn a_blocking_connection_goes_to_the_relay_and_its_destination_is_known() {
    let bed = bed(|| {
        let mut made = TcpStream::connect(DESTINATION).unwrap();
        assert!(!Socket::from(made.try_clone().unwrap()).nonblocking().unwrap());
        made.write_all(b"x").unwrap();
        made.local_addr().unwrap()
    });
    let (_, accepted, own) = bed.serve();
    let [(from, to, stream)] = &mut <[_; 1]>::try_from(accepted).unwrap();
    assert_eq!((*from, *to), (own, DESTINATION.parse().unwrap()));
    stream.read_exact(&mut [0]).unwrap();
}

#[test]
fn a_connection_that_does_not_wait_is_in_progress_and_then_made() {
    let bed = bed(|| {
        let made = Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::TCP)).unwrap();
        made.set_nonblocking(true).unwrap();
        let to: SocketAddr = "[::ffff:192.0.2.1]:80".parse().unwrap();
        let begun = made.connect(&to.into()).unwrap_err().raw_os_error();
        assert_eq!(begun, Some(libc::EINPROGRESS));
        let mut at = libc::pollfd { fd: made.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: one entry.
        while unsafe { libc::poll(&raw mut at, 1, -1) } != 1 {}
        assert!(made.take_error().unwrap().is_none());
        // That it was called is as the kernel says, and not a second connection.
        let again = [(); 2].map(|()| made.connect(&to.into()).err().and_then(|e| e.raw_os_error()));
        assert_eq!(again, [None, Some(libc::EISCONN)]);
        made.local_addr().unwrap().as_socket().unwrap()
    });
    let (_, accepted, own) = bed.serve();
    let [(from, to, _)] = &accepted[..] else { panic!("one connection") };
    assert_eq!((*from, *to), (plain(own), DESTINATION.parse().unwrap()));
}

#[test]
fn the_other_end_of_a_connection_is_its_destination_as_it_was_given() {
    let bed = bed(|| {
        ["192.0.2.1:80", "[::ffff:192.0.2.2]:81"].map(|to| {
            let to: SocketAddr = to.parse().unwrap();
            let made = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP)).unwrap();
            let early = made.peer_addr().unwrap_err().raw_os_error();
            made.connect(&to.into()).unwrap();
            // Into half of the room that it wants, and into none.
            let mut half = [0_u8; 8];
            let lens = [half.len(), 0].map(|room| {
                let mut len = room as libc::socklen_t;
                // SAFETY: the kernel writes at most `room` bytes.
                let got =
                    unsafe { libc::getpeername(made.as_raw_fd(), half.as_mut_ptr().cast(), &raw mut len) };
                (got, len)
            });
            // SAFETY: of numbers alone; there is no such address.
            let failed = unsafe {
                libc::getpeername(made.as_raw_fd(), std::ptr::without_provenance_mut(1), std::ptr::null_mut())
            };
            let failure = (failed, io::Error::last_os_error().raw_os_error());
            let other = UnixStream::pair().unwrap().0.peer_addr().unwrap().is_unnamed();
            (to, early, made.peer_addr().unwrap().as_socket().unwrap(), half, lens, failure, other)
        })
    });
    let (_, _, found) = bed.serve();
    for (to, early, peer, half, lens, failure, other) in found {
        assert_eq!(early, Some(libc::ENOTCONN));
        assert_eq!(peer, to);
        assert_eq!(half[2..4], to.port().to_be_bytes());
        let len = socket2::SockAddr::from(to).len();
        assert_eq!(lens, [(0, len), (0, len)]);
        assert_eq!(failure, (-1, Some(libc::EFAULT)));
        assert!(other);
    }
}

#[test]
fn a_connection_that_the_relay_refuses_is_refused_in_its_own_call() {
    let mut bed = bed(|| TcpStream::connect(DESTINATION).unwrap_err().raw_os_error());
    assert_eq!(bed.events() & libc::POLLIN, libc::POLLIN);
    bed.supervisor.answer();
    bed.supervisor.next().unwrap().refuse(crate::packets::Refusal::Refused);
    assert_eq!(bed.program.join().unwrap(), Some(libc::ECONNREFUSED));
}

#[test]
fn what_is_not_meant_goes_on_as_ever() {
    let bed = bed(|| {
        // Nobody listens at TCPMUX of this host, and loopback is not meant by "any".
        let refused = TcpStream::connect("127.0.0.1:1").unwrap_err().raw_os_error();
        let missing = UnixStream::connect("/nowhere/at/all").unwrap_err().raw_os_error();
        // SAFETY: of numbers alone; such an address cannot be read.
        let failed = unsafe { libc::connect(-1, std::ptr::without_provenance(1), 16) };
        let number = io::Error::last_os_error().raw_os_error();
        let udp = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        udp.connect("127.0.0.1:9").unwrap();
        (refused, missing, failed, number)
    });
    let (supervisor, accepted, found) = bed.serve();
    assert_eq!(found.0, Some(libc::ECONNREFUSED));
    assert_eq!(found.1, Some(libc::ENOENT));
    assert_eq!(found.2, -1);
    assert!(matches!(found.3, Some(libc::EBADF | libc::EFAULT)), "{found:?}");
    assert!(accepted.is_empty());
    assert!(supervisor.watch().unseen().is_empty());
}

#[test]
fn when_nobody_answers_any_more_a_call_fails_and_does_not_hang() {
    let bed = bed(|| TcpStream::connect(DESTINATION).unwrap_err().raw_os_error());
    assert_eq!(bed.events() & libc::POLLIN, libc::POLLIN);
    let watch = bed.supervisor.watch();
    assert!(!watch.has_ended());
    drop(bed.supervisor);
    assert!(watch.has_ended());
    assert_eq!(bed.program.join().unwrap(), Some(libc::ENOSYS));
}

#[test]
fn threads_are_of_their_process() {
    // SAFETY: of nothing.
    let thread = thread::spawn(|| process_of(unsafe { libc::gettid() } as u32).unwrap());
    assert_eq!(thread.join().unwrap(), std::process::id());
    assert!(process_of(0).is_err());
}
