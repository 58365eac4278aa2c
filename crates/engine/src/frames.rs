//! Every frame of a plan, without sending any.

use weir_wire::{Header, Probe, build, build_media};

use crate::plan::{Impairment, Macs, Numbers, Plan, PlanError};
use crate::schedule::{Cursor, Departure};

/// Most bytes of all frames of a plan.
const MAX_BYTES: u64 = 1 << 31;
/// Marks the probes: "We".
const MAGIC: u16 = 0x5765;

/// The frames of a plan, in order of departure.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    /// When each is due, from the start; its probe says so as well.
    pub due_ns: Vec<u64>,
    /// Lengths without FCS.
    pub length: Vec<u32>,
    /// Flows.
    pub flow: Vec<u32>,
    /// All frames, one after the other.
    pub bytes: Vec<u8>,
}

/// Builds what the back ends would send.
///
/// # Errors
/// [`PlanError`] for a plan that cannot be sent, repeats its entries, or is too long.
pub fn frames(plan: &Plan, macs: Macs, back: Option<Macs>) -> Result<Frames, PlanError> {
    let headers = plan.headers(macs, back)?;
    if !plan.paced {
        return Err(PlanError::Media("only the frames of a paced schedule are known in advance"));
    }
    let mut frames = Frames::default();
    let mut left: Vec<u32> = plan.phases.iter().map(|phase| phase.n_entries).collect();
    let mut numbers = Numbers::new(plan.flows.len());
    let mut cursor = Cursor::new(plan);
    while let Some(departure) = cursor.next(0) {
        let Some(rest) = left[departure.phase as usize].checked_sub(1) else {
            return Err(PlanError::Media("the schedule repeats its entries, so its frames never end"));
        };
        left[departure.phase as usize] = rest;
        let impairment = plan.impairment(&departure);
        let (seq, counts) = numbers.of(departure.flow, impairment);
        if counts {
            numbers.advance(departure.flow);
        }
        if impairment == Impairment::Lose {
            continue;
        }
        let start = frames.bytes.len();
        let end = start + usize::from(departure.length);
        if end as u64 > MAX_BYTES {
            let allowed = format!("up to {MAX_BYTES}; take a shorter trial");
            return Err(PlanError::Range { what: "bytes of all frames", found: end as u64, allowed });
        }
        frames.bytes.resize(end, 0);
        let probe = Probe { magic: MAGIC, flow: departure.flow, seq, time_ns: departure.due_ns };
        let built =
            plan.write(&mut frames.bytes[start..], &headers[departure.flow as usize], &departure, &probe);
        debug_assert!(built, "the plan was checked");
        frames.due_ns.push(departure.due_ns);
        frames.length.push(departure.length.into());
        frames.flow.push(departure.flow);
    }
    Ok(frames)
}

impl Plan {
    /// Writes the frame of a departure; `false` if its length does not suffice.
    pub(crate) fn write(
        &self,
        frame: &mut [u8],
        header: &Header,
        departure: &Departure,
        probe: &Probe,
    ) -> bool {
        match &self.media {
            Some(media) => {
                let media = media.on_wire(departure.entry as usize, departure.flow as usize);
                build_media(frame, header, &media, probe)
            }
            None => build(frame, header, self.skip.into(), probe),
        }
    }

    /// The fault planned for a departure.
    pub(crate) fn impairment(&self, departure: &Departure) -> Impairment {
        self.media
            .as_ref()
            .map_or(Impairment::None, |media| media.packets[departure.entry as usize].impairment)
    }
}

#[cfg(test)]
mod tests {
    use weir_wire::{Kind, find_last_probe};

    use super::*;
    use crate::plan::Packet;
    use crate::schedule::tests::calls;

    const FORWARD: Macs = Macs { src: [1; 6], dst: [2; 6] };
    const BACK: Macs = Macs { src: [3; 6], dst: [4; 6] };

    fn plan(impairments: &[Impairment]) -> Plan {
        let packet = |(i, &impairment): (usize, &Impairment)| {
            let kind = Packet { kind: Kind::Rtp, stamp: 160 * i as u32, impairment, ..Packet::default() };
            (100 + i as u16, i as u32 % 2, kind)
        };
        let packets: Vec<_> = impairments.iter().enumerate().map(packet).collect();
        let mut plan = calls(packets, vec![vec![0x80; 12]; 2], &[&[5; 20]]);
        // Each entry once.
        plan.phases[0].end_ns = 10_000 * impairments.len() as u64;
        plan.duration_ns = plan.phases[0].end_ns;
        plan
    }

    #[test]
    fn every_frame_is_there_with_the_addresses_of_its_direction() {
        let frames = frames(&plan(&[Impairment::None; 4]), FORWARD, Some(BACK)).expect("once");
        assert_eq!(frames.due_ns, [0, 10_000, 20_000, 30_000]);
        assert_eq!(frames.length, [100, 101, 102, 103]);
        assert_eq!(frames.flow, [0, 1, 0, 1]);
        let third = &frames.bytes[201..303];
        assert_eq!(third[..12], [2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1]);
        assert_eq!(frames.bytes[100..106], [4; 6]);
        assert_eq!(find_last_probe(third), Some(Probe { magic: MAGIC, flow: 0, seq: 1, time_ns: 20_000 }));
        assert_eq!(frames.bytes.len(), 406);
    }

    #[test]
    fn a_lost_packet_has_no_frame() {
        let faults = [Impairment::None, Impairment::None, Impairment::Lose, Impairment::None];
        assert_eq!(frames(&plan(&faults), FORWARD, Some(BACK)).expect("once").length, [100, 101, 103]);
    }

    #[test]
    fn a_schedule_that_repeats_is_refused() {
        let mut repeating = plan(&[Impairment::None; 4]);
        repeating.phases[0].end_ns += 1;
        repeating.duration_ns += 1;
        let error = frames(&repeating, FORWARD, Some(BACK)).expect_err("on and on");
        assert!(error.to_string().contains("repeats"), "{error}");
    }
}
