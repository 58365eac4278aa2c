//! Peers that know the key and do as they like: no panic, and no more memory than stated.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

#[path = "../../../fuzz/src/psock.rs"]
mod target;

const PLAYS: u64 = 20_000;

#[test]
fn whatever_a_peer_does_the_session_stays_within_its_memory() {
    let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..PLAYS {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut play = vec![0; rng.random_range(1..300)];
        // Small numbers are near the window, where mistakes are.
        let most = if rng.random_bool(0.5) { 255 } else { 20 };
        play.iter_mut().for_each(|byte| *byte = rng.random_range(0..=most));
        // It has a stream to speak by.
        play.splice(1..1, [12]);
        *ends.entry(target::psock(&play)).or_default() += 1;
    }
    assert!(ends["failed"] > PLAYS / 20 && ends["open"] > PLAYS / 20, "{ends:?}");
}

#[test]
fn the_seeds_of_the_fuzz_target_end_as_their_names_say() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/psock");
    let mut seen = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let end = target::psock(&fs::read(&path).unwrap());
        assert!(name.ends_with(end), "{name} is {end}");
        seen += 1;
    }
    assert!(seen >= 3);
}

/// Writes the seeds anew.
#[test]
#[ignore = "writes into the repository"]
fn write_the_seeds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/psock");
    fs::create_dir_all(&corpus).unwrap();
    // A stream; data 0 to 4 and 8 to 12, the end at 12; time; what is missing.
    let both = [0, 12, 1, 0, 0, 3, 0, 1, 8, 0, 3, 0, 5, 12, 0, 0, 10, 1, 0, 1, 4, 0, 3, 0];
    // Everything acknowledged: the end is told first.
    let finished = [&both[..], &[15, 0, 10, 1, 0, 3, 1, 0, 0, 0, 0]].concat();
    let beyond_the_window = [1, 12, 1, 0xff, 0x0f, 3, 0];
    let acknowledged_unsent = [2, 12, 8, 100, 0, 10, 1, 0, 3, 1, 0, 0, 1, 0];
    let sent_again = [3, 12, 12, 3, 0, 0, 0, 4, 0, 8, 0, 2, 10, 1, 0, 13, 0, 10, 1, 0];
    for (name, bytes) in [
        ("in-disorder-open", &both[..]),
        ("both-ends-finished", &finished),
        ("beyond-the-window-failed", &beyond_the_window),
        ("acknowledged-unsent-failed", &acknowledged_unsent),
        ("sent-again-open", &sent_again),
    ] {
        fs::write(corpus.join(name), bytes).unwrap();
    }
}
