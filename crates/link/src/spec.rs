//! The specification of one direction of a link.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::selection::Selection;
use crate::trace::Trace;

/// One direction of a link; the default is a cable that takes no time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathSpec {
    /// How fast frames are transmitted; `None`: at once.
    pub rate: Option<Rate>,
    /// What each frame costs the rate besides its own bytes (those without FCS): 24 for everything that it
    /// occupies on Ethernet: FCS, preamble and gap.
    pub overhead_bytes: i32,
    /// Where frames wait for the transmitter. Nothing waits without a rate.
    pub queue: Queue,
    /// Which frames are lost.
    pub loss: Selection,
    /// How long a frame takes after the transmitter, in ns.
    pub delay_ns: u64,
    /// What the delay varies by.
    pub jitter: Option<Jitter>,
    /// Which frames come later than those behind them.
    pub reorder: Option<Reorder>,
    /// Which frames arrive twice.
    pub duplicate: Selection,
    /// Seed of all that is random.
    pub seed: u64,
}

/// How fast frames are transmitted.
#[derive(Clone, Debug, PartialEq)]
pub enum Rate {
    /// Always this many bit/s.
    Constant {
        /// Bits in a second.
        bps: u64,
    },
    /// At the times of a trace, which begins with the path.
    Trace(Arc<Trace>),
}

/// What waits for the transmitter.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// How much there is room for.
    pub limit: Limit,
    /// What is dropped before the room is used up.
    pub discipline: Discipline,
}

impl Default for Queue {
    /// A thousand packets and tail drop, as an interface of Linux has it (`txqueuelen`).
    fn default() -> Self {
        Self { limit: Limit::Packets(1000), discipline: Discipline::TailDrop }
    }
}

/// An amount of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// This many frames.
    Packets(u64),
    /// This many bytes, each frame's overhead included.
    Bytes(u64),
    /// In ns: a frame that would have to wait longer than this for its transmission has no room. By a trace, at
    /// its mean rate.
    Time(u64),
}

/// Which frames are dropped besides those for which there is no room.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Discipline {
    /// None.
    #[default]
    TailDrop,
    /// Some of those that arrive, the more the longer the queue.
    Red(Red),
    /// Those that waited long at the head, while all wait long.
    CoDel(CoDel),
}

/// Random early detection (S. Floyd and V. Jacobson, "Random Early Detection Gateways for Congestion Avoidance",
/// IEEE/ACM Transactions on Networking 1(4), 1993), without ECN. Both thresholds are in one unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Red {
    /// Average queue up to which nothing is dropped.
    pub min: Limit,
    /// Average queue from which on everything is dropped; with `gentle` the probability rises on to 1 at twice
    /// this.
    pub max: Limit,
    /// Probability of a drop just below `max`.
    pub max_ratio: f64,
    /// Weight of the queue's present length in its average (`w_q`).
    pub weight: f64,
    /// Whether there is no jump at `max` (S. Floyd, "Recommendation on using the 'gentle_' variant of RED", 2000).
    pub gentle: bool,
}

/// Controlled delay (RFC 8289), without ECN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDel {
    /// Waiting time, in ns, up to which nothing is dropped.
    pub target_ns: u64,
    /// How long, in ns, all frames must wait longer than that before one is dropped.
    pub interval_ns: u64,
}

impl Default for CoDel {
    /// 5 and 100 ms (RFC 8289, section 4.2 and 4.3).
    fn default() -> Self {
        Self { target_ns: 5_000_000, interval_ns: 100_000_000 }
    }
}

/// What the delay varies by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jitter {
    /// How it is distributed around the delay.
    pub distribution: Distribution,
    /// Its size in ns.
    pub ns: u64,
    /// Whether a frame that would overtake others waits for them; that makes the mean delay longer.
    pub keeps_order: bool,
}

/// How a delay varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Evenly, by at most the jitter's size.
    Uniform,
    /// Normally; the size is the standard deviation, and no delay is below 0.
    Normal,
}

/// Frames that come later than those behind them.
#[derive(Clone, Debug, PartialEq)]
pub struct Reorder {
    /// Which ones.
    pub selection: Selection,
    /// How much later, in ns.
    pub by_ns: u64,
}

/// Longest time in a specification: an hour.
pub const LONGEST_NS: u64 = 3_600_000_000_000;

const SLOWEST_BPS: u64 = 100;
const FASTEST_BPS: u64 = 1_000_000_000_000;
const MOST_OVERHEAD: i32 = 10_000;

