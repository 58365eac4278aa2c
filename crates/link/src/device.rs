//! A measured device: one server and one finite queue for all interfaces, and interruptions behind the server.
//!
//! `docs/model-format.md` is the specification, `weirlab.model.process` the reference. What the device does is
//! given on a grid of loads ([`Behaviour`]), which the model fills; there is no clock.

use std::collections::VecDeque;

use thiserror::Error;

/// Streams of interruptions.
const STREAMS: usize = 4;
const WIDTH: usize = 2 + STREAMS;
const MOST_PACKETS: u64 = 256;
const FEW_PACKETS: u64 = 64;
const SHORTEST_NS: f64 = 10e6;
const LONGEST_NS: f64 = 1e9;
/// Of ln(load): random gaps change that of 256 packets by 0.06, so this is no accident.
const CHANGE: f64 = 0.3;
/// Just above the threshold delays spread from none to those of a full queue, which still takes bursts.
const LEAST_PLACES: f64 = 16.0;

/// What a device does at loads `rhos` times the threshold, at `positions` and for frames of `frames_bytes`.
#[derive(Clone, Debug, PartialEq)]
pub struct Behaviour {
    /// Matching positions, rising.
    pub positions: Vec<f64>,
    /// Sizes with FCS, rising.
    pub frames_bytes: Vec<f64>,
    /// Loads over the threshold, rising.
    pub rhos: Vec<f64>,
    /// By position and size.
    pub service_ns: Vec<f64>,
    /// By position, size and load: floor, share lost before the queue, and a slope for each stream.
    pub states: Vec<f64>,
    /// Places below the threshold, the one in service included.
    pub queue_packets: f64,
    /// The lowest profiled load.
    pub rate_min_pps: f64,
}

