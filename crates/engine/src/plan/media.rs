//! What the packets of calls carry, and in which direction each flow goes.

use std::num::NonZeroU8;

use weir_wire::{APP_HEADER_MAX, Header, Kind, L4, Media as WireMedia, PROBE_LEN};

use super::{NEXT_FLOW, Plan, PlanError, range};

/// Value of [`Packet::payload`]: only zeros.
pub const NO_PAYLOAD: u32 = u32::MAX;

/// Most arrivals that a log has room for: 24 bytes each.
const MAX_LOGGED: u64 = 1 << 25;

/// A fault that the schedule introduces on purpose, to see its effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Impairment {
    /// None.
    #[default]
    None,
    /// The packet is numbered and counted as sent, but does not depart: it is lost.
    Lose,
    /// The packet this many numbers before the flow's next one departs now: for the second time, or late
    /// if it was lost. It does not count as sent again.
    Again(NonZeroU8),
}

/// What an entry of the schedule carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Added to the time stamp of the flow's application header.
    pub stamp: u32,
    /// Index into the payloads, or [`NO_PAYLOAD`].
    pub payload: u32,
    /// What is written into the application header.
    pub kind: Kind,
    /// RTP's marker bit.
    pub marker: bool,
    /// Fault.
    pub impairment: Impairment,
}

/// What a flow's packets have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediaFlow {
    /// Application header; its first `header_len` bytes count.
    pub header: [u8; APP_HEADER_MAX],
    /// 0 for flows that have none.
    pub header_len: u8,
    /// Sent from the receiver's side to the sender's.
    pub back: bool,
}

/// What makes a plan one of calls.
#[derive(Clone, Debug, Default)]
pub struct Media {
    /// One for each entry of the plan.
    pub packets: Vec<Packet>,
    /// One for each flow of the plan.
    pub flows: Vec<MediaFlow>,
    /// All payloads, one after the other.
    pub payload_bytes: Vec<u8>,
    /// Payload `i` lies from the `i`-th of these offsets up to the next.
    pub payload_start: Vec<u32>,
}

impl Media {
    /// The bytes of a packet's payload.
    #[must_use]
    pub fn payload(&self, packet: &Packet) -> &[u8] {
        let row = packet.payload as usize;
        match (self.payload_start.get(row), self.payload_start.get(row.wrapping_add(1))) {
            (Some(&start), Some(&end)) => &self.payload_bytes[start as usize..end as usize],
            _ => &[],
        }
    }

    /// An entry as the wire crate writes it.
    #[must_use]
    pub fn on_wire(&self, entry: usize, flow: usize) -> WireMedia<'_> {
        let (packet, of) = (&self.packets[entry], &self.flows[flow]);
        WireMedia {
            kind: packet.kind,
            header: &of.header[..of.header_len.into()],
            stamp: packet.stamp,
            marker: packet.marker,
            payload: self.payload(packet),
        }
    }

    /// Whether any flow is sent from the receiver's side.
    #[must_use]
    pub fn goes_back(&self) -> bool {
        self.flows.iter().any(|flow| flow.back)
    }

    /// Whether the engine can play it as part of `plan`.
    pub(super) fn check(&self, plan: &Plan, headers: &[Header]) -> Result<(), PlanError> {
        if plan.l4 != L4::Udp || !plan.paced {
            return Err(PlanError::Media("packets of calls must be paced and UDP"));
        }
        if self.packets.len() != plan.entries.len() || self.flows.len() != plan.flows.len() {
            return Err(PlanError::Media("packets, flows and what they carry differ in number"));
        }
        if self.flows.iter().any(|flow| usize::from(flow.header_len) > APP_HEADER_MAX) {
            return Err(PlanError::Media("an application header is longer than 12 bytes"));
        }
        let ordered = self.payload_start.is_sorted()
            && self.payload_start.last().is_none_or(|&end| end as usize <= self.payload_bytes.len());
        if !ordered {
            return Err(PlanError::Media("payloads lie outside of their bytes or overlap"));
        }
        let logged = plan.packets_per_side().iter().sum::<u64>();
        if logged > MAX_LOGGED {
            return Err(range("packets of a trial with calls", logged, &format!("up to {MAX_LOGGED}")));
        }
        self.check_packets(plan, headers[0].len())
    }

    fn check_packets(&self, plan: &Plan, header_len: usize) -> Result<(), PlanError> {
        let payloads = self.payload_start.len().saturating_sub(1);
        let mut numbered = vec![0u64; self.flows.len()];
        for (index, (entry, packet)) in plan.entries.iter().zip(&self.packets).enumerate() {
            let misfit = |why| PlanError::Packet { index, flow: entry.flow, why };
            if entry.flow == NEXT_FLOW {
                return Err(misfit("a packet of a call must name its flow".into()));
            }
            let flow = &self.flows[entry.flow as usize];
            let app_len = packet.kind.header_len();
            if app_len > flow.header_len.into() {
                let (kind, has) = (packet.kind, flow.header_len);
                return Err(misfit(format!("{kind} needs a header of {app_len} bytes, its flow has {has}")));
            }
            let needed = header_len + app_len + PROBE_LEN;
            let length = usize::from(entry.length);
            if length < needed {
                return Err(misfit(format!(
                    "a frame of {length} bytes (without FCS) cannot hold {needed} bytes of headers and probe"
                )));
            }
            if packet.payload != NO_PAYLOAD && packet.payload as usize >= payloads {
                return Err(misfit(format!("payload {} of {payloads}", packet.payload)));
            }
            let (found, room) = (self.payload(packet).len(), length - header_len - app_len);
            if found > room {
                return Err(misfit(format!(
                    "a payload of {found} bytes does not fit into the {room} that its frame leaves"
                )));
            }
            let numbered = &mut numbered[entry.flow as usize];
            match packet.impairment {
                Impairment::Again(back) if u64::from(back.get()) > *numbered => {
                    return Err(misfit(format!("{back} packets back, but {numbered} went before it")));
                }
                Impairment::Again(_) => {}
                Impairment::None | Impairment::Lose => *numbered += 1,
            }
        }
        Ok(())
    }
}