/// A time in its largest unit, as options have it.
struct Time(u64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_000_000_000_u32, "s"), (1_000_000, "ms"), (1000, "us")];
        match units.iter().find(|(ns, _)| self.0 >= u64::from(*ns)) {
            Some((ns, unit)) => write!(f, "{}{unit}", self.0 as f64 / f64::from(*ns)),
            None => write!(f, "{}ns", self.0),
        }
    }
}

/// Why a specification is invalid.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SpecError {
    /// A probability out of range.
    #[error("{what}: {value} is no probability: expected 0 to 1")]
    Ratio {
        /// Which one.
        what: &'static str,
        /// Its value.
        value: f64,
    },
    /// A time is too long.
    #[error("{what}: {} is too long: at most an hour", Time(*ns))]
    Time {
        /// Which one.
        what: &'static str,
        /// Its value.
        ns: u64,
    },
    /// A rate is too high or too low.
    #[error("rate: {bps} bit/s is out of range: expected {SLOWEST_BPS} to {FASTEST_BPS}")]
    Rate {
        /// Its value.
        bps: u64,
    },
    /// An overhead out of range.
    #[error("overhead: {bytes} bytes is out of range: expected -{MOST_OVERHEAD} to {MOST_OVERHEAD}")]
    Overhead {
        /// Its value.
        bytes: i32,
    },
    /// A queue without room.
    #[error("queue: it has no room at all: give at least one packet, one byte or 1 ns")]
    NoRoom,
    /// The jitter is larger than the delay.
    #[error(
        "jitter: {jitter} around a delay of {} would need a delay below 0: give a delay of at least {jitter}",
        Time(*delay_ns), jitter = Time(*jitter_ns)
    )]
    JitterBeyondDelay {
        /// The jitter.
        jitter_ns: u64,
        /// The delay.
        delay_ns: u64,
    },
    /// Frames held back for 0 ns.
    #[error("reorder: frames are held back for 0 ns: give a time after which those behind have passed them")]
    HeldForNoTime,
    /// Invalid thresholds.
    #[error("red: the thresholds must be above 0 and in one unit, and the upper one above the lower one")]
    Thresholds,
    /// An invalid weight.
    #[error("red: invalid weight {weight}: expected above 0, at most 1")]
    Weight {
        /// Its value.
        weight: f64,
    },
    /// A target or an interval of 0.
    #[error("codel: target and interval must be above 0")]
    NoInterval,
}

impl PathSpec {
    /// Checks the specification.
    ///
    /// # Errors
    /// [`SpecError`]: the first thing that is invalid.
    pub fn check(&self) -> Result<(), SpecError> {
        match self.rate {
            Some(Rate::Constant { bps }) if !(SLOWEST_BPS..=FASTEST_BPS).contains(&bps) => {
                return Err(SpecError::Rate { bps });
            }
            _ => {}
        }
        if !(-MOST_OVERHEAD..=MOST_OVERHEAD).contains(&self.overhead_bytes) {
            return Err(SpecError::Overhead { bytes: self.overhead_bytes });
        }
        self.queue.check()?;
        time("delay", self.delay_ns)?;
        if let Some(jitter) = self.jitter
            && jitter.ns > self.delay_ns
        {
            return Err(SpecError::JitterBeyondDelay { jitter_ns: jitter.ns, delay_ns: self.delay_ns });
        }
        self.loss.check("loss")?;
        self.duplicate.check("duplicate")?;
        if let Some(reorder) = &self.reorder {
            reorder.selection.check("reorder")?;
            time("reorder", reorder.by_ns)?;
            if reorder.by_ns == 0 {
                return Err(SpecError::HeldForNoTime);
            }
        }
        Ok(())
    }
}

impl Queue {
    fn check(&self) -> Result<(), SpecError> {
        self.limit.check("queue")?;
        if self.limit.amount() == 0 {
            return Err(SpecError::NoRoom);
        }
        match &self.discipline {
            Discipline::TailDrop => Ok(()),
            Discipline::Red(red) => red.check(),
            Discipline::CoDel(codel) => {
                time("codel", codel.target_ns)?;
                time("codel", codel.interval_ns)?;
                if codel.target_ns == 0 || codel.interval_ns == 0 {
                    return Err(SpecError::NoInterval);
                }
                Ok(())
            }
        }
    }
}

impl Limit {
    pub(crate) const fn amount(self) -> u64 {
        match self {
            Self::Packets(amount) | Self::Bytes(amount) | Self::Time(amount) => amount,
        }
    }

    fn check(self, what: &'static str) -> Result<(), SpecError> {
        if let Self::Time(ns) = self { time(what, ns) } else { Ok(()) }
    }
}

