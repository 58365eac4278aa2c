//! Sessions over loopback: streams that are killed, secrets that are wrong, and peers that are none.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use weir_psock::io::{Listener, OpenError, Opening, Options, ParallelSocket, Route, Signal, SocketError};
use weir_psock::schedule::SCHEDULERS;
use weir_psock::session::{Config, SessionError, Timing};
use weir_psock::wire::{Frame, GreetingError, Hello, Initiator, Reason, Responder, Violation};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Nothing here takes that long unless it never ends.
const LONG: Option<Duration> = Some(Duration::from_secs(60));

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

/// Hands connections on, and can cut them.
struct Relay {
    at: SocketAddr,
    passed: Arc<Mutex<Vec<[TcpStream; 2]>>>,
}

impl Relay {
    fn new(to: SocketAddr) -> Self {
        let listener = TcpListener::bind(LOOPBACK).unwrap();
        let at = listener.local_addr().unwrap();
        let passed: Arc<Mutex<Vec<[TcpStream; 2]>>> = Arc::default();
        let for_thread = Arc::clone(&passed);
        thread::spawn(move || {
            for near in listener.incoming() {
                let (near, Ok(far)) = (near.unwrap(), TcpStream::connect(to)) else { continue };
                let pair = || [near.try_clone().unwrap(), far.try_clone().unwrap()];
                let [near_again, far_again] = pair();
                for_thread.lock().unwrap().push(pair());
                for [mut from, mut into] in [pair(), [far_again, near_again]] {
                    thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut into);
                        let _ = into.shutdown(Shutdown::Write);
                    });
                }
            }
        });
        Self { at, passed }
    }

    /// Cuts what is there, and says how many that were.
    fn cut(&self) -> usize {
        let mut passed = self.passed.lock().unwrap();
        for stream in passed.iter().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        passed.drain(..).len()
    }
}

