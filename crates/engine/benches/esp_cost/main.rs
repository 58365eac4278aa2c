//! What a packet costs, one JSON document per line and round; `bench/esp.py` runs it and works it out.
//!
//! Every case takes its turn in every round, so that a slow moment of the machine hits all of them. `--set 64`
//! packets stay in the CPU's caches ("warm"), `--set 32768` do not ("cold"). `--associations` are used in turn, which
//! is what many flows cost. Beside the engine's own ways are the algorithms alone, over as many bytes.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

mod raw;

use std::time::Instant;

use raw::{Raw, raw};
use weir_engine::esp_cost::{CostWay, EspCost, PacketSet, SIZES as POSSIBLE, START};
use weir_esp::Suite;

/// IP packets in the clear: G.711 of 10 to 60 ms, then up to the MTU.
const SIZES: [usize; 11] = [64, 120, 200, 280, 360, 440, 520, 760, 1000, 1400, 1500];

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
    assert!(options.sizes.iter().all(|size| POSSIBLE.contains(size)), "--sizes: 64 to 1500");
    options
}

/// A suite in one mode.
struct Keyed {
    suite: Suite,
    mode: &'static str,
    cost: EspCost,
    raw: Raw,
}

impl Keyed {
    fn new(suite: Suite, mode: &'static str, associations: usize) -> Self {
        let cost = EspCost::new(suite, mode == "tunnel", associations).unwrap();
        Self { suite, mode, cost, raw: raw(suite) }
    }

    /// What is encrypted, or only authenticated, of each packet.
    fn body_len(&self, size: usize) -> usize {
        let protected = if self.mode == "tunnel" { size } else { size - 20 };
        (protected + 2).div_ceil(self.suite.align()) * self.suite.align()
    }

    /// ns per packet of the algorithms alone: sealing, then opening.
    fn raw_round(&self, size: usize, set: &mut PacketSet) -> [(&'static str, f64); 2] {
        let body_len = self.body_len(size);
        set.fill(size, true);
        let packets = set.buffers_mut().len() as f64;
        let begun = Instant::now();
        for buffer in set.buffers_mut() {
            let (body, code) = buffer[START..START + body_len + 16].split_at_mut(body_len);
            (self.raw.seal)(body, code);
        }
        let sealed = begun.elapsed();
        let begun = Instant::now();
        for buffer in set.buffers_mut() {
            let (body, code) = buffer[START..START + body_len + 16].split_at_mut(body_len);
            (self.raw.open)(body, code);
        }
        [
            ("raw-out", sealed.as_nanos() as f64 / packets),
            ("raw-in", begun.elapsed().as_nanos() as f64 / packets),
        ]
    }
}

fn main() {
    let options = options();
    let mut set = PacketSet::new(options.set).unwrap();
    let mut keyed = vec![];
    for suite in Suite::ALL {
        for mode in ["transport", "tunnel"] {
            keyed.push(Keyed::new(suite, mode, options.associations));
        }
    }
    for round in 0..options.rounds {
        for one in &mut keyed {
            let (suite, mode) = (one.suite.name(), one.mode);
            let say = |way: &str, size: usize, ns: f64| {
                println!(
                    "{{\"round\":{round},\"suite\":\"{suite}\",\"mode\":\"{mode}\",\"way\":\"{way}\",\"bytes\":{size},\"ns\":{ns}}}"
                );
            };
            for &size in &options.sizes {
                // The first time fills caches and predictors.
                let again = if options.set <= 64 { 2 } else { 1 };
                for way in CostWay::ALL {
                    let rounds = (0..again).map(|_| one.cost.round(way, size, &mut set).unwrap());
                    say(way.name(), size, rounds.last().unwrap());
                }
                let rounds = (0..again).map(|_| one.raw_round(size, &mut set));
                for (way, ns) in rounds.last().unwrap() {
                    say(way, size, ns);
                }
            }
        }
    }
}
