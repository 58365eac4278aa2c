//! Which connections are selected.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use crate::diag::{Connection, Diag, DiagError, Id, State};
use crate::process::{self, Process};

/// An end of a connection; `None` and 0 match any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Its address.
    pub address: Option<IpAddr>,
    /// Its port.
    pub port: u16,
}

impl End {
    fn fits(&self, end: SocketAddr) -> bool {
        let (address, port) = Id::plain(end);
        self.address.is_none_or(|wanted| wanted.to_canonical() == address)
            && (self.port == 0 || self.port == port)
    }
}

/// What the connections have in common; every given condition must hold.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// The two ends; it does not matter which of them is local.
    pub ends: (End, End),
    /// More addresses of the first end, such as the others of a host's name: any of them fits.
    pub also: Vec<IpAddr>,
    /// Number of the process.
    pub pid: Option<u32>,
    /// Name of the process's program.
    pub program: Option<String>,
}

/// Excludes listeners and sockets without an owner.
const NOT_WATCHED: u32 = 1 << State::LISTEN.0 | 1 << State::TIME_WAIT.0 | 1 << State::CLOSE.0;

impl Filter {
    /// Whether the ends match.
    #[must_use]
    pub fn fits(&self, id: &Id) -> bool {
        let (one, other) = self.ends;
        let is_one = |end: SocketAddr| {
            let also = |&address: &IpAddr| End { address: Some(address), ..one }.fits(end);
            one.fits(end) || self.also.iter().any(also)
        };
        (is_one(id.local) && other.fits(id.remote)) || (is_one(id.remote) && other.fits(id.local))
    }

    /// The connections whose ends match, each once. The kernel compares the ports.
    ///
    /// # Errors
    /// [`DiagError`].
    pub fn candidates(&self, diag: &mut Diag) -> Result<Vec<Connection>, DiagError> {
        let (one, other) = (self.ends.0.port, self.ends.1.port);
        let mut found = diag.all(!NOT_WATCHED, one, other)?;
        if one != other {
            found.extend(diag.all(!NOT_WATCHED, other, one)?);
        }
        found.retain(|each| self.fits(&each.id));
        found.sort_by_key(|each| each.id.cookie);
        found.dedup_by_key(|each| each.id.cookie);
        Ok(found)
    }

    /// Whether a process is selected.
    #[must_use]
    pub const fn has_process(&self) -> bool {
        self.pid.is_some() || self.program.is_some()
    }

    /// The processes that may match, by the inodes of their sockets.
    #[must_use]
    pub fn owners(&self) -> HashMap<u32, Process> {
        match self.pid {
            Some(pid) => {
                let owner = Process { pid, name: process::name(pid) };
                process::sockets_of(pid).map(|inode| (inode, owner.clone())).collect()
            }
            None => process::owners(),
        }
    }

    /// Whether the owner matches.
    #[must_use]
    pub fn fits_owner(&self, owner: Option<&Process>) -> bool {
        self.pid.is_none_or(|pid| owner.is_some_and(|owner| owner.pid == pid))
            && self.program.as_ref().is_none_or(|name| owner.is_some_and(|owner| owner.name == *name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(text: &str, port: u16) -> End {
        End { address: text.parse().ok(), port }
    }

    fn id(local: &str, remote: &str) -> Id {
        Id { local: local.parse().unwrap(), remote: remote.parse().unwrap(), interface: 0, cookie: 1 }
    }

    #[test]
    fn which_end_is_here_does_not_matter() {
        let filter = Filter { ends: (end("10.0.0.1", 0), end("", 443)), ..Filter::default() };
        assert!(filter.fits(&id("10.0.0.1:1", "10.0.0.2:443")));
        assert!(filter.fits(&id("10.0.0.2:443", "10.0.0.1:1")));
        assert!(!filter.fits(&id("10.0.0.2:1", "10.0.0.1:443")));
        assert!(!filter.fits(&id("10.0.0.1:1", "10.0.0.2:44")));
    }

    #[test]
    fn any_address_of_a_name_fits() {
        let also = vec!["192.0.2.2".parse().unwrap(), "2001:db8::2".parse().unwrap()];
        let filter = Filter { ends: (end("192.0.2.1", 443), End::default()), also, ..Filter::default() };
        for remote in ["192.0.2.1:443", "192.0.2.2:443", "[2001:db8::2]:443", "[::ffff:192.0.2.2]:443"] {
            assert!(filter.fits(&id("192.0.2.9:1", remote)), "{remote}");
        }
        assert!(!filter.fits(&id("192.0.2.9:1", "192.0.2.3:443")));
        assert!(!filter.fits(&id("192.0.2.9:1", "192.0.2.2:80")));
    }

    #[test]
    fn an_address_of_ipv4_fits_where_ipv6_maps_it() {
        let filter = Filter { ends: (end("192.0.2.1", 80), End::default()), ..Filter::default() };
        assert!(filter.fits(&id("[::ffff:192.0.2.1]:80", "[::ffff:192.0.2.9]:1")));
    }

    #[test]
    fn an_owner_that_is_not_known_fits_nobody_who_is_asked_for() {
        let ours = Process { pid: 7, name: "curl".into() };
        let filter = Filter { program: Some("curl".into()), ..Filter::default() };
        assert!(filter.fits_owner(Some(&ours)));
        assert!(!filter.fits_owner(None));
        assert!(Filter::default().fits_owner(None));
        assert!(!Filter { pid: Some(8), ..Filter::default() }.fits_owner(Some(&ours)));
    }
}
