//! Sessions over loopback.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod deaths;
mod greetings;
mod opening;
mod plain;

use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::Duration;

use weir_psock::io::{Listener, Options, ParallelSocket, Route, SocketError};
use weir_psock::schedule::SCHEDULERS;
use weir_psock::session::{Config, Timing};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Nothing here takes that long unless it never ends.
const LONG: Option<Duration> = Some(Duration::from_secs(60));
const MINUTE_NS: u64 = 60_000_000_000;

fn bytes(len: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn with_token(token: &[u8]) -> Options {
    Options { token: token.to_vec(), ..Options::default() }
}

fn routes(to: SocketAddr, streams: usize) -> Vec<Route> {
    vec![Route { local: None, remote: to }; streams]
}

fn read_all(socket: &ParallelSocket) -> Result<Vec<u8>, SocketError> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 50_000]);
    loop {
        match socket.read(&mut buffer, LONG)? {
            0 => return Ok(all),
            len => all.extend_from_slice(&buffer[..len]),
        }
    }
}

/// Receives one session to its end and answers with what came, while the caller is the client.
fn answering(listener: Listener) -> thread::JoinHandle<Result<Vec<u8>, SocketError>> {
    thread::spawn(move || {
        let (socket, _) = listener.accept(LONG).unwrap();
        let all = read_all(&socket)?;
        socket.write_all(&all)?;
        socket.close(LONG)?;
        Ok(all)
    })
}

#[test]
fn data_go_both_ways_over_several_streams_with_every_scheduler() {
    let data = bytes(3_000_000);
    // However slow the other end is, no stream is taken for one that is stuck, and replaced.
    let timing =
        Timing { suspect_ns: MINUTE_NS, dead_ns: 2 * MINUTE_NS, lost_ns: 3 * MINUTE_NS, ..Timing::default() };
    for name in SCHEDULERS {
        let config = Config { timing, ..Config::default() };
        let options = Options { scheduler: name.to_owned(), config, ..with_token(b"a token of tests") };
        let listener = Listener::bind(&[LOOPBACK], options.clone()).unwrap();
        let to = listener.addresses()[0];
        let server = answering(listener);
        let client = ParallelSocket::connect(&routes(to, 3), &options).unwrap();
        client.write_all(&data).unwrap();
        client.finish();
        assert_eq!(read_all(&client).unwrap(), data, "{name}");
        client.close(LONG).unwrap();
        assert_eq!(server.join().unwrap().unwrap().len(), data.len());
        let report = client.report();
        assert_eq!((report.scheduler, report.totals.acknowledged_bytes), (name, data.len() as u64));
        assert!(report.streams.iter().all(|stream| stream.ended.is_empty()), "{report:?}");
        let sent: u64 = report.streams.iter().map(|stream| stream.totals.sent_bytes).sum();
        assert_eq!(sent, data.len() as u64 + report.totals.resent_bytes);
    }
}

fn server_and(
    read: Result<Vec<u8>, SocketError>,
    server: thread::JoinHandle<Result<Vec<u8>, SocketError>>,
) -> Vec<u8> {
    let read = read.unwrap();
    assert_eq!(server.join().unwrap().unwrap(), read);
    read
}

#[test]
fn one_descriptor_tells_when_to_read_and_when_to_write() {
    let small = Config { send_bytes: 4096, receive_bytes: 4096, ..Config::default() };
    let options = Options { config: small, ..Options::default() };
    let listener = Listener::bind(&[LOOPBACK], options.clone()).unwrap();
    let client = ParallelSocket::connect(&routes(listener.addresses()[0], 2), &options).unwrap();
    let (server, _) = listener.accept(LONG).unwrap();
    let (client_fd, server_fd) = (client.poll_fd().unwrap(), server.poll_fd().unwrap());
    let now = Some(Duration::ZERO);
    assert!(matches!(server.read(&mut [0; 10], now), Err(SocketError::TimedOut)));
    assert_eq!(events(server_fd, libc::POLLIN | libc::POLLOUT, 0), libc::POLLOUT);
    // As much as both ends have room for.
    let mut written = 0;
    while written < 8192 {
        wait_for(client_fd, libc::POLLOUT);
        match client.write(&[1; 1000], now) {
            Ok(len) => written += len,
            Err(error) => assert!(matches!(error, SocketError::TimedOut), "{error:?}"),
        }
    }
    assert!(matches!(client.write(&[1], now), Err(SocketError::TimedOut)));
    assert_eq!(events(client_fd, libc::POLLOUT, 0), 0);
    wait_for(server_fd, libc::POLLIN);
    let mut read = 0;
    while read < written {
        wait_for(server_fd, libc::POLLIN);
        read += server.read(&mut [0; 1000], now).unwrap();
    }
    assert_eq!(events(server_fd, libc::POLLIN, 0), 0);
    wait_for(client_fd, libc::POLLOUT);
    client.finish();
    wait_for(server_fd, libc::POLLIN);
    assert_eq!(server.read(&mut [0; 1000], now).unwrap(), 0);
}

fn events(fd: libc::c_int, wanted: libc::c_short, within_ms: libc::c_int) -> libc::c_short {
    let mut entry = libc::pollfd { fd, events: wanted, revents: 0 };
    // SAFETY: one entry.
    unsafe { libc::poll(&raw mut entry, 1, within_ms) };
    entry.revents
}

fn wait_for(fd: libc::c_int, wanted: libc::c_short) {
    assert_eq!(events(fd, wanted, 60_000) & wanted, wanted);
}

#[test]
fn a_stream_can_be_given_socket_options() {
    let listener = Listener::bind(&[LOOPBACK], Options::default()).unwrap();
    let client = ParallelSocket::connect(&routes(listener.addresses()[0], 1), &Options::default()).unwrap();
    let _server = listener.accept(LONG).unwrap();
    let connection = client.connection(0).unwrap();
    connection.set_ttl(7).unwrap();
    assert_eq!(client.connection(0).unwrap().ttl().unwrap(), 7);
    assert!(client.connection(1).is_none());
}
