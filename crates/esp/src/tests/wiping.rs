use aes::cipher::consts::U64;
use aes::{Aes128, Aes256};
use aes_gcm::{Aes128Gcm, Aes256Gcm};
use chacha20poly1305::ChaCha20Poly1305;
use hmac::EagerHash;
use hmac::digest::block_buffer::{BlockBuffer, Eager};
use md5::Md5;
use sha1::Sha1;
use sha2::Sha256;
use zeroize::ZeroizeOnDrop;

/// Compiles only for types that wipe what they hold.
const fn is_wiped<T: ZeroizeOnDrop>() {}

#[test]
fn every_keyed_state_is_wiped_when_it_is_dropped() {
    is_wiped::<Aes128>();
    is_wiped::<Aes256>();
    is_wiped::<Aes128Gcm>();
    is_wiped::<Aes256Gcm>();
    is_wiped::<ChaCha20Poly1305>();
    // `Hmac` has two states of its hash and a buffer, and nothing else.
    is_wiped::<<Md5 as EagerHash>::Core>();
    is_wiped::<<Sha1 as EagerHash>::Core>();
    is_wiped::<<Sha256 as EagerHash>::Core>();
    is_wiped::<BlockBuffer<U64, Eager>>();
}
