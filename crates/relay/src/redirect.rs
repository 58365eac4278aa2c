//! The BPF programs that send connections to the relay: loaded, attached to a control group and to the relay's
//! listeners, queried.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use aya::maps::{MapData, RingBuf};
use aya::programs::{CgroupAttachMode, CgroupSockAddr, ProgramError, SockOps, SocketFilter};
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};
use thiserror::Error;

use crate::held::Held;
use crate::packets::Forger;
use crate::rules::{MOST_APART, MOST_RULES, Rule, Rules};

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/connect.o"));

/// Entries of `connect_rules`: `WEIR_CONNECT_RULES`.
const RULES: usize = 160;
/// Words of `struct weir_connect_rule`, of `struct weir_end`, and of `struct weir_held`.
const RULE_WORDS: usize = 11;
const END_WORDS: usize = 5;
const HELD_WORDS: usize = 2 * END_WORDS + 1;

/// The rules that a user can give, those that are excepted, and the networks that are left out.
const _: () = assert!(2 * MOST_RULES + MOST_APART <= RULES);

/// Getpeername is last: without it, only the reported address of a program's other end is wrong.
const PROGRAMS: [&str; 4] = ["weir_connect4", "weir_connect6", "weir_peer4", "weir_peer6"];
const WATCHER: &str = "weir_connecting";
const HOLDER: &str = "weir_hold";

/// Why connections cannot be redirected.
#[derive(Debug, Error)]
pub enum RedirectError {
    /// The user may not load BPF programs.
    #[error("the kernel lets only root (CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW) redirect connections")]
    NotAllowed(#[source] io::Error),
    /// The kernel does not do what is needed.
    #[error("this kernel refuses to {action} (Linux 5.14 with CONFIG_CGROUP_BPF is needed)")]
    Refused {
        /// What was tried.
        action: String,
        /// The kernel's reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The object file does not belong to this program.
    #[error("the object file lacks {0}; rebuild Weir")]
    Missing(&'static str),
}

/// The running programs; gone when this is dropped, or its process ends.
pub struct Redirect {
    _bpf: Ebpf,
    ring: RingBuf<MapData>,
    ports: [u16; 2],
    forger: Arc<Forger>,
}

impl Redirect {
    /// From now on, TCP connections that programs in `cgroup` make in the network namespace with the cookie `netns`
    /// to destinations that `rules` match go to `listeners`, at 127.0.0.1 and perhaps at ::1, and are held there.
    ///
    /// # Minimum kernel version
    /// 5.14: `SO_NETNS_COOKIE`. The BPF links need 5.7, `BPF_CGROUP_INET4_GETPEERNAME` and the ring 5.8.
    pub fn attach(
        cgroup: BorrowedFd<'_>,
        netns: u64,
        listeners: &[TcpListener],
        rules: &Rules,
    ) -> Result<Self, RedirectError> {
        let forger = Arc::new(Forger::open().map_err(RedirectError::NotAllowed)?);
        let ports = ports(listeners);
        let mut table = [0_u32; RULES * RULE_WORDS];
        for (row, rule) in table.chunks_exact_mut(RULE_WORDS).zip(rules.all()) {
            row.copy_from_slice(&words(rule));
        }
        let len = rules.all().len() as u32;
        let mut bpf = EbpfLoader::new()
            .override_global("connect_netns", &netns, true)
            .override_global("connect_port4", &u32::from(ports[0]), true)
            .override_global("connect_port6", &u32::from(ports[1]), true)
            .override_global("connect_rules_len", &len, true)
            .override_global("connect_rules", &table[..], true)
            .load(OBJECT)
            .map_err(|e| refused("load BPF maps")(e.into()))?;
        let ring = bpf.take_map("connect_held").ok_or(RedirectError::Missing("connect_held"))?;
        let ring = RingBuf::try_from(ring).map_err(|e| refused("open a BPF map")(e.into()))?;
        let holder: &mut SocketFilter = program(&mut bpf, HOLDER)?;
        holder.load().map_err(failed(HOLDER))?;
        for listener in listeners {
            holder.attach(listener).map_err(|e| refused("attach a BPF program to a socket")(e.into()))?;
        }
        // Before those that redirect: a connection that was redirected would not be known.
        let watcher: &mut SockOps = program(&mut bpf, WATCHER)?;
        watcher.load().map_err(failed(WATCHER))?;
        watcher.attach(cgroup, CgroupAttachMode::Single).map_err(failed(WATCHER))?;
        for name in PROGRAMS.into_iter().rev() {
            let each: &mut CgroupSockAddr = program(&mut bpf, name)?;
            each.load().map_err(failed(name))?;
            each.attach(cgroup, CgroupAttachMode::Single).map_err(failed(name))?;
        }
        Ok(Self { _bpf: bpf, ring, ports, forger })
    }

    /// To poll: readable while connections are held that [`Self::next`] has not returned.
    pub fn fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }

    /// The next connection that is held.
    pub fn next(&mut self) -> Option<Held> {
        let item = self.ring.next()?;
        let mut words = [0; HELD_WORDS];
        for (word, bytes) in words.iter_mut().zip(item.as_chunks::<4>().0) {
            *word = u32::from_ne_bytes(*bytes);
        }
        let [a, b, c, d, e, f, g, h, i, j, sequence] = words;
        let (from, to) = (address([a, b, c, d, e]), address([f, g, h, i, j]));
        let relay = match from {
            SocketAddr::V4(_) => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), self.ports[0]),
            SocketAddr::V6(_) => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), self.ports[1]),
        };
        Some(Held::new(from, to, relay, Arc::clone(&self.forger), sequence))
    }
}

