//! The seeds of the fuzz targets, in `fuzz/corpus`: what they hold is made here, byte by byte, and every
//! seed, also those that a fuzzer found, goes through the function of its target.
//!
//! `cargo test -p weir-trace --test corpus -- --ignored` writes the seeds anew.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod captures;
mod frames;
mod packets;
#[path = "../../../../fuzz/src/lib.rs"]
mod targets;
mod tcp;
mod voice;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use targets::End;

/// Longest seed: short ones are what a fuzzer can work with.
const MAX_SEED_BYTES: usize = 4_096;

/// Its name, and its bytes.
type Seed = (&'static str, Vec<u8>);

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

/// What is in the folder of a target.
fn committed(target: &str) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder(target)).unwrap();
    let read = |path: PathBuf| (path.file_name().unwrap().to_string_lossy().into(), fs::read(&path).unwrap());
    files.map(|file| read(file.unwrap().path())).collect()
}

fn made() -> [(&'static str, Vec<Seed>); 4] {
    let captures = captures::seeds().into_iter().map(|(name, bytes, _, _)| (name, bytes)).collect();
    let packets = packets::seeds().into_iter().map(|(name, bytes, _)| (name, bytes)).collect();
    let tcp = tcp::seeds().into_iter().map(|(name, bytes, _)| (name, bytes)).collect();
    let voice = voice::seeds().into_iter().map(|(name, bytes, _)| (name, bytes)).collect();
    [("capture", captures), ("packet", packets), ("tcp", tcp), ("voice", voice)]
}

#[test]
#[ignore = "writes into the source tree"]
fn write_the_seeds() {
    for (target, seeds) in made() {
        fs::create_dir_all(folder(target)).unwrap();
        for (name, bytes) in seeds {
            fs::write(folder(target).join(name), bytes).unwrap();
        }
    }
}

#[test]
fn the_committed_seeds_are_those_made_here_and_short() {
    for (target, seeds) in made() {
        let committed = committed(target);
        for (name, bytes) in seeds {
            assert!(bytes.len() <= MAX_SEED_BYTES, "{target}/{name} has {} bytes", bytes.len());
            assert!(committed.get(name) == Some(&bytes), "{target}/{name} is to be written anew");
        }
    }
}

#[test]
fn captures_are_read_as_far_as_they_can_be() {
    for (name, bytes, packets, end) in captures::seeds() {
        let (found, how) = targets::capture(&bytes);
        let how = match how {
            End::Whole => "whole".to_owned(),
            End::CutShort => "cut short".to_owned(),
            End::Error(message) => message,
        };
        assert_eq!((found, how.as_str()), (packets, end), "{name}");
    }
}

#[test]
fn packets_are_what_they_are() {
    for (name, bytes, expected) in packets::seeds() {
        let found = targets::packet(&bytes);
        assert_eq!(found, expected.iter().copied().collect(), "{name}");
    }
}

#[test]
fn connections_are_found() {
    for (name, bytes, connections) in tcp::seeds() {
        assert_eq!(targets::tcp(&bytes), connections, "{name}");
    }
}

#[test]
fn streams_are_found() {
    for (name, bytes, streams) in voice::seeds() {
        assert_eq!(targets::voice(&bytes), streams, "{name}");
    }
}

#[test]
fn every_seed_passes_every_target() {
    for (target, _) in made() {
        for bytes in committed(target).values() {
            targets::capture(bytes);
            targets::packet(bytes);
            targets::tcp(bytes);
            targets::voice(bytes);
        }
    }
}
