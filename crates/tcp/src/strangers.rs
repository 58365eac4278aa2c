//! Connections whose other end has not identified itself: limited by network and in all. Where there is no room, the
//! oldest one is closed, not the newcomer: a peer that means to identify itself needs little time.

use std::collections::VecDeque;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// How many strangers there may be at one time.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// In all.
    pub most: usize,
    /// Of an IPv4 address, or of an IPv6 network of 64 bits, which is what one host has (RFC 4291, section 2.5.4).
    pub most_of_network: usize,
}

/// The strangers of a listener.
#[derive(Debug)]
pub struct Strangers {
    limits: Limits,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next_id: u64,
    /// In the order in which they came.
    entries: VecDeque<Entry>,
}

#[derive(Debug)]
struct Entry {
    id: u64,
    network: u128,
    connection: Weak<TcpStream>,
}

/// A connection that counts as a stranger's until this is dropped.
#[derive(Debug)]
pub struct Stranger {
    all: Arc<Strangers>,
    id: u64,
}

impl Strangers {
    /// None yet.
    #[must_use]
    pub fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, table: Mutex::default() })
    }

    /// Counts a new connection, whose greeting must use this very `stream`. Another one may be closed for it.
    #[must_use]
    pub fn admit(self: &Arc<Self>, stream: &Arc<TcpStream>, peer: IpAddr) -> Stranger {
        let network = network(peer);
        let mut table = self.lock();
        let of_network = table.entries.iter().filter(|entry| entry.network == network).count();
        if of_network >= self.limits.most_of_network {
            table.close_one(|entry| entry.network == network);
        } else if table.entries.len() >= self.limits.most {
            table.close_one(|_| true);
        }
        let id = table.next_id;
        table.next_id += 1;
        table.entries.push_back(Entry { id, network, connection: Arc::downgrade(stream) });
        Stranger { all: Arc::clone(self), id }
    }

    /// Closes one, if there is any: this process has no descriptors left.
    pub fn close_one(&self) {
        self.lock().close_one(|_| true);
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Closes the oldest one of those that `may` be closed. One whose bytes nobody has read yet is not to blame.
    fn close_one(&mut self, may: impl Fn(&Entry) -> bool) {
        let is_idle =
            |entry: &Entry| entry.connection.upgrade().is_none_or(|stream| unread_bytes(&stream) == 0);
        let idle = self.entries.iter().position(|entry| may(entry) && is_idle(entry));
        let oldest = idle.or_else(|| self.entries.iter().position(may));
        if let Some(closed) = oldest.and_then(|at| self.entries.remove(at))
            && let Some(stream) = closed.connection.upgrade()
        {
            // Whoever greets it reads the end.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn remove(&mut self, id: u64) -> bool {
        let at = self.entries.binary_search_by_key(&id, |entry| entry.id);
        at.is_ok_and(|at| self.entries.remove(at).is_some())
    }
}

impl Stranger {
    /// The other end has identified itself, and counts no longer; false if it was closed before.
    #[must_use]
    pub fn identify(self) -> bool {
        self.all.lock().remove(self.id)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.all.lock().remove(self.id);
    }
}

/// An IPv4 address, or the first 64 bits of an IPv6 address.
fn network(peer: IpAddr) -> u128 {
    match peer.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits() & !u128::from(u64::MAX),
    }
}

fn unread_bytes(stream: &TcpStream) -> libc::c_int {
    let mut bytes = 0;
    // SAFETY: the descriptor is open, and the kernel writes one int. An error leaves 0.
    unsafe { libc::ioctl(stream.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    bytes
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// A stranger, and the other end of its connection.
    struct Pair {
        stranger: Stranger,
        /// As long as it is greeted.
        _greeted: Arc<TcpStream>,
        peer: TcpStream,
    }

    impl Pair {
        fn new(all: &Arc<Strangers>, peer: &str) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let greeted = Arc::new(listener.accept().unwrap().0);
            let stranger = all.admit(&greeted, peer.parse().unwrap());
            Self { stranger, _greeted: greeted, peer: client }
        }

        fn is_closed(&mut self) -> bool {
            self.peer.set_nonblocking(true).unwrap();
            match self.peer.read(&mut [0]) {
                Ok(0) => true,
                Err(e) if e.kind() == ErrorKind::WouldBlock => false,
                other => panic!("{other:?}"),
            }
        }
    }

    fn closed(pairs: &mut [Pair]) -> Vec<bool> {
        pairs.iter_mut().map(Pair::is_closed).collect()
    }

    #[test]
    fn the_oldest_of_a_network_goes_when_that_has_too_many() {
        let all = Strangers::new(Limits { most: 100, most_of_network: 2 });
        let peers = [
            "192.0.2.1",
            "2001:db8::1",
            "::ffff:192.0.2.1",
            "192.0.2.2",
            "192.0.2.1",
            "2001:db8:0:1::1",
            "2001:db8::2",
            "2001:db8::3:4:5",
        ];
        let mut pairs = peers.map(|peer| Pair::new(&all, peer));
        assert_eq!(closed(&mut pairs), [true, true, false, false, false, false, false, false]);
    }

    #[test]
    fn the_oldest_of_all_goes_when_there_are_too_many() {
        let all = Strangers::new(Limits { most: 3, most_of_network: 100 });
        let mut pairs = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5"]
            .map(|peer| Pair::new(&all, peer));
        assert_eq!(closed(&mut pairs), [true, true, false, false, false]);
    }

    #[test]
    fn who_has_identified_itself_is_counted_no_longer_and_not_closed() {
        let all = Strangers::new(Limits { most: 2, most_of_network: 2 });
        let Pair { stranger, _greeted, mut peer } = Pair::new(&all, "192.0.2.1");
        assert!(stranger.identify());
        let mut later = [(); 3].map(|()| Pair::new(&all, "192.0.2.1"));
        assert_eq!(closed(&mut later), [true, false, false]);
        peer.set_nonblocking(true).unwrap();
        assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn who_was_closed_is_not_identified_any_more() {
        let all = Strangers::new(Limits { most: 1, most_of_network: 1 });
        let first = Pair::new(&all, "192.0.2.1");
        let second = Pair::new(&all, "192.0.2.1");
        assert!(!first.stranger.identify() && second.stranger.identify());
    }

    #[test]
    fn who_has_gone_makes_room() {
        let all = Strangers::new(Limits { most: 1, most_of_network: 1 });
        drop(Pair::new(&all, "192.0.2.1"));
        assert!(all.lock().entries.is_empty());
        let mut pair = Pair::new(&all, "192.0.2.1");
        assert!(!pair.is_closed());
        all.close_one();
        assert!(pair.is_closed());
        all.close_one();
    }

    #[test]
    fn who_has_said_what_nobody_has_read_is_not_the_first_to_go() {
        let all = Strangers::new(Limits { most: 2, most_of_network: 2 });
        let mut pairs = vec![Pair::new(&all, "192.0.2.1"), Pair::new(&all, "192.0.2.2")];
        pairs[0].peer.write_all(b"hello").unwrap();
        pairs.push(Pair::new(&all, "192.0.2.3"));
        assert_eq!(closed(&mut pairs), [false, true, false]);
    }
}