/// Of the listeners at 127.0.0.1 and at ::1; 0: there is none.
pub fn ports(listeners: &[TcpListener]) -> [u16; 2] {
    let mut ports = [0; 2];
    for (port, listener) in ports.iter_mut().zip(listeners) {
        *port = listener.local_addr().map_or(0, |at| at.port());
    }
    ports
}

fn program<'a, T>(bpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut T, RedirectError>
where
    T: 'a,
    &'a mut T: TryFrom<&'a mut aya::programs::Program, Error = ProgramError>,
{
    let found = bpf.program_mut(name).ok_or(RedirectError::Missing(name))?;
    found.try_into().map_err(|_| RedirectError::Missing(name))
}

fn failed(name: &'static str) -> impl Fn(ProgramError) -> RedirectError {
    move |error| refused(&format!("run the BPF program {name}"))(error.into())
}

fn refused(action: &str) -> impl FnOnce(Box<dyn std::error::Error + Send + Sync>) -> RedirectError + '_ {
    move |source| match os_error(source.as_ref()) {
        // EACCES is the verifier's answer, to any user.
        Some(libc::EPERM) => RedirectError::NotAllowed(io::Error::from_raw_os_error(libc::EPERM)),
        _ => RedirectError::Refused { action: action.to_owned(), source },
    }
}

/// The number behind an error of aya.
fn os_error(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(number) = error.downcast_ref().and_then(io::Error::raw_os_error) {
            return Some(number);
        }
        cause = error.source();
    }
    None
}

/// Reads `SO_NETNS_COOKIE` (socket.h of Linux 5.14), which libc lacks.
pub fn netns_cookie(socket: &impl AsRawFd) -> io::Result<u64> {
    const SO_NETNS_COOKIE: libc::c_int = 71;
    let mut cookie = 0_u64;
    let mut len = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most the eight bytes of the cookie.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut len,
        )
    };
    if done == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
}

/// As in memory: bytes in network order.
fn four(octets: [u8; 16]) -> [u32; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(octets.as_chunks::<4>().0) {
        *word = u32::from_ne_bytes(*bytes);
    }
    words
}

fn words(rule: &Rule) -> [u32; RULE_WORDS] {
    let ([a, b, c, d], [e, f, g, h]) = (four(rule.network()), four(rule.mask()));
    let (first, last) = (u32::from(*rule.ports.start()), u32::from(*rule.ports.end()));
    [a, b, c, d, e, f, g, h, first, last, rule.takes.into()]
}

fn address([a, b, c, d, port]: [u32; END_WORDS]) -> SocketAddr {
    let mut octets = [0; 16];
    for (bytes, word) in octets.as_chunks_mut::<4>().0.iter_mut().zip([a, b, c, d]) {
        *bytes = word.to_ne_bytes();
    }
    SocketAddr::new(Ipv6Addr::from(octets).to_canonical(), u16::from_be(port as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_laid_out_as_on_the_wire() {
        let port = u32::from(443_u16.to_be());
        let mapped = [0, 0, u32::from_ne_bytes([0, 0, 0xff, 0xff]), u32::from_ne_bytes([192, 0, 2, 1]), port];
        assert_eq!(address(mapped), "192.0.2.1:443".parse().unwrap());
        let v6 = [u32::from_ne_bytes([0x20, 1, 0x0d, 0xb8]), 0, 0, u32::from_ne_bytes([0, 0, 0, 1]), port];
        assert_eq!(address(v6), "[2001:db8::1]:443".parse().unwrap());
    }

    #[test]
    fn missing_rights_are_told_from_missing_features() {
        let from = |number| refused("run")(io::Error::from_raw_os_error(number).into());
        assert!(matches!(from(libc::EPERM), RedirectError::NotAllowed(_)));
        assert!(from(libc::EINVAL).to_string().starts_with("this kernel refuses to run"));
    }
}
