//! Authenticated encryption.

use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{AeadInOut, Aes128Gcm, Aes256Gcm, KeyInit};
use chacha20poly1305::ChaCha20Poly1305;

use super::BadIcv;
use crate::suite::Suite;

/// One algorithm with its key.
pub enum Aead {
    Aes128(Aes128Gcm),
    Aes256(Aes256Gcm),
    ChaCha20(ChaCha20Poly1305),
}

/// Runs `$body` for whichever algorithm it is.
macro_rules! with {
    ($self:expr, $aead:ident => $body:expr) => {
        match $self {
            Aead::Aes128($aead) => $body,
            Aead::Aes256($aead) => $body,
            Aead::ChaCha20($aead) => $body,
        }
    };
}

impl Aead {
    /// From a key without salt, of a length that fits.
    pub fn new(suite: Suite, key: &[u8]) -> Self {
        const LENGTH: &str = "the association was validated";
        match suite {
            Suite::AesGcm | Suite::AesGcmImplicitIv if key.len() == 16 => {
                Self::Aes128(Aes128Gcm::new_from_slice(key).expect(LENGTH))
            }
            Suite::AesGcm | Suite::AesGcmImplicitIv => {
                Self::Aes256(Aes256Gcm::new_from_slice(key).expect(LENGTH))
            }
            _ => Self::ChaCha20(ChaCha20Poly1305::new_from_slice(key).expect(LENGTH)),
        }
    }

    /// Encrypts `body` in place; returns the tag.
    pub fn seal(&self, nonce: &[u8; 12], aad: &[u8], body: &mut [u8]) -> [u8; 16] {
        let sealed =
            with!(self, aead => aead.encrypt_inout_detached(nonce.into(), aad, InOutBuf::from(body)));
        sealed.expect("an IP packet is shorter than any limit of these algorithms").into()
    }

    /// Checks the tag in constant time, and only then decrypts.
    pub fn open(&self, nonce: &[u8; 12], aad: &[u8], body: &mut [u8], tag: &[u8]) -> Result<(), BadIcv> {
        let tag: &[u8; 16] = tag.try_into().map_err(|_| BadIcv)?;
        let body = InOutBuf::from(body);
        with!(self, aead => aead.decrypt_inout_detached(nonce.into(), aad, body, tag.into()))
            .map_err(|_| BadIcv)
    }
}
