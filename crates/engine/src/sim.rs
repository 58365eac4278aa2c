//! A simulated device: one server with a finite queue, event by event, on the same plan and
//! with the same accounting as the real back ends.

use std::collections::VecDeque;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, Gamma};
use thiserror::Error;
use weir_wire::Probe;

use crate::account::Account;
use crate::layout::RxConfig;
use crate::outcome::{Backend, Outcome, Received, Sent};
use crate::plan::Plan;
use crate::schedule::Cursor;

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
    /// Matching position of the test traffic.
    pub position: f64,
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
            ("position", self.position),
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
        if self.unpaced_gap_ns == 0 {
            return Err(positive("unpaced_gap_ns", 0.0));
        }
        match self.noise {
            Noise::Gamma(cv) if !(cv.is_finite() && cv > 0.0) => Err(positive("noise_cv", cv)),
            _ => Ok(()),
        }
    }

    fn service_ns(&self, frame_bytes: f64) -> f64 {
        let rules = self.service_fixed_ns
            + self.service_per_rule_ns * self.position
            + self.service_per_byte_ns * frame_bytes;
        rules.max(self.io_service_ns)
    }
}

const FCS: f64 = 4.0;
const MAGIC: u16 = 1;

/// Sends a plan through a simulated device.
///
/// # Errors
/// [`DeviceError`] when a parameter makes no sense.
pub fn simulate(plan: &Plan, device: &Device) -> Result<Outcome, DeviceError> {
    device.check()?;
    // The trial begins at an arbitrary instant: 0 would be mistaken for "never".
    let start_ns = 1_000_000_000;
    let window = (start_ns + plan.warmup_ns, start_ns + plan.total_ns());
    let mut account = Account::new(RxConfig {
        record_start_ns: window.0,
        record_end_ns: window.1,
        n_flows: plan.flows.len() as u32,
        bin_ns: plan.bin_ns,
        n_bins: plan.n_bins() as u32,
        magic: MAGIC,
        skip: 0,
        armed: 1,
    });
    let mut sent = Sent::new(plan.n_bins(), plan.flows.len());
    let mut next_seq = vec![0u32; plan.flows.len()];
    let mut server = Server::new(device);
    let mut cursor = Cursor::new(plan);
    let mut now_ns = 0;
    while let Some(departure) = cursor.next(now_ns) {
        now_ns = departure.due_ns + device.unpaced_gap_ns;
        let time_ns = start_ns + departure.due_ns;
        let seq = &mut next_seq[departure.flow as usize];
        let probe = Probe { magic: MAGIC, flow: departure.flow, seq: *seq, time_ns };
        *seq = seq.wrapping_add(1);
        sent.depart(departure.flow, time_ns, window, u64::from(plan.bin_ns));
        if let Some(delay_ns) = server.pass(departure.due_ns as f64, f64::from(departure.length) + FCS) {
            account.arrive(&probe, time_ns + delay_ns.round() as u64);
        }
    }
    let received = Received {
        totals: account.totals,
        histogram: account.histogram,
        bins: account.bins,
        flows: account.flows,
        dropped: 0,
    };
    Ok(Outcome::join(Backend::Sim, window, &sent, &received))
}

struct Server<'a> {
    device: &'a Device,
    /// When each packet inside leaves, in order.
    leaving_ns: VecDeque<f64>,
    free_ns: f64,
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
        Self {
            device,
            leaving_ns: VecDeque::with_capacity(device.queue_packets),
            free_ns: 0.0,
            last_out_ns: 0.0,
            noise,
            random: SmallRng::seed_from_u64(device.seed),
        }
    }

    /// The delay of a packet that comes at `at_ns`, or `None` when the queue is full.
    fn pass(&mut self, at_ns: f64, frame_bytes: f64) -> Option<f64> {
        while self.leaving_ns.front().is_some_and(|&leaves| leaves <= at_ns) {
            self.leaving_ns.pop_front();
        }
        if self.leaving_ns.len() >= self.device.queue_packets {
            return None;
        }
        let factor = self.noise.map_or(1.0, |noise| noise.sample(&mut self.random));
        self.free_ns = self.free_ns.max(at_ns) + self.device.service_ns(frame_bytes) * factor;
        self.leaving_ns.push_back(self.free_ns);
        let base = self.device.base_delay_ns + self.device.base_per_byte_ns * frame_bytes;
        self.last_out_ns = self.last_out_ns.max(self.free_ns + base); // packets keep their order
        Some(self.last_out_ns - at_ns)
    }
}

