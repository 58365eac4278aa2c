//! Parallel sockets: a peer that knows the key and does as it likes, and its request to a proxy.
#![no_main]

#[path = "../src/psock.rs"]
mod target;

#[allow(dead_code, reason = "only what is parsed")]
#[path = "../../crates/relay/src/wire.rs"]
mod wire;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some(Ok(request)) = data.first_chunk().map(wire::Request::parse) {
        assert_eq!(wire::Request::parse(&request.emit()), Ok(request));
    }
    if let Some(Ok(status)) = data.first_chunk().map(wire::Status::parse) {
        assert_eq!(wire::Status::parse(&status.emit()), Ok(status));
    }
    let _ = target::psock(data);
});
