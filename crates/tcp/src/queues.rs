//! What a host knows about its own socket beyond `struct tcp_info`: memory, queues, and scheduling of its thread.

use std::fs;
use std::os::fd::AsRawFd;

use crate::fields::{Field, Source};
use crate::sample::{MEMORY_BYTES, Raw};

/// `SO_MEMINFO` (`include/uapi/asm-generic/socket.h`, Linux 4.12).
const SO_MEMINFO: libc::c_int = 55;

/// Beyond `struct tcp_info`; what this kernel does not report is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    memory: Raw<MEMORY_BYTES>,
    /// Bytes that were received and not read.
    pub unread_bytes: Option<u64>,
    /// Bytes that were written and not acknowledged.
    pub unacked_bytes: Option<u64>,
    /// For how long the socket's thread was ready to run and did not, ns.
    pub waited_ns: Option<u64>,
}

impl Queues {
    /// From `SK_MEMINFO_VARS` as bytes.
    #[must_use]
    pub fn new(memory: &[u8]) -> Self {
        Self { memory: Raw::new(memory), ..Self::default() }
    }

    /// The same with what is not memory.
    #[must_use]
    pub const fn with(
        self,
        unread_bytes: Option<u64>,
        unacked_bytes: Option<u64>,
        waited_ns: Option<u64>,
    ) -> Self {
        Self { unread_bytes, unacked_bytes, waited_ns, ..self }
    }

    /// Queries the kernel about a socket of this process, and about the `thread` that uses it.
    #[must_use]
    pub fn of(socket: &impl AsRawFd, thread: Option<u32>) -> Self {
        let fd = socket.as_raw_fd();
        Self {
            memory: memory(fd).unwrap_or_default(),
            unread_bytes: queued(fd, libc::FIONREAD),
            unacked_bytes: queued(fd, libc::TIOCOUTQ),
            waited_ns: thread.and_then(waited_ns),
        }
    }

    /// The memory as bytes.
    #[must_use]
    pub fn memory(&self) -> &[u8] {
        self.memory.get()
    }

    /// The value of a field of the table that is not in `struct tcp_info`.
    #[must_use]
    pub fn get(&self, field: &Field) -> Option<u64> {
        match (field.source, field.name) {
            (Source::Memory, _) => field.read(self.memory.get()),
            (Source::Message, "rqueue_bytes") => self.unread_bytes,
            (Source::Message, "wqueue_bytes") => self.unacked_bytes,
            _ => None,
        }
    }
}

fn memory(fd: libc::c_int) -> Option<Raw<MEMORY_BYTES>> {
    Raw::option(fd, libc::SOL_SOCKET, SO_MEMINFO).ok()
}

/// Bytes in a queue of the socket (tcp(7)).
fn queued(fd: libc::c_int, which: libc::c_ulong) -> Option<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: both requests write one `int`.
    let failed = unsafe { libc::ioctl(fd, which, &raw mut bytes) };
    if failed == 0 { u64::try_from(bytes).ok() } else { None }
}

/// The second number of `schedstat` (`Documentation/scheduler/sched-stats.rst`).
fn waited_ns(thread: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Number of the calling thread.
#[must_use]
pub fn this_thread() -> u32 {
    // SAFETY: plain system call without arguments.
    unsafe { libc::gettid() }.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::fields::field;

    #[test]
    fn unread_bytes_and_memory_are_those_of_the_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        sender.write_all(&[7; 1000]).unwrap();
        // What one end has acknowledged has been received by the other.
        let get = |found: &Queues, name| field(name).and_then(|field| found.get(field));
        while Queues::of(&sender, None).unacked_bytes != Some(0) {
            std::thread::yield_now();
        }
        let found = Queues::of(&receiver, Some(this_thread()));
        assert_eq!(get(&found, "rqueue_bytes"), Some(1000));
        assert!(get(&found, "skmem_rcvbuf_bytes").is_some_and(|bytes| bytes > 1000));
        assert!(get(&found, "skmem_rmem_alloc_bytes").is_some_and(|bytes| bytes >= 1000));
        assert_eq!(get(&found, "rtt_us"), None);
        assert!(found.waited_ns.is_some());
    }

    #[test]
    fn a_thread_that_is_gone_has_not_waited() {
        assert_eq!(waited_ns(u32::MAX), None);
    }
}
