//! The seeds of the fuzz target `parquet`, in `fuzz/corpus/parquet`: made here, and every one of them, also those
//! that a fuzzer found, goes through the function of the target.
//!
//! `cargo test -p weir-tables --test corpus -- --ignored` writes them anew.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../../fuzz/src/parquet.rs"]
mod target;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use weir_tables::{Column, Kind, Spec, Table};

const SPECS: &[Spec] = &[
    Spec::new("connection", Kind::U32).repeats(),
    Spec::new("time_ns", Kind::I64).rising(),
    Spec::new("rtt_ns", Kind::I64).optional(),
    Spec::new("addr", Kind::Text).repeats(),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/parquet")
}

fn table(groups: i64) -> Vec<u8> {
    let mut table = Table::new(Vec::new(), SPECS, &[]).unwrap();
    for first in 0..groups {
        let columns = [
            Column::Small(&[7, 7]),
            Column::I64(&[first, first + 1]),
            Column::MaybeI64(&[None, Some(5)]),
            Column::Text(&["192.0.2.1".to_owned(), "2001:db8::1".to_owned()]),
        ];
        table.write(&columns).unwrap();
    }
    table.finish().unwrap()
}

/// By name, the bytes of a seed, and the rows that it has, or the beginning of why it has none.
fn made() -> BTreeMap<&'static str, (Vec<u8>, Result<u64, &'static str>)> {
    let whole = table(2);
    let without_end = whole[..whole.len() - 4].to_vec();
    let mut long_footer = whole.clone();
    let at = long_footer.len() - 8;
    long_footer[at..at + 4].copy_from_slice(&[0xff; 4]);
    let mut damaged_pages = whole.clone();
    damaged_pages[4..24].fill(0x1c);
    BTreeMap::from([
        ("no-rows", (table(0), Ok(0))),
        ("two-groups", (whole, Ok(4))),
        ("without-end", (without_end, Err("not a valid Parquet file: its end is missing"))),
        ("long-footer", (long_footer, Err("not a valid Parquet file: its footer is longer"))),
        ("damaged-pages", (damaged_pages, Err("not a valid Parquet file"))),
        ("nothing", (Vec::new(), Err("not a valid Parquet file: it is too short"))),
    ])
}

#[test]
fn every_seed_ends_as_expected() {
    let expected = made();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let found = target::parquet(&fs::read(&path).unwrap());
        let name = path.file_name().unwrap().to_str().unwrap();
        match expected.get(name) {
            Some((_, Ok(rows))) => assert_eq!(found.unwrap().rows, *rows, "{name}"),
            Some((_, Err(why))) => assert!(found.unwrap_err().starts_with(why), "{name}"),
            // A fuzzer found it.
            None => drop(found),
        }
    }
}

#[test]
fn the_committed_seeds_are_those_that_are_made_here() {
    for (name, (bytes, _)) in made() {
        assert_eq!(fs::read(folder().join(name)).unwrap(), bytes, "{name}");
    }
}

#[test]
#[ignore = "writes the seeds"]
fn write_seeds() {
    fs::create_dir_all(folder()).unwrap();
    for (name, (bytes, _)) in made() {
        fs::write(folder().join(name), bytes).unwrap();
    }
}
