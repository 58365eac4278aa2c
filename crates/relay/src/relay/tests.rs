use std::io::{Read, Write};

use socket2::{SockFilter, SockRef};
use weir_psock::io::{Listener, ParallelSocket};
use weir_psock::wire::{HELLO_BYTES, Hello, PROOF_BYTES, Responder};

use super::*;
use crate::held::tests::{events, held};
use crate::wire::{REQUEST_BYTES, Status};

fn session(route: Route) -> ParallelSocket {
    ParallelSocket::connect(&[route], &Options::default()).unwrap()
}

fn listener() -> (Listener, Route) {
    let listener = Listener::bind(&["127.0.0.1:0".parse().unwrap()], Options::default()).unwrap();
    let route = Route { local: None, remote: listener.addresses()[0] };
    (listener, route)
}

/// What the requests of one connection get, after `idle` is the session that waits for it; they are counted. `None`: the
/// session is broken off.
fn connected_beside(idle: ParallelSocket, (listener, route): (Listener, Route), replies: &[Option<Status>]) {
    let (_program, held, _relay) = held();
    let settings = Settings {
        routes: vec![route],
        options: Options::default(),
        rules: Rules::parse(&["any"]).unwrap(),
        is_fallback: false,
        most: 10,
    };
    let (house, carrier) = (House::new(10), Carrier::new(settings));
    assert!(carrier.idle.keep(idle).is_none());
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let answer = |reply: &Option<Status>| {
                let (session, _) = listener.accept(Some(TURN)).unwrap();
                match reply {
                    None => session.abort(),
                    Some(reply) => {
                        house.fill(&session, &mut [0; REQUEST_BYTES], TURN).unwrap();
                        session.write_all(&reply.emit()).unwrap();
                    }
                }
                session
            };
            replies.iter().map(answer).collect::<Vec<_>>()
        });
        let ticket = carrier.numbering.ticket(held.to);
        let mut patience = Patience { house: &house, carrier: &carrier, held: &held, asked: Instant::now() };
        let made = connect(&mut patience, &ticket);
        assert!(made.is_ok(), "{:?}", made.err());
        assert_eq!(serving.join().unwrap().len(), replies.len());
    });
}

#[test]
fn a_connection_for_which_the_proxy_has_no_room_in_an_idle_session_is_tried_again() {
    let (listener, route) = listener();
    connected_beside(
        session(route),
        (listener, route),
        &[Some(Status::Full), Some(Status::Full), Some(Status::Connected)],
    );
}

#[test]
fn a_connection_whose_new_session_is_broken_off_before_its_request_came_is_tried_again() {
    let (listener, route) = listener();
    connected_beside(session(route), (listener, route), &[Some(Status::Full), None, Some(Status::Connected)]);
}

#[test]
fn an_idle_session_that_answers_nothing_is_left_for_a_new_one() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let route = Route { local: None, remote: silent.local_addr().unwrap() };
    let greeting = thread::spawn(move || {
        let (mut stream, mut hello, mut proof) =
            (silent.accept().unwrap().0, [0; HELLO_BYTES], [0; PROOF_BYTES]);
        stream.read_exact(&mut hello).unwrap();
        let responder = Responder::open(b"", Hello::parse(&hello).unwrap(), [2; 16]);
        stream.write_all(responder.reply()).unwrap();
        stream.read_exact(&mut proof).unwrap();
        stream.write_all(&responder.verify(&proof).unwrap().0).unwrap();
        // From now on it does not even acknowledge anything (BPF_RET of 0 bytes, bpf(2)).
        let nothing = SockFilter::new(6, 0, 0, 0);
        SockRef::from(&stream).attach_filter(&[nothing]).unwrap();
        (silent, stream)
    });
    let idle = session(route);
    let _silent = greeting.join().unwrap();
    connected_beside(idle, listener(), &[Some(Status::Connected)]);
}

#[test]
fn a_connection_that_cannot_be_carried_is_refused_and_told() {
    let (program, held, _relay) = held();
    // No system has room for such a stack.
    let house = House::with_stacks(10, 1 << 60);
    take(&house, held, |_, _, ended| ended);
    let [ended] = &house.ended()[..] else { panic!("it is told once") };
    assert_eq!((house.active(), ended.failure.as_str()), (0, NO_THREAD));
    assert_eq!(events(&program, -1) & libc::POLLERR, libc::POLLERR);
    assert_eq!(program.take_error().unwrap().unwrap().kind(), io::ErrorKind::ConnectionRefused);
}
