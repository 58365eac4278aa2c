//! A simulated device: servers with a finite queue each, event by event, on the same plan and
//! with the same accounting as the real back ends.

mod server;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thiserror::Error;
use weir_link::{Behaviour, BehaviourError, MeasuredDevice};
use weir_wire::Probe;

use crate::account::Account;
use crate::outcome::{Backend, Outcome, Sent};
use crate::plan::{Impairment, Macs, Numbers, Plan, PlanError, Side};
use crate::schedule::Cursor;
use crate::window::Window;
use server::{Server, looks};

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
    /// Most packets that the device holds, including the one in service.
    pub queue_packets: usize,
    /// Delay independent of the queue.
    pub base_delay_ns: f64,
    /// The same, per byte.
    pub base_per_byte_ns: f64,
    /// Variation of the service time.
    pub noise: Noise,
    /// Interval at which other work takes the server.
    pub interrupt_every_ns: f64,
    /// For how long; 0: never.
    pub interrupt_ns: f64,
    /// Mean time between random disturbances, in which the host takes the CPU away.
    pub disturb_every_ns: f64,
    /// For how long; 0: never.
    pub disturb_ns: f64,
    /// Gap of a sender that sends as fast as it can.
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
    /// The traffic cannot be sent.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The behaviour of a measured device is none.
    #[error(transparent)]
    Behaviour(#[from] BehaviourError),
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
            ("disturb_ns", self.disturb_ns),
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
        for (name, value, lasts_ns, allowed) in [
            ("interrupt_every_ns", self.interrupt_every_ns, self.interrupt_ns, "longer than interrupt_ns"),
            ("disturb_every_ns", self.disturb_every_ns, self.disturb_ns, "longer than disturb_ns"),
        ] {
            // NaN must not pass either.
            if lasts_ns > 0.0 && (value <= lasts_ns || value.is_nan()) {
                return Err(DeviceError::Parameter { name, value, allowed });
            }
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

/// What the device does with the packets of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowPath {
    /// Their matching position.
    pub position: f64,
    /// The server, counted from 0, that serves them: each has a queue of its own.
    pub server: usize,
}

/// When a packet arrives; then its flow, its number in the flow, and when it departed.
type Arrival = Reverse<(u64, u32, u32, u64)>;

/// Sends a plan through a simulated device; `paths` has one entry per flow.
/// Both directions share its servers. With a `behaviour` each does as a measured device does; only what
/// takes servers away still comes from `device`.
///
/// # Errors
/// [`DeviceError`] when a parameter makes no sense, or packets of calls cannot be sent.
pub fn simulate(
    plan: &Plan,
    device: &Device,
    paths: &[FlowPath],
    behaviour: Option<Behaviour>,
) -> Result<Outcome, DeviceError> {
    device.check()?;
    check_paths(plan, paths)?;
    if plan.media.is_some() {
        let nobody = Macs { src: [0; 6], dst: [0; 6] };
        plan.headers(nobody, Some(nobody))?;
    }
    // The trial begins at an arbitrary instant: 0 would be mistaken for "never".
    let start_ns = 1_000_000_000;
    let window = Window::new(plan, start_ns, MAGIC);
    let is_back = |flow| plan.side(flow) == Side::Back;
    let mut forward = Account::new(window.rx_config(plan, Side::Forward));
    let goes_back = plan.media.as_ref().is_some_and(|media| media.goes_back());
    let mut back = goes_back.then(|| Account::new(window.rx_config(plan, Side::Back)));
    let mut sent = Sent::of(plan);
    let mut numbers = Numbers::new(plan.flows.len());
    let n_servers = paths.iter().map(|path| path.server + 1).max().unwrap_or(1);
    let mut servers = (0..n_servers as u64)
        .map(|number| {
            let seed = device.seed.wrapping_add(number);
            let measured = behaviour.clone().map(|found| MeasuredDevice::new(found, seed)).transpose()?;
            Ok(Server::new(device, plan, measured, seed))
        })
        .collect::<Result<Vec<_>, DeviceError>>()?;
    let mut hand_over = |Reverse((at_ns, flow, seq, time_ns)): Arrival| {
        let account = back.as_mut().filter(|_| is_back(flow as usize)).unwrap_or(&mut forward);
        account.arrive(&Probe { magic: MAGIC, flow, seq, time_ns }, at_ns);
    };
    // Packets that several servers hand over do not arrive in the order in which they departed.
    let mut underway: BinaryHeap<Arrival> = BinaryHeap::new();
    let mut cursor = Cursor::new(plan);
    let mut now_ns = 0;
    while let Some(departure) = cursor.next(now_ns) {
        now_ns = departure.due_ns + device.unpaced_gap_ns;
        let time_ns = start_ns + departure.due_ns;
        while underway.peek().is_some_and(|Reverse((at_ns, ..))| *at_ns <= time_ns) {
            underway.pop().into_iter().for_each(&mut hand_over);
        }
        let impairment = plan.impairment(&departure);
        let (seq, counts) = numbers.of(departure.flow, impairment);
        let probe = Probe { magic: MAGIC, flow: departure.flow, seq, time_ns };
        if counts {
            numbers.advance(departure.flow);
            sent.depart(&probe, 0, window.bounds(), u64::from(plan.bin_ns));
        }
        if impairment == Impairment::Lose {
            continue;
        }
        let FlowPath { position, server } = paths[departure.flow as usize];
        let frame_bytes = f64::from(departure.length) + FCS;
        if let Some(delay_ns) = servers[server].pass(departure.due_ns as f64, position, frame_bytes) {
            let arrival = Reverse((time_ns + delay_ns.round() as u64, probe.flow, probe.seq, time_ns));
            if n_servers == 1 {
                hand_over(arrival);
            } else {
                underway.push(arrival);
            }
        }
    }
    while let Some(first) = underway.pop() {
        hand_over(first);
    }
    sent.looks = if plan.windowed { looks(&servers, plan, start_ns) } else { Vec::new() };
    sent.n_watched = sent.looks.len().min(1);
    let mut received = forward.received(0);
    if let Some(back) = back {
        received = received.merge(back.received(0), is_back);
    }
    Ok(Outcome::join(Backend::Sim, window.bounds(), plan.windowed, &sent, received))
}

/// More than any device has CPUs.
const MOST_SERVERS: usize = 1024;

fn check_paths(plan: &Plan, paths: &[FlowPath]) -> Result<(), DeviceError> {
    let bad = |name, value, allowed| Err(DeviceError::Parameter { name, value, allowed });
    if paths.len() != plan.flows.len() {
        return bad("number of positions", paths.len() as f64, "one per flow");
    }
    for path in paths {
        if !path.position.is_finite() || path.position < 0.0 {
            return bad("position", path.position, "0 or more");
        }
        if path.server >= MOST_SERVERS {
            return bad("server", path.server as f64, "below 1024");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
