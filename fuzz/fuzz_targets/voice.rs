//! The whole analysis of voice over any capture.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = weir_fuzz::voice(data);
});
