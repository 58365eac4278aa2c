//! Every packet that arrived.

use crate::layout::Arrival;

/// Recorded probes in order of arrival, copies included; one value per arrival in each column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketLog {
    /// Index of the flow.
    pub flow: Vec<u32>,
    /// Number within the flow.
    pub seq: Vec<u32>,
    /// Departure.
    pub sent_ns: Vec<u64>,
    /// Arrival.
    pub arrival_ns: Vec<u64>,
    /// Arrivals that found no room.
    pub missed: u64,
}

impl PacketLog {
    /// An empty log with room for `n` arrivals.
    pub(crate) fn with_capacity(n: usize) -> Self {
        Self {
            flow: Vec::with_capacity(n),
            seq: Vec::with_capacity(n),
            sent_ns: Vec::with_capacity(n),
            arrival_ns: Vec::with_capacity(n),
            missed: 0,
        }
    }

    pub(crate) fn push(&mut self, arrival: Arrival) {
        self.flow.push(arrival.flow);
        self.seq.push(arrival.seq);
        self.sent_ns.push(arrival.sent_ns);
        self.arrival_ns.push(arrival.arrival_ns);
    }

    /// Appends another log.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.flow.append(&mut other.flow);
        self.seq.append(&mut other.seq);
        self.sent_ns.append(&mut other.sent_ns);
        self.arrival_ns.append(&mut other.arrival_ns);
        self.missed += other.missed;
    }

    /// Number of arrivals.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.flow.len()
    }

    /// Whether nothing arrived.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.flow.is_empty()
    }
}
