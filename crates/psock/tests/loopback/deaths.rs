//! Streams that end, are stuck or come back, and sessions that break off.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use weir_psock::io::{Listener, Options, ParallelSocket, Route, SocketError};
use weir_psock::session::{Config, SessionError, Timing};
use weir_psock::wire::{Hello, Reason, Responder};

use crate::{LONG, LOOPBACK, answering, bytes, read_all, routes, server_and};

/// Hands connections on, and can cut them or let them get stuck.
struct Relay {
    at: SocketAddr,
    passed: Arc<Mutex<Vec<[TcpStream; 2]>>>,
    /// So many of the first connections are stuck: nothing is handed on, and nobody is told.
    stuck: Arc<(Mutex<usize>, Condvar)>,
}

impl Relay {
    fn new(to: SocketAddr) -> Self {
        let listener = TcpListener::bind(LOOPBACK).unwrap();
        let at = listener.local_addr().unwrap();
        let passed: Arc<Mutex<Vec<[TcpStream; 2]>>> = Arc::default();
        let for_thread = Arc::clone(&passed);
        let stuck: Arc<(Mutex<usize>, Condvar)> = Arc::default();
        let for_copies = Arc::clone(&stuck);
        thread::spawn(move || {
            for (number, near) in listener.incoming().enumerate() {
                let (near, Ok(far)) = (near.unwrap(), TcpStream::connect(to)) else { continue };
                let pair = || [near.try_clone().unwrap(), far.try_clone().unwrap()];
                let [near_again, far_again] = pair();
                for_thread.lock().unwrap().push(pair());
                for [mut from, mut into] in [pair(), [far_again, near_again]] {
                    let stuck = Arc::clone(&for_copies);
                    thread::spawn(move || {
                        let mut buffer = [0; 4096];
                        while let Ok(read @ 1..) = from.read(&mut buffer) {
                            let held = stuck.1.wait_while(stuck.0.lock().unwrap(), |first| number < *first);
                            drop(held.unwrap());
                            if into.write_all(&buffer[..read]).is_err() {
                                break;
                            }
                        }
                        let _ = into.shutdown(Shutdown::Write);
                    });
                }
            }
        });
        Self { at, passed, stuck }
    }

    /// Lets what is there get stuck.
    fn stick(&self) {
        *self.stuck.0.lock().unwrap() = self.passed.lock().unwrap().len();
    }

    /// Lets everything go on.
    fn loosen(&self) {
        *self.stuck.0.lock().unwrap() = 0;
        self.stuck.1.notify_all();
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
fn streams_that_are_stuck_are_replaced_where_their_paths_answer() {
    let data = bytes(3_000_000);
    // Buffers on the way take everything, so that only a ping without an answer tells.
    let timing = Timing { suspect_ns: 20_000_000, ping_ns: 50_000_000, ..Timing::default() };
    let config = Config { send_bytes: 100_000, receive_bytes: 100_000, timing, ..Config::default() };
    // The server has room for what replaces them, and for nothing else.
    let options = Options { config, most_streams: 2, ..Options::default() };
    let listener = Listener::bind(&[LOOPBACK], options.clone()).unwrap();
    let relay = Relay::new(listener.addresses()[0]);
    let server = answering(listener);
    let client = ParallelSocket::connect(&routes(relay.at, 2), &options).unwrap();
    let (first, rest) = data.split_at(1_000_000);
    client.write_all(first).unwrap();
    while relay.passed.lock().unwrap().len() < 2 {
        thread::sleep(Duration::from_millis(1));
    }
    relay.stick();
    client.write_all(rest).unwrap();
    client.finish();
    let read = read_all(&client);
    relay.loosen();
    assert_eq!(server_and(read, server), data);
    let report = client.report();
    let ended = report.streams.iter().filter(|stream| stream.ended.contains("another over the same path"));
    assert!(ended.count() > 0, "{report:?}");
}

/// The failure of a session that a server opens and closes at once; what it listens with ends then, or answers nothing.
fn failure_of_a_closed_session(gone_ns: u64, listens_on: bool) -> SocketError {
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
        let kept = listens_on.then_some(listener);
        // Closed with something unread, it would be reset, as by an end that lives.
        stream.shutdown(Shutdown::Write).unwrap();
        let _ = io::copy(&mut stream, &mut io::sink());
        kept
    });
    let timing = Timing { gone_ns, lost_ns: 60_000_000_000, ..Timing::default() };
    let config = Config { timing, ..Config::default() };
    let client = ParallelSocket::connect(&routes(to, 2), &Options { config, ..Options::default() }).unwrap();
    let failed = client.read(&mut [0; 10], Some(Duration::from_secs(30))).unwrap_err();
    assert!(client.write(b"x", LONG).is_err());
    drop(server.join().unwrap());
    failed
}

#[test]
fn a_session_fails_when_all_streams_are_gone_and_none_comes_back() {
    let failed = failure_of_a_closed_session(300_000_000, true);
    assert!(matches!(failed, SocketError::Session(SessionError::Gone)), "{failed:?}");
}

#[test]
fn a_session_fails_at_once_when_all_streams_were_closed_and_another_is_refused() {
    // Else it would wait for an hour.
    let failed = failure_of_a_closed_session(3_600_000_000_000, false);
    assert!(matches!(failed, SocketError::Session(SessionError::Gone)), "{failed:?}");
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
