//! Streams that end, are stuck or come back, and sessions that break off.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use weir_psock::io::{Listener, Options, ParallelSocket, Route, SocketError};
use weir_psock::session::{Config, SessionError, Timing};
use weir_psock::wire::{Hello, Reason, Responder};

use crate::{LONG, LOOPBACK, answering, bytes, read_all, routes, server_and};

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
