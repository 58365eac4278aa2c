//! What became of the frames, summed up from the counts of all CPUs.

use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::layout::Counts;
use super::mirror::Progress;
use super::port::Port;
use super::{MIRROR, SIDES};

/// Frames that came in at one side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SideCounters {
    /// Frames that came in.
    pub received: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Sent out of the other interface.
    pub forwarded: u64,
    /// Refused by the other interface, or its queue was full.
    pub not_forwarded: u64,
    /// Put into the recorder's ring.
    pub copied: u64,
    /// The recorder's ring was full.
    pub not_copied: u64,
    /// Copied frames that were cut to spare the link.
    pub cut: u64,
    /// Why the other interface refused frames most recently; empty if it took all.
    pub reason: String,
}

/// Copies for the mirror, of both sides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorCounters {
    /// Sent out of the mirror's interface.
    pub sent: u64,
    /// Their ring was full, the interface refused them, or the link needed the CPU.
    pub not_sent: u64,
    /// In their ring.
    pub waiting: u64,
    /// Why frames were not sent most recently; empty if all were.
    pub reason: String,
}

/// What became of the frames so far, by stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// By the interface where they came in: A, B.
    pub sides: [SideCounters; 2],
    /// All zero without a mirror.
    pub mirror: MirrorCounters,
    /// What became of frames behind the bridge is not known: those not known to be refused count as
    /// forwarded.
    pub assumed: bool,
}

impl SideCounters {
    /// What is not known to be refused counts as forwarded.
    fn assume(&mut self) {
        self.forwarded = self.received - self.not_forwarded.min(self.received);
    }
}

impl Counters {
    /// Whether the fate of every frame on the link is known.
    pub(super) fn is_settled(&self) -> bool {
        self.sides.iter().all(|side| side.received == side.forwarded + side.not_forwarded)
    }

    /// Counters of a bridge that is gone: what still waited will not be sent any more, and of what is still under
    /// way nothing will be told. (Where an interrupt's work on a CPU forwards frames on top of a task for which
    /// the kernel has switched tracepoints off, their fate is not reported.)
    pub(super) fn ended(mut self) -> Self {
        self.assumed |= !self.is_settled();
        if self.assumed {
            for side in &mut self.sides {
                side.assume();
            }
        }
        let mirror = &mut self.mirror;
        if mirror.waiting > 0 {
            mirror.not_sent += std::mem::take(&mut mirror.waiting);
            if mirror.reason.is_empty() {
                mirror.reason = "the tap ended".into();
            }
        }
        self
    }
}

/// Adds up what the programs counted on each CPU, and the mirror's thread.
pub fn sum(per_cpu: &[Counts], ports: &[Port; 2], mirror: Option<&Progress>, assumed: bool) -> Counters {
    let side = |side: usize| {
        let mut sum = SideCounters::default();
        for counts in per_cpu {
            let count = counts.side[side];
            sum.received += count.received;
            sum.bytes += count.bytes;
            sum.forwarded += count.forwarded;
            sum.not_forwarded += count.refused;
            sum.copied += count.copied;
            sum.not_copied += count.not_copied;
            sum.cut += count.cut;
        }
        let refused = per_cpu.iter().filter(|counts| counts.side[side].refused > 0);
        if let Some(counts) = refused.max_by_key(|counts| counts.side[side].refused) {
            sum.reason = reason(&ports[1 - side].name, counts.error[1 - side]);
        }
        if assumed {
            sum.assume();
        }
        sum
    };
    let mirror = mirror.map(|progress| of_mirror(per_cpu, progress)).unwrap_or_default();
    Counters { sides: SIDES.map(side), mirror, assumed }
}

fn of_mirror(per_cpu: &[Counts], progress: &Progress) -> MirrorCounters {
    let sum = |of: fn(&Counts) -> u64| per_cpu.iter().map(of).sum::<u64>();
    let (taken, through_socket) =
        (progress.taken.load(Ordering::Relaxed), progress.sent.load(Ordering::Relaxed));
    let mirrored = sum(|counts| counts.side[0].mirrored + counts.side[1].mirrored);
    let not_mirrored = sum(|counts| counts.side[0].not_mirrored + counts.side[1].not_mirrored);
    let spared = sum(|counts| counts.side[0].spared + counts.side[1].spared);
    let sent = sum(|counts| counts.mirror_sent) + through_socket;
    let refused = taken.saturating_sub(sent);
    let failure = progress.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let reason = if !failure.is_empty() {
        failure
    } else if refused > 0 {
        let of_cpus = per_cpu.iter().map(|counts| -counts.error[MIRROR]);
        let errors = of_cpus.chain([progress.error.load(Ordering::Relaxed)]);
        match errors.into_iter().find(|&error| error != 0) {
            None => "the queue of the mirror's interface was full".into(),
            Some(error) => format!("the mirror's interface: {}", io::Error::from_raw_os_error(error)),
        }
    } else if not_mirrored > 2 * spared {
        "the mirror's ring was full".into()
    } else if spared > 0 {
        "the link needed the CPU: frames come faster than they leave".into()
    } else {
        String::new()
    };
    MirrorCounters { sent, not_sent: refused + not_mirrored, waiting: mirrored.saturating_sub(taken), reason }
}

/// Why an interface refuses frames.
fn reason(name: &str, error: i32) -> String {
    match -error {
        0 => format!("the queue of {name} was full"),
        libc::EOPNOTSUPP | libc::ENXIO => format!(
            "{name} cannot send XDP frames: if it is a veth, switch GRO on at its peer (ethtool -K PEER gro on)"
        ),
        libc::EMSGSIZE => format!(
            "frames were longer than the MTU of {name} allows: switch offloads off at the senders (ethtool -K IF \
             tso off gso off)"
        ),
        libc::ENETDOWN => format!("{name} is down"),
        error => format!("{name}: {}", io::Error::from_raw_os_error(error)),
    }
}
