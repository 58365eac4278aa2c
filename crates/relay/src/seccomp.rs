//! connect() of programs under a seccomp filter, handled here: the way without BPF programs and without root.
//!
//! The kernel hands each connect() over (seccomp_unotify(2)) and makes it wait. If the destination is selected, the
//! program's own socket starts connecting to the relay instead, which holds it. getpeername() of such a socket returns
//! the destination. Every other call proceeds as if there were no filter.
//! This redirects but does not confine: a program can change an address after it was read here.

mod process;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::mem::{self, offset_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;

use crate::held::{Held, plain};
use crate::redirect::netns_cookie;
use crate::rules::Rules;
use process::{copy_of, done, read_address, sockaddr, write_address};

/// `AUDIT_ARCH_X86_64` and `AUDIT_ARCH_AARCH64` (linux/audit.h), which libc lacks.
const ARCHITECTURE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else {
    None
};
/// `TCP_CLOSE` (net/tcp_states.h): neither connected nor about to be.
const TCP_CLOSE: u8 = 7;
/// Most connections that wait for the relay; further ones fail with `EAGAIN`.
const MOST_PENDING: usize = 8192;
/// Most processes that are reported at one time.
const MOST_UNSEEN: usize = 64;

/// Why connections cannot be redirected this way.
#[derive(Debug, Error)]
pub enum SeccompError {
    /// There is no filter for this processor.
    #[error("there is no seccomp filter for this processor")]
    Processor,
    /// The kernel does not do what is needed.
    #[error(
        "this kernel lacks what redirects connections by seccomp (Linux 5.14 with CONFIG_SECCOMP_FILTER)"
    )]
    Kernel(#[source] io::Error),
    /// Sockets of other processes cannot be reached.
    #[error(
        "this host does not let a process look into those that it starts, which redirects connections by seccomp \
         (kernel.yama.ptrace_scope, CAP_SYS_PTRACE in a container)"
    )]
    Closed(#[source] io::Error),
}

/// The number of seccomp(2), and the filter for `SECCOMP_SET_MODE_FILTER` as in memory: connect() and getpeername() are
/// notified, everything else is allowed. Programs of another architecture, such as 32-bit ones, are left alone.
///
/// # Errors
/// [`SeccompError::Processor`].
pub fn connect_filter() -> Result<(i64, Vec<u8>), SeccompError> {
    let architecture = ARCHITECTURE.ok_or(SeccompError::Processor)?;
    let compare = |value: u32, jump: [u8; 2]| (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jump, value);
    let load = |at: usize| (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, [0, 0], at as u32);
    let program = [
        load(offset_of!(libc::seccomp_data, arch)),
        compare(architecture, [0, 4]),
        load(offset_of!(libc::seccomp_data, nr)),
        compare(libc::SYS_connect as u32, [1, 0]),
        compare(libc::SYS_getpeername as u32, [0, 1]),
        (libc::BPF_RET | libc::BPF_K, [0, 0], libc::SECCOMP_RET_USER_NOTIF),
        (libc::BPF_RET | libc::BPF_K, [0, 0], libc::SECCOMP_RET_ALLOW),
    ];
    // struct sock_filter (linux/filter.h).
    let bytes = program.iter().flat_map(|(code, [if_equal, otherwise], value)| {
        let ([a, b], [e, f, g, h]) = ((*code as u16).to_ne_bytes(), value.to_ne_bytes());
        [a, b, *if_equal, *otherwise, e, f, g, h]
    });
    Ok((libc::SYS_seccomp, bytes.collect()))
}

/// State of the programs under a filter.
#[derive(Debug)]
pub struct Watch {
    /// Only the supervisor keeps it open: otherwise calls would wait for an answer that never comes.
    listener: Weak<OwnedFd>,
    unseen: Mutex<Vec<u32>>,
}

