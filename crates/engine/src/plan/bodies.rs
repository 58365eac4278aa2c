//! What lies between the headers and the probe of each packet of a call, stored once for all packets
//! that share it.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Found;

use weir_wire::{PROBE_LEN, fold, ones_complement_sum};

use super::{NO_PAYLOAD, Plan, PlanError, range};
use crate::layout::{GenBody, SLOT_LEN, Slot};

/// Most slots: half a gigabyte.
const MAX_SLOTS: usize = 1 << 21;

/// The bodies of a plan, as the XDP generator reads them.
#[derive(Default)]
pub struct Bodies {
    /// Index of each entry's body; empty for a plan that is not one of calls.
    pub of_entry: Vec<u32>,
    pub bodies: Vec<GenBody>,
    pub slots: Vec<Slot>,
}

impl Bodies {
    /// Cuts every payload to the room in its packets, or fills it up with zeros.
    pub fn of(plan: &Plan, header_len: usize) -> Result<Self, PlanError> {
        let Some(media) = &plan.media else { return Ok(Self::default()) };
        let mut made = Self { of_entry: Vec::with_capacity(plan.entries.len()), ..Self::default() };
        // Most packets with the same payload have the same length as well: hash only the others.
        const NONE: (u16, u32) = (u16::MAX, 0);
        let mut usual = vec![NONE; media.payload_start.len()];
        let mut others: HashMap<(u32, u16), u32> = HashMap::new();
        for (entry, packet) in plan.entries.iter().zip(&media.packets) {
            let len = entry.length - (header_len + packet.kind.header_len() + PROBE_LEN) as u16;
            let known = usual.get_mut(packet.payload as usize).filter(|_| packet.payload != NO_PAYLOAD);
            let index = match known {
                Some(known) if known.0 == len => known.1,
                Some(known) if *known == NONE => {
                    known.0 = len;
                    known.1 = made.add(media.payload(packet), len)?;
                    known.1
                }
                _ => match others.entry((packet.payload, len)) {
                    Found::Occupied(found) => *found.get(),
                    Found::Vacant(place) => *place.insert(made.add(media.payload(packet), len)?),
                },
            };
            made.of_entry.push(index);
        }
        Ok(made)
    }

    fn add(&mut self, payload: &[u8], len: u16) -> Result<u32, PlanError> {
        let first_slot = self.slots.len();
        let carried = &payload[..payload.len().min(len.into())];
        for start in (0..usize::from(len)).step_by(SLOT_LEN) {
            let mut slot = Slot::default();
            let piece = carried.get(start..).unwrap_or_default();
            let piece = &piece[..piece.len().min(SLOT_LEN)];
            slot.bytes[..piece.len()].copy_from_slice(piece);
            self.slots.push(slot);
        }
        if self.slots.len() > MAX_SLOTS {
            let bytes = (self.slots.len() * SLOT_LEN) as u64;
            let allowed = format!("up to {}, each payload rounded up to {SLOT_LEN}", MAX_SLOTS * SLOT_LEN);
            return Err(range("bytes of different payloads", bytes, &allowed));
        }
        self.bodies.push(GenBody {
            first_slot: first_slot as u32,
            length: len,
            sum: fold(ones_complement_sum(carried).into()),
        });
        Ok(self.bodies.len() as u32 - 1)
    }
}

#[cfg(test)]
mod tests {
    use weir_wire::Kind;

    use super::*;
    use crate::plan::Packet;
    use crate::schedule::tests::calls;

    const UDP_END: u16 = 42;

    fn packet(len: u16, payload: u32) -> (u16, u32, Packet) {
        (UDP_END + len + PROBE_LEN as u16, 0, Packet { payload, kind: Kind::Raw, ..Packet::default() })
    }

    #[test]
    fn packets_with_the_same_payload_and_length_share_a_body() {
        let packets = vec![packet(10, 0), packet(10, 1), packet(10, 0), packet(12, 0), packet(12, 0)];
        let made =
            Bodies::of(&calls(packets, vec![vec![]], &[&[7; 20], &[8; 3]]), UDP_END.into()).expect("small");
        assert_eq!(made.of_entry, [0, 1, 0, 2, 2]);
        let body =
            |i: usize| &made.slots[made.bodies[i].first_slot as usize].bytes[..made.bodies[i].length.into()];
        assert_eq!(body(0), [7; 10]);
        assert_eq!(body(1), [8, 8, 8, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(body(2), [7; 12]);
        assert_eq!(made.bodies[0].sum, fold(ones_complement_sum(&[7; 10]).into()));
    }

    #[test]
    fn a_long_body_spans_slots_and_one_without_bytes_needs_none() {
        let long: Vec<u8> = (0..700).map(|i| i as u8).collect();
        let packets = vec![packet(700, 0), packet(0, NO_PAYLOAD), packet(600, NO_PAYLOAD)];
        let made = Bodies::of(&calls(packets, vec![vec![]], &[&long]), UDP_END.into()).expect("small");
        assert_eq!(made.slots.len(), 6);
        assert_eq!(made.slots[2].bytes[..188], long[512..]);
        assert_eq!((made.bodies[1].length, made.bodies[2].sum), (0, 0));
    }

    #[test]
    fn payloads_beyond_the_memory_set_aside_are_refused() {
        let payloads = vec![&[1u8; 2][..]; 1 << 18];
        let packets = (0..1 << 18).map(|i| packet(1_990, i)).collect();
        // Eight slots each: as many as there may be; one more is one too many.
        let plan = calls(packets, vec![vec![]], &payloads);
        assert!(Bodies::of(&plan, UDP_END.into()).is_ok());
        let mut more = plan;
        more.entries.push(more.entries[0]);
        more.media.as_mut().expect("calls").packets.push(packet(1_990, NO_PAYLOAD).2);
        let error = Bodies::of(&more, UDP_END.into()).err().expect("too many").to_string();
        assert!(error.starts_with("bytes of different payloads: 536872960"), "{error}");
    }
}
