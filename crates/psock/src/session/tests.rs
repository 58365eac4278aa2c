use super::*;
use crate::schedule::{EarliestArrival, PathStats, PollAll};
use crate::wire::{HEADER_BYTES, MOST_STREAMS, Reason, Violation};

const SMALL: Config = Config {
    receive_bytes: 1000,
    send_bytes: 1000,
    block_bytes: 100,
    timing: Timing { suspect_ns: 10, dead_ns: 100, ping_ns: 50, lost_ns: 1000, gone_ns: 40, ack_ns: 5 },
    is_fair: false,
};

fn session() -> Session {
    Session::new(SMALL, Box::<PollAll>::default())
}

/// Everything that a stream has to say, over a connection that delivers it at once.
fn said(session: &mut Session, id: StreamId, now_ns: u64) -> Vec<u8> {
    let bytes = session.pending(id).to_vec();
    session.sent(id, bytes.len());
    session.set_writable(id);
    session.set_stats(id, PathStats::default(), now_ns);
    bytes
}

/// Exchanges over one stream until nobody has anything to say.
fn settle(a: &mut Session, b: &mut Session, id: StreamId, now_ns: u64) {
    loop {
        a.drive(now_ns);
        b.drive(now_ns);
        let (to_b, to_a) = (said(a, id, now_ns), said(b, id, now_ns));
        if to_b.is_empty() && to_a.is_empty() {
            return;
        }
        b.input(id, &to_b, now_ns).unwrap();
        a.input(id, &to_a, now_ns).unwrap();
    }
}

fn read(session: &mut Session) -> Vec<u8> {
    let mut bytes = vec![0; 5000];
    match session.read(&mut bytes).unwrap() {
        Read::Bytes(len) => bytes[..len].to_vec(),
        Read::Nothing | Read::End => vec![],
    }
}

fn pair() -> (Session, Session, StreamId) {
    let (mut a, mut b) = (session(), session());
    let id = a.attach(0).unwrap();
    assert_eq!(b.attach(0), Some(id));
    settle(&mut a, &mut b, id, 0);
    (a, b, id)
}

/// A session to which a peer says what `frames` are; what comes of it.
fn told(frames: &[(Frame, &[u8])]) -> Result<Session, SessionError> {
    let mut session = session();
    let id = session.attach(0).unwrap();
    session.write(&[7; 500]).unwrap();
    session.drive(0);
    for (frame, data) in frames {
        session.input(id, &[&frame.emit()[..], data].concat(), 1)?;
        session.drive(1);
    }
    Ok(session)
}

#[test]
fn both_directions_end_by_themselves() {
    let (mut a, mut b, id) = pair();
    a.write(b"question").unwrap();
    a.finish();
    settle(&mut a, &mut b, id, 10);
    assert_eq!(read(&mut b), b"question");
    assert_eq!(b.read(&mut [0; 9]), Ok(Read::End));
    assert!(a.is_delivered() && !a.is_finished());
    assert_eq!(a.write(b"more"), Err(SessionError::Finished));
    b.write(b"answer").unwrap();
    b.finish();
    settle(&mut a, &mut b, id, 20);
    assert_eq!(read(&mut a), b"answer");
    assert!(a.is_finished() && b.is_finished());
}

#[test]
fn a_reader_that_does_not_read_holds_the_writer_up() {
    let (mut a, mut b, id) = pair();
    let mut written = 0;
    for now in 1..50 {
        written += a.write(&[1; 300]).unwrap();
        settle(&mut a, &mut b, id, 10 * now);
    }
    // What the receiver has room for, and as much at the sender.
    assert_eq!(written, 2000);
    assert!(!a.can_write());
    assert_eq!(read(&mut b).len(), 1000);
    assert!(b.has_urgent_news());
    settle(&mut a, &mut b, id, 1000);
    assert!(a.can_write());
}

#[test]
fn what_a_dead_stream_carried_goes_by_another() {
    let (mut a, mut b, first) = pair();
    let second = a.attach(0).unwrap();
    assert_eq!(b.attach(0), Some(second));
    settle(&mut a, &mut b, second, 1);
    a.write(&(0..200).collect::<Vec<u8>>()).unwrap();
    a.drive(2);
    // A block each; that of the first gets lost on the way.
    assert_eq!(said(&mut a, first, 2).len(), HEADER_BYTES + 100);
    a.detach(first);
    b.detach(first);
    settle(&mut a, &mut b, second, 3);
    assert_eq!(read(&mut b), (0..200).collect::<Vec<u8>>());
    assert_eq!((a.totals().resent_bytes, a.totals().resent_blocks), (100, 1));
    assert_eq!(a.totals().acknowledged_bytes, 200);
}

