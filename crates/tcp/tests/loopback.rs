//! Transfers and watches over loopback, by bytes and not by time.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::yield_now;
use std::time::Duration;

use weir_tcp::bulk::{Client, ClientEvent, ClientOptions, Server, ServerEvent, ServerOptions};
use weir_tcp::control::Request;
use weir_tcp::fields::field;
use weir_tcp::watch::{End, Filter, Options, Row, Watcher};

const SOON: Duration = Duration::from_secs(60);
const BYTES: u64 = 1_000_001;

fn server() -> Server {
    let address = "127.0.0.1:0".parse().unwrap();
    let (most_ns, most_bytes, most_clients) = (None, None, 1);
    let token = "sesame".to_owned();
    Server::start(ServerOptions { address, token, most_ns, most_bytes, most_clients, settings: vec![] })
        .unwrap()
}

fn client(server: &Server, token: &str) -> Client {
    let request = Request {
        host: [0; 32],
        up: 3,
        down: 2,
        block_bytes: 10_000,
        lasts_ns: None,
        bytes: Some(BYTES),
        bytes_per_s: None,
        interval_ns: 1_000_000,
        congestion: String::new(),
    };
    Client::start(ClientOptions {
        host: "127.0.0.1".to_owned(),
        port: server.address().port(),
        token: token.to_owned(),
        request,
        settings: vec![],
        local: None,
        local_port: None,
        every_block: false,
        clocks: true,
    })
    .unwrap()
}

#[test]
fn both_ends_count_the_same_bytes_in_both_directions() {
    let server = server();
    let client = client(&server, "sesame");
    let (mut exchanges, mut begun) = (0, false);
    let (ours, theirs) = loop {
        match client.next_event(SOON).unwrap() {
            // Both ends have one clock.
            ClientEvent::Clock { sent_ns, at_ns, heard_ns } => {
                assert!((sent_ns..=heard_ns).contains(&at_ns));
                exchanges += 1;
            }
            ClientEvent::Begun { .. } => begun = true,
            ClientEvent::Done { client, server, stopped: false } => break (client, server),
            ClientEvent::Failed(error) => panic!("{error}"),
            _ => {}
        }
    };
    assert!(begun && exchanges >= 8);
    for (here, there) in ours.iter().zip(&theirs) {
        assert_eq!((here.flow.bytes, here.flow.blocks), (there.flow.bytes, there.flow.blocks));
        assert_eq!((here.failure.as_str(), there.failure.as_str()), ("", ""));
        assert!(here.flow.latency.is_some() != there.flow.latency.is_some(), "only receivers know it");
    }
    let sum = |range: std::ops::Range<usize>| ours[range].iter().map(|each| each.flow.bytes).sum::<u64>();
    assert_eq!((sum(0..3), sum(3..5)), (BYTES, BYTES));
    loop {
        if let ServerEvent::Ended { received, sent, failure, .. } = server.next_event(SOON).unwrap() {
            assert_eq!((received, sent, failure.as_str()), (BYTES, BYTES, ""));
            break;
        }
    }
}

#[test]
fn a_wrong_token_is_refused_at_both_ends() {
    let server = server();
    let client = client(&server, "open");
    assert!(
        matches!(client.next_event(SOON), Some(ClientEvent::Failed(error)) if error.to_string().contains("token"))
    );
    assert!(
        matches!(server.next_event(SOON), Some(ServerEvent::Refused { why, .. }) if why.contains("token"))
    );
}

#[test]
fn a_connection_that_is_waited_for_is_sampled_from_its_first_byte_to_its_last() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let end = End { address: Some(address.ip()), port: address.port() };
    let filter = Filter { ends: (end, End::default()), ..Filter::default() };
    let watcher = Watcher::start(Options { filter, period_ns: 1_000_000, wait: true }).unwrap();
    assert!(watcher.progress().connections.is_empty());

    let mut client = TcpStream::connect(address).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut rows: Vec<Row> = Vec::new();
    let more = |rows: &mut Vec<Row>| {
        rows.extend(watcher.take());
        yield_now();
    };
    while watcher.progress().connections.len() < 2 || rows.is_empty() {
        more(&mut rows);
    }
    client.write_all(&[7; 5000]).unwrap();
    server.read_exact(&mut [0; 5000]).unwrap();
    let received = field("bytes_received").unwrap();
    while !rows.iter().any(|row| row.sample.get(received) == Some(5000)) {
        more(&mut rows);
    }
    drop((client, server));
    while !watcher.progress().ended {
        more(&mut rows);
    }
    rows.extend(watcher.take());
    let progress = watcher.progress();
    assert_eq!(progress.failure, None);
    assert_eq!(progress.connections.iter().map(|each| each.samples).sum::<u64>(), rows.len() as u64);
    assert!(progress.connections.iter().all(|each| each.ended_ns.is_some()));
    assert!(rows.is_sorted_by_key(|row| row.at_ns));
    assert_eq!(rows.iter().find_map(|row| row.sample.get(received)), Some(0));
}
