//! What encrypts and authenticates, and how much room that takes.

/// Encryption and authentication of a security association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    /// AES-CBC alone (RFC 3602). Historic: changed packets go unnoticed, and a receiver that tells bad
    /// padding from good gives plaintext away. RFC 8221 forbids it.
    AesCbc,
    /// AES-CBC and HMAC-MD5-96 (RFC 2403). Historic: RFC 8221 forbids it.
    AesCbcHmacMd5,
    /// AES-CBC and HMAC-SHA1-96 (RFC 2404).
    AesCbcHmacSha1,
    /// AES-CBC and HMAC-SHA256-128 (RFC 4868).
    AesCbcHmacSha256,
    /// AES-GCM with a tag of 16 bytes (RFC 4106).
    AesGcm,
    /// The same without the initialization vector in the packet (RFC 8750).
    AesGcmImplicitIv,
    /// ChaCha20-Poly1305 (RFC 7634).
    ChaCha20Poly1305,
    /// The same without the initialization vector in the packet (RFC 8750).
    ChaCha20Poly1305ImplicitIv,
    /// No encryption (RFC 2410), HMAC-MD5-96. Historic: RFC 8221 forbids it.
    NullHmacMd5,
    /// No encryption, HMAC-SHA1-96.
    NullHmacSha1,
    /// No encryption, HMAC-SHA256-128.
    NullHmacSha256,
}

impl Suite {
    /// Every suite.
    pub const ALL: [Self; 11] = [
        Self::AesCbc,
        Self::AesCbcHmacMd5,
        Self::AesCbcHmacSha1,
        Self::AesCbcHmacSha256,
        Self::AesGcm,
        Self::AesGcmImplicitIv,
        Self::ChaCha20Poly1305,
        Self::ChaCha20Poly1305ImplicitIv,
        Self::NullHmacMd5,
        Self::NullHmacSha1,
        Self::NullHmacSha256,
    ];

    /// The name in options, tables and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AesCbc => "aes-cbc",
            Self::AesCbcHmacMd5 => "aes-cbc-hmac-md5-96",
            Self::AesCbcHmacSha1 => "aes-cbc-hmac-sha1-96",
            Self::AesCbcHmacSha256 => "aes-cbc-hmac-sha256-128",
            Self::AesGcm => "aes-gcm-16",
            Self::AesGcmImplicitIv => "aes-gcm-16-iiv",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
            Self::ChaCha20Poly1305ImplicitIv => "chacha20-poly1305-iiv",
            Self::NullHmacMd5 => "null-hmac-md5-96",
            Self::NullHmacSha1 => "null-hmac-sha1-96",
            Self::NullHmacSha256 => "null-hmac-sha256-128",
        }
    }

    /// The suite with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.name() == name)
    }

    /// Length of the initialization vector in every packet.
    #[must_use]
    pub const fn iv_len(self) -> usize {
        match self {
            Self::AesCbc | Self::AesCbcHmacMd5 | Self::AesCbcHmacSha1 | Self::AesCbcHmacSha256 => 16,
            Self::AesGcm | Self::ChaCha20Poly1305 => 8,
            _ => 0,
        }
    }

    /// What is encrypted, trailer included, is a multiple of this; at least 4 (RFC 4303, 2.4).
    #[must_use]
    pub const fn align(self) -> usize {
        match self {
            Self::AesCbc | Self::AesCbcHmacMd5 | Self::AesCbcHmacSha1 | Self::AesCbcHmacSha256 => 16,
            _ => 4,
        }
    }

    /// Length of the integrity check value.
    #[must_use]
    pub const fn icv_len(self) -> usize {
        match self {
            Self::AesCbc => 0,
            Self::AesCbcHmacMd5 | Self::AesCbcHmacSha1 | Self::NullHmacMd5 | Self::NullHmacSha1 => 12,
            _ => 16,
        }
    }

    /// Permitted lengths of an encryption key, including a salt of 4 bytes at its end (RFC 4106, 8.1).
    #[must_use]
    pub const fn encryption_key_lens(self) -> &'static [usize] {
        match self {
            Self::AesCbc | Self::AesCbcHmacMd5 | Self::AesCbcHmacSha1 | Self::AesCbcHmacSha256 => &[16, 32],
            Self::AesGcm | Self::AesGcmImplicitIv => &[20, 36],
            Self::ChaCha20Poly1305 | Self::ChaCha20Poly1305ImplicitIv => &[36],
            Self::NullHmacMd5 | Self::NullHmacSha1 | Self::NullHmacSha256 => &[0],
        }
    }

    /// Length of the authentication key (RFC 2403, RFC 2404, RFC 4868); 0 if there is none.
    #[must_use]
    pub const fn authentication_key_len(self) -> usize {
        match self {
            Self::AesCbcHmacMd5 | Self::NullHmacMd5 => 16,
            Self::AesCbcHmacSha1 | Self::NullHmacSha1 => 20,
            Self::AesCbcHmacSha256 | Self::NullHmacSha256 => 32,
            _ => 0,
        }
    }

    /// Whether the receiver notices that a packet was changed.
    #[must_use]
    pub const fn is_authenticated(self) -> bool {
        self.icv_len() > 0
    }
}