#[test]
fn data_go_both_ways_over_several_streams_with_every_scheduler() {
    let data = bytes(3_000_000);
    for name in SCHEDULERS {
        let options = Options { scheduler: name.to_owned(), ..with_token(b"token") };
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

#[test]
fn a_session_survives_the_death_of_streams_and_of_all_at_once() {
    let data = bytes(4_000_000);
    let listener = Listener::bind(&[LOOPBACK], Options::default()).unwrap();
    let relays = [0, 1].map(|_| Relay::new(listener.addresses()[0]));
    let ways: Vec<_> = relays.iter().map(|relay| Route { local: None, remote: relay.at }).collect();
    let server = answering(listener);
    let small =
        Config { send_bytes: 100_000, receive_bytes: 100_000, block_bytes: 5000, ..Config::default() };
    let client = ParallelSocket::connect(&ways, &Options { config: small, ..Options::default() }).unwrap();
    let mut cuts = 0;
    for (number, part) in data.chunks(400_000).enumerate() {
        client.write_all(part).unwrap();
        cuts += if number % 3 == 2 { relays[0].cut() + relays[1].cut() } else { relays[number % 2].cut() };
    }
    client.finish();
    assert_eq!(server_and(read_all(&client), server), data);
    // Each part is larger than all buffers, so that a connection has carried some of it.
    assert!(cuts >= 3, "{cuts} connections were cut");
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
fn whoever_lacks_the_token_opens_nothing_and_the_listener_goes_on() {
    let listener = Listener::bind(&[LOOPBACK], with_token(b"right")).unwrap();
    let to = listener.addresses()[0];
    for token in [&b"wrong"[..], b""] {
        let refused = ParallelSocket::connect(&routes(to, 2), &with_token(token)).unwrap_err();
        assert!(matches!(refused, OpenError::Greeting { source: GreetingError::Secret, .. }), "{refused:?}");
    }
    let server = answering(listener);
    let client = ParallelSocket::connect(&routes(to, 1), &with_token(b"right")).unwrap();
    client.write_all(b"hello").unwrap();
    client.finish();
    assert_eq!(server_and(read_all(&client), server), b"hello");
}

#[test]
fn nobody_joins_a_session_by_its_name_alone() {
    let listener = Listener::bind(&[LOOPBACK], Options::default()).unwrap();
    let to = listener.addresses()[0];
    let id = [5; 16];
    let mut opened = TcpStream::connect(to).unwrap();
    let initiator = Initiator::open(b"", id, [1; 16]);
    let secret = greet(&mut opened, initiator).unwrap();
    let (socket, _) = listener.accept(LONG).unwrap();
    let guessed = weir_psock::wire::Secret::of_token(b"", &id);
    let mut thief = TcpStream::connect(to).unwrap();
    assert_eq!(greet(&mut thief, Initiator::join(&guessed, id, [2; 16])).unwrap_err(), GreetingError::Secret);
    let mut other = TcpStream::connect(to).unwrap();
    assert_eq!(
        greet(&mut other, Initiator::join(&secret, [6; 16], [2; 16])).unwrap_err(),
        GreetingError::Unknown
    );
    let mut joined = TcpStream::connect(to).unwrap();
    greet(&mut joined, Initiator::join(&secret, id, [3; 16])).unwrap();
    joined.write_all(&Frame::Data { offset: 0, len: 2 }.emit()).unwrap();
    joined.write_all(b"ok").unwrap();
    let mut buffer = [0; 10];
    assert_eq!(socket.read(&mut buffer, LONG).unwrap(), 2);
    assert_eq!(socket.report().streams.len(), 2);
}

/// The client's side of a greeting, by hand.
fn greet(stream: &mut TcpStream, initiator: Initiator) -> Result<weir_psock::wire::Secret, GreetingError> {
    stream.write_all(initiator.hello()).unwrap();
    let mut reply = [0; weir_psock::wire::REPLY_BYTES];
    stream.read_exact(&mut reply).unwrap();
    let proved = initiator.prove(&reply)?;
    stream.write_all(proved.proof()).unwrap();
    let mut welcome = [0; weir_psock::wire::WELCOME_BYTES];
    stream.read_exact(&mut welcome).unwrap();
    proved.welcomed(&welcome)
}

#[test]
fn garbage_and_other_versions_are_sent_away() {
    let listener = Listener::bind(&[LOOPBACK], Options::default()).unwrap();
    let to = listener.addresses()[0];
    let mut web = TcpStream::connect(to).unwrap();
    web.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(web.read(&mut [0; 100]).unwrap_or(0), 0, "a stranger is told nothing");
    let mut later = *Initiator::open(b"", [1; 16], [1; 16]).hello();
    later[7] = 9;
    assert!(matches!(Hello::parse(&later), Err(GreetingError::Version(9))));
    let mut stream = TcpStream::connect(to).unwrap();
    stream.write_all(&later).unwrap();
    let mut reply = [0; weir_psock::wire::REPLY_BYTES];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..9], *b"WEIRPSK\x01\x01");
    let mut stories = Vec::new();
    while stories.len() < 2 {
        stories.extend(listener.stranger().map(|stranger| stranger.why));
        thread::yield_now();
    }
    stories.sort();
    let [strange, version] = &stories[..] else { panic!("{stories:?}") };
    assert!(strange.contains("another protocol") && version.contains("version 9"), "{stories:?}");
}

#[test]
fn a_plain_tcp_server_is_named_as_such() {
    let plain = TcpListener::bind(LOOPBACK).unwrap();
    let to = plain.local_addr().unwrap();
    let mail = thread::spawn(move || {
        let (mut stream, _) = plain.accept().unwrap();
        stream.write_all(b"220 mail.example ESMTP\r\n").unwrap();
        let (stream, _) = plain.accept().unwrap();
        drop(stream);
        plain
    });
    let said = ParallelSocket::connect(&routes(to, 1), &Options::default()).unwrap_err();
    assert!(matches!(said, OpenError::Greeting { source: GreetingError::NotPsock, .. }), "{said:?}");
    let left = ParallelSocket::connect(&routes(to, 1), &Options::default()).unwrap_err();
    assert!(matches!(left, OpenError::Silent { .. }), "{left:?}");
    drop(mail.join().unwrap());
    let refused = ParallelSocket::connect(&routes(to, 1), &Options::default()).unwrap_err();
    assert!(matches!(refused, OpenError::Connect { .. }), "{refused:?}");
}

#[test]
fn a_peer_that_lies_about_offsets_is_cut_off() {
    let listener = Listener::bind(&[LOOPBACK], Options::default()).unwrap();
    let mut liar = TcpStream::connect(listener.addresses()[0]).unwrap();
    greet(&mut liar, Initiator::open(b"", [1; 16], [1; 16])).unwrap();
    let (socket, _) = listener.accept(LONG).unwrap();
    liar.write_all(&Frame::Data { offset: 1 << 40, len: 1 }.emit()).unwrap();
    let failed = socket.read(&mut [0; 10], LONG).unwrap_err();
    assert!(
        matches!(failed, SocketError::Session(SessionError::Violation(Violation::Window { .. }))),
        "{failed:?}"
    );
    // It is told so, and then nothing more.
    let mut said = Vec::new();
    liar.read_to_end(&mut said).unwrap();
    let abort = Frame::Abort { reason: Reason::Violation }.emit();
    assert!(said.ends_with(&abort), "{said:?}");
}

#[test]
fn a_session_fails_when_all_streams_are_gone_and_none_comes_back() {
    let listener = TcpListener::bind(LOOPBACK).unwrap();
    let to = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut hello = [0; weir_psock::wire::HELLO_BYTES];
        stream.read_exact(&mut hello).unwrap();
        let responder = Responder::open(b"", Hello::parse(&hello).unwrap(), [2; 16]);
        stream.write_all(responder.reply()).unwrap();
        let mut proof = [0; weir_psock::wire::PROOF_BYTES];
        stream.read_exact(&mut proof).unwrap();
        stream.write_all(&responder.verify(&proof).unwrap().0).unwrap();
        // Then it is gone, and nobody listens there any more.
    });
    let timing = Timing { lost_ns: 300_000_000, ..Timing::default() };
    let config = Config { timing, ..Config::default() };
    let client = ParallelSocket::connect(&routes(to, 2), &Options { config, ..Options::default() }).unwrap();
    server.join().unwrap();
    let failed = client.read(&mut [0; 10], LONG).unwrap_err();
    assert!(matches!(failed, SocketError::Session(SessionError::Lost(_))), "{failed:?}");
    assert!(matches!(client.write(b"x", LONG), Err(SocketError::Session(SessionError::Lost(_)))));
}

