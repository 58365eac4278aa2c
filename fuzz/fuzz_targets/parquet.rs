//! Footers and page headers of Parquet files from anybody.
#![no_main]

#[path = "../src/parquet.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = target::parquet(data);
});
