//! What a packet costs, one JSON document per line and round; `bench/esp.py` runs it and works it out.
//!
//! Every case takes its turn in every round, so that a slow moment of the machine hits all of them. In a round a
//! case handles a set of packets, each in a buffer of its own; only that is timed, not what is set up for it.
//! `--set 64` packets stay in the CPU's caches ("warm"), `--set 32768` do not ("cold"). `--associations` are used
//! in turn, which is what many flows cost.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

mod endpoint;
mod raw;

use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

use endpoint::Endpoint;
use raw::{Raw, raw};
use weir_esp::{Association, Inbound, Mode, Outbound, Slot, Suite};

/// Room around and for a packet.
const BUFFER: usize = 2048;
const START: usize = 128;
const KEY: [u8; 36] = [0x5a; 36];

/// IP packets in the clear: G.711 of 10 to 60 ms, then up to the MTU.
const SIZES: [usize; 11] = [64, 120, 200, 280, 360, 440, 520, 760, 1000, 1400, 1500];
/// What UDP adds to a packet of the same speech.
const UDP_LEN: usize = 8;

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
    /// Decapsulated and handed to its call: with UDP, without, by way of the system.
    EndpointUdp,
    EndpointRtp,
    EndpointSystem,
}

impl Way {
    const ALL: [Self; 8] = [
        Self::Out,
        Self::OutEach,
        Self::In,
        Self::RawOut,
        Self::RawIn,
        Self::EndpointUdp,
        Self::EndpointRtp,
        Self::EndpointSystem,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::OutEach => "out-each",
            Self::In => "in",
            Self::RawOut => "raw-out",
            Self::RawIn => "raw-in",
            Self::EndpointUdp => "endpoint-udp",
            Self::EndpointRtp => "endpoint-rtp",
            Self::EndpointSystem => "endpoint-system",
        }
    }

    /// Whether it is an endpoint's: in transport mode only.
    const fn is_endpoint(self) -> bool {
        matches!(self, Self::EndpointUdp | Self::EndpointRtp | Self::EndpointSystem)
    }
}

struct Options {
    rounds: usize,
    set: usize,
    associations: usize,
    sizes: Vec<usize>,
}

fn options() -> Options {
    let mut options = Options { rounds: 40, set: 64, associations: 1, sizes: SIZES.to_vec() };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        // Cargo's own.
        if name == "--bench" {
            continue;
        }
        let text = arguments.next().unwrap_or_default();
        let numbers: Vec<usize> = text.split(',').map(|each| each.parse().unwrap_or(0)).collect();
        assert!(!numbers.contains(&0), "{name} {text:?}: expected numbers, at least 1");
        match name.as_str() {
            "--rounds" => options.rounds = numbers[0],
            "--set" => options.set = numbers[0],
            "--associations" => options.associations = numbers[0],
            "--sizes" => options.sizes = numbers,
            _ => panic!("unknown option {name}; there are --rounds, --set, --associations and --sizes"),
        }
    }
    assert!(options.sizes.iter().all(|size| (64..=1500).contains(size)), "--sizes: 64 to 1500");
    options
}

/// What all cases of a suite and a mode share: keys, and numbers that go on.
struct Keyed {
    suite: Suite,
    mode: &'static str,
    senders: Vec<Outbound>,
    receivers: Vec<Inbound>,
    /// Whose turn it is next.
    turn: usize,
    raw: Raw,
}

impl Keyed {
    fn new(suite: Suite, mode: &'static str, associations: usize) -> Self {
        let chosen = match mode {
            "tunnel" => Mode::Tunnel { source: [192, 0, 2, 1].into(), destination: [192, 0, 2, 2].into() },
            _ => Mode::Transport,
        };
        let of = |number| Association {
            spi: 0x1000 + number as u32,
            suite,
            encryption_key: &KEY[..suite.encryption_key_lens()[0]],
            authentication_key: &KEY[..suite.authentication_key_len()],
            mode: chosen,
            udp: None,
            esn: false,
        };
        let senders = (0..associations).map(|number| Outbound::new(&of(number), &[1; 16]).unwrap());
        let receivers = (0..associations).map(|number| Inbound::new(&of(number), 64).unwrap());
        let (senders, receivers) = (senders.collect(), receivers.collect());
        Self { suite, mode, senders, receivers, turn: 0, raw: raw(suite) }
    }

    /// What is encrypted, or only authenticated, of each packet.
    fn body_len(&self, size: usize) -> usize {
        let protected = if self.mode == "tunnel" { size } else { size - 20 };
        (protected + 2).div_ceil(self.suite.align()) * self.suite.align()
    }

    fn sender(&mut self, number: usize) -> &mut Outbound {
        let associations = self.senders.len();
        &mut self.senders[(self.turn + number) % associations]
    }

