//! Connections to a server, with all options that the user wants.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::ClientOptions;
use super::error::{ClientError, system};
use crate::control::Joined;
use crate::option::{Setting, Value};

const TIMEOUT: Duration = Duration::from_secs(10);

/// The control connection, over the first address of the host that answers.
pub fn reach(host: &str, port: u16, local: Option<IpAddr>) -> Result<(TcpStream, SocketAddr), ClientError> {
    let unknown = |source| ClientError::Resolve { host: host.to_owned(), source };
    let mut failure = unknown(io::Error::other("it has no address"));
    for to in (host, port).to_socket_addrs().map_err(unknown)? {
        if local.is_some_and(|local| local.is_ipv4() != to.is_ipv4()) {
            continue;
        }
        match connect(to, local, 0, &[]) {
            Ok(stream) => return Ok((stream, to)),
            Err(e) => failure = e,
        }
    }
    Err(failure)
}

/// A data connection, with all options that the user wants.
pub fn join(options: &ClientOptions, to: SocketAddr, index: u16) -> Result<(TcpStream, Joined), ClientError> {
    let port = options.local_port.map_or(0, |port| port.saturating_add(index));
    let stream = connect(to, options.local, port, &options.settings)?;
    let local = stream.local_addr().map_err(system("a connection has no end here"))?;
    let congestion = match Setting::congestion("").effective(&stream) {
        Some(Value::Name(name)) => name,
        _ => String::new(),
    };
    let joined = Joined {
        local,
        remote: to,
        up: index < options.request.up,
        congestion,
        settings: options.settings.iter().map(|setting| setting.effective(&stream)).collect(),
    };
    Ok((stream, joined))
}

fn connect(
    to: SocketAddr,
    local: Option<IpAddr>,
    port: u16,
    settings: &[Setting],
) -> Result<TcpStream, ClientError> {
    let socket = open(to, settings)?;
    if local.is_some() || port != 0 {
        let any = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let local = SocketAddr::new(local.unwrap_or(any), port);
        // A port whose last connection ended a moment ago can be used again.
        let bound = socket.set_reuse_address(true).and_then(|()| socket.bind(&local.into()));
        bound.map_err(|source| ClientError::Local { local, source })?;
    }
    socket.connect_timeout(&to.into(), TIMEOUT).map_err(|source| ClientError::Connect { to, source })?;
    Ok(socket.into())
}

/// A socket with all options that must be set before it is connected.
pub fn open(to: SocketAddr, settings: &[Setting]) -> Result<Socket, ClientError> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))
        .map_err(system("no socket can be made"))?;
    for setting in settings {
        setting.set(&socket)?;
    }
    Ok(socket)
}
