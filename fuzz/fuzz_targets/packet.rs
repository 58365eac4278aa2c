//! Decoders: packets of any link type, fragments put together.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = weir_fuzz::packet(data);
});
