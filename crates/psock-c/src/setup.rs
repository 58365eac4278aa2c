//! What can be set before there is a session, and which streams follow from it.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use libc::c_int;
use weir_psock::io::{Options, Route};
use weir_psock::wire::MOST_STREAMS;
use weir_tcp::option::Setting;

use crate::failure::{Failure, Outcome};

/// Default number of streams over each path, as in `weir psock send`.
const USUAL_STREAMS: usize = 2;
/// Longest wait, after the end, until the other end has finished as well.
const FAREWELL: Duration = Duration::from_secs(2);

/// What `psclose` does with data that has not arrived (socket(7), `SO_LINGER`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linger {
    /// Waits until it has, or the session fails.
    Always,
    /// Waits this long, then aborts the session.
    For(Duration),
}

impl Linger {
    /// How long to wait until the data has arrived; `None`: without limit.
    #[must_use]
    pub const fn limit(self) -> Option<Duration> {
        match self {
            Self::Always => None,
            Self::For(limit) => Some(limit),
        }
    }

    /// How long to wait after that, until the other end has finished as well.
    #[must_use]
    pub fn farewell(self, waited: Duration) -> Duration {
        self.limit().map_or(FAREWELL, |limit| limit.saturating_sub(waited).min(FAREWELL))
    }
}

/// What can be set before there is a session.
#[derive(Clone, Debug)]
pub struct Setup {
    /// `AF_INET` or `AF_INET6`.
    pub domain: c_int,
    /// How sessions are carried.
    pub options: Options,
    /// This end's addresses, that of `pbind` first.
    pub local: Vec<SocketAddr>,
    /// The other end's, besides that of `pconnect`.
    pub remote: Vec<SocketAddr>,
    /// How many streams; 0: [`USUAL_STREAMS`] over each path.
    pub streams: usize,
    /// How long `precv` and `paccept` wait.
    pub receive_timeout: Option<Duration>,
    /// How long `psend` waits.
    pub send_timeout: Option<Duration>,
    /// What `psclose` does.
    pub linger: Linger,
}

/// What `psock_setopt` has set.
static DEFAULTS: Mutex<Option<Setup>> = Mutex::new(None);

impl Setup {
    /// The defaults, those of `psock_setopt` included.
    #[must_use]
    pub fn new(domain: c_int) -> Self {
        let defaults = DEFAULTS.lock().unwrap_or_else(PoisonError::into_inner);
        Self { domain, ..defaults.clone().unwrap_or_else(Self::usual) }
    }

    /// Changes what sockets have that are made from now on.
    ///
    /// # Errors
    /// Those of `change`; nothing is changed then.
    pub fn change_defaults(change: impl FnOnce(&mut Self) -> Outcome<()>) -> Outcome<()> {
        let mut defaults = DEFAULTS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = defaults.clone().unwrap_or_else(Self::usual);
        change(&mut changed)?;
        *defaults = Some(changed);
        Ok(())
    }

    /// Sets a socket option of every stream that will be made.
    ///
    /// # Errors
    /// None; it ends a call that has some.
    pub fn set_for_streams(&mut self, setting: Setting) -> Outcome<()> {
        let settings = &mut self.options.settings;
        settings.retain(|before| before.name != setting.name);
        settings.push(setting);
        Ok(())
    }

    fn usual() -> Self {
        Self {
            domain: libc::AF_INET,
            options: Options::default(),
            local: Vec::new(),
            remote: Vec::new(),
            streams: 0,
            receive_timeout: None,
            send_timeout: None,
            linger: Linger::Always,
        }
    }

    /// Which streams are made: each local address with each remote one of its family, in turn.
    ///
    /// # Errors
    /// `EINVAL`: a local address has a port. `EADDRNOTAVAIL`: none is of the family of any remote one.
    pub fn routes(&self, to: SocketAddr) -> Outcome<Vec<Route>> {
        if self.local.iter().any(|local| local.port() != 0) {
            // Several streams cannot have the same port.
            return Err(Failure::new(libc::EINVAL));
        }
        let remote: Vec<_> = std::iter::once(to).chain(self.remote.iter().copied()).collect();
        let local: Vec<_> = self.local.iter().map(SocketAddr::ip).filter(|ip| !ip.is_unspecified()).collect();
        let mut paths: Vec<_> = remote.iter().map(|remote| Route { local: None, remote: *remote }).collect();
        if !local.is_empty() {
            let pair = |remote: &SocketAddr| {
                let fits = |ip: &&std::net::IpAddr| ip.is_ipv4() == remote.is_ipv4();
                let remote = *remote;
                local
                    .iter()
                    .filter(fits)
                    .map(move |ip| Route { local: Some(*ip), remote })
                    .collect::<Vec<_>>()
            };
            paths = remote.iter().flat_map(pair).collect();
        }
        if paths.is_empty() {
            return Err(Failure::new(libc::EADDRNOTAVAIL));
        }
        let wanted = if self.streams == 0 { USUAL_STREAMS * paths.len() } else { self.streams };
        let streams = wanted.min(self.options.most_streams).min(MOST_STREAMS);
        Ok((0..streams).map(|stream| paths[stream % paths.len()]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(local: &[&str], remote: &[&str]) -> Setup {
        let read = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Setup { local: read(local), remote: read(remote), ..Setup::new(libc::AF_INET) }
    }

    #[test]
    fn streams_take_turns_over_all_pairs_of_addresses_of_one_family() {
        let to: SocketAddr = "198.51.100.1:7".parse().unwrap();
        let alone = setup(&[], &[]).routes(to).unwrap();
        assert_eq!(alone, vec![Route { local: None, remote: to }; 2]);
        let both = setup(&["192.0.2.1:0", "192.0.2.2:0", "[2001:db8::1]:0"], &["[2001:db8::9]:7"]);
        let ends: Vec<_> = both
            .routes(to)
            .unwrap()
            .iter()
            .map(|route| format!("{} {}", route.local.unwrap(), route.remote))
            .collect();
        let once = ["192.0.2.1 198.51.100.1:7", "192.0.2.2 198.51.100.1:7", "2001:db8::1 [2001:db8::9]:7"];
        assert_eq!(ends, [once, once].concat());
        let five = Setup { streams: 5, ..setup(&["0.0.0.0:0"], &[]) };
        assert_eq!(five.routes(to).unwrap(), vec![Route { local: None, remote: to }; 5]);
    }

    #[test]
    fn so_linger_limits_all_of_what_psclose_waits_for() {
        let waits = |linger: Linger, waited| linger.farewell(Duration::from_millis(waited)).as_millis();
        assert_eq!(waits(Linger::Always, 60_000), 2000);
        let limited = [0, 500, 1000, 60_000].map(|waited| waits(Linger::For(Duration::from_secs(1)), waited));
        assert_eq!(limited, [1000, 500, 0, 0]);
        assert_eq!(waits(Linger::For(Duration::from_secs(60)), 1), 2000);
    }

    #[test]
    fn addresses_that_do_not_fit_are_refused() {
        let to = "198.51.100.1:7".parse().unwrap();
        let errno = |setup: Setup| setup.routes(to).unwrap_err().errno;
        assert_eq!(errno(setup(&["[2001:db8::1]:0"], &[])), libc::EADDRNOTAVAIL);
        assert_eq!(errno(setup(&["192.0.2.1:80"], &[])), libc::EINVAL);
    }
}
