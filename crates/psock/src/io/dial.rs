//! Outgoing connections: a socket with its options, connected and greeted.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use weir_tcp::option::{OptionError, Setting};

use super::greet::{GreetError, initiate};
use super::{GREETING, OpenError, Options, Route, random, system};
use crate::wire::{GreetingError, Id, Initiator, Secret};

/// A session that a stream opens, or that it joins.
#[derive(Clone, Debug)]
pub enum Purpose {
    Open,
    Join(Secret),
}

/// Makes a stream that joins or opens a session.
pub fn dial(
    route: &Route,
    id: Id,
    purpose: &Purpose,
    options: &Options,
    patience: Duration,
) -> Result<(TcpStream, Secret), OpenError> {
    let mut stream = connect(route, options, patience)?;
    // Two round trips, and the other end's work.
    let due = Instant::now() + GREETING.min(8 * patience);
    let secret = greet(&mut stream, route.remote, id, purpose, options, due)?;
    Ok((stream, secret))
}

/// Connects.
pub fn connect(route: &Route, options: &Options, patience: Duration) -> Result<TcpStream, OpenError> {
    let to = route.remote;
    let made = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP));
    let socket = made.map_err(system("no socket can be made"))?;
    if let Some(local) = route.local {
        let refused = |source| OpenError::Local { local, to, source };
        // IP_BIND_ADDRESS_NO_PORT (ip(7)): the port is chosen by both ends, not for all of them.
        Setting::new(&format!("{}:{}", libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT), "1")?
            .set(&socket)?;
        socket.bind(&SocketAddr::new(local, 0).into()).map_err(refused)?;
    }
    prepare(&socket, options)?;
    socket.connect_timeout(&to.into(), patience).map_err(|source| OpenError::Connect { to, source })?;
    Ok(socket.into())
}

/// Greets the other end of a connection.
pub fn greet(
    stream: &mut TcpStream,
    to: SocketAddr,
    id: Id,
    purpose: &Purpose,
    options: &Options,
    due: Instant,
) -> Result<Secret, OpenError> {
    let nonce = random().map_err(system("random numbers cannot be had"))?;
    let initiator = match purpose {
        Purpose::Open => Initiator::open(&options.token, id, nonce),
        Purpose::Join(secret) => Initiator::join(secret, id, nonce),
    };
    initiate(stream, initiator, due).map_err(|error| match error {
        GreetError::Greeting(source) => OpenError::Greeting { to, source },
        other => OpenError::Silent { to, why: other.to_string() },
    })
}

/// Sets the options of a stream, or of a listener that streams inherit them from.
pub fn prepare(socket: &Socket, options: &Options) -> Result<(), OpenError> {
    for setting in &options.settings {
        setting.set(socket)?;
    }
    let is_congestion = |setting: &Setting| setting.name.eq_ignore_ascii_case("TCP_CONGESTION");
    if options.config.is_fair && !options.settings.iter().any(is_congestion) {
        // Windows are coupled as RFC 6356 couples those of Reno; others, such as BBR, do not respond to loss.
        Setting::congestion("reno").set(socket)?;
    }
    socket.set_tcp_nodelay(true).map_err(system("TCP_NODELAY cannot be set"))?;
    limit_unsent(socket, options.unsent_bytes)?;
    Ok(())
}

fn limit_unsent(socket: &Socket, bytes: u32) -> Result<(), OptionError> {
    if bytes == 0 {
        return Ok(());
    }
    Setting::new("TCP_NOTSENT_LOWAT", &bytes.to_string())?.set(socket)
}

/// Whether something answered that does not speak this version of the protocol.
pub const fn is_no_psock(error: &OpenError) -> bool {
    match error {
        OpenError::Greeting { source, .. } => {
            matches!(source, GreetingError::NotPsock | GreetingError::Version(_))
        }
        OpenError::Silent { .. } => true,
        _ => false,
    }
}

/// Whether there is no point in trying again.
pub fn is_final(error: &OpenError) -> bool {
    match error {
        OpenError::Connect { source, .. } | OpenError::Local { source, .. } => {
            source.kind() == io::ErrorKind::PermissionDenied
        }
        OpenError::Silent { .. } | OpenError::System { .. } => false,
        _ => true,
    }
}
