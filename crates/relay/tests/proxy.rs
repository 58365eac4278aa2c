//! A proxy on loopback: destinations that it connects, and those that it does not.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use socket2::SockRef;
use weir_psock::io::{Options, ParallelSocket, Route};
use weir_psock::session::SessionError;
use weir_psock::wire::Reason;
use weir_relay::wire::{PART_BYTES, Part, Position, REPLY_BYTES, Request, Status};
use weir_relay::{Ended, Proxy, Rules};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Nothing here takes that long unless it never ends.
const LONG: Option<Duration> = Some(Duration::from_secs(60));

fn proxy(allowed: &[&str], most: usize) -> Proxy {
    Proxy::start(&[LOOPBACK], Options::default(), Rules::parse(allowed).unwrap(), most).unwrap()
}

/// A session with a proxy, of two streams.
fn opened(proxy: &Proxy) -> ParallelSocket {
    let route = Route { local: None, remote: proxy.addresses()[0] };
    let options = Options { waits_for_routes: true, ..Options::default() };
    ParallelSocket::connect(&[route; 2], &options).unwrap()
}

fn fill(session: &ParallelSocket, into: &mut [u8]) {
    let mut have = 0;
    while have < into.len() {
        match session.read(&mut into[have..], LONG).unwrap() {
            0 => panic!("the end after {have} bytes"),
            len => have += len,
        }
    }
}

fn request(to: SocketAddr) -> Request {
    Request { to, position: Position { sequence: 1, number: 0 } }
}

fn asked(session: &ParallelSocket, to: SocketAddr) -> Status {
    session.write_all(&request(to).emit()).unwrap();
    let mut reply = [0; REPLY_BYTES];
    fill(session, &mut reply);
    Status::parse(&reply).unwrap()
}

fn send(session: &ParallelSocket, part: Part, bytes: &[u8]) {
    session.write_all(&part.emit()).unwrap();
    session.write_all(bytes).unwrap();
}

/// The next part.
fn part(session: &ParallelSocket) -> (Part, Vec<u8>) {
    let mut head = [0; PART_BYTES];
    fill(session, &mut head);
    let part = Part::parse(head).unwrap();
    let mut bytes = match part {
        Part::Data(len) | Part::Urgent(len) => vec![0; len],
        Part::End | Part::Close => Vec::new(),
    };
    fill(session, &mut bytes);
    (part, bytes)
}

/// Data up to the end.
fn rest(session: &ParallelSocket) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        match part(session) {
            (Part::End, _) => return all,
            (_, bytes) => all.extend(bytes),
        }
    }
}

/// The next session that has ended.
fn ended(proxy: &Proxy) -> Ended {
    loop {
        if let Some(found) = proxy.ended().pop() {
            return found;
        }
        thread::yield_now();
    }
}

/// A destination that answers with what came, after its end.
fn echo() -> (SocketAddr, thread::JoinHandle<()>) {
    let listener = TcpListener::bind(LOOPBACK).unwrap();
    let at = listener.local_addr().unwrap();
    let work = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(&all).unwrap();
    };
    (at, thread::spawn(work))
}

#[test]
fn a_session_is_carried_to_its_destination_and_back() {
    let ((to, work), proxy) = (echo(), proxy(&["127.0.0.1"], 10));
    let session = opened(&proxy);
    assert_eq!(asked(&session, to), Status::Connected);
    let data: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
    send(&session, Part::Data(data.len()), &data);
    send(&session, Part::End, b"");
    assert!(rest(&session) == data);
    session.close(LONG).unwrap();
    work.join().unwrap();
    let story = ended(&proxy);
    assert_eq!((story.to, story.sent_bytes, story.received_bytes), (Some(to), 1_000_000, 1_000_000));
    assert_eq!((story.is_reset, story.failure.as_str()), (false, ""));
    assert_eq!(story.report.unwrap().streams.len(), 2);
}

#[test]
fn many_sessions_are_carried_at_once() {
    let proxy = proxy(&["127.0.0.1"], 20);
    let all: Vec<_> = (0..10)
        .map(|_| {
            let (to, work) = echo();
            let session = opened(&proxy);
            assert_eq!(asked(&session, to), Status::Connected);
            (session, work)
        })
        .collect();
    for (number, (session, work)) in all.into_iter().enumerate().rev() {
        send(&session, Part::Data(1000), &[number as u8; 1000]);
        send(&session, Part::End, b"");
        assert_eq!(rest(&session), [number as u8; 1000]);
        session.close(LONG).unwrap();
        work.join().unwrap();
    }
}

