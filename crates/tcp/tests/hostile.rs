//! Peers that break the protocol of bulk transfers: the other end says so and ends, in little memory.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weir_tcp::bulk::{Client, ClientEvent, ClientOptions, Reading, Server, ServerOptions, Via};
use weir_tcp::control::{
    Decoder, Errand, Event, Flow, INTERVALS_NS, MOST_ANSWER_BYTES, Message, PREAMBLE_BYTES, Preamble, Record,
    Request, Total, Wish, prove_errand,
};

const SOON: Duration = Duration::from_secs(60);
const HOUR_NS: u64 = *INTERVALS_NS.end();

fn options(port: u16) -> ClientOptions {
    ClientOptions {
        host: "127.0.0.1".to_owned(),
        port,
        token: String::new(),
        request: Request {
            host: [0; 32],
            up: 1,
            down: 0,
            block_bytes: 1000,
            lasts_ns: None,
            bytes: None,
            bytes_per_s: Some(1000),
            interval_ns: HOUR_NS,
            congestion: String::new(),
            capture: Wish::None,
            capture_bytes: 0,
        },
        settings: vec![],
        local: None,
        local_port: None,
        every_block: false,
        reading: Reading::default(),
        clocks: true,
        via: None,
        fetch: None,
        fetch_via: None,
    }
}

/// A server's end of a control connection.
struct Control {
    stream: TcpStream,
    decoder: Decoder,
}

impl Control {
    fn accept(listener: &TcpListener) -> Self {
        let mut stream = listener.accept().unwrap().0;
        stream.read_exact(&mut [0; PREAMBLE_BYTES]).unwrap();
        let mut control = Self { stream, decoder: Decoder::new(MOST_ANSWER_BYTES) };
        control.send(&Message::Challenge { nonce: [0; 32], needs_token: false });
        control
    }

    fn send(&mut self, message: &Message) {
        self.stream.write_all(&message.emit()).unwrap();
    }

    fn receive(&mut self) -> Option<Message> {
        let mut bytes = [0; 4096];
        loop {
            if let Some(message) = self.decoder.next_message().unwrap() {
                return Some(message);
            }
            match self.stream.read(&mut bytes) {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.decoder.push(&bytes[..read]),
            }
        }
    }

    /// Sends `message` until the other end takes no more; returns the bytes that it took.
    fn flood(&mut self, message: &Message) -> usize {
        let bytes = message.emit();
        // Who reads nothing for so long waits for somebody, or is gone.
        self.stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        let floods =
            (0..MOST_FLOOD_BYTES / bytes.len()).take_while(|_| self.stream.write_all(&bytes).is_ok());
        floods.count() * bytes.len()
    }
}

/// More than any buffers of the kernel and queues of an end have room for.
const MOST_FLOOD_BYTES: usize = 256 << 20;

/// A server that behaves up to the beginning of a transfer with one connection, and then does as `then` says.
fn server<T: Send + 'static>(then: impl FnOnce(&mut Control) -> T + Send + 'static) -> (u16, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = thread::spawn(move || {
        let mut control = Control::accept(&listener);
        assert!(matches!(control.receive(), Some(Message::Request { .. })));
        control.send(&Message::Accept { session: [0; 16], host: [1; 32] });
        let _data = listener.accept().unwrap();
        control.send(&Message::Ready);
        loop {
            match control.receive() {
                Some(Message::Clock { sent_ns }) => control.send(&Message::Clocked { sent_ns, at_ns: 1 }),
                Some(Message::Go) => break,
                other => panic!("{other:?}"),
            }
        }
        then(&mut control)
    });
    (port, thread)
}

/// Why a client ends early.
fn failure(client: &Client) -> String {
    loop {
        match client.next_event(SOON).unwrap() {
            ClientEvent::Failed(error) => return error.to_string(),
            ClientEvent::Transfer(Event::Done { .. }) => panic!("it was carried out"),
            _ => {}
        }
    }
}

fn report(at_ns: u64) -> Message {
    Message::Interval { at_ns, flows: vec![Flow::default()] }
}

#[test]
fn a_server_that_says_what_was_not_asked_for_is_left() {
    let done = || Message::Done { totals: vec![Total::default()] };
    let part = Message::Part { from: 0, bytes: vec![0; 9] };
    let recorded = Message::Recorded { found: Ok(Record::default()) };
    let begun = || Message::Begun { start_ns: 1 };
    let senseless = "makes no sense here";
    for (messages, why) in [
        (vec![Message::Clocked { sent_ns: 1, at_ns: 1 }], "it answered a question that was not asked"),
        (vec![begun(), begun()], "it said twice that it has begun"),
        (vec![Message::Begun { start_ns: u64::MAX }], "is no time"),
        (vec![report(5), report(4)], "the times of its reports make no sense"),
        (vec![report(u64::MAX)], "the times of its reports make no sense"),
        (vec![Message::Interval { at_ns: 1, flows: vec![] }], senseless),
        (vec![done(), done()], senseless),
        (vec![done(), report(1)], senseless),
        (vec![part], senseless),
        (vec![recorded], senseless),
        (vec![Message::Ready], senseless),
        (vec![Message::Go], senseless),
    ] {
        let (port, thread) = server(move |control| {
            messages.iter().for_each(|message| control.send(message));
            while control.receive().is_some() {}
        });
        let found = failure(&Client::start(options(port)).unwrap());
        assert!(found.contains(why), "{found}");
        thread.join().unwrap();
    }
}

