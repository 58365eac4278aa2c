//! Keys and proofs: HMAC-SHA256 (RFC 2104) over what both ends have sent.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

/// Identifies a session; the client draws it at random.
pub type Id = [u8; 16];

/// Random bytes of one end, so that no greeting can be replayed.
pub type Nonce = [u8; 16];

/// Bytes of a proof.
pub const PROOF_BYTES: usize = 32;

/// Shows that a key is known, without revealing it.
pub type Proof = [u8; PROOF_BYTES];

/// A key of a session.
#[derive(Clone)]
pub struct Secret(Zeroizing<[u8; 32]>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// The key with which a session is opened. An empty `token` is publicly known.
    #[must_use]
    pub fn of_token(token: &[u8], id: &Id) -> Self {
        Self(Zeroizing::new(mac(token, b"psock 1 open", &[id]).finalize().into_bytes().into()))
    }

    /// The session's own key, with which further streams join: it depends on what both ends drew when the
    /// session was opened with this key.
    #[must_use]
    pub fn session(&self, client: &Nonce, server: &Nonce) -> Self {
        Self(Zeroizing::new(
            mac(&*self.0, b"psock 1 session", &[client, server]).finalize().into_bytes().into(),
        ))
    }

    pub(super) fn prove(&self, who: &Side, said: &[&[u8]]) -> Proof {
        mac(&*self.0, who.label(), said).finalize().into_bytes().into()
    }

    /// Takes the same time whichever part is wrong.
    pub(super) fn verify(&self, who: &Side, said: &[&[u8]], proof: &Proof) -> bool {
        mac(&*self.0, who.label(), said).verify_slice(proof).is_ok()
    }
}

/// Which end proves.
pub(super) enum Side {
    Client,
    Server,
}

impl Side {
    const fn label(&self) -> &'static [u8] {
        match self {
            Self::Client => b"psock 1 client",
            Self::Server => b"psock 1 server",
        }
    }
}

/// All parts but the last have a fixed length for each label, so that no two lists of parts collide.
fn mac(key: &[u8], label: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    // A key of any length is accepted.
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).unwrap_or_else(|_| unreachable!());
    mac.update(label);
    for part in parts {
        mac.update(part);
    }
    mac
}
