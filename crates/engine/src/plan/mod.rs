//! What to send: a cyclic schedule of departures, the phases that use it, and the flows.

mod bodies;
mod media;
mod shares;

pub use bodies::Bodies;
pub use media::{Impairment, Media, MediaFlow, NO_PAYLOAD, Numbers, Packet};
pub use shares::Share;

use thiserror::Error;
use weir_wire::{Addresses, Header, HeaderError, L4, MacAddr, PROBE_LEN};

use crate::layout::MAX_PHASES;

/// Value of [`Entry::flow`]: the next flow in turn.
pub const NEXT_FLOW: u32 = u32::MAX;

const MAX_LENGTH: u16 = 2044;
const MAX_ENTRIES: usize = 1 << 24;
const MAX_FLOWS: usize = 1 << 22;
const MAX_BINS: u64 = 1 << 20;

/// One packet of the cyclic schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Time from this packet to the next.
    pub gap_ns: u32,
    /// Plus this many 2⁻¹⁶ ns.
    pub gap_frac: u16,
    /// Frame length without FCS.
    pub length: u16,
    /// Index of the flow, or [`NEXT_FLOW`].
    pub flow: u32,
}

/// A stretch of time that repeats one slice of the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// End, from the start of the trial, warm-up included.
    pub end_ns: u64,
    /// First entry.
    pub first_entry: u32,
    /// Number of entries, at least one.
    pub n_entries: u32,
}

/// Addresses of the first hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Macs {
    /// The sending interface.
    pub src: MacAddr,
    /// Who receives its frames.
    pub dst: MacAddr,
}

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// From the sender's interface to the receiver's.
    Forward,
    /// The other way.
    Back,
}

/// One trial's traffic.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The schedule.
    pub entries: Vec<Entry>,
    /// In time order; the last one ends with the trial.
    pub phases: Vec<Phase>,
    /// `false`: as fast as possible, gaps ignored.
    pub paced: bool,
    /// Sent but not recorded.
    pub warmup_ns: u64,
    /// Recorded.
    pub duration_ns: u64,
    /// Width of a bin of the time series.
    pub bin_ns: u32,
    /// Every bin is a window that can be left out: it has its own histogram, and the host is observed in each.
    pub windowed: bool,
    /// The flows.
    pub flows: Vec<Addresses>,
    /// Their transport.
    pub l4: L4,
    /// Bytes between the transport header and the probe.
    pub skip: u8,
    /// Lateness up to this is made up for at once; anything beyond, by slightly shorter gaps.
    pub catch_up_ns: u64,
    /// Without a probe for this long after the last departure there are no stragglers left, unless the device is
    /// known to hold packets.
    pub quiet_ns: u64,
    /// Wait no longer than this for stragglers, unless the device is known to hold packets.
    pub straggler_ns: u64,
    /// Packets of calls: what they carry, and the way back. Every arrival is logged.
    pub media: Option<Media>,
    /// Set if flows are answered.
    pub answers: Option<Answering>,
}

/// Which probes are answered, and how new flows differ. The receiver's side sends answers over XDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answering {
    /// So many of each flow's first probes are answered.
    pub first: u32,
    /// Set if the last flow stands for new ones, and all its probes are answered: the last 32 bits of its source
    /// address, and its source port, are zero.
    pub new_flows: Option<NewFlows>,
}

/// Sources of new flows, one packet each: addresses count down, then ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewFlows {
    /// Number of source addresses.
    pub hosts: u32,
    /// The last 32 bits of the first flow's.
    pub host: u32,
    /// Number of source ports.
    pub ports: u16,
    /// The first flow's.
    pub port: u16,
}

