//! Sessions that are being opened: what is refused, silent routes, limits.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use weir_psock::io::{Listener, OpenError, Opening, Options, ParallelSocket, Route, Signal};
use weir_psock::session::{Config, Timing};
use weir_psock::wire::{HELLO_BYTES, Hello, PROOF_BYTES, Responder, Status, refusal};

use crate::{LONG, LOOPBACK, answering, events, read_all, routes, server_and, wait_for, with_token};

#[test]
fn what_cannot_be_is_refused_before_anything_is_sent() {
    let at = |config| Options { config, ..Options::default() };
    let refused = |options: &Options| ParallelSocket::connect(&routes(LOOPBACK, 1), options).unwrap_err();
    let unknown = Options { scheduler: "fastest".into(), ..Options::default() };
    assert!(refused(&unknown).to_string().contains("earliest, poll-all"));
    assert!(matches!(refused(&at(Config { receive_bytes: 1, ..Config::default() })), OpenError::Memory(1)));
    assert!(matches!(refused(&at(Config { block_bytes: 0, ..Config::default() })), OpenError::Block(0)));
    let none = ParallelSocket::connect(&[], &Options::default()).unwrap_err();
    assert!(matches!(none, OpenError::Addresses(0)));
    let open = Listener::bind(&["0.0.0.0:0".parse().unwrap()], Options::default()).unwrap_err();
    assert!(matches!(open, OpenError::TokenNeeded(_)));
    for token in [&b"x"[..], &[b'x'; 15]] {
        let short = Listener::bind(&[LOOPBACK], with_token(token)).unwrap_err();
        assert!(matches!(short, OpenError::TokenShort(bytes) if bytes == token.len()));
    }
    let local = Some("192.0.2.1".parse().unwrap());
    let foreign = ParallelSocket::connect(&[Route { local, remote: LOOPBACK }], &Options::default());
    assert!(matches!(foreign.unwrap_err(), OpenError::Local { .. }));
}

/// A listener that nobody accepts from: connections beyond its backlog are not answered, as behind a firewall.
fn silent() -> (TcpListener, SocketAddr, Vec<TcpStream>) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&LOOPBACK.into()).unwrap();
    socket.listen(0).unwrap();
    let listener = TcpListener::from(socket);
    let to = listener.local_addr().unwrap();
    let fill = || TcpStream::connect_timeout(&to, Duration::from_millis(100)).ok();
    let full = std::iter::from_fn(fill).collect();
    (listener, to, full)
}

#[test]
fn routes_that_are_silent_hold_up_nothing() {
    let (_listener, nowhere, _full) = silent();
    let listener = Listener::bind(&[LOOPBACK], Options::default()).unwrap();
    // One that answers connections and says nothing, which has its turn first.
    let mute = TcpListener::bind(LOOPBACK).unwrap();
    let works = listener.addresses()[0];
    let server = answering(listener);
    let to = [nowhere, mute.local_addr().unwrap(), nowhere, works, works];
    let routes: Vec<_> = to.map(|remote| Route { local: None, remote }).to_vec();
    let client = ParallelSocket::connect(&routes, &Options::default()).unwrap();
    client.write_all(b"hello").unwrap();
    client.finish();
    assert_eq!(server_and(read_all(&client), server), b"hello");
    // The silent ones are still being tried.
    assert!(client.report().streams.iter().all(|stream| stream.remote == works));
}

#[test]
fn an_opening_is_waited_for_in_parts_and_can_be_given_up() {
    let (_listener, nowhere, _full) = silent();
    let mut signal = Signal::new().unwrap();
    signal.show(true, true);
    let fd = signal.as_raw_fd();
    let opening = Opening::start(&routes(nowhere, 2), &Options::default(), Some(signal)).unwrap();
    assert_eq!(events(fd, libc::POLLIN | libc::POLLOUT, 0), 0);
    let opening = opening.wait(Some(Duration::from_millis(1))).unwrap_err();
    drop(opening);
    let listener = Listener::bind(&[LOOPBACK], Options::default()).unwrap();
    let signal = Signal::new().unwrap();
    let fd = signal.as_raw_fd();
    let to = listener.addresses()[0];
    let opening = Opening::start(&routes(to, 3), &Options::default(), Some(signal)).unwrap();
    wait_for(fd, libc::POLLOUT);
    let client = opening.wait(Some(Duration::ZERO)).unwrap().unwrap();
    assert_eq!(client.poll_fd().unwrap(), fd);
    let (server, _) = listener.accept(LONG).unwrap();
    server.write_all(b"hello").unwrap();
    wait_for(fd, libc::POLLIN);
    // One that nobody takes is broken off.
    drop(Opening::start(&routes(to, 1), &Options::default(), None).unwrap());
}