#[test]
fn a_session_carries_one_connection_after_another() {
    let proxy = proxy(&["127.0.0.1"], 10);
    let session = opened(&proxy);
    for text in [&b"first"[..], b"and second"] {
        let (to, work) = echo();
        assert_eq!(asked(&session, to), Status::Connected);
        send(&session, Part::Data(text.len()), text);
        send(&session, Part::End, b"");
        assert_eq!(rest(&session), text);
        work.join().unwrap();
        let (story, bytes) = (ended(&proxy), text.len() as u64);
        assert_eq!((story.sent_bytes, story.received_bytes, story.failure.as_str()), (bytes, bytes, ""));
        // With the reply, and the heads of two parts.
        let totals = story.report.unwrap().totals;
        assert!(totals.received_bytes <= bytes + 8 && totals.written_bytes <= bytes + 24, "{totals:?}");
    }
    session.close(LONG).unwrap();
}

#[test]
fn an_urgent_byte_is_carried_in_its_place() {
    let (listener, proxy) = (TcpListener::bind(LOOPBACK).unwrap(), proxy(&["127.0.0.1"], 10));
    let session = opened(&proxy);
    assert_eq!(asked(&session, listener.local_addr().unwrap()), Status::Connected);
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(b"abc").unwrap();
    assert_eq!(SockRef::from(&stream).send_out_of_band(b"!").unwrap(), 1);
    stream.write_all(b"def").unwrap();
    let (mut before, mut after, mut is_after) = (Vec::new(), Vec::new(), false);
    while after.len() < 3 {
        match part(&session) {
            (Part::Urgent(_), bytes) => {
                assert_eq!(bytes, b"!");
                is_after = true;
            }
            (_, bytes) => if is_after { &mut after } else { &mut before }.extend(bytes),
        }
    }
    assert_eq!((&before[..], &after[..]), (&b"abc"[..], &b"def"[..]));

    send(&session, Part::Urgent(3), b"xy?");
    send(&session, Part::Data(1), b"z");
    let mut got = [0; 2];
    stream.read_exact(&mut got).unwrap();
    let mut urgent = [std::mem::MaybeUninit::new(0)];
    // The urgent byte follows those before it, in a segment of its own.
    while SockRef::from(&stream).recv_out_of_band(&mut urgent).is_err() {
        thread::yield_now();
    }
    // SAFETY: it was initialised.
    assert_eq!((&got, unsafe { urgent[0].assume_init() }), (b"xy", b'?'));
    stream.read_exact(&mut got[..1]).unwrap();
    assert_eq!(got[0], b'z');
}

#[test]
fn a_program_that_is_gone_leaves_the_connection_to_the_system() {
    let (listener, proxy) = (TcpListener::bind(LOOPBACK).unwrap(), proxy(&["127.0.0.1"], 10));
    let session = opened(&proxy);
    assert_eq!(asked(&session, listener.local_addr().unwrap()), Status::Connected);
    let (mut stream, _) = listener.accept().unwrap();
    send(&session, Part::Data(4), b"last");
    send(&session, Part::End, b"");
    send(&session, Part::Close, b"");
    assert_eq!(part(&session).0, Part::End, "the destination has not ended, and need not");
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"last");
    assert_eq!((ended(&proxy).failure.as_str(), session.close(LONG).is_ok()), ("", true));
    // As after close() of a program.
    while stream.write_all(b"nobody reads this").is_ok() {
        thread::yield_now();
    }
}

#[test]
fn resets_are_carried_both_ways() {
    let (listener, proxy) = (TcpListener::bind(LOOPBACK).unwrap(), proxy(&["127.0.0.1"], 10));
    let accepted = |session: &ParallelSocket| {
        assert_eq!(asked(session, listener.local_addr().unwrap()), Status::Connected);
        listener.accept().unwrap().0
    };
    let session = opened(&proxy);
    let stream = accepted(&session);
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
    assert!(session.read(&mut [0], LONG).is_err());
    assert_eq!(session.failure(), Some(SessionError::Aborted(Reason::Closed)));
    let story = ended(&proxy);
    assert_eq!((story.is_reset, story.failure.as_str()), (true, ""));

    let session = opened(&proxy);
    let mut stream = accepted(&session);
    session.abort();
    let found = stream.read(&mut [0]).unwrap_err();
    assert_eq!(found.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(ended(&proxy).is_reset);
}

#[test]
fn what_is_not_allowed_is_not_connected() {
    let (listener, proxy) = (TcpListener::bind(LOOPBACK).unwrap(), proxy(&["any", "127.0.0.1:1"], 10));
    let to = listener.local_addr().unwrap();
    let session = opened(&proxy);
    assert_eq!(asked(&session, to), Status::Forbidden);
    assert_eq!(session.read(&mut [0], LONG).unwrap(), 0);
    drop(session);
    assert!(ended(&proxy).failure.contains("--allow"));
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "nobody has come");
}