/// Why a plan cannot be played.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PlanError {
    /// A limit is exceeded or something is missing.
    #[error("{what}: {found}; allowed: {allowed}")]
    Range {
        /// Which quantity.
        what: &'static str,
        /// Its value.
        found: u64,
        /// The range in words.
        allowed: String,
    },
    /// A frame cannot hold headers and probe.
    #[error("a frame of {length} bytes (without FCS) cannot hold {needed} bytes of headers and probe")]
    TooShort {
        /// Length found.
        length: u16,
        /// Length needed.
        needed: usize,
    },
    /// Packets of calls that no back end can send.
    #[error("{0}")]
    Media(&'static str),
    /// One of them.
    #[error("packet {index} (flow {flow}): {why}")]
    Packet {
        /// Index of its entry.
        index: usize,
        /// Its flow.
        flow: u32,
        /// What is wrong.
        why: String,
    },
    /// The flows' headers cannot be built.
    #[error(transparent)]
    Header(#[from] HeaderError),
}

impl Plan {
    /// Whether packets go from the receiver's side to the sender's.
    #[must_use]
    pub fn goes_back(&self) -> bool {
        self.answers.is_some() || self.media.as_ref().is_some_and(Media::goes_back)
    }

    /// Where new flows come from, if there are any.
    #[must_use]
    pub fn new_flows(&self) -> Option<NewFlows> {
        self.answers.and_then(|answers| answers.new_flows)
    }

    /// Index of the flow that stands for new ones, or [`NEXT_FLOW`].
    #[must_use]
    pub fn new_flow(&self) -> u32 {
        self.new_flows().map_or(NEXT_FLOW, |_| self.n_known() as u32)
    }

    /// Number of flows that take turns.
    #[must_use]
    pub fn n_known(&self) -> usize {
        self.flows.len() - usize::from(self.new_flows().is_some())
    }

    /// How far a sender may fall behind its schedule and still catch up. Beyond that the schedule shifts: if
    /// bins can be left out, catching up after a long stall must not spoil many of them. Calls keep their
    /// schedule: they are heard as a whole.
    #[must_use]
    pub const fn slip_most_ns(&self) -> u32 {
        if self.windowed && self.media.is_none() { self.bin_ns / 5 } else { u32::MAX }
    }

    /// Number of histograms.
    #[must_use]
    pub fn n_windows(&self) -> usize {
        if self.windowed { self.n_bins() } else { 1 }
    }

    /// The flows' header templates; `back` is for flows sent from the receiver's side.
    ///
    /// # Errors
    /// [`PlanError`] for anything that the engine could not play.
    pub fn headers(&self, macs: Macs, back: Option<Macs>) -> Result<Vec<Header>, PlanError> {
        self.check()?;
        let macs_of = |flow| match (self.side(flow), back) {
            (Side::Forward, _) => Ok(macs),
            (Side::Back, Some(back)) => Ok(back),
            (Side::Back, None) => {
                Err(PlanError::Media("calls are answered, but no MAC addresses are given for the way back"))
            }
        };
        let headers = self.flows.iter().enumerate().map(|(i, flow)| {
            let macs = macs_of(i)?;
            Ok(Header::new(macs.src, macs.dst, flow, self.l4)?)
        });
        let headers: Vec<Header> = headers.collect::<Result<_, PlanError>>()?;
        let longest = headers.iter().map(Header::len).max().unwrap_or(0);
        if headers.iter().any(|h| h.len() != longest) {
            return Err(range("flows of different IP versions in one trial", 2, "1"));
        }
        if let Some(media) = &self.media {
            media.check(self, &headers)?;
            return Ok(headers);
        }
        let needed = longest + usize::from(self.skip) + PROBE_LEN;
        match self.entries.iter().map(|e| e.length).min() {
            Some(length) if usize::from(length) < needed => Err(PlanError::TooShort { length, needed }),
            _ => Ok(headers),
        }
    }

    /// Which way a flow goes.
    #[must_use]
    pub fn side(&self, flow: usize) -> Side {
        match self.media.as_ref().and_then(|media| media.flows.get(flow)) {
            Some(flow) if flow.back => Side::Back,
            _ => Side::Forward,
        }
    }

    /// Packets of the whole trial in each direction, without flows that take turns.
    #[must_use]
    pub fn packets_per_side(&self) -> [u64; 2] {
        let mut packets = [0; 2];
        let mut start_ns = 0;
        for phase in &self.phases {
            let entries = &self.entries[phase.first_entry as usize..][..phase.n_entries as usize];
            let units = |e: &Entry| u128::from(e.gap_ns) << 16 | u128::from(e.gap_frac);
            let length = u128::from(phase.end_ns - start_ns) << 16;
            let round: u128 = entries.iter().map(units).sum::<u128>().max(1);
            let mut left = length % round;
            for entry in entries.iter().filter(|e| e.flow != NEXT_FLOW) {
                let again = u64::from(left > 0);
                left = left.saturating_sub(units(entry));
                packets[self.side(entry.flow as usize) as usize] += (length / round) as u64 + again;
            }
            start_ns = phase.end_ns;
        }
        packets
    }

    /// Length of the whole trial.
    #[must_use]
    pub const fn total_ns(&self) -> u64 {
        self.warmup_ns + self.duration_ns
    }

    /// Bins of the time series.
    #[must_use]
    pub fn n_bins(&self) -> usize {
        self.duration_ns.div_ceil(u64::from(self.bin_ns.max(1))) as usize
    }

    /// Mean gap of a phase in ns.
    #[must_use]
    pub fn mean_gap_ns(&self, phase: &Phase) -> f64 {
        let entries = &self.entries[phase.first_entry as usize..][..phase.n_entries as usize];
        let sum: f64 = entries.iter().map(|e| f64::from(e.gap_ns) + f64::from(e.gap_frac) / 65536.0).sum();
        sum / entries.len() as f64
    }

    fn check(&self) -> Result<(), PlanError> {
        let n_entries = self.entries.len();
        if n_entries == 0 || n_entries > MAX_ENTRIES {
            return Err(range("entries of the schedule", n_entries as u64, &format!("1 to {MAX_ENTRIES}")));
        }
        if self.flows.is_empty() || self.flows.len() > MAX_FLOWS {
            return Err(range("flows", self.flows.len() as u64, &format!("1 to {MAX_FLOWS}")));
        }
        if let Some(new) = self.new_flows() {
            let fewest = u64::from(new.hosts.min(new.ports.into()).min(self.n_known() as u32));
            if fewest == 0 {
                return Err(range("addresses and ports of new flows, and known flows", 0, "1 and more"));
            }
        }
        if self.answers.is_some() && self.media.is_some() {
            return Err(PlanError::Media("calls have answers of their own"));
        }
        if self.phases.is_empty() || self.phases.len() > MAX_PHASES {
            return Err(range("phases", self.phases.len() as u64, &format!("1 to {MAX_PHASES}")));
        }
        if self.duration_ns == 0 || self.duration_ns / u64::from(self.bin_ns.max(1)) > MAX_BINS {
            return Err(range("recorded time in ns", self.duration_ns, &format!("up to {MAX_BINS} bins")));
        }
        if self.bin_ns == 0 {
            return Err(range("width of a bin in ns", 0, "1 and more"));
        }
        let mut before = 0;
        for phase in &self.phases {
            let end = u64::from(phase.first_entry) + u64::from(phase.n_entries);
            if phase.n_entries == 0 || end > n_entries as u64 {
                return Err(range("end of a phase's entries", end, &format!("1 to {n_entries}")));
            }
            if phase.end_ns <= before {
                return Err(range("end of a phase in ns", phase.end_ns, &format!("more than {before}")));
            }
            if self.paced && self.mean_gap_ns(phase) <= 0.0 {
                return Err(range("mean gap of a paced phase in ns", 0, "more than 0"));
            }
            before = phase.end_ns;
        }
        if before != self.total_ns() {
            let total = self.total_ns();
            return Err(range("end of the last phase in ns", before, &format!("exactly {total}")));
        }
        for entry in &self.entries {
            if entry.length > MAX_LENGTH {
                return Err(range("frame length", entry.length.into(), &format!("up to {MAX_LENGTH}")));
            }
            if entry.flow != NEXT_FLOW && entry.flow as usize >= self.flows.len() {
                let flows = self.flows.len();
                return Err(range("flow of an entry", entry.flow.into(), &format!("below {flows}")));
            }
        }
        Ok(())
    }
}

fn range(what: &'static str, found: u64, allowed: &str) -> PlanError {
    PlanError::Range { what, found, allowed: allowed.to_owned() }
}
