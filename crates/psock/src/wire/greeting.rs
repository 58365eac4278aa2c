//! How a stream begins: four messages of fixed length, with which both ends prove that they know the key.
//!
//! ```text
//! client   Hello (48)              Proof (32)
//! server               Reply (32)              Welcome (40)
//! ```

use thiserror::Error;

use super::secret::Side;
use super::{Id, MAGIC, Nonce, PROOF_BYTES, Proof, Secret, VERSION};

/// Bytes of the client's first message: magic, version, kind, seven zeros, session, nonce.
pub const HELLO_BYTES: usize = 48;
/// Bytes of the server's answer: magic, version, status, seven zeros, nonce.
pub const REPLY_BYTES: usize = 32;
/// Bytes of the server's last message: status, seven zeros, proof.
pub const WELCOME_BYTES: usize = 8 + PROOF_BYTES;

/// What the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Go on.
    Ok,
    /// It speaks another version, which the answer names.
    Version,
    /// It does not know the session, or no longer does.
    Unknown,
    /// It has too many sessions, or the session too many streams.
    Full,
    /// The client's proof is wrong.
    Secret,
}

impl Status {
    const ALL: [Self; 5] = [Self::Ok, Self::Version, Self::Unknown, Self::Full, Self::Secret];

    fn parse(number: u8) -> Result<Self, GreetingError> {
        Self::ALL.get(usize::from(number)).copied().ok_or(GreetingError::Malformed)
    }
}

/// Why a stream could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GreetingError {
    /// Another protocol.
    #[error("the other end speaks another protocol, no psock")]
    NotPsock,
    /// Another version of this one.
    #[error("the other end speaks version {0} of the psock protocol, this end version {VERSION}")]
    Version(u8),
    /// The other end does not know the key.
    #[error("the secrets of both ends differ")]
    Secret,
    /// The server has ended the session, or never had it.
    #[error("the server does not know the session")]
    Unknown,
    /// The server takes no more.
    #[error("the server takes no more sessions or streams")]
    Full,
    /// Valid first bytes, but an invalid rest.
    #[error("the other end sent a greeting that makes no sense")]
    Malformed,
}

/// The client's first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// It opens a session; otherwise it joins one.
    pub opens: bool,
    /// Which session.
    pub id: Id,
    /// Its random bytes.
    pub nonce: Nonce,
}

impl Hello {
    fn emit(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..7].copy_from_slice(&MAGIC);
        bytes[7] = VERSION;
        bytes[8] = if self.opens { 1 } else { 2 };
        bytes[16..32].copy_from_slice(&self.id);
        bytes[32..].copy_from_slice(&self.nonce);
        bytes
    }

    /// What a client sent.
    ///
    /// # Errors
    /// [`GreetingError::NotPsock`], [`GreetingError::Version`], [`GreetingError::Malformed`].
    pub fn parse(bytes: &[u8; HELLO_BYTES]) -> Result<Self, GreetingError> {
        check_magic(bytes)?;
        let opens = match bytes[8] {
            1 => true,
            2 => false,
            _ => return Err(GreetingError::Malformed),
        };
        if bytes[9..16] != [0; 7] {
            return Err(GreetingError::Malformed);
        }
        Ok(Self { opens, id: sixteen(bytes, 16), nonce: sixteen(bytes, 32) })
    }
}

/// Whether these bytes, which may be few, can be the first of a client: any other peer can be rejected at once.
#[must_use]
pub fn begins_like_hello(bytes: &[u8]) -> bool {
    let known = bytes.len().min(MAGIC.len());
    bytes[..known] == MAGIC[..known]
}

fn check_magic(bytes: &[u8]) -> Result<(), GreetingError> {
    if bytes[..7] != MAGIC {
        return Err(GreetingError::NotPsock);
    }
    if bytes[7] == VERSION { Ok(()) } else { Err(GreetingError::Version(bytes[7])) }
}

fn sixteen(bytes: &[u8], at: usize) -> [u8; 16] {
    let mut part = [0; 16];
    part.copy_from_slice(&bytes[at..at + 16]);
    part
}

/// The client's side.
#[derive(Debug)]
pub struct Initiator {
    hello: [u8; HELLO_BYTES],
    nonce: Nonce,
    key: Secret,
    opens: bool,
}

impl Initiator {
    /// Opens the session `id`, which must be new.
    #[must_use]
    pub fn open(token: &[u8], id: Id, nonce: Nonce) -> Self {
        Self::new(Secret::of_token(token, &id), Hello { opens: true, id, nonce })
    }

    /// Joins the session `id`, which was opened with `secret` as the result.
    #[must_use]
    pub fn join(secret: &Secret, id: Id, nonce: Nonce) -> Self {
        Self::new(secret.clone(), Hello { opens: false, id, nonce })
    }

