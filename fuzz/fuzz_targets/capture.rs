//! Readers: any bytes, opened and read to the end.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = weir_fuzz::capture(data);
});