impl Red {
    fn check(&self) -> Result<(), SpecError> {
        self.min.check("red")?;
        self.max.check("red")?;
        let are_alike = std::mem::discriminant(&self.min) == std::mem::discriminant(&self.max);
        if !are_alike || self.min.amount() == 0 || self.max.amount() <= self.min.amount() {
            return Err(SpecError::Thresholds);
        }
        ratio("red", self.max_ratio)?;
        if self.weight > 0.0 && self.weight <= 1.0 {
            return Ok(());
        }
        Err(SpecError::Weight { weight: self.weight })
    }
}

impl Selection {
    fn check(&self, what: &'static str) -> Result<(), SpecError> {
        match self {
            Self::Never | Self::Frames(_) => Ok(()),
            Self::Random { ratio: value } => ratio(what, *value),
            Self::GilbertElliott(model) => [model.to_bad, model.to_good, model.in_bad, model.in_good]
                .into_iter()
                .try_for_each(|value| ratio(what, value)),
        }
    }
}

fn ratio(what: &'static str, value: f64) -> Result<(), SpecError> {
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(SpecError::Ratio { what, value }) }
}

fn time(what: &'static str, ns: u64) -> Result<(), SpecError> {
    if ns <= LONGEST_NS { Ok(()) } else { Err(SpecError::Time { what, ns }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut PathSpec)) -> SpecError {
        let mut spec = PathSpec::default();
        assert_eq!(spec.check(), Ok(()));
        change(&mut spec);
        spec.check().expect_err("cannot be")
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_name() {
        let random = |ratio| Selection::Random { ratio };
        assert_eq!(refused(|spec| spec.loss = random(1.5)), SpecError::Ratio { what: "loss", value: 1.5 });
        let nan = refused(|spec| spec.duplicate = random(f64::NAN));
        assert!(nan.to_string().starts_with("duplicate: NaN"));
        let constant = |bps| Some(Rate::Constant { bps });
        assert_eq!(refused(|spec| spec.rate = constant(99)), SpecError::Rate { bps: 99 });
        assert_eq!(refused(|spec| spec.overhead_bytes = -10_001), SpecError::Overhead { bytes: -10_001 });
        assert_eq!(refused(|spec| spec.queue.limit = Limit::Bytes(0)), SpecError::NoRoom);
        let hour = LONGEST_NS + 1;
        assert_eq!(refused(|spec| spec.delay_ns = hour), SpecError::Time { what: "delay", ns: hour });
        let jitter = Jitter { distribution: Distribution::Normal, ns: 2, keeps_order: true };
        assert_eq!(
            refused(|spec| (spec.delay_ns, spec.jitter) = (1, Some(jitter))),
            SpecError::JitterBeyondDelay { jitter_ns: 2, delay_ns: 1 }
        );
        let reorder = Reorder { selection: random(0.1), by_ns: 0 };
        assert_eq!(refused(|spec| spec.reorder = Some(reorder)), SpecError::HeldForNoTime);
        let codel = CoDel { target_ns: 0, ..CoDel::default() };
        assert_eq!(refused(|spec| spec.queue.discipline = Discipline::CoDel(codel)), SpecError::NoInterval);
    }

    #[test]
    fn times_are_told_in_the_units_of_options() {
        let beyond = SpecError::JitterBeyondDelay { jitter_ns: 50_000_000, delay_ns: 10_500_000 };
        assert!(beyond.to_string().starts_with("jitter: 50ms around a delay of 10.5ms would"), "{beyond}");
        let long = SpecError::Time { what: "delay", ns: LONGEST_NS + 500_000_000 };
        assert_eq!(long.to_string(), "delay: 3600.5s is too long: at most an hour");
        assert_eq!([999, 1500, 0].map(|ns| Time(ns).to_string()), ["999ns", "1.5us", "0ns"]);
    }

    #[test]
    fn thresholds_of_red_have_to_be_in_order_and_alike() {
        let red = |min, max, weight| Red { min, max, max_ratio: 0.1, weight, gentle: true };
        let refuse = |red| refused(|spec| spec.queue.discipline = Discipline::Red(red));
        let (five, ten) = (Limit::Packets(5), Limit::Packets(10));
        assert_eq!(refuse(red(ten, five, 0.1)), SpecError::Thresholds);
        assert_eq!(refuse(red(five, Limit::Bytes(10), 0.1)), SpecError::Thresholds);
        assert_eq!(refuse(red(five, ten, 0.0)), SpecError::Weight { weight: 0.0 });
    }
}
