//! The header in the repository is that of this source.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::fs;
use std::path::Path;

fn header() -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).unwrap();
    let made = cbindgen::Builder::new()
        .with_config(config)
        .with_src(here.join("src/options.rs"))
        .with_src(here.join("src/calls.rs"))
        .generate()
        .unwrap();
    let mut text = Vec::new();
    made.write(&mut text);
    // A heading that Rust's documentation wants.
    let text = String::from_utf8(text).unwrap().replace(" # Safety\n", "");
    text.lines().map(|line| in_parentheses(line) + "\n").collect()
}

/// A constant below 0 is no operand of whatever is in front of it.
fn in_parentheses(line: &str) -> String {
    match line.split_once(" -") {
        Some((name, number)) if name.starts_with("#define ") => format!("{name} (-{number})"),
        _ => line.to_owned(),
    }
}

fn path() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include/psock.h")
}

#[test]
fn the_header_is_that_of_the_source() {
    assert_eq!(fs::read_to_string(path()).unwrap(), header(), "write it anew with -- --ignored");
}

/// Writes the header anew.
#[test]
#[ignore = "writes into the repository"]
fn write_the_header() {
    fs::write(path(), header()).unwrap();
}
