//! Encryption and authentication of the bytes between SPI and integrity check value. The algorithms are
//! RustCrypto's; this module only decides in which order they see which bytes.

mod aead;
mod cbc;
mod mac;

use zeroize::Zeroizing;

use self::aead::Aead;
pub use self::cbc::LANES;
use self::cbc::{Cbc, Lane};
use self::mac::KeyedMac;
use crate::association::Association;
use crate::suite::Suite;

/// SPI and sequence number.
pub const HEAD_LEN: usize = 8;

const SALT_LEN: usize = 4;

/// The integrity check failed, and nothing was decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadIcv;

/// Keys, ready to be used. All of them are wiped when it is dropped.
pub struct Transform {
    suite: Suite,
    esn: bool,
    keyed: Keyed,
}

enum Keyed {
    Aead { aead: Box<Aead>, salt: Zeroizing<[u8; SALT_LEN]> },
    Separate { cipher: Option<Box<Cbc>>, mac: Option<Box<KeyedMac>> },
}

/// An ESP packet without anything in front, and its sequence number in full.
pub struct Sealing<'a> {
    pub esp: &'a mut [u8],
    pub sequence: u64,
}

impl Transform {
    /// From an association that was validated, so that its keys have the right lengths.
    pub fn new(association: &Association<'_>) -> Self {
        let (suite, key) = (association.suite, association.encryption_key);
        let keyed = match suite {
            Suite::AesGcm
            | Suite::AesGcmImplicitIv
            | Suite::ChaCha20Poly1305
            | Suite::ChaCha20Poly1305ImplicitIv => {
                let (key, salt) = key.split_at(key.len() - SALT_LEN);
                let mut kept = Zeroizing::new([0; SALT_LEN]);
                kept.copy_from_slice(salt);
                Keyed::Aead { aead: Box::new(Aead::new(suite, key)), salt: kept }
            }
            _ => Keyed::Separate {
                cipher: (suite.align() == cbc::BLOCK).then(|| Box::new(Cbc::new(key))),
                mac: KeyedMac::new(suite, association.authentication_key).map(Box::new),
            },
        };
        Self { suite, esn: association.esn, keyed }
    }

    /// Encrypts and authenticates in place. Everything in front of the integrity check value must be there; that
    /// value is written.
    pub fn seal(&self, packet: Sealing<'_>) {
        let Sealing { esp, sequence } = packet;
        match &self.keyed {
            Keyed::Aead { aead, salt } => {
                let (front, icv) = esp.split_at_mut(esp.len() - self.suite.icv_len());
                let (head, body) = front.split_at_mut(HEAD_LEN + self.suite.iv_len());
                let nonce = self.nonce(salt, head, sequence);
                let (aad, len) = self.authenticated(head, sequence);
                icv.copy_from_slice(&aead.seal(&nonce, &aad[..len], body));
            }
            Keyed::Separate { cipher, mac } => {
                if let Some(cipher) = cipher {
                    cipher.encrypt(self.lane(esp));
                }
                self.sign(mac.as_deref(), esp, sequence);
            }
        }
    }

    /// [Seals](Self::seal) up to [`LANES`] packets, side by side where a single one would wait for itself: every
    /// block of CBC needs the one before it.
    pub fn seal_each<'a>(&self, packets: impl Iterator<Item = Sealing<'a>>) {
        let Keyed::Separate { cipher: Some(cipher), mac } = &self.keyed else {
            packets.for_each(|packet| self.seal(packet));
            return;
        };
        let mut sealing: [Option<Sealing<'_>>; LANES] = [const { None }; LANES];
        for (place, packet) in sealing.iter_mut().zip(packets) {
            *place = Some(packet);
        }
        let mut lanes: [Lane<'_>; LANES] = std::array::from_fn(|_| Lane::default());
        for (lane, packet) in lanes.iter_mut().zip(sealing.iter_mut().flatten()) {
            *lane = self.lane(packet.esp);
        }
        cipher.encrypt_each(&mut lanes);
        for packet in sealing.into_iter().flatten() {
            self.sign(mac.as_deref(), packet.esp, packet.sequence);
        }
    }

    /// Checks, and only then decrypts, in place. The packet has at least its head, IV and integrity check
    /// value, and whole blocks between them.
    pub fn open(&self, esp: &mut [u8], sequence: u64) -> Result<(), BadIcv> {
        let (front, icv) = esp.split_at_mut(esp.len() - self.suite.icv_len());
        match &self.keyed {
            Keyed::Aead { aead, salt } => {
                let (head, body) = front.split_at_mut(HEAD_LEN + self.suite.iv_len());
                let nonce = self.nonce(salt, head, sequence);
                let (aad, len) = self.authenticated(head, sequence);
                aead.open(&nonce, &aad[..len], body, icv)
            }
            Keyed::Separate { cipher, mac } => {
                if let Some(mac) = mac {
                    mac.verify(front, self.unsent(sequence), icv)?;
                }
                if let Some(cipher) = cipher {
                    let (head, body) = front.split_at_mut(HEAD_LEN + self.suite.iv_len());
                    cipher.decrypt(&head[HEAD_LEN..], body);
                }
                Ok(())
            }
        }
    }

    fn lane<'a>(&self, esp: &'a mut [u8]) -> Lane<'a> {
        let end = esp.len() - self.suite.icv_len();
        let (head, body) = esp[..end].split_at_mut(HEAD_LEN + self.suite.iv_len());
        Lane::new(&head[HEAD_LEN..], body)
    }

    fn sign(&self, mac: Option<&KeyedMac>, esp: &mut [u8], sequence: u64) {
        if let Some(mac) = mac {
            let (front, icv) = esp.split_at_mut(esp.len() - self.suite.icv_len());
            mac.sign(front, self.unsent(sequence), icv);
        }
    }

    /// The upper half of an extended sequence number: authenticated behind the packet, but not sent
    /// (RFC 4303, 2.2.1).
    fn unsent(&self, sequence: u64) -> Option<[u8; 4]> {
        self.esn.then(|| ((sequence >> 32) as u32).to_be_bytes())
    }

    /// Salt and IV (RFC 4106, 4); without IV in the packet the sequence number (RFC 8750, 4).
    fn nonce(&self, salt: &[u8; SALT_LEN], head: &[u8], sequence: u64) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[..SALT_LEN].copy_from_slice(salt);
        match &head[HEAD_LEN..] {
            [] => nonce[SALT_LEN..].copy_from_slice(&sequence.to_be_bytes()),
            iv => nonce[SALT_LEN..].copy_from_slice(iv),
        }
        nonce
    }

    /// What an AEAD authenticates besides what it encrypts: SPI and sequence number in full (RFC 4106, 5).
    fn authenticated(&self, head: &[u8], sequence: u64) -> ([u8; 12], usize) {
        let mut aad = [0; 12];
        aad[..4].copy_from_slice(&head[..4]);
        if self.esn {
            aad[4..].copy_from_slice(&sequence.to_be_bytes());
            (aad, 12)
        } else {
            aad[4..8].copy_from_slice(&head[4..8]);
            (aad, 8)
        }
    }
}
