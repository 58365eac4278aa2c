//! Message authentication codes, cut to what is sent.

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::Sha256;

use super::BadIcv;
use crate::suite::Suite;

/// One algorithm that has already seen its key: a packet costs only its own blocks and two more.
pub enum KeyedMac {
    Md5(Hmac<Md5>),
    Sha1(Hmac<Sha1>),
    Sha256(Hmac<Sha256>),
}

impl KeyedMac {
    /// The code of the suite; `None` if it has none.
    pub fn new(suite: Suite, key: &[u8]) -> Option<Self> {
        const LENGTH: &str = "HMAC takes keys of any length";
        match suite {
            Suite::AesCbcHmacMd5 | Suite::NullHmacMd5 => {
                Some(Self::Md5(Hmac::new_from_slice(key).expect(LENGTH)))
            }
            Suite::AesCbcHmacSha1 | Suite::NullHmacSha1 => {
                Some(Self::Sha1(Hmac::new_from_slice(key).expect(LENGTH)))
            }
            Suite::AesCbcHmacSha256 | Suite::NullHmacSha256 => {
                Some(Self::Sha256(Hmac::new_from_slice(key).expect(LENGTH)))
            }
            _ => None,
        }
    }

    /// Writes as much of the code of `front` and the unsent number as fits into `icv`.
    pub fn sign(&self, front: &[u8], unsent: Option<[u8; 4]>, icv: &mut [u8]) {
        match self {
            Self::Md5(mac) => sign(mac, front, unsent, icv),
            Self::Sha1(mac) => sign(mac, front, unsent, icv),
            Self::Sha256(mac) => sign(mac, front, unsent, icv),
        }
    }

    /// Compares it with `icv` in constant time.
    pub fn verify(&self, front: &[u8], unsent: Option<[u8; 4]>, icv: &[u8]) -> Result<(), BadIcv> {
        match self {
            Self::Md5(mac) => updated(mac, front, unsent).verify_truncated_left(icv),
            Self::Sha1(mac) => updated(mac, front, unsent).verify_truncated_left(icv),
            Self::Sha256(mac) => updated(mac, front, unsent).verify_truncated_left(icv),
        }
        .map_err(|_| BadIcv)
    }
}

fn updated<M: Mac + Clone>(keyed: &M, front: &[u8], unsent: Option<[u8; 4]>) -> M {
    let mut mac = keyed.clone();
    mac.update(front);
    if let Some(unsent) = unsent {
        mac.update(&unsent);
    }
    mac
}

fn sign<M: Mac + Clone>(keyed: &M, front: &[u8], unsent: Option<[u8; 4]>, icv: &mut [u8]) {
    let code = updated(keyed, front, unsent).finalize().into_bytes();
    icv.copy_from_slice(&code[..icv.len()]);
}
