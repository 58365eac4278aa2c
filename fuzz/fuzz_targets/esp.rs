//! ESP: packets from anybody, packets that decrypt to anything, packets to be sent.
#![no_main]

#[path = "../src/esp.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = target::esp(data);
});
