//! The seeds of the fuzz target `serve`, in `fuzz/corpus/serve`: made here, and every one of them, also those that a
//! fuzzer found, goes through the function of the target.
//!
//! `cargo test -p weir-tcp --test seeds -- --ignored` writes them anew.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

#[path = "../../../fuzz/src/serve.rs"]
mod target;

use std::fs;
use std::path::{Path, PathBuf};

use weir_tcp::bulk::header;
use weir_tcp::control::{Message, Preamble, Request, Wish, prove};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/serve")
}

fn request() -> Request {
    Request {
        host: [7; 32],
        up: 1,
        down: 2,
        block_bytes: 1000,
        lasts_ns: Some(1_000_000),
        bytes: Some(1000),
        bytes_per_s: None,
        interval_ns: 1_000_000,
        congestion: "cubic".to_owned(),
        capture: Wish::IfAllowed,
        capture_bytes: 1000,
    }
}

fn client() -> Vec<u8> {
    let request = request();
    let proof = prove("a token of tests", &[1; 32], &request);
    let messages = [
        Message::Request { proof, request },
        Message::Clock { sent_ns: 5 },
        Message::Go,
        Message::Fetch { from: 2 },
        Message::Stop,
    ];
    messages.iter().flat_map(Message::emit).collect()
}

fn server() -> Vec<u8> {
    let messages = [
        Message::Challenge { nonce: [1; 32], needs_token: true },
        Message::Accept { session: [2; 16], host: [3; 32] },
        Message::Ready,
        Message::Clocked { sent_ns: 5, at_ns: 6 },
        Message::Begun { start_ns: 7 },
        Message::Interval { at_ns: 1_000_000, flows: vec![] },
        Message::Done { totals: vec![] },
    ];
    messages.iter().flat_map(Message::emit).collect()
}

fn blocks() -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..3 {
        bytes.extend(header(100, number, number));
        bytes.resize(bytes.len() + 76, 0);
    }
    bytes
}

/// Seeds by their names, which say how they end; either way if it depends on what the server reads first.
fn made() -> [(&'static str, Vec<u8>); 13] {
    let with = |choice: u8, bytes: &[u8]| [&[choice], bytes].concat();
    let mut of_other_length = blocks();
    of_other_length[4] = 0;
    let mut unknown = Message::Stop.emit();
    *unknown.last_mut().unwrap() = 0xfe;
    // Two connections up and none down, blocks of 100 bytes, 256 ms at most, 600 bytes.
    let up = [2, 0, 7, 76, 15, 88, 0, 2];
    let block = [11, 0, 76];
    [
        ("a-client-messages", with(0, &client())),
        ("a-server-messages", with(1, &server())),
        ("half-a-message-waiting", with(0, &client()[..20])),
        ("a-long-message-refused", with(1, &[0xff; 64])),
        ("an-unknown-message-refused", with(0, &unknown)),
        ("a-data-connection-waiting", with(0, &Preamble::Data { session: [1; 16], index: 1 }.emit()[..3])),
        ("three-blocks", with(2, &blocks())),
        ("a-block-of-another-length-corrupt", with(2, &of_other_length)),
        ("a-request-that-is-none-closed", with(3, &[2, 0, 7, 76, 15, 88, 0, 0, 4, 1, 2, 3, 4])),
        ("a-transfer-to-itself-refused", with(3, &[2, 0, 7, 76, 15, 88, 0, 1, 1, 1])),
        ("an-unknown-congestion-control-closed", with(3, &[2, 0, 7, 76, 15, 88, 7, 2])),
        ("a-connection-too-many-closed-or-refused", with(3, &[&up[..], &[8, 9, 6]].concat())),
        ("blocks-before-the-beginning-closed", with(3, &[&up[..], &block, &[0, 3, 9], &block].concat())),
    ]
}

#[test]
fn every_seed_ends_as_its_name_says() {
    let mut found = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let end = target::serve(&fs::read(&path).unwrap());
        assert!(name.contains(end), "{name} is {end}");
        found += 1;
    }
    assert!(found >= made().len());
}

#[test]
fn the_committed_seeds_are_those_made_here() {
    for (name, bytes) in made() {
        assert_eq!(fs::read(folder().join(name)).unwrap(), bytes, "{name}");
    }
}

#[test]
#[ignore = "writes into the repository"]
fn write_the_seeds() {
    fs::create_dir_all(folder()).unwrap();
    for (name, bytes) in made() {
        fs::write(folder().join(name), bytes).unwrap();
    }
}