#[test]
fn a_server_that_reports_too_often_is_left() {
    let (port, thread) = server(|control| control.flood(&report(1)));
    let found = failure(&Client::start(options(port)).unwrap());
    assert!(found.ends_with("it sent 9 reports, one every 3600 s was requested"), "{found}");
    assert!(thread.join().unwrap() < MOST_FLOOD_BYTES / 2);
}

#[test]
fn a_server_that_is_faster_than_the_user_waits() {
    let (port, thread) = server(|control| control.flood(&report(1)));
    let mut options = options(port);
    options.request.interval_ns = *INTERVALS_NS.start();
    // Nobody takes its events.
    let client = Client::start(options).unwrap();
    assert!(thread.join().unwrap() < MOST_FLOOD_BYTES / 2);
    drop(client);
}

#[test]
fn a_server_that_is_the_client_of_another_one_is_held_to_the_same() {
    let event = |event: &Event| Message::Event(event.clone());
    let begun = Event::Begun { server_ns: 1, client_ns: 1 };
    let clock = Event::Clock { sent_ns: 1, at_ns: 1, heard_ns: 1 };
    let interval = Event::Interval { of_server: false, at_ns: 1, flows: vec![Flow::default()] };
    for (flood, why) in [
        (event(&begun), "it said twice that it has begun"),
        (event(&clock), "reports, one every 1 s was requested"),
        (event(&interval), "it sent 9 reports, one every 3600 s was requested"),
        (Message::Part { from: 0, bytes: vec![0; 9] }, "a message of the kind 19 makes no sense here"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = thread::spawn(move || {
            let mut control = Control::accept(&listener);
            assert!(matches!(control.receive(), Some(Message::Errand { .. })));
            control.flood(&flood)
        });
        let via = Via { host: "127.0.0.1".to_owned(), port, token: String::new() };
        let client = Client::start(ClientOptions { via: Some(via), ..options(9) }).unwrap();
        let found = failure(&client);
        assert!(found.ends_with(why), "{found}");
        assert!(thread.join().unwrap() < MOST_FLOOD_BYTES / 2);
    }
}

fn serving(changed: impl FnOnce(&mut ServerOptions)) -> Server {
    let mut options = ServerOptions {
        address: "127.0.0.1:0".parse().unwrap(),
        token: "open sesame, open".to_owned(),
        most_ns: None,
        most_bytes: None,
        most_clients: 1,
        errands: false,
        reading: Reading::default(),
        capture: None,
        settings: vec![],
    };
    changed(&mut options);
    Server::start(options).unwrap()
}

/// Connections that have sent one byte and no more.
fn idle_strangers(server: &Server, count: usize) -> Vec<TcpStream> {
    let connect = |_| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(b"W").unwrap();
        stream
    };
    (0..count).map(connect).collect()
}

#[test]
fn a_crowd_of_strangers_keeps_no_client_away() {
    let server = serving(|_| {});
    let strangers = idle_strangers(&server, 700);
    for _ in 0..3 {
        let client =
            ClientOptions { token: "open sesame, open".to_owned(), ..options(server.address().port()) };
        let client = Client::start(ClientOptions {
            request: Request { bytes: Some(10_000), bytes_per_s: None, up: 32, down: 32, ..client.request },
            ..client
        });
        let client = client.unwrap();
        loop {
            match client.next_event(SOON).unwrap() {
                ClientEvent::Transfer(Event::Done { .. }) => break,
                ClientEvent::Failed(error) => panic!("{error}"),
                _ => {}
            }
        }
    }
    drop(strangers);
}

#[test]
fn a_proof_that_nobody_asked_for_ends_the_transfer() {
    let server = serving(|options| options.errands = true);
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(&Preamble::Control.emit()).unwrap();
    let mut control = Control { stream, decoder: Decoder::new(MOST_ANSWER_BYTES) };
    let Some(Message::Challenge { nonce, .. }) = control.receive() else { panic!() };
    let request = options(0).request;
    let port = mute.local_addr().unwrap().port();
    let errand = Errand {
        host: "127.0.0.1".into(),
        port,
        clocks: false,
        capture: Wish::None,
        capture_bytes: 0,
        request,
    };
    control.send(&Message::Errand {
        proof: prove_errand("open sesame, open", &nonce, &errand),
        errand: Box::new(errand),
    });
    control.send(&Message::Proven { proof: [0; 32] });
    assert_eq!(control.receive(), Some(Message::Refuse { why: "that makes no sense here".to_owned() }));
}