/// A grid that is none.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("the behaviour of a device has {0}")]
pub struct BehaviourError(&'static str);

impl Behaviour {
    /// Whether shapes fit and axes rise.
    ///
    /// # Errors
    /// [`BehaviourError`] names what does not.
    pub fn check(&self) -> Result<(), BehaviourError> {
        for axis in [&self.positions, &self.frames_bytes, &self.rhos] {
            if axis.is_empty() || axis.windows(2).any(|pair| pair[0] >= pair[1]) {
                return Err(BehaviourError("an axis that does not rise"));
            }
        }
        let n = self.positions.len() * self.frames_bytes.len();
        if self.service_ns.len() != n || self.states.len() != n * self.rhos.len() * WIDTH {
            return Err(BehaviourError("values that do not fit its axes"));
        }
        let is_bad = |value: &f64| !value.is_finite() || *value < 0.0;
        if self.states.iter().any(is_bad) || self.service_ns.iter().any(|ns| is_bad(ns) || *ns == 0.0) {
            return Err(BehaviourError("a value that is negative or not a number"));
        }
        if !(self.queue_packets >= 1.0 && self.rate_min_pps > 0.0) {
            return Err(BehaviourError("no queue or no lowest load"));
        }
        Ok(())
    }

    /// Mean time that a packet occupies the server.
    fn service_ns(&self, position: f64, frame_bytes: f64) -> f64 {
        let mut sum = 0.0;
        for (place, share) in ends(&self.positions, position) {
            for (size, part) in ends(&self.frames_bytes, frame_bytes) {
                sum += share * part * self.service_ns[place * self.frames_bytes.len() + size];
            }
        }
        sum
    }

    fn state(&self, position: f64, frame_bytes: f64, rho: f64) -> [f64; WIDTH] {
        let mut sum = [0.0; WIDTH];
        for (place, of_place) in ends(&self.positions, position) {
            for (size, of_size) in ends(&self.frames_bytes, frame_bytes) {
                let row = (place * self.frames_bytes.len() + size) * self.rhos.len();
                for (load, of_load) in ends(&self.rhos, rho) {
                    let share = of_place * of_size * of_load;
                    let state = &self.states[(row + load) * WIDTH..][..WIDTH];
                    sum.iter_mut().zip(state).for_each(|(sum, value)| *sum += share * value);
                }
            }
        }
        sum
    }
}

/// The points around `at` and their weights.
fn ends(axis: &[f64], at: f64) -> [(usize, f64); 2] {
    let above = axis.partition_point(|point| *point <= at);
    if above == 0 || above == axis.len() {
        return [(above.saturating_sub(1), 1.0), (0, 0.0)];
    }
    let share = (at - axis[above - 1]) / (axis[above] - axis[above - 1]);
    [(above - 1, 1.0 - share), (above, share)]
}

/// SplitMix64.
#[derive(Clone, Debug)]
struct Uniform(u64);

impl Uniform {
    /// Above 0 and at most 1.
    fn draw(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

/// Packets since `begin_ns`, with the sums of their positions and frame sizes.
#[derive(Clone, Copy, Debug)]
struct ArrivalSum {
    begin_ns: f64,
    packets: u64,
    positions: f64,
    bytes: f64,
}

impl ArrivalSum {
    const fn since(begin_ns: f64) -> Self {
        Self { begin_ns, packets: 0, positions: 0.0, bytes: 0.0 }
    }

    fn add(&mut self, position: f64, frame_bytes: f64) {
        self.packets += 1;
        self.positions += position;
        self.bytes += frame_bytes;
    }

    /// Rate, mean position and mean frame size.
    fn load(&self, until_ns: f64) -> [f64; 3] {
        let n = self.packets as f64;
        [n * 1e9 / (until_ns - self.begin_ns), self.positions / n, self.bytes / n]
    }
}

/// What the device knows of its load.
#[derive(Clone, Copy, Debug)]
struct Watch {
    window: ArrivalSum,
    /// Packets among which a change shows before the window is over.
    block: ArrivalSum,
    /// Packets that end a window.
    wanted: u64,
    /// How long a block lasts at most, and what share of its time the server works at the load of the state.
    longest_ns: f64,
    work: f64,
}

impl Watch {
    /// Whether a block has all its packets, or fewer in twice their time.
    fn is_block_over(&self, at_ns: f64) -> bool {
        let (lasts_ns, packets) = (at_ns - self.block.begin_ns, self.block.packets);
        lasts_ns > 0.0 && (packets >= MOST_PACKETS || (packets >= 2 && lasts_ns >= self.longest_ns))
    }
}

/// Twice the time of a block at the rate of the state.
fn longest_ns(rate_pps: f64) -> f64 {
    2e9 * MOST_PACKETS as f64 / rate_pps
}

/// What a packet meets on arrival.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Admission {
    /// It is lost before the queue.
    pub is_lost: bool,
    /// Places of the queue, the one in service included.
    pub places: usize,
    /// How long it will occupy the server.
    pub service_ns: f64,
}

/// The device, apart from its queue.
#[derive(Clone, Debug)]
pub struct MeasuredDevice {
    behaviour: Behaviour,
    uniform: Uniform,
    /// `None` before the first packet.
    watch: Option<Watch>,
    places: usize,
    drop_ratio: f64,
    floor_ns: f64,
    lengths_ns: [f64; STREAMS],
    rates: [f64; STREAMS],
    began_ns: [f64; STREAMS],
    served_ns: f64,
}

impl MeasuredDevice {
    /// An idle device.
    ///
    /// # Errors
    /// [`BehaviourError`].
    pub fn new(behaviour: Behaviour, seed: u64) -> Result<Self, BehaviourError> {
        behaviour.check()?;
        Ok(Self {
            behaviour,
            uniform: Uniform(seed),
            watch: None,
            places: 1,
            drop_ratio: 0.0,
            floor_ns: 0.0,
            lengths_ns: [0.0; STREAMS],
            rates: [0.0; STREAMS],
            began_ns: [f64::NEG_INFINITY; STREAMS],
            served_ns: f64::NEG_INFINITY,
        })
    }

    /// A packet of `frame_bytes` (FCS included) comes at `at_ns`, which never falls.
    pub fn arrive(&mut self, at_ns: f64, position: f64, frame_bytes: f64) -> Admission {
        self.observe(at_ns, position, frame_bytes);
        Admission {
            is_lost: self.drop_ratio > 0.0 && self.uniform.draw() <= self.drop_ratio,
            places: self.places,
            service_ns: self.behaviour.service_ns(position, frame_bytes),
        }
    }

    /// Time behind the server of a packet that was served at `at_ns`, which never falls.
    pub fn behind_ns(&mut self, at_ns: f64) -> f64 {
        let mut most_ns = 0.0_f64;
        for stream in 0..STREAMS {
            if self.rates[stream] <= 0.0 {
                continue;
            }
            let began_ns = at_ns + self.uniform.draw().ln() / self.rates[stream];
            if began_ns > self.served_ns {
                self.began_ns[stream] = began_ns;
            }
            most_ns = most_ns.max(self.lengths_ns[stream] - (at_ns - self.began_ns[stream]));
        }
        self.served_ns = at_ns;
        self.floor_ns + most_ns
    }

    /// The load is that of the last window that is over. A change makes windows short.
    fn observe(&mut self, at_ns: f64, position: f64, frame_bytes: f64) {
        let begin = ArrivalSum::since(at_ns);
        let mut watch = self.watch.unwrap_or_else(|| {
            let rate_pps = self.behaviour.rate_min_pps;
            let work = self.settle([rate_pps, position, frame_bytes]);
            Watch { window: begin, block: begin, wanted: 2, longest_ns: longest_ns(rate_pps), work }
        });
        let (lasts_ns, packets) = (at_ns - watch.window.begin_ns, watch.window.packets);
        let is_full = packets >= watch.wanted && (watch.wanted < MOST_PACKETS || lasts_ns >= SHORTEST_NS);
        if lasts_ns > 0.0 && (is_full || (packets >= 2 && lasts_ns >= LONGEST_NS)) {
            let load = watch.window.load(at_ns);
            (watch.longest_ns, watch.work) = (longest_ns(load[0]), self.settle(load));
            watch.wanted = (2 * watch.wanted).min(MOST_PACKETS);
            (watch.window, watch.block) = (begin, begin);
        } else if watch.wanted == MOST_PACKETS && watch.is_block_over(at_ns) {
            let [rate_pps, mean_position, mean_bytes] = watch.block.load(at_ns);
            let work = rate_pps * self.behaviour.service_ns(mean_position, mean_bytes) / 1e9;
            watch.block = begin;
            if (work / watch.work).ln().abs() > CHANGE {
                (watch.wanted, watch.window) = (FEW_PACKETS, begin);
            }
        }
        watch.window.add(position, frame_bytes);
        watch.block.add(position, frame_bytes);
        self.watch = Some(watch);
    }

    /// Takes the state of a load (rate, mean position and frame size); returns the rate times the service time.
    fn settle(&mut self, [rate_pps, position, frame_bytes]: [f64; 3]) -> f64 {
        let service_ns = self.behaviour.service_ns(position, frame_bytes);
        let rho = rate_pps.max(self.behaviour.rate_min_pps) * service_ns / 1e9;
        let [floor_ns, drop_ratio, slopes @ ..] = self.behaviour.state(position, frame_bytes, rho);
        let (places, queue_ns) = if rho > 1.0 {
            let least = self.behaviour.queue_packets.min(LEAST_PLACES);
            let places = (floor_ns / service_ns).floor().max(least);
            // A queue that is full holds a packet for all but the rest of the time inside.
            (places, places * service_ns - 0.5e9 / rate_pps)
        } else {
            (self.behaviour.queue_packets, service_ns)
        };
        self.places = places as usize;
        self.drop_ratio = drop_ratio;
        self.floor_ns = (floor_ns - queue_ns).max(0.0);
        // -ln of the shares of packets at the floor, up to p50, p90, p99, and the longest delay.
        let levels = [3.0, -0.5_f64.ln(), -0.9_f64.ln(), -0.99_f64.ln(), 0.0];
        let mut length_ns = 0.0;
        for stream in 0..STREAMS {
            length_ns += (levels[stream] - levels[stream + 1]) * slopes[stream];
            self.lengths_ns[stream] = length_ns;
            let rarer = slopes.get(stream + 1).map_or(0.0, |slope| slope.recip());
            self.rates[stream] = if slopes[stream] > 0.0 { slopes[stream].recip() - rarer } else { 0.0 };
        }
        rate_pps * service_ns / 1e9
    }
}

/// A measured device with its queue: what becomes of packets of either direction.
#[derive(Clone, Debug)]
pub struct DeviceQueue {
    device: MeasuredDevice,
    /// When each packet inside leaves its place.
    inside_ns: VecDeque<f64>,
    last_ns: f64,
    free_ns: f64,
    left_ns: f64,
}

impl DeviceQueue {
    /// An idle device.
    #[must_use]
    pub const fn new(device: MeasuredDevice) -> Self {
        Self { device, inside_ns: VecDeque::new(), last_ns: 0.0, free_ns: 0.0, left_ns: 0.0 }
    }

    /// When a packet that comes at `at_ns` leaves, or `None` when it is dropped. A time before that of the last
    /// arrival counts as that time.
    pub fn pass(&mut self, at_ns: f64, position: f64, frame_bytes: f64) -> Option<f64> {
        let at_ns = at_ns.max(self.last_ns);
        self.last_ns = at_ns;
        let Admission { is_lost, places, service_ns } = self.device.arrive(at_ns, position, frame_bytes);
        while self.inside_ns.front().is_some_and(|&leaves_ns| leaves_ns <= at_ns) {
            self.inside_ns.pop_front();
        }
        if is_lost || self.inside_ns.len() >= places {
            return None;
        }
        self.free_ns = self.free_ns.max(at_ns) + service_ns;
        self.inside_ns.push_back(self.free_ns);
        self.left_ns = self.left_ns.max(self.free_ns + self.device.behind_ns(self.free_ns));
        Some(self.left_ns)
    }
}

#[cfg(test)]
mod tests;