/// Numbers the packets of each flow, as `bpf/generator.bpf.c` does.
pub struct Numbers(Vec<u32>);

impl Numbers {
    /// All flows begin at 0.
    pub fn new(n_flows: usize) -> Self {
        Self(vec![0; n_flows])
    }

    /// The number of a packet that departs, and whether it counts as sent.
    pub fn of(&self, flow: u32, impairment: Impairment) -> (u32, bool) {
        let next = self.0[flow as usize];
        match impairment {
            Impairment::Again(back) => (next.wrapping_sub(back.get().into()), false),
            Impairment::None | Impairment::Lose => (next, true),
        }
    }

    /// The packet has departed.
    pub fn advance(&mut self, flow: u32) {
        let next = &mut self.0[flow as usize];
        *next = next.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Macs, Side};
    use crate::schedule::tests::calls;

    const MACS: Macs = Macs { src: [2, 0, 0, 0, 0, 1], dst: [2, 0, 0, 0, 0, 2] };
    const RTP: Packet =
        Packet { stamp: 0, payload: 0, kind: Kind::Rtp, marker: false, impairment: Impairment::None };

    fn headers() -> Vec<Vec<u8>> {
        vec![vec![0x80; 12], vec![0; 4]]
    }

    fn refused(packets: Vec<(u16, u32, Packet)>, payloads: &[&[u8]]) -> String {
        let plan = calls(packets, headers(), payloads);
        plan.headers(MACS, Some(MACS)).expect_err("not to be sent").to_string()
    }

    #[test]
    fn packets_are_counted_for_each_direction() {
        let (five, three) = ((214, 0, RTP), (214, 1, Packet { kind: Kind::Raw, ..RTP }));
        let mut plan = calls(vec![five, three, five], headers(), &[&[1; 100]]);
        assert_eq!(plan.packets_per_side(), [4_000_000, 2_000_000]);
        // 10 µs a packet: two rounds, and all but the last entry of the third.
        plan.phases[0].end_ns = 80_000;
        assert_eq!(plan.packets_per_side(), [5, 3]);
        plan.phases[0].end_ns = 70_001;
        assert_eq!(plan.packets_per_side(), [5, 3]);
    }

    #[test]
    fn the_way_back_needs_addresses() {
        let plan = calls(vec![(214, 0, RTP)], headers(), &[&[1; 100]]);
        assert_eq!((plan.side(0), plan.side(1)), (Side::Forward, Side::Back));
        assert!(plan.headers(MACS, None).expect_err("no way back").to_string().contains("way back"));
        let back = Macs { src: [4; 6], dst: [6; 6] };
        let headers = plan.headers(MACS, Some(back)).expect("valid plan");
        assert_eq!(
            (&headers[0].bytes()[..6], &headers[1].bytes()[..6]),
            (&[2, 0, 0, 0, 0, 2][..], &[6; 6][..])
        );
    }

    #[test]
    fn packets_that_cannot_be_built_are_named() {
        let fits = (42 + 12 + 18, 0, RTP);
        let why = refused(vec![fits, (71, 0, RTP)], &[&[1; 18]]);
        assert_eq!(
            why,
            "packet 1 (flow 0): a frame of 71 bytes (without FCS) cannot hold 72 bytes of headers and probe"
        );
        let why = refused(vec![fits], &[&[1; 19]]);
        assert_eq!(
            why,
            "packet 0 (flow 0): a payload of 19 bytes does not fit into the 18 that its frame leaves"
        );
        let why = refused(vec![(72, 1, RTP)], &[&[]]);
        assert_eq!(why, "packet 0 (flow 1): RTP needs a header of 12 bytes, its flow has 4");
        assert_eq!(refused(vec![fits], &[]), "packet 0 (flow 0): payload 0 of 0");
        assert_eq!(
            refused(vec![(72, NEXT_FLOW, RTP)], &[&[]]),
            format!("packet 0 (flow {NEXT_FLOW}): a packet of a call must name its flow")
        );
    }

    #[test]
    fn only_packets_that_went_before_can_be_sent_again() {
        let again =
            |back| Packet { impairment: Impairment::Again(NonZeroU8::new(back).expect("not 0")), ..RTP };
        let packets = |back| vec![(214, 0, RTP), (214, 0, again(back))];
        assert!(calls(packets(1), headers(), &[&[1; 100]]).headers(MACS, Some(MACS)).is_ok());
        assert_eq!(
            refused(packets(2), &[&[1; 100]]),
            "packet 1 (flow 0): 2 packets back, but 1 went before it"
        );
    }

    #[test]
    fn what_is_lost_has_a_number_and_what_comes_again_has_none_of_its_own() {
        let two = Impairment::Again(NonZeroU8::new(2).expect("not 0"));
        let mut numbers = Numbers::new(1);
        let mut seen = Vec::new();
        for impairment in [Impairment::None, Impairment::Lose, Impairment::None, two, Impairment::None] {
            let (seq, counts) = numbers.of(0, impairment);
            if counts {
                numbers.advance(0);
            }
            seen.push(seq);
        }
        assert_eq!(seen, [0, 1, 2, 1, 3]);
    }
}