#[test]
fn a_stream_without_progress_is_first_relieved_and_then_given_up() {
    let (mut a, mut b, first) = pair();
    let second = a.attach(0).unwrap();
    assert_eq!(b.attach(0), Some(second));
    settle(&mut a, &mut b, second, 1);
    a.write(&[1; 200]).unwrap();
    a.drive(2);
    said(&mut a, first, 2);
    a.set_stats(first, PathStats { unacked_bytes: 124, ..PathStats::default() }, 2);
    settle_one_way(&mut a, &mut b, second, 3);
    assert_eq!(a.totals().resent_blocks, 0);
    assert_eq!(a.deadline_ns(), 2 + SMALL.timing.suspect_ns);
    settle_one_way(&mut a, &mut b, second, 12);
    assert_eq!(a.totals().resent_blocks, 1);
    assert_eq!(read(&mut b).len(), 200);
    assert_eq!(a.take_dead(), None);
    settle_one_way(&mut a, &mut b, second, 102);
    assert_eq!(a.take_dead(), Some(first));
    assert_eq!(a.streams().collect::<Vec<_>>(), [second]);
}

/// As `settle`, and the stream's connection has everything acknowledged.
fn settle_one_way(a: &mut Session, b: &mut Session, id: StreamId, now_ns: u64) {
    settle(a, b, id, now_ns);
    a.set_stats(id, PathStats { acked_bytes: now_ns, ..PathStats::default() }, now_ns);
    settle(a, b, id, now_ns);
}

/// Of three streams the first carries the first block, which is late and goes by the second, too, at 2 ns;
/// neither hears anything. The third has nothing to do.
fn repeated() -> (Session, [StreamId; 3]) {
    let mut a = Session::new(SMALL, Box::<EarliestArrival>::default());
    let ids = [0; 3].map(|now_ns| a.attach(now_ns).unwrap());
    let [first, second, third] = ids;
    a.input(third, &Frame::Ack { next: 0, limit: 1000 }.emit(), 0).unwrap();
    a.drive(0);
    for id in ids {
        said(&mut a, id, 0);
    }
    a.write(&[1; 300]).unwrap();
    a.drive(1);
    for id in ids {
        let len = a.pending(id).len();
        assert_eq!(len, HEADER_BYTES + 100);
        a.sent(id, len);
    }
    // The blocks behind the first one have arrived.
    let held = PathStats { unacked_bytes: 124, ..PathStats::default() };
    a.set_stats(first, PathStats { sacked_bytes: 24, ..held }, 1);
    a.set_writable(second);
    a.drive(2);
    assert_eq!(a.totals().resent_blocks, 1);
    assert!(said(&mut a, second, 2).starts_with(&Frame::Data { offset: 0, len: 100 }.emit()));
    a.set_stats(second, held, 2);
    a.set_writable(third);
    a.drive(3);
    assert_eq!(a.totals().resent_blocks, 1);
    (a, ids)
}

#[test]
fn a_block_goes_by_a_third_stream_when_both_that_carry_it_make_no_progress() {
    let (mut a, [first, second, third]) = repeated();
    a.drive(11);
    assert!(a.is_suspect(first) && !a.is_suspect(second));
    assert_eq!(a.totals().resent_blocks, 1, "the second still carries it");
    assert_eq!(a.deadline_ns(), 2 + SMALL.timing.suspect_ns);
    a.drive(12);
    assert!(a.is_suspect(second) && !a.is_suspect(third));
    assert!(a.pending(third).starts_with(&Frame::Data { offset: 0, len: 100 }.emit()));
    assert_eq!(a.totals().resent_blocks, 2);
}

#[test]
fn a_block_goes_by_a_third_stream_when_of_two_one_makes_no_progress_and_one_ends() {
    let (mut a, [first, second, third]) = repeated();
    a.drive(11);
    assert!(a.is_suspect(first));
    a.detach(second);
    a.drive(11);
    assert!(a.pending(third).starts_with(&Frame::Data { offset: 0, len: 100 }.emit()));
    said(&mut a, third, 11);
    a.drive(11);
    assert!(said(&mut a, third, 11).starts_with(&Frame::Data { offset: 100, len: 100 }.emit()));
    assert_eq!(a.totals().resent_blocks, 3);
    // A stream that works carries everything: nothing is to be done.
    a.detach(first);
    a.drive(11);
    assert_eq!(a.totals().resent_blocks, 3);
    assert!(!a.wants_to_send());
}