    fn new(key: Secret, hello: Hello) -> Self {
        Self { hello: hello.emit(), nonce: hello.nonce, key, opens: hello.opens }
    }

    /// The first message.
    #[must_use]
    pub const fn hello(&self) -> &[u8; HELLO_BYTES] {
        &self.hello
    }

    /// Takes the server's answer.
    ///
    /// # Errors
    /// [`GreetingError`].
    pub fn prove(self, reply: &[u8; REPLY_BYTES]) -> Result<Proved, GreetingError> {
        check_magic(reply)?;
        check_status(reply[8], &reply[9..16])?;
        let proof = self.key.prove(&Side::Client, &[&self.hello, reply]);
        Ok(Proved { initiator: self, reply: *reply, proof })
    }
}

fn check_status(status: u8, zeros: &[u8]) -> Result<(), GreetingError> {
    let problem = match Status::parse(status)? {
        Status::Ok if zeros.iter().all(|zero| *zero == 0) => return Ok(()),
        // A server that speaks this version does not refuse it.
        Status::Ok | Status::Version => GreetingError::Malformed,
        Status::Unknown => GreetingError::Unknown,
        Status::Full => GreetingError::Full,
        Status::Secret => GreetingError::Secret,
    };
    Err(problem)
}

/// The client's side, after the server's answer.
#[derive(Debug)]
pub struct Proved {
    initiator: Initiator,
    reply: [u8; REPLY_BYTES],
    proof: Proof,
}

impl Proved {
    /// The second message.
    #[must_use]
    pub const fn proof(&self) -> &Proof {
        &self.proof
    }

    /// Takes the server's last message; returns the session's key.
    ///
    /// # Errors
    /// [`GreetingError`].
    pub fn welcomed(self, welcome: &[u8; WELCOME_BYTES]) -> Result<Secret, GreetingError> {
        let Initiator { hello, nonce, key, opens } = self.initiator;
        check_status(welcome[0], &welcome[1..8])?;
        let mut proof = Proof::default();
        proof.copy_from_slice(&welcome[8..]);
        if !key.verify(&Side::Server, &[&hello, &self.reply], &proof) {
            return Err(GreetingError::Secret);
        }
        Ok(if opens { key.session(&nonce, &sixteen(&self.reply, 16)) } else { key })
    }
}

/// The server's side, after the client's first message.
#[derive(Debug)]
pub struct Responder {
    hello: Hello,
    reply: [u8; REPLY_BYTES],
    nonce: Nonce,
    key: Secret,
}

impl Responder {
    /// A client opens a session.
    #[must_use]
    pub fn open(token: &[u8], hello: Hello, nonce: Nonce) -> Self {
        Self::new(Secret::of_token(token, &hello.id), hello, nonce)
    }

    /// A client joins the session whose key is `secret`.
    #[must_use]
    pub fn join(secret: &Secret, hello: Hello, nonce: Nonce) -> Self {
        Self::new(secret.clone(), hello, nonce)
    }

    fn new(key: Secret, hello: Hello, nonce: Nonce) -> Self {
        let mut reply = refusal(Status::Ok);
        reply[16..].copy_from_slice(&nonce);
        Self { hello, reply, nonce, key }
    }

    /// The answer to the first message.
    #[must_use]
    pub const fn reply(&self) -> &[u8; REPLY_BYTES] {
        &self.reply
    }

    /// Takes the client's proof; returns the last message and the session's key.
    ///
    /// # Errors
    /// [`GreetingError::Secret`].
    pub fn verify(self, proof: &Proof) -> Result<([u8; WELCOME_BYTES], Secret), GreetingError> {
        let hello = self.hello.emit();
        let said: [&[u8]; 2] = [&hello, &self.reply];
        if !self.key.verify(&Side::Client, &said, proof) {
            return Err(GreetingError::Secret);
        }
        let mut welcome = refused_welcome(Status::Ok);
        welcome[8..].copy_from_slice(&self.key.prove(&Side::Server, &said));
        let secret =
            if self.hello.opens { self.key.session(&self.hello.nonce, &self.nonce) } else { self.key };
        Ok((welcome, secret))
    }
}

/// A server's answer to the first message that ends the greeting.
#[must_use]
pub fn refusal(status: Status) -> [u8; REPLY_BYTES] {
    let mut reply = [0; REPLY_BYTES];
    reply[..7].copy_from_slice(&MAGIC);
    reply[7] = VERSION;
    reply[8] = status as u8;
    reply
}