#[test]
fn a_socket_that_is_dropped_before_the_end_is_an_error_at_the_other_end() {
    let listener = Listener::bind(&[LOOPBACK], Options::default()).unwrap();
    let client = ParallelSocket::connect(&routes(listener.addresses()[0], 2), &Options::default()).unwrap();
    let (server, _) = listener.accept(LONG).unwrap();
    client.write_all(b"half of it").unwrap();
    let mut buffer = [0; 100];
    assert_eq!(server.read(&mut buffer, LONG).unwrap(), 10);
    drop(client);
    let failed = server.read(&mut buffer, LONG).unwrap_err();
    assert!(matches!(failed, SocketError::Session(SessionError::Aborted(Reason::Closed))), "{failed:?}");
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
    let local = Some("192.0.2.1".parse().unwrap());
    let foreign = ParallelSocket::connect(&[Route { local, remote: LOOPBACK }], &Options::default());
    assert!(matches!(foreign.unwrap_err(), OpenError::Local { .. }));
}

/// Takes one connection after another and reads each to its end, as a plain TCP server; what came on each.
fn plain_server(answer: &'static [u8], connections: usize) -> (SocketAddr, thread::JoinHandle<Vec<Vec<u8>>>) {
    let listener = TcpListener::bind(LOOPBACK).unwrap();
    let to = listener.local_addr().unwrap();
    let serve = move || {
        let take = |_| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(answer).unwrap();
            let mut all = Vec::new();
            // A client that did not like the answer resets the connection.
            let _ = stream.read_to_end(&mut all);
            all
        };
        (0..connections).map(take).collect()
    };
    (to, thread::spawn(serve))
}