    fn receiver(&mut self, number: usize) -> &mut Inbound {
        let associations = self.receivers.len();
        &mut self.receivers[(self.turn + number) % associations]
    }

    /// Encapsulates them all; where the results are.
    fn send_all(&mut self, buffers: &mut [Vec<u8>], there: Range<usize>) -> Range<usize> {
        let mut sent = there.clone();
        for (number, buffer) in buffers.iter_mut().enumerate() {
            sent = self.sender(number).encapsulate(buffer, there.clone()).unwrap();
        }
        sent
    }

    /// ns per packet in one round.
    fn round(&mut self, way: Way, size: usize, buffers: &mut [Vec<u8>], endpoint: &mut Endpoint) -> f64 {
        let in_udp = way != Way::EndpointRtp;
        let len = if in_udp { size } else { size - UDP_LEN };
        let there = START..START + len;
        for (number, buffer) in buffers.iter_mut().enumerate() {
            endpoint::write(&mut buffer[there.clone()], number, in_udp);
        }
        let body_len = self.body_len(size);
        let lasted = match way {
            Way::Out => {
                let begun = Instant::now();
                for (number, buffer) in buffers.iter_mut().enumerate() {
                    black_box(self.sender(number).encapsulate(buffer, there.clone())).unwrap();
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
                    self.sender(number).encapsulate_each(group);
                }
                let lasted = begun.elapsed();
                assert!(slots.iter().all(|slot| slot.error.is_none()));
                lasted
            }
            Way::In => {
                let sent = self.send_all(buffers, there);
                let begun = Instant::now();
                for (number, buffer) in buffers.iter_mut().enumerate() {
                    black_box(self.receiver(number).decapsulate(&mut buffer[sent.clone()])).unwrap();
                }
                begun.elapsed()
            }
            Way::RawOut => {
                let begun = Instant::now();
                for buffer in buffers.iter_mut() {
                    let (body, code) = body_and_code(buffer, body_len);
                    (self.raw.seal)(body, code);
                }
                begun.elapsed()
            }
            Way::RawIn => {
                for buffer in buffers.iter_mut() {
                    let (body, code) = body_and_code(buffer, body_len);
                    (self.raw.seal)(body, code);
                }
                let begun = Instant::now();
                for buffer in buffers.iter_mut() {
                    let (body, code) = body_and_code(buffer, body_len);
                    (self.raw.open)(body, code);
                }
                begun.elapsed()
            }
            Way::EndpointUdp => self.taken(buffers, there, |packet| endpoint.take_udp(packet)),
            Way::EndpointRtp => self.taken(buffers, there, |packet| endpoint.take_rtp(packet)),
            Way::EndpointSystem => self.taken(buffers, there, |packet| endpoint.take_by_system(packet)),
        };
        self.turn += buffers.len();
        lasted.as_nanos() as f64 / buffers.len() as f64
    }

    /// Decapsulates packet by packet, and has each taken before the next.
    fn taken(
        &mut self,
        buffers: &mut [Vec<u8>],
        there: Range<usize>,
        mut take: impl FnMut(&[u8]),
    ) -> std::time::Duration {
        let sent = self.send_all(buffers, there);
        let begun = Instant::now();
        for (number, buffer) in buffers.iter_mut().enumerate() {
            let packet = &mut buffer[sent.clone()];
            let inside = self.receiver(number).decapsulate(packet).unwrap();
            take(&packet[inside]);
        }
        begun.elapsed()
    }
}

fn body_and_code(buffer: &mut [u8], body_len: usize) -> (&mut [u8], &mut [u8]) {
    buffer[START..START + body_len + 16].split_at_mut(body_len)
}

fn main() {
    let options = options();
    let mut buffers = vec![vec![0; BUFFER]; options.set];
    let mut endpoint = Endpoint::new();
    let mut keyed = vec![];
    for suite in Suite::ALL {
        for mode in ["transport", "tunnel"] {
            keyed.push(Keyed::new(suite, mode, options.associations));
        }
    }
    for round in 0..options.rounds {
        for one in &mut keyed {
            for &size in &options.sizes {
                for way in Way::ALL {
                    if way.is_endpoint() && one.mode == "tunnel" {
                        continue;
                    }
                    // The first time fills caches and predictors.
                    if options.set <= 64 {
                        one.round(way, size, &mut buffers, &mut endpoint);
                    }
                    let ns = one.round(way, size, &mut buffers, &mut endpoint);
                    println!(
                        "{{\"round\":{round},\"suite\":\"{}\",\"mode\":\"{}\",\"way\":\"{}\",\"bytes\":{size},\"ns\":{ns}}}",
                        one.suite.name(),
                        one.mode,
                        way.name(),
                    );
                }
            }
        }
    }
}
