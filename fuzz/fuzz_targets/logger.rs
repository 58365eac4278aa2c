//! A recorder: frames of anybody.
#![no_main]

#[path = "../src/logger.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = target::logger(data);
});
