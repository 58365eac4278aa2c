//! Two endpoints of calls on this machine: past the system, by `AF_XDP` sockets that they poll, or by its UDP
//! sockets. Both do the same with every packet, ESP (RFC 4303, in UDP by RFC 3948) included.

mod bypass;
mod calls;
mod port;
mod rings;
mod sockets;
mod talk;
#[cfg(test)]
mod tests;
mod xsk;

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use thiserror::Error;
use weir_esp::{Association, AssociationError, DEFAULT_WINDOW, Inbound, Mode, Outbound};
use weir_wire::MacAddr;

pub use calls::{Calls, CallsError, MOST_PACKETS, RTP_PORT};
pub use talk::Log;

use crate::engine::Endpoint as Interface;
use crate::priority;
use crate::thread::{self, Awake, join, within};
use crate::xdp::XdpError;
use bypass::Bypass;
use calls::Form;
use port::Port;
use sockets::Sockets;
use talk::{Endpoint, Security, Span};
use weir_clock::now_ns;

/// Time from when both endpoints are ready until the start.
const LEAD_NS: u64 = 20_000_000;
/// Time between checks whether the owner wants to end.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A replay window as wide as the most packets that wait for an endpoint.
const WINDOW: usize = 4096;
const _: () = assert!(WINDOW >= DEFAULT_WINDOW);

/// How endpoints reach the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By `AF_XDP` sockets, which they poll.
    Bypass,
    /// By UDP sockets of the system, for which they sleep.
    Sockets,
}

/// Where an endpoint is.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its interface.
    pub interface: Interface,
    /// The interface's Ethernet address.
    pub mac: MacAddr,
    /// The interface's IP address.
    pub address: Ipv4Addr,
    /// The CPU of the endpoint's thread.
    pub cpu: usize,
}

/// What to do.
pub struct Options<'a> {
    /// By which way.
    pub way: Way,
    /// Whether the threads are ahead of all ordinary work of their CPUs.
    pub real_time: bool,
    /// The two endpoints.
    pub places: [Place; 2],
    /// What they send.
    pub calls: &'a Calls,
    /// ESP of what each endpoint sends, in UDP; `None`: in the clear.
    pub associations: Option<[Association<'a>; 2]>,
    /// Random bytes for initialization vectors, see [`Outbound::new`].
    pub iv_key: [u8; 16],
    /// How long an endpoint that has sent everything waits for packets that have not arrived; an endpoint that
    /// is late with sending gets that much longer than the calls last.
    pub linger_ns: u64,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// When the calls began, CLOCK_MONOTONIC.
    pub begins_ns: u64,
    /// What each endpoint sent and received.
    pub logs: [Log; 2],
    /// Why the threads were ordinary although they should have been real-time; empty if they were not.
    pub real_time_refused: String,
    /// Whether the drivers use the sockets' memory themselves; bypassing endpoints only.
    pub zero_copy: bool,
    /// Whether the XDP programs run in the drivers; bypassing endpoints only.
    pub native: bool,
    /// Whether the endpoints serve their queues by polling; bypassing endpoints only.
    pub polls: bool,
    /// How often the bypassing endpoints left their CPUs to other work.
    pub naps: u64,
}

