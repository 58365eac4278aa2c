//! A simulated device: one server with a finite queue, event by event, on the same plan and
//! with the same accounting as the real back ends.

use std::collections::VecDeque;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Gamma};
use thiserror::Error;
use weir_wire::Probe;

use crate::account::Account;
use crate::outcome::{Backend, Outcome, Sent};
use crate::plan::{Impairment, Macs, Numbers, Plan, PlanError, Side};
use crate::schedule::Cursor;
use crate::window::Window;

/// How the service time varies from packet to packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    /// Not at all.
    None,
    /// Gamma-distributed with this coefficient of variation (1: exponential).
    Gamma(f64),
}

/// The truth about a simulated device.
///
/// Service time of a packet of `L` frame bytes (FCS included) at matching position `n`:
/// `max(io_service_ns, service_fixed_ns + n * service_per_rule_ns + L * service_per_byte_ns)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Device {
    /// Part of the service time that every packet costs.
    pub service_fixed_ns: f64,
    /// Part per rule passed.
    pub service_per_rule_ns: f64,
    /// Part per byte.
    pub service_per_byte_ns: f64,
    /// A second stage in series: the slower one rules. 0: there is none.
    pub io_service_ns: f64,
    /// Packets that the device holds at most, the one in service included.
    pub queue_packets: usize,
    /// Delay that has nothing to do with the queue.
    pub base_delay_ns: f64,
    /// The same per byte.
    pub base_per_byte_ns: f64,
    /// Variation of the service time.
    pub noise: Noise,
    /// Once in this time other work takes the server.
    pub interrupt_every_ns: f64,
    /// For so long; 0: never.
    pub interrupt_ns: f64,
    /// Gap of a sender that is asked to send as fast as it can.
    pub unpaced_gap_ns: u64,
    /// Seed of the noise.
    pub seed: u64,
}

/// Why a device cannot be simulated.
#[derive(Debug, Error, PartialEq)]
pub enum DeviceError {
    /// A parameter is negative, not a number, or zero where it must not be.
    #[error("{name} of the simulated device is {value}; it must be {allowed}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The range in words.
        allowed: &'static str,
    },
    /// What is to go through it cannot be sent.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl Device {
    fn check(&self) -> Result<(), DeviceError> {
        let times = [
            ("service_fixed_ns", self.service_fixed_ns),
            ("service_per_rule_ns", self.service_per_rule_ns),
            ("service_per_byte_ns", self.service_per_byte_ns),
            ("io_service_ns", self.io_service_ns),
            ("base_delay_ns", self.base_delay_ns),
            ("base_per_byte_ns", self.base_per_byte_ns),
            ("interrupt_ns", self.interrupt_ns),
        ];
        for (name, value) in times {
            if !value.is_finite() || value < 0.0 {
                return Err(DeviceError::Parameter { name, value, allowed: "0 or more" });
            }
        }
        let positive = |name, value| DeviceError::Parameter { name, value, allowed: "more than 0" };
        if self.service_fixed_ns.max(self.io_service_ns) <= 0.0 {
            return Err(positive("service_fixed_ns", 0.0));
        }
        if self.queue_packets == 0 {
            return Err(positive("queue_packets", 0.0));
        }
        // NaN must not pass either.
        if self.interrupt_ns > 0.0
            && (self.interrupt_every_ns <= self.interrupt_ns || self.interrupt_every_ns.is_nan())
        {
            let (name, value) = ("interrupt_every_ns", self.interrupt_every_ns);
            return Err(DeviceError::Parameter { name, value, allowed: "longer than interrupt_ns" });
        }
        if self.unpaced_gap_ns == 0 {
            return Err(positive("unpaced_gap_ns", 0.0));
        }
        match self.noise {
            Noise::Gamma(cv) if !(cv.is_finite() && cv > 0.0) => Err(positive("noise_cv", cv)),
            _ => Ok(()),
        }
    }

    fn service_ns(&self, position: f64, frame_bytes: f64) -> f64 {
        let rules = self.service_fixed_ns
            + self.service_per_rule_ns * position
            + self.service_per_byte_ns * frame_bytes;
        rules.max(self.io_service_ns)
    }
}

const FCS: f64 = 4.0;
const MAGIC: u16 = 1;

