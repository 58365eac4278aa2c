//! What became of the packets of a gateway.

use weir_esp::{EncapsulateError, RekeyingInbound};

use crate::layout::Plain;

macro_rules! counts {
    ($($name:ident: $what:literal,)+) => {
        /// Packets since the start.
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $(#[doc = $what] pub $name: u64,)+
        }

        /// Names of a gateway's counters, in the order of its file. `out` is from the clear into the tunnel.
        pub const COUNTERS: &[&str] = &[$(stringify!($name)),+];
    };
}

counts! {
    out_packets: "Encapsulated.",
    out_not_ip: "Neither IPv4 nor IPv6, or cut short.",
    out_too_long: "They would exceed the outer interface's MTU.",
    out_exhausted: "There was no sequence number left.",
    out_queue_full: "The kernel had no room for them: the gateway is overloaded.",
    out_not_sent: "The outer interface did not take them.",
    out_rekeys: "Rekeyings, not packets: how often packets began to leave with another SPI and other keys.",
    in_packets: "Decapsulated.",
    in_malformed: "Not IP packets, or fragments, or cut short.",
    in_foreign: "Not ESP of this association.",
    in_too_old: "Before the replay window.",
    in_replayed: "Received before.",
    in_bad_tag: "The integrity check failed.",
    in_discarded: "Authentic but useless: bad padding or payload, dummies, unreported congestion.",
    in_queue_full: "The kernel had no room for them: the gateway is overloaded.",
    in_not_sent: "The kernel did not take them.",
    in_late: "Decapsulated after a rekeying, with the previous keys.",
    in_rekeys: "Rekeyings, not packets: how often packets began to arrive with another SPI and other keys.",
}

impl Counts {
    /// The counter of packets that were not encapsulated for this reason.
    pub fn of_outgoing(&mut self, error: EncapsulateError) -> &mut u64 {
        use EncapsulateError as E;
        match error {
            E::NotIp | E::Truncated => &mut self.out_not_ip,
            E::Exhausted => &mut self.out_exhausted,
            // Buffers have room for all that fits, and fragments travel in a tunnel like other packets.
            E::TooLong(_) | E::NoRoom { .. } | E::Fragment => &mut self.out_too_long,
        }
    }

    /// Copies what the ESP receiver counted; `not_ip` frames never reached it.
    pub fn take_incoming(&mut self, receiver: &RekeyingInbound, not_ip: u64) {
        let counted = receiver.counts();
        self.in_late = receiver.late();
        self.in_rekeys = receiver.rekeys();
        self.in_packets = counted.accepted;
        self.in_malformed = counted.malformed + not_ip;
        self.in_foreign = counted.foreign;
        self.in_too_old = counted.too_old;
        self.in_replayed = counted.replayed;
        self.in_bad_tag = counted.forged;
        self.in_discarded = counted.discarded;
    }
}

// SAFETY: repr(C) and nothing but u64.
unsafe impl Plain for Counts {}

const _: () = assert!(size_of::<Counts>() == COUNTERS.len() * size_of::<u64>());
