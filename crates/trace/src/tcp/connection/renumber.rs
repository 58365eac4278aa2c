//! A capture in front of and behind a device that adds a constant to the sequence numbers of each direction, as
//! firewalls do that randomise initial sequence numbers.
//!
//! Each packet then comes twice, with different numbers: they are carried back to those of the first SYN, after
//! which the second packet is a copy. The SYNs show the constants: same identification, same time stamp, another
//! number, a moment apart.

use super::super::facts::From;
use super::super::segment::{ACK, RST, SYN, Segment};
use super::super::sender::{Sender, elapsed, is_soon, other};

/// The first SYN of each end, and what is added to the numbers of each end.
#[derive(Debug, Default)]
pub struct Renumbering {
    syns: [Option<Segment<'static>>; 2],
    shifts: [u32; 2],
}

impl Renumbering {
    #[inline]
    pub fn is_known(&self) -> bool {
        self.shifts != [0; 2]
    }

    /// Whether this SYN is the first one of this end with another number.
    pub fn is_renumbered(&self, from: From, segment: &Segment<'_>) -> bool {
        self.syns[from as usize].is_some_and(|syn| is_renumbered(&syn, segment))
    }

    /// The packet with the numbers that belong to the first SYNs. `sides` are its sender and the other end.
    #[cold]
    pub fn undo<'a>(&mut self, from: From, segment: &Segment<'a>, sides: [&Sender; 2]) -> Segment<'a> {
        let (own, peer) = (from as usize, other(from) as usize);
        if segment.flags & (SYN | RST) == SYN {
            match self.syns[own] {
                None => self.syns[own] = Some(segment.detached()),
                Some(syn) if is_renumbered(&syn, segment) => {
                    self.shifts[own] = segment.seq.wrapping_sub(syn.seq);
                }
                Some(_) => {}
            }
        }
        let [seq, ack] = [own, peer].map(|at| self.shifts[at]);
        let [sender, receiver] = sides;
        let seq = if sender.is_nearer_without(segment.seq, seq) { seq } else { 0 };
        let ack = if segment.has(ACK) && receiver.is_nearer_without(segment.ack, ack) { ack } else { 0 };
        segment.shifted_back(seq, ack)
    }
}

/// Whether `segment` is the packet `syn` with another number.
pub fn is_renumbered(syn: &Segment<'_>, segment: &Segment<'_>) -> bool {
    syn.is_twin(segment)
        && syn.seq != segment.seq
        && is_soon(segment.ip_id, elapsed(syn.time_ns, segment.time_ns))
}