#[test]
fn a_session_fails_early_when_the_other_end_has_closed_every_stream_and_makes_none() {
    // Resets alone may come from an end that lives, and that has 900 ns to come back.
    for (how, due_ns) in [(Close::End, 140), (Close::Reset, 1020)] {
        let (mut a, _, id) = pair();
        a.close(id, how, 100);
        a.drive(due_ns - 1);
        assert_eq!((a.failure(), a.deadline_ns()), (None, due_ns));
        a.drive(due_ns);
        assert_eq!((a.failure(), a.read(&mut [0])), (Some(SessionError::Gone), Err(SessionError::Gone)));
    }
}

#[test]
fn a_stream_that_comes_back_or_is_still_there_keeps_the_session() {
    let (mut a, _, first) = pair();
    let second = a.attach(0).unwrap();
    a.close(first, Close::End, 1);
    a.drive(60);
    assert_eq!(a.failure(), None, "the second one is still there");
    a.close(second, Close::End, 61);
    a.drive(62);
    a.attach(63).unwrap();
    a.drive(110);
    assert_eq!(a.failure(), None, "a third one has come");
}

#[test]
fn a_session_without_streams_waits_and_then_fails() {
    let (mut a, _, id) = pair();
    a.write(b"x").unwrap();
    a.detach(id);
    a.drive(100);
    assert_eq!((a.failure(), a.deadline_ns()), (None, 1100));
    a.drive(1100);
    assert_eq!(a.failure(), Some(SessionError::Lost(1000)));
    assert_eq!(a.read(&mut [0]), Err(SessionError::Lost(1000)));
    assert!(a.can_read() && a.can_write());
}

#[test]
fn what_arrived_before_a_failure_can_be_read() {
    let (mut a, mut b, id) = pair();
    a.write(b"abc").unwrap();
    settle(&mut a, &mut b, id, 1);
    a.abort();
    let last = said(&mut a, id, 2);
    assert_eq!(b.input(id, &last, 2), Err(SessionError::Aborted(Reason::Closed)));
    assert_eq!(read(&mut b), b"abc");
    assert_eq!(b.read(&mut [0]), Err(SessionError::Aborted(Reason::Closed)));
}

#[test]
fn a_stream_that_comes_after_the_failure_still_tells_of_it() {
    let mut a = session();
    a.abort();
    let id = a.attach(1).unwrap();
    assert_eq!(said(&mut a, id, 1), Frame::Abort { reason: Reason::Closed }.emit());
}

#[test]
fn a_peer_that_lies_ends_the_session() {
    let data = |offset, len| Frame::Data { offset, len };
    let end = |total| Frame::End { total };
    let violation = |frames: &[(Frame, &[u8])]| match told(frames) {
        Err(SessionError::Violation(violation)) => violation,
        other => panic!("{other:?}"),
    };
    assert_eq!(violation(&[(data(990, 11), &[])]), Violation::Window { end: 1001, limit: 1000 });
    assert_eq!(violation(&[(data(1 << 61, 1), &[])]), Violation::Window { end: (1 << 61) + 1, limit: 1000 });
    assert_eq!(violation(&[(end(5), &[]), (data(5, 1), &[])]), Violation::BeyondEnd { end: 6, total: 5 });
    assert_eq!(violation(&[(data(5, 1), b"x"), (end(5), &[])]), Violation::End { total: 5 });
    assert_eq!(violation(&[(end(5), &[]), (end(6), &[])]), Violation::End { total: 6 });
    let ack = |next| Frame::Ack { next, limit: 200 };
    assert_eq!(violation(&[(ack(1), &[])]), Violation::Unsent { next: 1, sent: 0 });
    assert_eq!(violation(&[(ack(0), &[]), (ack(101), &[])]), Violation::Unsent { next: 101, sent: 100 });
    assert_eq!(violation(&[(Frame::Pong { number: 1 }, &[])]), Violation::Pong);
    assert!(told(&[(data(0, 3), b"abc"), (end(3), &[]), (ack(0), &[]), (ack(100), &[])]).is_ok());
}

#[test]
fn a_peer_that_asks_without_end_and_takes_nothing_costs_no_memory() {
    let mut session = session();
    let id = session.attach(0).unwrap();
    session.drive(0);
    for number in 0..10_000 {
        session.input(id, &Frame::Ping { number }.emit(), 1).unwrap();
        session.drive(1);
    }
    assert!(session.pending(id).len() <= 5 * HEADER_BYTES, "{}", session.pending(id).len());
}

#[test]
fn there_are_no_more_streams_than_allowed() {
    let mut session = session();
    for _ in 0..MOST_STREAMS {
        session.attach(0).unwrap();
    }
    assert_eq!(session.attach(0), None);
}
