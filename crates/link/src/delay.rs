//! How long a frame takes after the transmitter.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution as _, Normal};

use crate::seeds::{Stream, seed};
use crate::spec::{Distribution, Jitter, PathSpec};

/// The delay, its jitter, and the order that it keeps.
#[derive(Clone, Debug)]
pub struct Delay {
    ns: u64,
    jitter: Option<Jitter>,
    rng: SmallRng,
    /// When the last frame that must not be overtaken is due.
    last_due_ns: u64,
}

impl Delay {
    pub fn new(spec: &PathSpec) -> Self {
        Self {
            ns: spec.delay_ns,
            jitter: spec.jitter,
            rng: SmallRng::seed_from_u64(seed(spec.seed, Stream::Jitter)),
            last_due_ns: 0,
        }
    }

    /// Applies `spec` from now on; nothing overtakes what is under way.
    pub fn change(&mut self, spec: &PathSpec) {
        *self = Self { last_due_ns: self.last_due_ns, ..Self::new(spec) };
    }

    /// When a frame is due that keeps its place, if order is kept.
    pub fn due(&mut self, through_ns: u64) -> u64 {
        let due_ns = self.drawn(through_ns);
        if self.jitter.is_some_and(|jitter| !jitter.keeps_order) {
            return due_ns;
        }
        self.last_due_ns = self.last_due_ns.max(due_ns);
        self.last_due_ns
    }

    /// The same for a frame that does not keep its place.
    pub fn drawn(&mut self, through_ns: u64) -> u64 {
        through_ns.saturating_add(match self.jitter {
            None => self.ns,
            Some(Jitter { distribution: Distribution::Uniform, ns, .. }) => {
                self.rng.random_range(self.ns - ns..=self.ns + ns)
            }
            Some(Jitter { distribution: Distribution::Normal, ns, .. }) => {
                // A standard deviation that is finite and not negative is always accepted.
                let drawn = Normal::new(self.ns as f64, ns as f64).map_or(0.0, |n| n.sample(&mut self.rng));
                drawn.max(0.0) as u64
            }
        })
    }

    pub const fn least_ns(&self) -> u64 {
        match self.jitter {
            None => self.ns,
            Some(Jitter { distribution: Distribution::Uniform, ns, .. }) => self.ns - ns,
            Some(Jitter { distribution: Distribution::Normal, .. }) => 0,
        }
    }
}