/// The next connection and its greeting.
fn greeted(listener: &TcpListener) -> (TcpStream, Hello) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut hello = [0; HELLO_BYTES];
    stream.read_exact(&mut hello).unwrap();
    (stream, Hello::parse(&hello).unwrap())
}

/// Answers a greeting in good order; the key of the session that it has opened.
fn welcome(stream: &mut TcpStream, responder: Responder) -> weir_psock::wire::Secret {
    stream.write_all(responder.reply()).unwrap();
    let mut proof = [0; PROOF_BYTES];
    stream.read_exact(&mut proof).unwrap();
    let (welcome, secret) = responder.verify(&proof).unwrap();
    stream.write_all(&welcome).unwrap();
    secret
}

#[test]
fn a_route_that_was_overtaken_joins_and_is_waited_for() {
    let listener = TcpListener::bind(LOOPBACK).unwrap();
    let to = listener.local_addr().unwrap();
    let (joins, has_come) = mpsc::channel();
    let (goes_on, may_go_on) = mpsc::channel();
    let server = thread::spawn(move || {
        // As the first is not answered, the second greets beside it.
        let ((mut first, hello), (mut second, _)) = (greeted(&listener), greeted(&listener));
        second.write_all(&refusal(Status::Full)).unwrap();
        let secret = welcome(&mut first, Responder::open(b"", hello, [2; 16]));
        loop {
            let (mut stream, hello) = greeted(&listener);
            if hello.opens {
                stream.write_all(&refusal(Status::Full)).unwrap();
                continue;
            }
            joins.send(()).unwrap();
            may_go_on.recv().unwrap();
            welcome(&mut stream, Responder::join(&secret, hello, [3; 16]));
            return [first, stream];
        }
    });
    let options = Options { waits_for_routes: true, ..Options::default() };
    let opening = Opening::start(&routes(to, 2), &options, None).unwrap();
    has_come.recv().unwrap();
    let opening = opening.wait(Some(Duration::ZERO)).unwrap_err();
    goes_on.send(()).unwrap();
    let client = opening.wait(LONG).unwrap().unwrap();
    assert!(client.joined(Some(Duration::ZERO)));
    assert_eq!(client.report().streams.len(), 2);
    drop(server.join().unwrap());
}

#[test]
fn a_route_that_fails_is_not_waited_for() {
    let listener = Listener::bind(&[LOOPBACK], Options::default()).unwrap();
    // Of TCPMUX (RFC 1078), which nobody serves.
    let to = [listener.addresses()[0], "127.0.0.1:1".parse().unwrap()];
    let options = Options { waits_for_routes: true, ..Options::default() };
    let client = ParallelSocket::connect(&to.map(|remote| Route { local: None, remote }), &options).unwrap();
    assert!(client.joined(LONG));
    assert_eq!(client.report().streams.len(), 1);
}

#[test]
fn a_server_limits_the_streams_of_a_session() {
    // A suspect stream does not count, and on a busy machine any can be one: here none is.
    let hour = Duration::from_secs(3600).as_nanos() as u64;
    let timing = Timing { suspect_ns: hour, dead_ns: hour, lost_ns: hour, ..Timing::default() };
    let patient = Options { config: Config { timing, ..Config::default() }, ..Options::default() };
    let listener = Listener::bind(&[LOOPBACK], Options { most_streams: 2, ..patient.clone() }).unwrap();
    let client = ParallelSocket::connect(&routes(listener.addresses()[0], 5), &patient).unwrap();
    let (server, _) = listener.accept(LONG).unwrap();
    let mut refused = 0;
    while refused < 3 {
        refused += usize::from(listener.stranger().is_some());
        thread::yield_now();
    }
    // The second has been let in, and is taken by the session's own thread.
    let alive = || server.report().streams.iter().filter(|stream| stream.ended.is_empty()).count();
    while alive() < 2 {
        thread::yield_now();
    }
    assert_eq!(alive(), 2);
    let none = Options { most_streams: 0, ..Options::default() };
    assert!(matches!(Listener::bind(&[LOOPBACK], none), Err(OpenError::Streams(0))));
    drop(client);
}
