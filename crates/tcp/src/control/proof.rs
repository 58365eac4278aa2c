//! Proofs that a token is known, without revealing it.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::codec::Writer;
use super::{Digest, Errand, Proof, Request};

/// Bytes of a token: a proof crosses the network, and whoever hears it could find a shorter one by trying.
pub const LEAST_TOKEN_BYTES: usize = 16;

/// Proves that `token` is known to the sender of `request`, which was given `nonce`.
#[must_use]
pub fn prove(token: &str, nonce: &Digest, request: &Request) -> Proof {
    mac(token, nonce, request_bytes(request)).finalize().into_bytes().into()
}

/// Checks it. Takes the same time whichever part is wrong.
#[must_use]
pub fn verify(token: &str, nonce: &Digest, request: &Request, proof: &Proof) -> bool {
    mac(token, nonce, request_bytes(request)).verify_slice(proof).is_ok()
}

/// Proves that `token` is known to the sender of `errand`, which was given `nonce`.
#[must_use]
pub fn prove_errand(token: &str, nonce: &Digest, errand: &Errand) -> Proof {
    mac(token, nonce, errand_bytes(errand)).finalize().into_bytes().into()
}

/// Checks it. Takes the same time whichever part is wrong.
#[must_use]
pub fn verify_errand(token: &str, nonce: &Digest, errand: &Errand, proof: &Proof) -> bool {
    mac(token, nonce, errand_bytes(errand)).verify_slice(proof).is_ok()
}

fn request_bytes(request: &Request) -> Vec<u8> {
    let mut to = Writer::default();
    request.write(&mut to);
    to.message(0)
}

/// Of another kind than those of a request: the proof of one is not valid for the other.
fn errand_bytes(errand: &Errand) -> Vec<u8> {
    let mut to = Writer::default();
    errand.write(&mut to);
    to.message(1)
}

fn mac(token: &str, nonce: &Digest, bytes: Vec<u8>) -> Hmac<Sha256> {
    // A key of any length is accepted; an empty one stands for no token.
    let mut mac =
        <Hmac<Sha256> as KeyInit>::new_from_slice(token.as_bytes()).unwrap_or_else(|_| unreachable!());
    mac.update(nonce);
    mac.update(&bytes);
    mac
}