#[test]
fn a_destination_that_refuses_is_told() {
    // Of TCPMUX (RFC 1078), which nobody serves; a port that is free now may be somebody's soon.
    let closed = "127.0.0.1:1".parse().unwrap();
    let proxy = proxy(&["127.0.0.1"], 10);
    assert_eq!(asked(&opened(&proxy), closed), Status::Refused);
    assert!(ended(&proxy).failure.contains("refused"));
}

#[test]
fn a_session_beyond_the_limit_waits_for_the_end_of_another() {
    let proxy = proxy(&["127.0.0.1"], 1);
    let destinations = [echo(), echo(), echo()];
    let first = opened(&proxy);
    assert_eq!(asked(&first, destinations[0].0), Status::Connected);
    thread::scope(|scope| {
        let others = [1, 2].map(|number| {
            let (proxy, to) = (&proxy, destinations[number].0);
            scope.spawn(move || {
                let session = opened(proxy);
                assert_eq!(asked(&session, to), Status::Connected);
                send(&session, Part::End, b"");
                rest(&session);
            })
        });
        // What carries nothing any longer makes room.
        send(&first, Part::End, b"");
        rest(&first);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
    destinations.into_iter().for_each(|(_, work)| work.join().unwrap());
}

#[test]
fn a_session_that_asks_for_nothing_makes_room_in_time_and_is_no_failure_when_it_breaks_off() {
    let ((to, work), proxy) = (echo(), proxy(&["127.0.0.1"], 1));
    let spare = opened(&proxy);
    while proxy.active() == 0 {
        thread::yield_now();
    }
    let session = opened(&proxy);
    assert_eq!(asked(&session, to), Status::Connected);
    assert!(spare.read(&mut [0], LONG).is_err());
    send(&session, Part::End, b"");
    rest(&session);
    work.join().unwrap();
    assert_eq!(ended(&proxy).failure, "");
    // As when weir psock run is stopped.
    session.abort();
    while proxy.active() > 0 {
        thread::yield_now();
    }
    assert!(proxy.ended().is_empty());
}

#[test]
fn whoever_asks_for_something_else_is_sent_away() {
    let proxy = proxy(&["127.0.0.1"], 10);
    let session = opened(&proxy);
    session.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert!(session.read(&mut [0], LONG).is_err());
    assert!(ended(&proxy).failure.contains("neither weir psock run nor weir psock proxy"));

    let session = opened(&proxy);
    let mut bytes = request("192.0.2.1:80".parse().unwrap()).emit();
    bytes[7] = 9;
    session.write_all(&bytes).unwrap();
    let mut reply = [0; REPLY_BYTES];
    fill(&session, &mut reply);
    assert_eq!(Status::parse(&reply), Ok(Status::Version));
    drop(session);
    assert!(ended(&proxy).failure.contains("version 9"));
}

#[test]
fn a_session_that_asks_for_nothing_is_a_check() {
    let proxy = proxy(&["127.0.0.1"], 10);
    let session = opened(&proxy);
    session.finish();
    assert_eq!(session.read(&mut [0], LONG).unwrap(), 0);
    session.close(LONG).unwrap();
    while proxy.active() > 0 {
        thread::yield_now();
    }
    assert!(proxy.ended().is_empty());
}

#[test]
fn a_proxy_that_stops_breaks_off_what_there_is() {
    let (listener, proxy) = (TcpListener::bind(LOOPBACK).unwrap(), proxy(&["127.0.0.1"], 10));
    let session = opened(&proxy);
    assert_eq!(asked(&session, listener.local_addr().unwrap()), Status::Connected);
    let mut stream: TcpStream = listener.accept().unwrap().0;
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(part(&session).0, Part::End);
    proxy.stop();
    assert!(stream.read(&mut [0]).is_err());
    assert!(session.close(LONG).is_err());
    assert_eq!(ended(&proxy).failure, "it was stopped");
}
