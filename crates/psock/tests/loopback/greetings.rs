//! Who is let in: tokens, other versions, other protocols, peers that lie.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use weir_psock::io::{Listener, OpenError, Options, ParallelSocket, SocketError};
use weir_psock::session::SessionError;
use weir_psock::wire::{Frame, GreetingError, Hello, Initiator, Reason, Violation};

use crate::{LONG, LOOPBACK, answering, read_all, routes, server_and, with_token};

#[test]
fn whoever_lacks_the_token_opens_nothing_and_the_listener_goes_on() {
    let listener = Listener::bind(&[LOOPBACK], with_token(b"the right one of all")).unwrap();
    let to = listener.addresses()[0];
    for token in [&b"wrong"[..], b""] {
        let refused = ParallelSocket::connect(&routes(to, 2), &with_token(token)).unwrap_err();
        assert!(matches!(refused, OpenError::Greeting { source: GreetingError::Secret, .. }), "{refused:?}");
    }
    let server = answering(listener);
    let client = ParallelSocket::connect(&routes(to, 1), &with_token(b"the right one of all")).unwrap();
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
fn a_crowd_that_says_next_to_nothing_keeps_no_client_away() {
    let listener = Listener::bind(&[LOOPBACK], with_token(b"a token of tests")).unwrap();
    let to = listener.addresses()[0];
    let connect = |_| {
        let mut stream = TcpStream::connect(to).unwrap();
        stream.write_all(b"W").unwrap();
        stream
    };
    let mut crowd: Vec<_> = (0..700).map(connect).collect();
    let server = answering(listener);
    let client = ParallelSocket::connect(&routes(to, 4), &with_token(b"a token of tests")).unwrap();
    client.write_all(b"hello").unwrap();
    client.finish();
    assert_eq!(server_and(read_all(&client), server), b"hello");
    let first = crowd[0].read(&mut [0]);
    assert!(matches!(first, Ok(0)), "the oldest is closed: {first:?}");
}

#[test]
fn many_sessions_at_once_wait_until_they_are_accepted() {
    let listener = Listener::bind(&[LOOPBACK], with_token(b"a token of tests")).unwrap();
    let to = listener.addresses()[0];
    thread::scope(|scope| {
        let open = || ParallelSocket::connect(&routes(to, 1), &with_token(b"a token of tests"));
        let clients: Vec<_> = (0..100).map(|_| scope.spawn(open)).collect();
        let accepted: Vec<_> = (0..100).map(|_| listener.accept(LONG).unwrap()).collect();
        let opened = clients.into_iter().map(|client| client.join().unwrap());
        assert_eq!(opened.filter(Result::is_ok).count(), 100);
        drop(accepted);
    });
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
