//! What a packet costs, one JSON document per line and round; `bench/esp.py` runs it and works it out.
//!
//! Every case takes its turn in every round, so that a slow moment of the machine hits all of them. In a round a
//! case handles a set of packets, each in a buffer of its own; only that is timed, not what is set up for it.
//! `--set 64` packets stay in the CPU's caches ("warm"), `--set 32768` do not ("cold"). `--associations` are used
//! in turn, which is what many flows cost.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::hint::black_box;
use std::time::Instant;

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
use weir_esp::{Association, Inbound, Mode, Outbound, Slot, Suite};

/// Room around and for a packet.
const BUFFER: usize = 2048;
const START: usize = 128;
const KEY: [u8; 36] = [0x5a; 36];

/// IP packets in the clear: G.711 of 10 to 60 ms, then up to the MTU.
const SIZES: [usize; 10] = [64, 120, 200, 280, 360, 440, 520, 760, 1000, 1400];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// One packet after the other.
    Out,
    /// Eight at a time.
    OutEach,
    In,
    /// The algorithms alone, over as many bytes.
    RawOut,
    RawIn,
}

impl Way {
    const ALL: [Self; 5] = [Self::Out, Self::OutEach, Self::In, Self::RawOut, Self::RawIn];

    const fn name(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::OutEach => "out-each",
            Self::In => "in",
            Self::RawOut => "raw-out",
            Self::RawIn => "raw-in",
        }
    }
}

struct Options {
    rounds: usize,
    set: usize,
    associations: usize,
}

fn options() -> Options {
    let mut options = Options { rounds: 40, set: 64, associations: 1 };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let place = match name.as_str() {
            "--rounds" => &mut options.rounds,
            "--set" => &mut options.set,
            "--associations" => &mut options.associations,
            // Cargo's own.
            "--bench" => continue,
            _ => panic!("unknown option {name}; there are --rounds, --set and --associations"),
        };
        *place = arguments.next().and_then(|number| number.parse().ok()).expect("a number");
        assert!(*place > 0, "{name} must be at least 1");
    }
    options
}

fn association(suite: Suite, mode: Mode, number: usize) -> Association<'static> {
    Association {
        spi: 0x1000 + number as u32,
        suite,
        encryption_key: &KEY[..suite.encryption_key_lens()[0]],
        authentication_key: &KEY[..suite.authentication_key_len()],
        mode,
        udp: None,
        esn: false,
    }
}

fn write_packet(buffer: &mut [u8], size: usize) {
    let packet = &mut buffer[START..START + size];
    packet.fill(0x5a);
    packet[..20].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 19, 0, 1]);
    packet[2..4].copy_from_slice(&(size as u16).to_be_bytes());
}

/// Takes what is encrypted, and 16 bytes for a code.
type Seal = dyn Fn(&mut [u8], &mut [u8]);
type Open = dyn Fn(&mut [u8], &[u8]);

/// The algorithms of a suite without anything around them.
struct Raw {
    seal: Box<Seal>,
    open: Box<Open>,
}

fn raw(suite: Suite) -> Raw {
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

/// One line of the results.
struct Case {
    suite: Suite,
    mode: &'static str,
    size: usize,
    way: Way,
    senders: Vec<Outbound>,
    receivers: Vec<Inbound>,
    raw: Raw,
}

impl Case {
    fn new(suite: Suite, mode: &'static str, size: usize, way: Way, associations: usize) -> Self {
        let chosen = match mode {
            "tunnel" => Mode::Tunnel { source: [192, 0, 2, 1].into(), destination: [192, 0, 2, 2].into() },
            _ => Mode::Transport,
        };
        let of = |number| association(suite, chosen, number);
        let senders = (0..associations).map(|number| Outbound::new(&of(number), &[1; 16]).unwrap());
        let receivers = (0..associations).map(|number| Inbound::new(&of(number), 64).unwrap());
        let (senders, receivers) = (senders.collect(), receivers.collect());
        Self { suite, mode, size, way, senders, receivers, raw: raw(suite) }
    }

    /// What is encrypted, or only authenticated, of each packet.
    fn body_len(&self) -> usize {
        let protected = if self.mode == "tunnel" { self.size } else { self.size - 20 };
        (protected + 2).div_ceil(self.suite.align()) * self.suite.align()
    }

    /// ns per packet in one round.
    fn round(&mut self, buffers: &mut [Vec<u8>]) -> f64 {
        let (size, body_len, count) = (self.size, self.body_len(), buffers.len());
        buffers.iter_mut().for_each(|buffer| write_packet(buffer, size));
        let associations = self.senders.len();
        let there = START..START + size;
        let body = START..START + body_len;
        let lasted = match self.way {
            Way::Out => {
                let begun = Instant::now();
                for (number, buffer) in buffers.iter_mut().enumerate() {
                    let sender = &mut self.senders[number % associations];
                    black_box(sender.encapsulate(buffer, there.clone())).unwrap();
                }
                begun.elapsed()
            }
            Way::OutEach => {
                let mut slots: Vec<_> = buffers
                    .iter_mut()
                    .map(|buffer| Slot { buffer, range: there.clone(), error: None })
                    .collect();
                let begun = Instant::now();
                for (number, group) in slots.chunks_mut(8).enumerate() {
                    self.senders[number % associations].encapsulate_each(group);
                }
                let lasted = begun.elapsed();
                assert!(slots.iter().all(|slot| slot.error.is_none()));
                lasted
            }
            Way::In => {
                let mut sent = there.clone();
                for (number, buffer) in buffers.iter_mut().enumerate() {
                    sent = self.senders[number % associations].encapsulate(buffer, there.clone()).unwrap();
                }
                let begun = Instant::now();
                for (number, buffer) in buffers.iter_mut().enumerate() {
                    let receiver = &mut self.receivers[number % associations];
                    black_box(receiver.decapsulate(&mut buffer[sent.clone()])).unwrap();
                }
                begun.elapsed()
            }
            Way::RawOut => {
                let begun = Instant::now();
                for buffer in buffers.iter_mut() {
                    let (body, code) = buffer[body.start..body.end + 16].split_at_mut(body_len);
                    (self.raw.seal)(body, code);
                }
                begun.elapsed()
            }
            Way::RawIn => {
                for buffer in buffers.iter_mut() {
                    let (body, code) = buffer[body.start..body.end + 16].split_at_mut(body_len);
                    (self.raw.seal)(body, code);
                }
                let begun = Instant::now();
                for buffer in buffers.iter_mut() {
                    let (body, code) = buffer[body.start..body.end + 16].split_at_mut(body_len);
                    (self.raw.open)(body, code);
                }
                begun.elapsed()
            }
        };
        lasted.as_nanos() as f64 / count as f64
    }
}

fn main() {
    let options = options();
    let mut buffers = vec![vec![0; BUFFER]; options.set];
    let mut cases = vec![];
    for suite in Suite::ALL {
        for mode in ["transport", "tunnel"] {
            for size in SIZES {
                for way in Way::ALL {
                    cases.push(Case::new(suite, mode, size, way, options.associations));
                }
            }
        }
    }
    for round in 0..options.rounds {
        for case in &mut cases {
            // The first time fills caches and predictors.
            if options.set <= 64 {
                case.round(&mut buffers);
            }
            let ns = case.round(&mut buffers);
            println!(
                "{{\"round\":{round},\"suite\":\"{}\",\"mode\":\"{}\",\"way\":\"{}\",\"bytes\":{},\"ns\":{ns}}}",
                case.suite.name(),
                case.mode,
                case.way.name(),
                case.size,
            );
        }
    }
}
