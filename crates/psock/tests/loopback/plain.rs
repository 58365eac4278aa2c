//! Peers that speak plain TCP, and clients that then do the same.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use weir_psock::io::{Listener, OpenError, Options, ParallelSocket, SocketError};
use weir_psock::session::{Config, SessionError};

use crate::{LONG, LOOPBACK, bytes, routes, with_token};

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
    let options = Options { is_fallback: true, ..with_token(b"a token of tests") };
    let refused = ParallelSocket::connect(&routes(LOOPBACK, 1), &options).unwrap_err();
    assert!(matches!(refused, OpenError::TokenAndFallback));
    // A listener takes nobody without the protocol.
    let listener = Listener::bind(&[LOOPBACK], Options { is_fallback: true, ..Options::default() }).unwrap();
    let mut web = TcpStream::connect(listener.addresses()[0]).unwrap();
    web.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(web.read(&mut [0; 100]).unwrap_or(0), 0);
}
