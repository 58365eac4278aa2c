//! The seeds of the fuzz target `esp`, in `fuzz/corpus/esp`: made here, and every one of them, also those that
//! a fuzzer found, goes through the function of the target.
//!
//! `cargo test -p weir-esp --test corpus -- --ignored` writes them anew.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../../fuzz/src/esp.rs"]
mod target;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use weir_esp::{Association, Mode, Outbound, Suite};

/// Its name, its bytes, and how it ends.
type Seed = (String, Vec<u8>, &'static str);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/esp")
}

/// IPv4 with UDP and four bytes.
const PACKET: [u8; 32] = [
    0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0xb7, 0xaf, 198, 18, 0, 1, 198, 19, 0, 1, 0x4e, 0x20, 0x75, 0x30,
    0, 12, 0, 0, 1, 2, 3, 4,
];

/// What the target's association sends with the choice `suite` and nothing else.
fn sent(suite: Suite) -> Vec<u8> {
    let association = Association {
        spi: 0x5a5a_5a5a,
        suite,
        encryption_key: &[0x5a; 36][..suite.encryption_key_lens()[0]],
        authentication_key: &[0x5a; 36][..suite.authentication_key_len()],
        mode: Mode::Tunnel { source: [192, 0, 2, 1].into(), destination: [192, 0, 2, 2].into() },
        udp: None,
        esn: false,
    };
    let mut sender = Outbound::new(&association, &[0x33; 16]).unwrap();
    let start = sender.headroom();
    let mut buffer = vec![0; start + PACKET.len() + sender.tailroom()];
    buffer[start..start + PACKET.len()].copy_from_slice(&PACKET);
    let made = sender.encapsulate(&mut buffer, start..start + PACKET.len()).unwrap();
    buffer[made].to_vec()
}

fn made() -> Vec<Seed> {
    let with = |choice: u8, way: u8, bytes: &[u8]| [&[choice, way], bytes].concat();
    let mut seeds: Vec<Seed> = vec![];
    for (number, suite) in (0u8..).zip(Suite::ALL) {
        let name = suite.name();
        seeds.push((format!("from-outside-{name}"), with(number, 0, &sent(suite)), "accepted"));
        seeds.push((format!("there-and-back-{name}"), with(number, 2, &PACKET), "there and back"));
    }
    for (name, choice) in [("transport", 0x20), ("natt", 0x40), ("natt-ipv6", 0x51), ("esn", 0x84)] {
        seeds.push((format!("there-and-back-{name}"), with(choice, 2, &PACKET), "there and back"));
    }
    let mut forged = sent(Suite::AesGcm);
    forged[30] ^= 1;
    seeds.push(("from-outside-forged".into(), with(4, 0, &forged), "dropped"));
    let whole = [&PACKET[..], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 14, 4]].concat();
    seeds.push(("decrypts-to-a-packet".into(), with(0, 1, &whole), "accepted"));
    let hidden = [&PACKET[..], &[0; 30], &[0, 4]].concat();
    seeds.push(("decrypts-to-a-hidden-length".into(), with(0, 1, &hidden), "accepted"));
    let broken = [&PACKET[..], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 14, 4]].concat();
    seeds.push(("decrypts-to-bad-padding".into(), with(0, 1, &broken), "dropped"));
    let dummy = [[0; 14].as_slice(), &[0, 59]].concat();
    seeds.push(("decrypts-to-a-dummy".into(), with(0, 1, &dummy), "dropped"));
    for (name, choice) in [("aes-gcm-16", 4), ("aes-cbc-natt", 0x40), ("transport-esn", 0xa4)] {
        seeds.push((format!("rekeyed-{name}"), with(choice, 3, &[4, 5, 4, 0x13, 1, 5, 4]), "rekeyed"));
    }
    let unheard = [&[4][..], &[1; 64], &[5]].concat();
    seeds.push(("rekeyed-and-lost-for-good".into(), with(4, 3, &unheard), "lost for good"));
    seeds.push(("rekeyed-and-changed".into(), with(4, 3, &[4, 3]), "changed"));
    seeds.push(("no-packet".into(), with(4, 2, b"no packet"), "not sent"));
    seeds
}

#[test]
#[ignore = "writes into the source tree"]
fn write_the_seeds() {
    fs::create_dir_all(folder()).unwrap();
    for (name, bytes, _) in made() {
        fs::write(folder().join(name), bytes).unwrap();
    }
}

#[test]
fn the_committed_seeds_are_those_made_here() {
    let files = fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path());
    let committed: BTreeMap<String, Vec<u8>> = files
        .map(|path| (path.file_name().unwrap().to_string_lossy().into(), fs::read(&path).unwrap()))
        .collect();
    for (name, bytes, _) in made() {
        assert!(committed.get(&name) == Some(&bytes), "esp/{name} is to be written anew");
    }
    for bytes in committed.values() {
        target::esp(bytes);
    }
}

#[test]
fn seeds_end_as_they_ought_to() {
    for (name, bytes, end) in made() {
        assert_eq!(target::esp(&bytes), end, "{name}");
    }
}