/// A server's answer to the proof that ends the greeting.
#[must_use]
pub fn refused_welcome(status: Status) -> [u8; WELCOME_BYTES] {
    let mut welcome = [0; WELCOME_BYTES];
    welcome[0] = status as u8;
    welcome
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Id = [7; 16];

    /// Both ends' keys, or what the first that noticed has noticed.
    fn greet(
        client: Initiator,
        server: impl Fn(Hello) -> Responder,
    ) -> Result<(Secret, Secret), GreetingError> {
        let responder = server(Hello::parse(client.hello())?);
        let proved = client.prove(responder.reply())?;
        let (welcome, servers) = responder.verify(proved.proof())?;
        Ok((proved.welcomed(&welcome)?, servers))
    }

    fn opened(client: &[u8], server: &[u8]) -> Result<(Secret, Secret), GreetingError> {
        greet(Initiator::open(client, ID, [1; 16]), |hello| Responder::open(server, hello, [2; 16]))
    }

    #[test]
    fn both_ends_of_an_opened_session_have_the_same_key_and_streams_join_by_it() {
        for token in [&b""[..], b"a token"] {
            let (client, server) = opened(token, token).unwrap();
            let join = Initiator::join(&client, ID, [3; 16]);
            greet(join, |hello| Responder::join(&server, hello, [4; 16])).unwrap();
        }
    }

    #[test]
    fn another_token_opens_nothing() {
        assert_eq!(opened(b"a token", b"another").unwrap_err(), GreetingError::Secret);
        assert_eq!(opened(b"", b"a token").unwrap_err(), GreetingError::Secret);
    }

    #[test]
    fn nobody_joins_without_the_key_of_that_session() {
        let (_, server) = opened(b"t", b"t").unwrap();
        // The token alone is not enough, nor is a session that was opened at another time.
        let (other, _) =
            greet(Initiator::open(b"t", ID, [9; 16]), |hello| Responder::open(b"t", hello, [2; 16])).unwrap();
        for key in [Secret::of_token(b"t", &ID), other] {
            let join = Initiator::join(&key, ID, [3; 16]);
            let joined = greet(join, |hello| Responder::join(&server, hello, [4; 16]));
            assert_eq!(joined.unwrap_err(), GreetingError::Secret);
        }
    }

    #[test]
    fn a_server_that_does_not_know_the_key_is_not_believed() {
        let client = Initiator::open(b"t", ID, [1; 16]);
        let responder = Responder::open(b"u", Hello::parse(client.hello()).unwrap(), [2; 16]);
        let proved = client.prove(responder.reply()).unwrap();
        assert_eq!(proved.welcomed(&refused_welcome(Status::Ok)).unwrap_err(), GreetingError::Secret);
    }

    #[test]
    fn a_recorded_proof_is_worth_nothing_later() {
        let client = Initiator::open(b"t", ID, [1; 16]);
        let hello = Hello::parse(client.hello()).unwrap();
        let first = Responder::open(b"t", hello, [2; 16]);
        let proof = *client.prove(first.reply()).unwrap().proof();
        assert!(first.verify(&proof).is_ok());
        let later = Responder::open(b"t", hello, [3; 16]).verify(&proof);
        assert_eq!(later.unwrap_err(), GreetingError::Secret);
    }

    #[test]
    fn strangers_and_other_versions_are_told_apart() {
        let hello = *Initiator::open(b"", ID, [1; 16]).hello();
        assert!(begins_like_hello(b"") && begins_like_hello(b"WEI") && begins_like_hello(&hello));
        assert!(!begins_like_hello(b"GET / HTTP/1.1") && !begins_like_hello(b"WEIRTCP\x02"));
        let with = |at: usize, byte| {
            let mut changed = hello;
            changed[at] = byte;
            Hello::parse(&changed).unwrap_err()
        };
        assert_eq!(with(0, b'X'), GreetingError::NotPsock);
        assert_eq!(with(7, 2), GreetingError::Version(2));
        assert_eq!(with(8, 3), GreetingError::Malformed);
        assert_eq!(with(12, 1), GreetingError::Malformed);
        let mut reply = refusal(Status::Version);
        reply[7] = 9;
        let client = || Initiator::open(b"", ID, [1; 16]);
        assert_eq!(client().prove(&reply).unwrap_err(), GreetingError::Version(9));
        for (status, problem) in [
            (Status::Unknown, GreetingError::Unknown),
            (Status::Full, GreetingError::Full),
            (Status::Secret, GreetingError::Secret),
        ] {
            assert_eq!(client().prove(&refusal(status)).unwrap_err(), problem);
        }
        reply[..8].copy_from_slice(b"220 mail");
        assert_eq!(client().prove(&reply).unwrap_err(), GreetingError::NotPsock);
    }
}
