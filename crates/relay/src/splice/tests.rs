use std::net::TcpListener;
use std::thread;

use super::*;

/// A connection on loopback: what a program holds, and what is spliced.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let outer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (outer, listener.accept().unwrap().0)
}

type Outcome = (Result<(), String>, [u64; 2]);

/// Two programs and what is between them.
fn joined() -> (TcpStream, TcpStream, thread::JoinHandle<Outcome>) {
    let ((left, first), (right, second)) = (connection(), connection());
    (left, right, thread::spawn(move || join([&first, &second], &mut |_| true)))
}

#[test]
fn bytes_and_ends_are_carried_both_ways() {
    let (mut left, mut right, between) = joined();
    let data: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let expected = data.clone();
    let mut writer = left.try_clone().unwrap();
    let writing = thread::spawn(move || {
        writer.write_all(&data).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut got = Vec::new();
    right.read_to_end(&mut got).unwrap();
    assert!(got == expected);
    writing.join().unwrap();
    // One direction has ended, and the other one works.
    right.write_all(b"answer").unwrap();
    drop(right);
    let mut answer = String::new();
    left.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "answer");
    assert_eq!(between.join().unwrap(), (Ok(()), [3_000_000, 6]));
}

#[test]
fn a_reset_is_carried() {
    let (left, mut right, between) = joined();
    reset(&left);
    drop(left);
    assert!(between.join().unwrap().0.is_err());
    let found = right.read(&mut [0]).unwrap_err();
    assert_eq!(found.kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn a_reset_is_seen_while_the_other_end_takes_nothing() {
    let (mut left, right, between) = joined();
    left.set_nonblocking(true).unwrap();
    // Until neither this connection nor the other one takes anything.
    let mut idle = 0;
    while idle < 20 {
        match Write::write(&mut left, &[0; 65536]) {
            Ok(_) => idle = 0,
            Err(_) => {
                idle += 1;
                let mut entry = libc::pollfd { fd: left.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
                // SAFETY: one entry.
                unsafe { libc::poll(&raw mut entry, 1, 10) };
            }
        }
    }
    reset(&left);
    drop(left);
    assert!(between.join().unwrap().0.is_err());
    drop(right);
}

#[test]
fn whoever_asks_can_stop_it() {
    let ((_left, first), (_right, second)) = (connection(), connection());
    assert_eq!(join([&first, &second], &mut |_| false), (Ok(()), [0, 0]));
}
