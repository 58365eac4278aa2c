//! The algorithms of a suite without anything around them.

use aes::Aes128;
use aes::cipher::array::Array;
use aes::cipher::consts::{U12, U16};
use aes::cipher::{BlockModeDecrypt, BlockModeEncrypt, InnerIvInit};
use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{AeadInOut, Aes128Gcm, KeyInit};
use chacha20poly1305::ChaCha20Poly1305;
use hmac::{Hmac, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::Sha256;
use weir_esp::Suite;

use weir_engine::esp_cost::KEY;

/// Takes what is encrypted, and 16 bytes for a code.
type Seal = dyn Fn(&mut [u8], &mut [u8]);
type Open = dyn Fn(&mut [u8], &[u8]);

/// What a suite does to the bytes of a packet.
pub struct Raw {
    pub seal: Box<Seal>,
    pub open: Box<Open>,
}

pub fn raw(suite: Suite) -> Raw {
    match suite {
        Suite::AesGcm | Suite::AesGcmImplicitIv => aead(Aes128Gcm::new_from_slice(&KEY[..16]).unwrap()),
        Suite::ChaCha20Poly1305 | Suite::ChaCha20Poly1305ImplicitIv => {
            aead(ChaCha20Poly1305::new_from_slice(&KEY[..32]).unwrap())
        }
        Suite::AesCbc => separate::<Hmac<Sha1>>(true, None),
        Suite::AesCbcHmacMd5 | Suite::NullHmacMd5 => separate(suite.align() == 16, keyed::<Hmac<Md5>>()),
        Suite::AesCbcHmacSha1 | Suite::NullHmacSha1 => separate(suite.align() == 16, keyed::<Hmac<Sha1>>()),
        Suite::AesCbcHmacSha256 | Suite::NullHmacSha256 => {
            separate(suite.align() == 16, keyed::<Hmac<Sha256>>())
        }
    }
}

fn aead<A>(aead: A) -> Raw
where
    A: AeadInOut<NonceSize = U12, TagSize = U16> + Clone + 'static,
{
    let other = aead.clone();
    Raw {
        seal: Box::new(move |body, code| {
            let tag = aead.encrypt_inout_detached(&[0; 12].into(), &[0; 8], InOutBuf::from(body)).unwrap();
            code.copy_from_slice(&tag);
        }),
        open: Box::new(move |body, code| {
            let tag: [u8; 16] = code.try_into().unwrap();
            let body = InOutBuf::from(body);
            other.decrypt_inout_detached(&[0; 12].into(), &[0; 8], body, &tag.into()).unwrap();
        }),
    }
}

fn keyed<M: KeyInit>() -> Option<M> {
    Some(M::new_from_slice(&KEY[..20]).unwrap())
}

fn separate<M: Mac + Clone + 'static>(is_encrypted: bool, mac: Option<M>) -> Raw {
    let aes = Aes128::new_from_slice(&KEY[..16]).unwrap();
    let (other_aes, other_mac) = (aes.clone(), mac.clone());
    Raw {
        seal: Box::new(move |body, code| {
            if is_encrypted {
                let (blocks, _) = Array::slice_as_chunks_mut(body);
                cbc::Encryptor::inner_iv_init(&aes, &[0; 16].into()).encrypt_blocks(blocks);
            }
            if let Some(mac) = &mac {
                let mut mac = mac.clone();
                mac.update(body);
                code[..12].copy_from_slice(&mac.finalize().into_bytes()[..12]);
            }
        }),
        open: Box::new(move |body, code| {
            if let Some(mac) = &other_mac {
                let mut mac = mac.clone();
                mac.update(body);
                mac.verify_truncated_left(&code[..12]).unwrap();
            }
            if is_encrypted {
                let (blocks, _) = Array::slice_as_chunks_mut(body);
                cbc::Decryptor::inner_iv_init(&other_aes, &[0; 16].into()).decrypt_blocks(blocks);
            }
        }),
    }
}
