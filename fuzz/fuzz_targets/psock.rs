//! Parallel sockets: a peer that knows the key and does as it likes.
#![no_main]

#[path = "../src/psock.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = target::psock(data);
});