impl Watch {
    /// All processes under the filter have ended.
    pub fn has_ended(&self) -> bool {
        let Some(listener) = self.listener.upgrade() else { return true };
        let mut at = libc::pollfd { fd: listener.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: one entry, whose descriptor is open.
        unsafe { libc::poll(&raw mut at, 1, 0) == 1 && at.revents & libc::POLLHUP != 0 }
    }

    /// Threads whose calls could not be examined since the last call.
    pub fn unseen(&self) -> Vec<u32> {
        mem::take(&mut *self.unseen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, thread: u32) {
        let mut unseen = self.unseen.lock().unwrap_or_else(PoisonError::into_inner);
        if unseen.len() < MOST_UNSEEN && !unseen.contains(&thread) {
            unseen.push(thread);
        }
    }
}

/// A process under the filter that waits for its supervisor.
#[derive(Debug)]
pub struct Watched {
    /// The descriptor that seccomp(2) returned to it.
    pub listener: OwnedFd,
    /// Its number.
    pub process: u32,
    /// One of its descriptors, to test whether they can be duplicated.
    pub open: RawFd,
}

/// Answers the calls of the programs under a filter.
#[derive(Debug)]
pub struct Supervisor {
    listener: Arc<OwnedFd>,
    netns: u64,
    listeners: [u16; 2],
    rules: Rules,
    pending: VecDeque<Held>,
    /// By the program's end of a connection, as it was given. A later connection from the same end replaces it.
    destinations: HashMap<SocketAddr, SocketAddr>,
    watch: Arc<Watch>,
}

/// What happens to a call.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// The kernel carries it out as it would have without a filter.
    GoesOn,
    /// It returns 0, or fails with this number.
    Returns(i32),
}

impl Supervisor {
    /// TCP connections in the network namespace with the cookie `netns` to destinations that `rules` match go to the
    /// ports `listeners` of 127.0.0.1 and of ::1 (0: to none).
    ///
    /// # Minimum kernel version
    /// 5.14: `SO_NETNS_COOKIE`. pidfd_getfd(2) needs 5.6, `POLLHUP` at the end of all programs 5.9.
    pub fn start(
        watched: Watched,
        netns: u64,
        listeners: [u16; 2],
        rules: Rules,
    ) -> Result<Self, SeccompError> {
        let mut sizes =
            libc::seccomp_notif_sizes { seccomp_notif: 0, seccomp_notif_resp: 0, seccomp_data: 0 };
        // SAFETY: the kernel writes the three sizes.
        let asked =
            unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_NOTIF_SIZES, 0, &raw mut sizes) };
        done(asked).map_err(SeccompError::Kernel)?;
        if usize::from(sizes.seccomp_notif) != size_of::<libc::seccomp_notif>()
            || usize::from(sizes.seccomp_notif_resp) != size_of::<libc::seccomp_notif_resp>()
        {
            return Err(SeccompError::Kernel(io::ErrorKind::Unsupported.into()));
        }
        copy_of(watched.process, watched.open).map_err(|e| match e.raw_os_error() {
            Some(libc::ENOSYS) => SeccompError::Kernel(e),
            _ => SeccompError::Closed(e),
        })?;
        let listener = Arc::new(watched.listener);
        let watch = Arc::new(Watch { listener: Arc::downgrade(&listener), unseen: Mutex::default() });
        Ok(Self {
            listener,
            netns,
            listeners,
            rules,
            pending: VecDeque::new(),
            destinations: HashMap::new(),
            watch,
        })
    }

    /// State of the programs.
    pub fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.watch)
    }

    /// To poll: `POLLIN` is for [`Self::answer`], `POLLHUP` without it says that no program is left.
    pub fn fd(&self) -> RawFd {
        self.listener.as_raw_fd()
    }

    /// The next connection that is held.
    pub fn next(&mut self) -> Option<Held> {
        self.pending.pop_front()
    }

    /// Answers one waiting call.
    pub fn answer(&mut self) {
        // SAFETY: of numbers alone, for which 0 is a value; the kernel wants zeros.
        let mut call: libc::seccomp_notif = unsafe { mem::zeroed() };
        // SAFETY: the kernel writes as much as it said in SECCOMP_GET_NOTIF_SIZES.
        let got = unsafe { libc::ioctl(self.fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) };
        if got != 0 {
            // It was interrupted, or the program was killed.
            return;
        }
        let (error, flags) = match self.decide(&call) {
            Answer::GoesOn => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            Answer::Returns(number) => (-number, 0),
        };
        let mut reply = libc::seccomp_notif_resp { id: call.id, val: 0, error, flags };
        // SAFETY: the kernel reads the reply. If no call waits any more, there is nothing to do.
        unsafe { libc::ioctl(self.fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut reply) };
    }

    fn decide(&mut self, call: &libc::seccomp_notif) -> Answer {
        if libc::c_long::from(call.data.nr) == libc::SYS_getpeername {
            return match self.tell_destination(call) {
                Ok(true) => Answer::Returns(0),
                // What is wrong with the call, the kernel will report.
                Ok(false) | Err(_) => Answer::GoesOn,
            };
        }
        match self.look(call) {
            Ok(Some((socket, given, relay))) => self.redirect(&socket, given, relay),
            Ok(None) => Answer::GoesOn,
            Err(e) => match e.raw_os_error() {
                // It would bypass the relay unnoticed; this is connect(2)'s error when a host runs out of something.
                Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => Answer::Returns(libc::EAGAIN),
                Some(libc::EPERM | libc::EACCES) => {
                    self.watch.add(call.pid);
                    Answer::GoesOn
                }
                // No such descriptor, or no such address: the kernel will report it.
                _ => Answer::GoesOn,
            },
        }
    }

    /// For a call to be redirected: a copy of its socket, its original destination, and its new one.
    fn look(&self, call: &libc::seccomp_notif) -> io::Result<Option<(Socket, SocketAddr, SocketAddr)>> {
        let [fd, address, len, ..] = call.data.args;
        let Some(given) = sockaddr(&read_address(call.pid, address, len as u32)?) else { return Ok(None) };
        let Some(relay) = self.relay(given) else { return Ok(None) };
        if !self.rules.takes(plain(given)) {
            return Ok(None);
        }
        let socket = Socket::from(copy_of(call.pid, fd as RawFd)?);
        let is_meant = self.waits(call)
            && socket.domain()? == Domain::for_address(given)
            && socket.r#type()? == Type::STREAM
            && socket.protocol()? == Some(Protocol::TCP)
            // In another namespace, nothing listens at this port.
            && netns_cookie(&socket)? == self.netns
            // Otherwise connect() reports its state, whatever the destination.
            && state(&socket)? == TCP_CLOSE;
        Ok(is_meant.then_some((socket, given, relay)))
    }

    /// Has getpeername() return the destination of a connection that the relay carries; false: it is another one.
    fn tell_destination(&self, call: &libc::seccomp_notif) -> io::Result<bool> {
        let [fd, address, len, ..] = call.data.args;
        let socket = Socket::from(copy_of(call.pid, fd as RawFd)?);
        let (Some(own), Some(peer)) = (socket.local_addr()?.as_socket(), socket.peer_addr()?.as_socket())
        else {
            return Ok(false);
        };
        let Some(&destination) = self.destinations.get(&plain(own)) else { return Ok(false) };
        let is_carried = self.relay(destination).is_some_and(|relay| plain(relay) == plain(peer))
            && netns_cookie(&socket)? == self.netns
            && self.waits(call);
        if is_carried {
            write_address(call.pid, address, len, destination)?;
        }
        Ok(is_carried)
    }

    /// The number of the thread is still that of the one that made the call.
    fn waits(&self, call: &libc::seccomp_notif) -> bool {
        // SAFETY: the kernel reads the number.
        unsafe { libc::ioctl(self.fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const call.id) == 0 }
    }

    /// The relay for a destination as it was given: an address of IPv4 may be mapped into IPv6.
    fn relay(&self, given: SocketAddr) -> Option<SocketAddr> {
        let [port4, port6] = self.listeners;
        let (ip, port) = match given.ip() {
            IpAddr::V4(_) => (Ipv4Addr::LOCALHOST.into(), port4),
            IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
                (Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), port4)
            }
            IpAddr::V6(_) => (Ipv6Addr::LOCALHOST.into(), port6),
        };
        (port != 0).then(|| SocketAddr::new(ip, port))
    }

    /// Starts connecting to the relay without waiting: a program that wants to wait does so in its own call, which
    /// proceeds, and finds its socket connecting.
    fn redirect(&mut self, socket: &Socket, given: SocketAddr, relay: SocketAddr) -> Answer {
        let Ok(is_nonblocking) = socket.nonblocking() else { return Answer::GoesOn };
        if self.pending.len() >= MOST_PENDING {
            return Answer::Returns(libc::EAGAIN);
        }
        let switch = |on| if is_nonblocking { Ok(()) } else { socket.set_nonblocking(on) };
        let begun = switch(true).and_then(|()| Held::begin(socket, plain(given), relay));
        let is_switched = switch(false).is_ok();
        match begun {
            Ok(held) => {
                self.destinations.insert(held.from, given);
                self.pending.push_back(held);
            }
            Err(e) => return Answer::Returns(e.raw_os_error().unwrap_or(libc::EADDRNOTAVAIL)),
        }
        if is_nonblocking || !is_switched { Answer::Returns(libc::EINPROGRESS) } else { Answer::GoesOn }
    }
}

/// Of a TCP connection: the first byte of `struct tcp_info`.
fn state(socket: &Socket) -> io::Result<u8> {
    let (mut state, mut len) = (0_u8, 1);
    // SAFETY: the kernel writes at most one byte.
    let asked = unsafe {
        let to = (&raw mut state).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut len)
    };
    done(asked.into()).map(|_| state)
}

#[cfg(test)]
mod tests;