/// Why endpoints cannot talk.
#[derive(Debug, Error)]
pub enum EndpointsError {
    /// The calls are invalid.
    #[error("these calls cannot be made: {0}")]
    Calls(#[from] CallsError),
    /// A security association is invalid.
    #[error(transparent)]
    Association(#[from] AssociationError),
    /// ESP here must be in UDP, and between the endpoints themselves.
    #[error("ESP between endpoints must be in UDP, with the endpoints as its ends")]
    Encapsulation,
    /// A namespace cannot be entered.
    #[error("cannot enter network namespace {path}: {source}")]
    Netns {
        /// Its path.
        path: String,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The system cannot be bypassed.
    #[error("an endpoint cannot bypass the system on {interface}: {source}")]
    Bypass {
        /// The interface.
        interface: String,
        /// What is missing.
        source: XdpError,
    },
    /// There is no UDP socket.
    #[error("cannot open a UDP socket at {address}: {source}")]
    Socket {
        /// Where.
        address: Ipv4Addr,
        /// The kernel's reason.
        source: io::Error,
    },
    /// A thread cannot have its CPU.
    #[error("cannot run on CPU {cpu}: {source}")]
    Cpu {
        /// Its number.
        cpu: usize,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The connection to the network broke.
    #[error("the endpoint at {address} lost its connection to the network: {source}")]
    Lost {
        /// Which endpoint.
        address: Ipv4Addr,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Lets the endpoints talk, from beginning to end. `is_over` is polled some 50 times a second for an early end.
///
/// # Errors
/// [`EndpointsError`].
pub fn talk(options: &Options<'_>, is_over: &mut dyn FnMut() -> bool) -> Result<Outcome, EndpointsError> {
    options.calls.validate()?;
    let endpoints = [endpoint(options, 0)?, endpoint(options, 1)?];
    match options.way {
        Way::Sockets => {
            let mut ports = [sockets(options, 0)?, sockets(options, 1)?];
            both(options, endpoints, &mut ports, is_over)
        }
        Way::Bypass => {
            let mut ports = [bypass(options, 0)?, bypass(options, 1)?];
            // In its naps a CPU would fall asleep, and wake late.
            let _awake = options.real_time.then(|| options.places.each_ref().map(|at| Awake::start(at.cpu)));
            let mut outcome = both(options, endpoints, &mut ports, is_over)?;
            outcome.zero_copy = ports.iter().all(Bypass::is_zero_copy);
            outcome.native = ports.iter().all(|port| port.native);
            outcome.polls = ports.iter().all(Bypass::polls);
            outcome.naps = ports.iter().map(|port| port.naps).sum();
            Ok(outcome)
        }
    }
}

/// How an endpoint would bypass the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Whether the XDP program runs in the driver; otherwise the kernel runs it, in generic mode.
    pub native: bool,
    /// Whether the driver uses the socket's memory itself; otherwise the kernel copies every packet.
    pub zero_copy: bool,
}

/// Opens the way past the system on an interface of the calling thread's namespace, and closes it again.
///
/// # Errors
/// [`EndpointsError::Bypass`].
pub fn try_bypass(interface: &str) -> Result<Tried, EndpointsError> {
    let port = Bypass::open(interface, [0; 6], [0; 6], false)
        .map_err(|source| EndpointsError::Bypass { interface: interface.to_owned(), source })?;
    Ok(Tried { native: port.native, zero_copy: port.is_zero_copy() })
}

fn endpoint(options: &Options<'_>, number: usize) -> Result<Endpoint, EndpointsError> {
    let [here, there] = [&options.places[number], &options.places[1 - number]];
    let security = match &options.associations {
        None => None,
        Some(associations) => Some(Security {
            outbound: Outbound::new(checked(&associations[number], here, there)?, &options.iv_key)?,
            inbound: Inbound::new(checked(&associations[1 - number], there, here)?, WINDOW)?,
        }),
    };
    let sends = Form::new(options.calls, here.address, there.address);
    let hears = Form::new(options.calls, there.address, here.address);
    Ok(Endpoint::new(options.calls, number, sends, hears, security))
}

/// Sockets can carry the payload of UDP alone, between the addresses that they are bound to.
fn checked<'a>(
    association: &'a Association<'a>,
    from: &Place,
    to: &Place,
) -> Result<&'a Association<'a>, EndpointsError> {
    let is_right = match association.mode {
        Mode::Transport => true,
        Mode::Tunnel { source, destination } => {
            [source, destination] == [from.address, to.address].map(IpAddr::V4)
        }
    };
    let same_port = association.udp.is_some_and(|ports| ports.source == ports.destination);
    if is_right && same_port { Ok(association) } else { Err(EndpointsError::Encapsulation) }
}

fn sockets(options: &Options<'_>, number: usize) -> Result<Sockets, EndpointsError> {
    let [here, there] = [&options.places[number], &options.places[1 - number]];
    let esp_port = options.associations.as_ref().and_then(|both| both[number].udp).map(|ports| ports.source);
    inside(&here.interface, || {
        Sockets::open(here.address, there.address, esp_port.unwrap_or(RTP_PORT), esp_port.is_none())
            .map_err(|source| EndpointsError::Socket { address: here.address, source })
    })
}

fn bypass(options: &Options<'_>, number: usize) -> Result<Bypass, EndpointsError> {
    let [here, there] = [&options.places[number], &options.places[1 - number]];
    let interface = &here.interface.interface;
    inside(&here.interface, || {
        Bypass::open(interface, here.mac, there.mac, options.real_time)
            .map_err(|source| EndpointsError::Bypass { interface: interface.clone(), source })
    })
}

fn inside<T: Send>(
    at: &Interface,
    open: impl FnOnce() -> Result<T, EndpointsError> + Send,
) -> Result<T, EndpointsError> {
    let path = || at.netns.as_deref().map_or_else(String::new, |path| path.display().to_string());
    within(at.netns.as_deref(), open).map_err(|source| EndpointsError::Netns { path: path(), source })?
}

/// A thread for each endpoint, which both begin when both are ready.
fn both<P: Port + Send>(
    options: &Options<'_>,
    endpoints: [Endpoint; 2],
    ports: &mut [P; 2],
    is_over: &mut dyn FnMut() -> bool,
) -> Result<Outcome, EndpointsError> {
    let stop = &AtomicBool::new(false);
    let (lasts_ns, linger_ns) = (options.calls.lasts_ns(), options.linger_ns);
    std::thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        let mut starters = Vec::new();
        let mut threads = Vec::new();
        for ((endpoint, port), at) in endpoints.into_iter().zip(ports).zip(&options.places) {
            let (start, started) = mpsc::channel::<u64>();
            let tell = tell.clone();
            starters.push(start);
            threads.push(scope.spawn(move || {
                let ready = thread::pin(at.cpu).map(|()| match options.real_time {
                    true => priority::raise(0).err(),
                    false => None,
                });
                let is_ready = ready.is_ok();
                let _ = tell.send(ready.map_err(|source| EndpointsError::Cpu { cpu: at.cpu, source }));
                // If the other one is not ready, nothing says when to start.
                match started.recv() {
                    Ok(begins_ns) if is_ready => {
                        let span = Span { begins_ns, linger_ns, ends_ns: begins_ns + lasts_ns + linger_ns };
                        endpoint
                            .talk(port, span, stop)
                            .map(Some)
                            // The other one would have no peer.
                            .inspect_err(|_| stop.store(true, Ordering::Relaxed))
                            .map_err(|source| EndpointsError::Lost { address: at.address, source })
                    }
                    _ => Ok(None),
                }
            }));
        }
        drop(tell);
        let mut real_time_refused = String::new();
        // They hold their ends of the channel as long as they live.
        let ready = told.iter().take(options.places.len());
        for refused in ready.collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
            real_time_refused = refused.to_string();
        }
        let begins_ns = now_ns() + LEAD_NS;
        for start in &starters {
            let _ = start.send(begins_ns);
        }
        watch(&threads, stop, is_over);
        let logs: Vec<_> = threads.into_iter().map(join).collect::<Result<_, _>>()?;
        let [Some(one), Some(other)] = <[Option<Log>; 2]>::try_from(logs).unwrap_or_default() else {
            return Err(EndpointsError::Interrupted);
        };
        if stop.load(Ordering::Relaxed) {
            return Err(EndpointsError::Interrupted);
        }
        Ok(Outcome {
            begins_ns,
            logs: [one, other],
            real_time_refused,
            zero_copy: false,
            native: false,
            polls: false,
            naps: 0,
        })
    })
}

/// Waits until both threads have ended.
fn watch<T>(
    threads: &[ScopedJoinHandle<'_, Result<T, EndpointsError>>],
    stop: &AtomicBool,
    is_over: &mut dyn FnMut() -> bool,
) {
    while !threads.iter().all(ScopedJoinHandle::is_finished) {
        if is_over() {
            stop.store(true, Ordering::Relaxed);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
