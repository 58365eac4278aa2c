//! One server of a simulated device: its queue, and the times at which other work has it.

use std::collections::VecDeque;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Exp, Gamma};
use weir_link::MeasuredDevice;

use super::{Device, Noise};
use crate::layout::{Look, TaskTime};
use crate::plan::Plan;

/// Times at which other work has the server.
struct Pauses {
    at_ns: f64,
    lasts_ns: f64,
    every_ns: f64,
    random: Option<(Exp<f64>, SmallRng)>,
}

impl Pauses {
    /// At equal distances from `at_ns` on.
    const fn periodic(at_ns: f64, every_ns: f64, lasts_ns: f64) -> Self {
        Self { at_ns, lasts_ns, every_ns, random: None }
    }

    /// At random; `every_ns` is the mean from the end of one to the beginning of the next.
    fn random(every_ns: f64, lasts_ns: f64, seed: u64) -> Self {
        let random = Exp::new(1.0 / (every_ns - lasts_ns)).ok().filter(|_| lasts_ns > 0.0);
        let random = random.map(|gap| (gap, SmallRng::seed_from_u64(!seed)));
        let mut pauses = Self { at_ns: -lasts_ns, lasts_ns, every_ns: f64::INFINITY, random };
        pauses.advance();
        pauses
    }

    /// Moves on to the next pause; returns when the current one, which is over, began.
    fn advance(&mut self) -> f64 {
        let at_ns = self.at_ns;
        self.at_ns += match &mut self.random {
            Some((gap, random)) => self.lasts_ns + gap.sample(random),
            None => self.every_ns,
        };
        at_ns
    }
}

pub(super) struct Server<'a> {
    device: &'a Device,
    /// In place of `device`, if it was measured.
    measured: Option<MeasuredDevice>,
    /// Ends of the disturbances so far, in order.
    disturbed_ns: Vec<f64>,
    plan: &'a Plan,
    /// Time in service of the packets that came in the warm-up and in each bin.
    served_ns: Vec<f64>,
    /// When each packet inside leaves, in order.
    leaving_ns: VecDeque<f64>,
    free_ns: f64,
    /// When other work takes the server next.
    interrupts: Pauses,
    disturbances: Pauses,
    last_pause_ns: f64,
    last_out_ns: f64,
    noise: Option<Gamma<f64>>,
    random: SmallRng,
}

impl<'a> Server<'a> {
    pub(super) fn new(
        device: &'a Device,
        plan: &'a Plan,
        measured: Option<MeasuredDevice>,
        seed: u64,
    ) -> Self {
        let noise = match device.noise {
            Noise::None => None,
            // Mean 1: shape 1/cv², scale cv². `check` has seen that both are positive.
            Noise::Gamma(cv) => Gamma::new(1.0 / (cv * cv), cv * cv).ok(),
        };
        let mut random = SmallRng::seed_from_u64(seed);
        let first_ns = if device.interrupt_ns > 0.0 {
            random.random::<f64>() * device.interrupt_every_ns // no trial knows when
        } else {
            f64::INFINITY
        };
        Self {
            device,
            measured,
            disturbed_ns: Vec::new(),
            plan,
            served_ns: vec![0.0; plan.n_bins() + 1],
            leaving_ns: VecDeque::with_capacity(device.queue_packets),
            free_ns: 0.0,
            interrupts: Pauses::periodic(first_ns, device.interrupt_every_ns, device.interrupt_ns),
            disturbances: Pauses::random(device.disturb_every_ns, device.disturb_ns, seed),
            last_pause_ns: 0.0,
            last_out_ns: 0.0,
            noise,
            random,
        }
    }

