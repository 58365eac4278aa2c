//! The protocol of `weir tcp serve`: messages of both directions, and a client that does as it likes.
#![no_main]

#[path = "../src/serve.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = target::serve(data);
});
