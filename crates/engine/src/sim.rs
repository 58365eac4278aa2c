//! A simulated device: one server with a finite queue, event by event, on the same plan and
//! with the same accounting as the real back ends.

use std::collections::VecDeque;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
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
///
/// # Errors
/// [`DeviceError`] when a parameter makes no sense.
pub fn simulate(plan: &Plan, device: &Device, positions: &[f64]) -> Result<Outcome, DeviceError> {
    device.check()?;
    check_positions(plan, positions)?;
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
        let position = positions[departure.flow as usize];
        let frame_bytes = f64::from(departure.length) + FCS;
        if let Some(delay_ns) = server.pass(departure.due_ns as f64, position, frame_bytes) {
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
        interrupt_every_ns: 0.0,
        interrupt_ns: 0.0,
        unpaced_gap_ns: 200,
        seed: 1,
    };

    fn run_at(gap_ns: u32, device: &Device, positions: &[f64]) -> Outcome {
        let entry = Entry { gap_ns, gap_frac: 0, length: 60, flow: NEXT_FLOW };
        let phases = vec![Phase { end_ns: 100_000_000, first_entry: 0, n_entries: 1 }];
        let mut plan = plan(vec![entry], phases, positions.len(), true);
        plan.warmup_ns = 20_000_000;
        plan.duration_ns = 80_000_000;
        simulate(&plan, device, positions).expect("valid device")
    }

    fn run(gap_ns: u32, device: &Device) -> Outcome {
        run_at(gap_ns, device, &[0.0])
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
        let outcome = run_at(500, &DEVICE, &[500.0]);
        let flow = outcome.flows[0];
        assert!((flow.received as f64 / flow.sent as f64 - 0.25).abs() < 0.001);
    }

    #[test]
    fn flows_that_match_at_several_positions_share_the_mean_service_time() {
        // Without noise 1 µs and 3 µs are multiples of the gap: every free place would fall to the same flow.
        let outcome = run_at(500, &Device { noise: Noise::Gamma(0.5), ..DEVICE }, &[0.0, 1_000.0]);
        let (sent, received) = outcome.flows.iter().fold((0, 0), |(s, r), f| (s + f.sent, r + f.received));
        assert!((received as f64 / sent as f64 - 0.25).abs() < 0.01);
    }

    #[test]
    fn below_the_threshold_each_flow_is_served_at_its_own_position() {
        let outcome = run_at(4_000, &DEVICE, &[0.0, 1_000.0]);
        assert_eq!(outcome.flows[0].delay_max_ns, 6_000);
        assert_eq!(outcome.flows[1].delay_min_ns, 8_000);
    }

    #[test]
    fn interruptions_take_their_share_of_the_throughput() {
        let device = Device { interrupt_every_ns: 1e6, interrupt_ns: 2e5, ..DEVICE };
        let flow = run(500, &device).flows[0];
        assert!((flow.received as f64 / flow.sent as f64 - 0.4).abs() < 0.005);
        assert!(run(100_000, &device).flows[0].delay_max_ns > 100_000);
    }

    #[test]
    fn interruptions_without_a_pause_are_refused() {
        assert!(Device { interrupt_every_ns: 1e5, interrupt_ns: 1e5, ..DEVICE }.check().is_err());
    }

    #[test]
    fn every_flow_needs_a_position() {
        let plan = plan(vec![], vec![], 2, true);
        assert!(simulate(&plan, &DEVICE, &[0.0]).is_err());
        assert!(simulate(&plan, &DEVICE, &[0.0, -1.0]).is_err());
    }

    #[test]
    fn the_slower_stage_sets_the_pace() {
        let device = Device { io_service_ns: 2_000.0, ..DEVICE };
        let flow = run_at(500, &device, &[100.0]).flows[0];
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