    /// The delay of a packet that comes at `at_ns`, or `None` when the queue is full.
    pub(super) fn pass(&mut self, at_ns: f64, position: f64, frame_bytes: f64) -> Option<f64> {
        while self.leaving_ns.front().is_some_and(|&leaves| leaves <= at_ns) {
            self.leaving_ns.pop_front();
        }
        let admission = self.measured.as_mut().map(|device| device.arrive(at_ns, position, frame_bytes));
        let places = admission.map_or(self.device.queue_packets, |found| found.places);
        if admission.is_some_and(|found| found.is_lost) || self.leaving_ns.len() >= places {
            return None;
        }
        let service_ns = admission.map_or_else(
            || {
                let factor = self.noise.map_or(1.0, |noise| noise.sample(&mut self.random));
                self.device.service_ns(position, frame_bytes) * factor
            },
            |found| found.service_ns,
        );
        self.serve(at_ns, service_ns);
        self.leaving_ns.push_back(self.free_ns);
        let base = self.measured.as_mut().map_or_else(
            || self.device.base_delay_ns + self.device.base_per_byte_ns * frame_bytes,
            |device| device.behind_ns(self.free_ns),
        );
        self.last_out_ns = self.last_out_ns.max(self.free_ns + base); // packets keep their order
        Some(self.last_out_ns - at_ns)
    }

    /// Moves `free_ns` past the service of a packet that comes at `at_ns`.
    fn serve(&mut self, at_ns: f64, service_ns: f64) {
        let mut start_ns = self.free_ns.max(at_ns);
        while let Some(end_ns) = self.pause(|begin_ns| begin_ns <= start_ns) {
            start_ns = start_ns.max(end_ns);
        }
        self.free_ns = start_ns + service_ns;
        let recorded_ns = at_ns - self.plan.warmup_ns as f64;
        let bin =
            if recorded_ns < 0.0 { 0 } else { 1 + (recorded_ns / f64::from(self.plan.bin_ns)) as usize };
        if let Some(served_ns) = self.served_ns.get_mut(bin) {
            *served_ns += service_ns;
        }
        let mut free_ns = self.free_ns;
        while let Some(end_ns) = self.pause(|begin_ns| begin_ns < free_ns) {
            // Work left when the pause begins is done after it ends.
            free_ns += end_ns - self.last_pause_ns;
        }
        self.free_ns = free_ns;
    }

    /// The end of the next pause, if it begins in time.
    fn pause(&mut self, begins: impl Fn(f64) -> bool) -> Option<f64> {
        let is_disturbed = self.disturbances.at_ns < self.interrupts.at_ns;
        let next = if is_disturbed { &mut self.disturbances } else { &mut self.interrupts };
        if !begins(next.at_ns) {
            return None;
        }
        self.last_pause_ns = next.advance();
        let end_ns = self.last_pause_ns + next.lasts_ns;
        if is_disturbed {
            self.disturbed_ns.push(end_ns);
        }
        Some(end_ns)
    }
}

/// What a sender would have seen of the disturbing host: as in the kernel, a wait is counted when it ends. All
/// servers are one task, which ran as long as they did on average, and waited whenever one of them did.
pub(super) fn looks(servers: &[Server<'_>], plan: &Plan, start_ns: u64) -> Vec<Look> {
    let bins = (0..plan.n_bins() as u64).map(|bin| plan.warmup_ns + bin * u64::from(plan.bin_ns));
    let times = std::iter::once(0).chain(bins).chain(std::iter::once(plan.total_ns()));
    let mut ends: Vec<_> = servers.iter().map(|server| server.disturbed_ns.iter().peekable()).collect();
    let mut task = TaskTime::default();
    let look = |(number, at_ns): (usize, u64)| {
        for (server, ends) in servers.iter().zip(&mut ends) {
            while ends.next_if(|end_ns| **end_ns <= at_ns as f64).is_some() {
                task.waited_ns += server.device.disturb_ns as u64;
            }
        }
        if number > 0 {
            let served_ns: f64 = servers.iter().map(|server| server.served_ns[number - 1]).sum();
            task.ran_ns += (served_ns / servers.len() as f64) as u64;
        }
        let at_ns = start_ns + at_ns;
        let mut look = Look { at_ns, device_clock_ns: at_ns, ..Look::default() };
        look.tasks[0] = task;
        look
    };
    times.enumerate().map(look).collect()
}
