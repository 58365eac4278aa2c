//! The whole analysis of TCP over any capture.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = weir_fuzz::tcp(data);
});
