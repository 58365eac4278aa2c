//! The seeds of the fuzz target `logger`, in `fuzz/corpus/logger`: made here, and every one of them, also those that a
//! fuzzer found, goes through the function of the target.
//!
//! `cargo test -p weir-engine --test seeds -- --ignored` writes them anew.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

#[path = "../../../fuzz/src/logger.rs"]
mod target;

use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/logger")
}

/// A frame with its length before it: IPv4 and TCP between 192.0.2.1, port `from`, and 192.0.2.2, port `to`.
fn frame(from: u16, to: u16) -> Vec<u8> {
    let mut ipv4 = vec![0x45, 0, 0, 70, 0, 1, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    ipv4.extend([from.to_be_bytes(), to.to_be_bytes()].concat());
    // Sequence numbers, a header of 20 bytes, ACK, and data.
    ipv4.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    ipv4.resize(70, b'x');
    let ethernet = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    [&[84], &ethernet[..], &ipv4].concat()
}

/// Seeds by their names, which end with what is in the file.
fn made() -> [(&'static str, Vec<u8>); 9] {
    let with = |choice: u8, frames: &[Vec<u8>]| [&[choice][..], &frames.concat()].concat();
    let (named, other) = (frame(40_000, 80), frame(40_001, 80));
    let mut lost = named.clone();
    lost[1] = 0xff;
    let mut vlan = named.clone();
    vlan.splice(13..13, [0x81, 0, 0, 7]);
    vlan[0] += 4;
    [
        ("all-frames-written", with(0, &[named.clone(), other.clone(), vec![0], vec![3, 1, 2, 3]])),
        ("a-port-without-connections-empty", with(1, &[other.clone(), frame(1, 2)])),
        ("a-connection-written", with(3, &[named.clone(), vlan])),
        ("another-connection-empty", with(3, &[other])),
        ("another-port-empty", with(1, &[frame(40_000, 81)])),
        ("frames-cut-before-and-here-written", with(0xf8, &[named.clone(), lost])),
        ("a-full-file-written", with(4, &vec![named.clone(); 40])),
        ("half-a-frame-empty", with(1, &[named[..30].to_vec()])),
        ("no-frame-empty", with(0, &[])),
    ]
}

#[test]
fn every_seed_ends_as_its_name_says() {
    let mut found = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let end = target::logger(&fs::read(&path).unwrap());
        assert!(name.ends_with(end), "{name} is {end}");
        found += 1;
    }
    fs::remove_dir_all(target::FILE.parent().unwrap()).unwrap();
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