impl Sent {
    /// Counts a departure.
    pub fn depart(&mut self, flow: u32, time_ns: u64, window: (u64, u64), bin_ns: u64) {
        if time_ns < window.0 || time_ns >= window.1 {
            self.warmup += u64::from(time_ns < window.0);
            return;
        }
        if self.recorded == 0 {
            self.first_ns = time_ns;
        }
        self.last_ns = time_ns;
        self.recorded += 1;
        self.flows[flow as usize] += 1;
        self.bins[((time_ns - window.0) / bin_ns) as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Entry, NEXT_FLOW, Phase};
    use crate::schedule::tests::plan;

    const DEVICE: Device = Device {
        service_fixed_ns: 1_000.0,
        service_per_rule_ns: 2.0,
        service_per_byte_ns: 0.0,
        io_service_ns: 0.0,
        queue_packets: 256,
        base_delay_ns: 5_000.0,
        base_per_byte_ns: 0.0,
        noise: Noise::None,
        position: 0.0,
        unpaced_gap_ns: 200,
        seed: 1,
    };

    fn run(gap_ns: u32, device: &Device) -> Outcome {
        let entry = Entry { gap_ns, gap_frac: 0, length: 60, flow: NEXT_FLOW };
        let end_ns = 100_000_000;
        let mut plan = plan(vec![entry], vec![Phase { end_ns, first_entry: 0, n_entries: 1 }], 1, true);
        plan.warmup_ns = 20_000_000;
        plan.duration_ns = 80_000_000;
        simulate(&plan, device).expect("valid device")
    }

    #[test]
    fn below_the_threshold_nothing_is_lost_and_delay_is_base_plus_service() {
        let outcome = run(2_000, &DEVICE);
        let flow = outcome.flows[0];
        assert_eq!(flow.sent, 40_000);
        assert_eq!(flow.received, 40_000);
        assert_eq!((flow.delay_min_ns, flow.delay_max_ns), (6_000, 6_000));
    }

    #[test]
    fn above_the_threshold_loss_is_the_excess_and_delay_the_full_queue() {
        let outcome = run(500, &DEVICE);
        let flow = outcome.flows[0];
        let loss = 1.0 - flow.received as f64 / flow.sent as f64;
        assert!((loss - 0.5).abs() < 0.001, "{loss}");
        let mean = flow.delay_sum_ns as f64 / flow.received as f64;
        assert!((mean - 261_000.0).abs() < 1_000.0, "{mean}");
    }

    #[test]
    fn rules_make_the_device_slower() {
        let outcome = run(500, &Device { position: 500.0, ..DEVICE });
        let flow = outcome.flows[0];
        assert!((flow.received as f64 / flow.sent as f64 - 0.25).abs() < 0.001);
    }

    #[test]
    fn the_slower_stage_sets_the_pace() {
        let device = Device { io_service_ns: 2_000.0, position: 100.0, ..DEVICE };
        let flow = run(500, &device).flows[0];
        assert!((flow.received as f64 / flow.sent as f64 - 0.25).abs() < 0.001);
    }

    #[test]
    fn noise_keeps_the_mean_service_time() {
        let flow = run(500, &Device { noise: Noise::Gamma(0.5), ..DEVICE }).flows[0];
        assert!((flow.received as f64 / flow.sent as f64 - 0.5).abs() < 0.01);
    }

    #[test]
    fn the_same_seed_gives_the_same_outcome() {
        let device = Device { noise: Noise::Gamma(1.0), ..DEVICE };
        assert_eq!(run(900, &device).histogram, run(900, &device).histogram);
    }

    #[test]
    fn a_device_without_a_queue_is_refused() {
        assert!(Device { queue_packets: 0, ..DEVICE }.check().is_err());
    }
}