#[test]
fn plain_tcp_is_used_where_the_other_end_speaks_nothing_else_and_the_client_wants_it() {
    let data = bytes(1_000_000);
    let (to, server) = plain_server(b"220 mail.example ESMTP\r\n", 2);
    let small = Config { send_bytes: 50_000, receive_bytes: 4096, ..Config::default() };
    let options = Options { is_fallback: true, config: small, ..Options::default() };
    let client = ParallelSocket::connect(&routes(to, 1), &options).unwrap();
    let mut answer = [0; 100];
    assert_eq!(client.read(&mut answer, LONG).unwrap(), 24);
    client.write_all(&data).unwrap();
    client.finish();
    client.delivered(LONG).unwrap();
    assert_eq!(client.read(&mut answer, LONG).unwrap(), 0);
    client.close(LONG).unwrap();
    assert!(client.ended(LONG));
    let came = server.join().unwrap();
    assert_eq!(came[1], data);
    let report = client.report();
    assert!(report.is_plain);
    assert_eq!((report.streams.len(), report.totals.acknowledged_bytes), (1, data.len() as u64));
    assert_eq!((report.streams[0].totals.sent_bytes, report.totals.received_bytes), (data.len() as u64, 24));
}

#[test]
fn a_plain_connection_that_breaks_off_is_an_error_and_one_that_is_aborted_too() {
    let listener = TcpListener::bind(LOOPBACK).unwrap();
    let options = Options { is_fallback: true, ..Options::default() };
    let to = listener.local_addr().unwrap();
    for is_ours in [true, false] {
        let opening = thread::spawn({
            let options = options.clone();
            move || ParallelSocket::connect(&routes(to, 1), &options)
        });
        let (mut first, _) = listener.accept().unwrap();
        first.write_all(b"220 mail.example\r\n").unwrap();
        let (mut second, _) = listener.accept().unwrap();
        let client = opening.join().unwrap().unwrap();
        client.write_all(b"half").unwrap();
        second.read_exact(&mut [0; 4]).unwrap();
        if is_ours {
            drop(client);
            assert_eq!(second.read(&mut [0; 10]).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
        } else {
            // Unread bytes make it a reset (RFC 2525, section 2.17).
            client.write_all(b"more").unwrap();
            second.peek(&mut [0; 1]).unwrap();
            drop(second);
            let failed = client.read(&mut [0; 10], LONG).unwrap_err();
            assert!(matches!(failed, SocketError::Session(SessionError::Broken)), "{failed:?}");
        }
    }
}

#[test]
fn a_token_and_plain_tcp_exclude_each_other() {
    let options = Options { is_fallback: true, ..with_token(b"token") };
    let refused = ParallelSocket::connect(&routes(LOOPBACK, 1), &options).unwrap_err();
    assert!(matches!(refused, OpenError::TokenAndFallback));
    // A listener takes nobody without the protocol.
    let listener = Listener::bind(&[LOOPBACK], Options { is_fallback: true, ..Options::default() }).unwrap();
    let mut web = TcpStream::connect(listener.addresses()[0]).unwrap();
    web.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(web.read(&mut [0; 100]).unwrap_or(0), 0);
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

#[test]
fn a_server_limits_the_streams_of_a_session() {
    let listener = Listener::bind(&[LOOPBACK], Options { most_streams: 2, ..Options::default() }).unwrap();
    let client = ParallelSocket::connect(&routes(listener.addresses()[0], 5), &Options::default()).unwrap();
    let (server, _) = listener.accept(LONG).unwrap();
    let mut refused = 0;
    while refused < 3 {
        refused += usize::from(listener.stranger().is_some());
        thread::yield_now();
    }
    assert_eq!(server.report().streams.len(), 2);
    let none = Options { most_streams: 0, ..Options::default() };
    assert!(matches!(Listener::bind(&[LOOPBACK], none), Err(OpenError::Streams(0))));
    drop(client);
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
