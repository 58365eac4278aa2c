//! What both ends of a security association have agreed on.

use std::net::IpAddr;

use crate::error::AssociationError;
use crate::suite::Suite;

/// One direction between two ends, as a key exchange or a person sets it up.
#[derive(Clone, Copy)]
pub struct Association<'a> {
    /// Security parameters index: which association a packet belongs to.
    pub spi: u32,
    /// Encryption and authentication.
    pub suite: Suite,
    /// Its key; for AES-GCM and ChaCha20-Poly1305 with the salt of 4 bytes at its end (RFC 4106, 8.1).
    pub encryption_key: &'a [u8],
    /// Key of a suite that authenticates separately, otherwise empty.
    pub authentication_key: &'a [u8],
    /// What is protected.
    pub mode: Mode,
    /// ESP in UDP, to pass network address translation (RFC 3948).
    pub udp: Option<UdpPorts>,
    /// Sequence numbers of 64 bits, of which the lower 32 are sent (RFC 4303, 2.2.1).
    pub esn: bool,
}

/// What is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// What follows the IP header, between two hosts.
    Transport,
    /// Whole packets, between two gateways.
    Tunnel {
        /// Address of the gateway that encapsulates.
        source: IpAddr,
        /// Address of the one that decapsulates.
        destination: IpAddr,
    },
}

/// Ports of ESP in UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpPorts {
    /// Of the sender.
    pub source: u16,
    /// Of the receiver.
    pub destination: u16,
}

impl Default for UdpPorts {
    /// 4500 at both ends (RFC 3948, 2.1).
    fn default() -> Self {
        Self { source: 4500, destination: 4500 }
    }
}

impl Association<'_> {
    pub(crate) fn validate(&self) -> Result<(), AssociationError> {
        let suite = self.suite;
        if self.spi < 256 {
            return Err(AssociationError::Spi(self.spi));
        }
        if !suite.encryption_key_lens().contains(&self.encryption_key.len()) {
            let expected = match suite.encryption_key_lens() {
                [0] => "0",
                [16, 32] => "16 or 32",
                [20, 36] => "20 or 36",
                _ => "36",
            };
            let found = self.encryption_key.len();
            return Err(AssociationError::EncryptionKey { suite: suite.name(), expected, found });
        }
        if self.authentication_key.len() != suite.authentication_key_len() {
            return Err(AssociationError::AuthenticationKey {
                suite: suite.name(),
                expected: suite.authentication_key_len(),
                found: self.authentication_key.len(),
            });
        }
        if let Mode::Tunnel { source, destination } = self.mode
            && source.is_ipv4() != destination.is_ipv4()
        {
            return Err(AssociationError::Family);
        }
        if self.esn && !suite.is_authenticated() {
            return Err(AssociationError::EsnUnauthenticated);
        }
        Ok(())
    }
}
