//! The associations after the first one, in order.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::{Zeroize, Zeroizing};

use crate::association::{Association, Mode, UdpPorts};
use crate::suite::Suite;

/// Length of the secret that both ends share, in bytes.
pub const SECRET_LEN: usize = 32;

/// From one SPI to the next: both directions of a tunnel can have their own, side by side.
const SPI_STEP: u32 = 2;
/// 0 to 255 are reserved (RFC 4303, 2.1).
const FIRST_SPI: u32 = 256;
const IV_KEY_LEN: usize = 16;
const BLOCK: usize = 32;
/// The next secret, the longest keys, and the key of initialization vectors.
const LONGEST: usize = SECRET_LEN + 36 + 32 + IV_KEY_LEN;

/// Derives one association after another. Every secret is wiped once the next is known, so that nobody who
/// learns it finds the keys of earlier packets.
pub struct Chain {
    suite: Suite,
    encryption_key_len: usize,
    mode: Mode,
    udp: Option<UdpPorts>,
    esn: bool,
    spi: u32,
    secret: Zeroizing<[u8; SECRET_LEN]>,
}

impl Chain {
    /// What follows `first`.
    pub fn new(first: &Association<'_>, secret: &[u8; SECRET_LEN]) -> Self {
        Self {
            suite: first.suite,
            encryption_key_len: first.encryption_key.len(),
            mode: first.mode,
            udp: first.udp,
            esn: first.esn,
            spi: first.spi,
            secret: Zeroizing::new(*secret),
        }
    }

    /// Hands the next association to `make`, with the key of its initialization vectors.
    pub fn next<T>(&mut self, make: impl FnOnce(&Association<'_>, &[u8; IV_KEY_LEN]) -> T) -> T {
        self.spi = next_spi(self.spi);
        let (encryption, authentication) = (self.encryption_key_len, self.suite.authentication_key_len());
        let mut material = Zeroizing::new([0; LONGEST]);
        let material = &mut material[..SECRET_LEN + encryption + authentication + IV_KEY_LEN];
        expand(&self.secret, &self.spi.to_be_bytes(), material);
        // RFC 7296, 2.17: the key of the encryption first.
        let (secret, rest) = material.split_at(SECRET_LEN);
        let (encryption_key, rest) = rest.split_at(encryption);
        let (authentication_key, iv_key) = rest.split_at(authentication);
        let mut kept = Zeroizing::new([0; IV_KEY_LEN]);
        kept.copy_from_slice(iv_key);
        self.secret.copy_from_slice(secret);
        let association = Association {
            spi: self.spi,
            suite: self.suite,
            encryption_key,
            authentication_key,
            mode: self.mode,
            udp: self.udp,
            esn: self.esn,
        };
        make(&association, &kept)
    }
}

const fn next_spi(spi: u32) -> u32 {
    let next = spi.wrapping_add(SPI_STEP);
    if next < FIRST_SPI { next + FIRST_SPI } else { next }
}

/// prf+ with HMAC-SHA256 (RFC 7296, 2.13): `T1 = prf(K, S | 1)`, `T2 = prf(K, T1 | S | 2)`, and so on.
fn expand(key: &[u8; SECRET_LEN], seed: &[u8], material: &mut [u8]) {
    let keyed = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    let mut before: Option<[u8; BLOCK]> = None;
    for (number, place) in (1u8..).zip(material.chunks_mut(BLOCK)) {
        let mut mac = keyed.clone();
        if let Some(before) = &before {
            mac.update(before);
        }
        mac.update(seed);
        mac.update(&[number]);
        let mut made: [u8; BLOCK] = mac.finalize().into_bytes().into();
        place.copy_from_slice(&made[..place.len()]);
        if let Some(mut used) = before.replace(made) {
            used.zeroize();
        }
        made.zeroize();
    }
    before.zeroize();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with Python's `hmac` and `hashlib`.
    #[test]
    fn key_material_is_that_of_another_implementation() {
        let mut made = [0; 70];
        expand(&[7; SECRET_LEN], &[0, 0, 0x10, 2], &mut made);
        let digits: String = made.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digits, EXPECTED);
    }

    const EXPECTED: &str = "\
        9cf755c6bb8b0cbd3a8465897bc9a859ebbb7017c9ea7a204339ed21cb42d407ce83311af9a926de444b859458e04e72\
        00832e47fb71a1d6cd458daa9b095ccad0c5c42f5732";

    #[test]
    fn spis_leave_out_those_that_are_reserved() {
        let following = [256, 0x1001, u32::MAX - 1, u32::MAX].map(next_spi);
        assert_eq!(following, [258, 0x1003, 256, 257]);
    }
}