/// Sends a plan through a simulated device; `positions` has the matching position of each flow.
/// Both directions share its one server.
///
/// # Errors
/// [`DeviceError`] when a parameter makes no sense, or packets of calls cannot be sent.
pub fn simulate(plan: &Plan, device: &Device, positions: &[f64]) -> Result<Outcome, DeviceError> {
    device.check()?;
    check_positions(plan, positions)?;
    if plan.media.is_some() {
        let nobody = Macs { src: [0; 6], dst: [0; 6] };
        plan.headers(nobody, Some(nobody))?;
    }
    // The trial begins at an arbitrary instant: 0 would be mistaken for "never".
    let start_ns = 1_000_000_000;
    let window = Window::new(plan, start_ns, MAGIC);
    let is_back = |flow| plan.side(flow) == Side::Back;
    let mut forward = Account::new(window.rx_config(plan));
    let goes_back = plan.media.as_ref().is_some_and(|media| media.goes_back());
    let mut back = goes_back.then(|| Account::new(window.rx_config(plan)));
    let mut sent = Sent::of(plan);
    let mut numbers = Numbers::new(plan.flows.len());
    let mut server = Server::new(device);
    let mut cursor = Cursor::new(plan);
    let mut now_ns = 0;
    while let Some(departure) = cursor.next(now_ns) {
        now_ns = departure.due_ns + device.unpaced_gap_ns;
        let time_ns = start_ns + departure.due_ns;
        let impairment = plan.impairment(&departure);
        let (seq, counts) = numbers.of(departure.flow, impairment);
        let probe = Probe { magic: MAGIC, flow: departure.flow, seq, time_ns };
        if counts {
            numbers.advance(departure.flow);
            sent.depart(&probe, window.bounds(), u64::from(plan.bin_ns));
        }
        if impairment == Impairment::Lose {
            continue;
        }
        let position = positions[departure.flow as usize];
        let frame_bytes = f64::from(departure.length) + FCS;
        if let Some(delay_ns) = server.pass(departure.due_ns as f64, position, frame_bytes) {
            let account = back.as_mut().filter(|_| is_back(departure.flow as usize)).unwrap_or(&mut forward);
            account.arrive(&probe, time_ns + delay_ns.round() as u64);
        }
    }
    let mut received = forward.received(0);
    if let Some(back) = back {
        received = received.merge(back.received(0), is_back);
    }
    Ok(Outcome::join(Backend::Sim, window.bounds(), &sent, received))
}

fn check_positions(plan: &Plan, positions: &[f64]) -> Result<(), DeviceError> {
    if positions.len() != plan.flows.len() {
        let (name, value) = ("number of positions", positions.len() as f64);
        return Err(DeviceError::Parameter { name, value, allowed: "one per flow" });
    }
    match positions.iter().find(|position| !position.is_finite() || **position < 0.0) {
        Some(&value) => Err(DeviceError::Parameter { name: "position", value, allowed: "0 or more" }),
        None => Ok(()),
    }
}

struct Server<'a> {
    device: &'a Device,
    /// When each packet inside leaves, in order.
    leaving_ns: VecDeque<f64>,
    free_ns: f64,
    /// When other work takes the server next.
    interrupt_at_ns: f64,
    last_out_ns: f64,
    noise: Option<Gamma<f64>>,
    random: SmallRng,
}

impl<'a> Server<'a> {
    fn new(device: &'a Device) -> Self {
        let noise = match device.noise {
            Noise::None => None,
            // Mean 1: shape 1/cv², scale cv². `check` has seen that both are positive.
            Noise::Gamma(cv) => Gamma::new(1.0 / (cv * cv), cv * cv).ok(),
        };
        let mut random = SmallRng::seed_from_u64(device.seed);
        let interrupt_at_ns = if device.interrupt_ns > 0.0 {
            random.random::<f64>() * device.interrupt_every_ns // no trial knows when
        } else {
            f64::INFINITY
        };
        Self {
            device,
            leaving_ns: VecDeque::with_capacity(device.queue_packets),
            free_ns: 0.0,
            interrupt_at_ns,
            last_out_ns: 0.0,
            noise,
            random,
        }
    }

    /// The delay of a packet that comes at `at_ns`, or `None` when the queue is full.
    fn pass(&mut self, at_ns: f64, position: f64, frame_bytes: f64) -> Option<f64> {
        while self.leaving_ns.front().is_some_and(|&leaves| leaves <= at_ns) {
            self.leaving_ns.pop_front();
        }
        if self.leaving_ns.len() >= self.device.queue_packets {
            return None;
        }
        let factor = self.noise.map_or(1.0, |noise| noise.sample(&mut self.random));
        let service_ns = self.device.service_ns(position, frame_bytes) * factor;
        self.serve(at_ns, service_ns);
        self.leaving_ns.push_back(self.free_ns);
        let base = self.device.base_delay_ns + self.device.base_per_byte_ns * frame_bytes;
        self.last_out_ns = self.last_out_ns.max(self.free_ns + base); // packets keep their order
        Some(self.last_out_ns - at_ns)
    }

    /// Moves `free_ns` behind the service of a packet that comes at `at_ns`.
    fn serve(&mut self, at_ns: f64, service_ns: f64) {
        let mut start_ns = self.free_ns.max(at_ns);
        while self.interrupt_at_ns <= start_ns {
            start_ns = start_ns.max(self.interrupt_at_ns + self.device.interrupt_ns);
            self.interrupt_at_ns += self.device.interrupt_every_ns;
        }
        self.free_ns = start_ns + service_ns;
        while self.interrupt_at_ns < self.free_ns {
            self.free_ns += self.device.interrupt_ns;
            self.interrupt_at_ns += self.device.interrupt_every_ns;
        }
    }
}

impl Sent {
    /// Counts a departure.
    pub fn depart(&mut self, probe: &Probe, window: (u64, u64), bin_ns: u64) {
        let (flow, time_ns) = (probe.flow as usize, probe.time_ns);
        if time_ns < window.0 || time_ns >= window.1 {
            self.warmup += u64::from(time_ns < window.0);
            return;
        }
        if self.recorded == 0 {
            self.first_ns = time_ns;
        }
        self.last_ns = time_ns;
        self.recorded += 1;
        if self.flows[flow] == 0
            && let Some(first) = self.first_seq.get_mut(flow)
        {
            *first = probe.seq;
        }
        self.flows[flow] += 1;
        self.bins[((time_ns - window.0) / bin_ns) as usize] += 1;
    }
}

#[cfg(test)]
mod tests;
