//! Bulk transfers between a client and a server: several connections, each of which carries blocks one way.

mod blocks;
mod capture;
mod client;
mod end;
mod latency;
mod line;
mod server;
mod transfer;

pub use blocks::{Blocks, Corrupt, HEADER_BYTES, Plan, header};
pub use capture::{CaptureOptions, Here, Recorded, Recorder, Recording, Wanted};
pub use client::{Client, ClientError, ClientEvent, ClientOptions, FetchOptions, Via};
pub use server::{Server, ServerError, ServerEvent, ServerOptions};
pub use transfer::{BlockSample, Reading};

/// Default TCP port of the server.
pub const PORT: u16 = 29_100;

use std::fs;
use std::io;

use sha2::{Digest as _, Sha256};

use crate::control::Digest;

/// Bytes that cannot be predicted.
fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    // SAFETY: the kernel writes at most N bytes; up to 256 come at once (getrandom(2)).
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
    if got == N as isize { Ok(bytes) } else { Err(io::Error::last_os_error()) }
}

/// The same for all processes that share a `CLOCK_MONOTONIC`, and for no others.
fn clock_identity() -> io::Result<Digest> {
    let Ok(boot) = fs::read("/proc/sys/kernel/random/boot_id") else { return random() };
    // Time namespaces shift the clock; if there are none, nothing is added.
    let namespace = fs::read_link("/proc/self/ns/time").unwrap_or_default();
    let hash = Sha256::new().chain_update(boot).chain_update(namespace.as_os_str().as_encoded_bytes());
    Ok(hash.finalize().into())
}
