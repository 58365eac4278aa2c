//! IPsec ESP (RFC 4303), by itself and in UDP (RFC 3948): packets of each security association, and what their
//! sequence numbers show. The payload stays encrypted.

mod numbers;

use std::collections::HashMap;
use std::net::IpAddr;

use crate::capture::Packet;
use crate::packet::{Decoded, Esp, Natt, Tags};
use numbers::Numbers;

/// Most flows at a time; packets of further ones are only counted while none is silent.
pub const MAX_FLOWS: usize = 1 << 16;
/// Most finished flows; they take less memory.
const MAX_ENDED: usize = 1 << 18;
/// A flow without packets for this long is finished if room is needed for another one.
const SILENT_NS: i64 = 600_000_000_000;
/// How often silent flows are looked for, in time of the capture.
const SWEEP_NS: u64 = 10_000_000_000;

/// Numbers up to 255 are reserved (RFC 4303 section 2.1).
const LEAST_SPI: u32 = 256;
/// If numbers jump this far, the association was set up anew with the same SPI.
const LONGEST_JUMP: i64 = 1 << 20;
const LONGEST_DELAY: i64 = 1 << 16;

/// Packets of one key are one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Security parameters index.
    pub spi: u32,
    /// Source and destination port, in UDP.
    pub ports: Option<(u16, u16)>,
    /// VLAN.
    pub tags: Tags,
    /// Interface of the capture, and of its link layer if that names one.
    pub interface: (u32, u32),
}

/// What was seen of a security association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its key.
    pub key: Key,
    /// Packets, copies included.
    pub packets: u64,
    /// Their bytes from the SPI on, as sent.
    pub bytes: u64,
    /// Earliest packet, ns since 1970.
    pub first_ns: i64,
    /// Latest packet.
    pub last_ns: i64,
    /// Sequence numbers between the first and the last that never came.
    pub lost: u64,
    /// Packets after one with a higher number.
    pub reordered: u64,
    /// Packets whose number had come before.
    pub copies: u64,
    /// How often the numbers started anew.
    pub restarts: u64,
}

#[derive(Debug)]
struct Open {
    /// In the order of first packets.
    birth: u64,
    /// Counts of the numbers before the last restart.
    flow: Flow,
    numbers: Numbers,
}

/// Finds flows, packet by packet.
#[derive(Debug, Default)]
pub struct Flows {
    open: Vec<Open>,
    index: HashMap<Key, usize>,
    ended: Vec<(u64, Flow)>,
    births: u64,
    swept_ns: Option<i64>,
    left_out: u64,
}

impl Flows {
    /// The next packet, decoded; true if it was ESP.
    #[inline]
    pub fn put(&mut self, packet: &Packet<'_>, decoded: &Decoded<'_>) -> bool {
        let (header, ports) = match decoded {
            Decoded::Esp(header) => (*header, None),
            Decoded::Udp(datagram) => match datagram.natt() {
                Some(Natt::Esp(header)) => (header, Some((datagram.src_port, datagram.dst_port))),
                _ => return false,
            },
            _ => return false,
        };
        if header.spi < LEAST_SPI {
            return false;
        }
        self.count(packet, &header, ports);
        true
    }

    /// The flows in the order of their first packets.
    pub fn finish(self) -> impl Iterator<Item = Flow> {
        let mut all = self.ended;
        all.extend(self.open.into_iter().map(Open::end));
        all.sort_unstable_by_key(|(birth, _)| *birth);
        all.into_iter().map(|(_, flow)| flow)
    }

    /// Packets of flows beyond the limit.
    #[must_use]
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    fn count(&mut self, packet: &Packet<'_>, header: &Esp, ports: Option<(u16, u16)>) {
        let Esp { src, dst, spi, seq, tags, point, .. } = *header;
        let (time_ns, bytes) = (packet.time_ns, header.len as u64);
        let key = Key { src, dst, spi, ports, tags, interface: (packet.interface, point) };
        let Some(&at) = self.index.get(&key) else { return self.begin(time_ns, key, seq, bytes) };
        let Open { flow, numbers, .. } = &mut self.open[at];
        flow.packets += 1;
        flow.bytes += bytes;
        flow.first_ns = flow.first_ns.min(time_ns);
        flow.last_ns = flow.last_ns.max(time_ns);
        // Continued beyond 32 bits: extended sequence numbers send the lower half only.
        let highest = numbers.highest();
        let ahead = i64::from(seq.wrapping_sub(highest as u32).cast_signed());
        if (-LONGEST_DELAY..=LONGEST_JUMP).contains(&ahead) {
            numbers.put(highest + ahead);
        } else {
            add(flow, numbers);
            flow.restarts += 1;
            *numbers = Numbers::new(seq.into());
        }
    }

    fn begin(&mut self, time_ns: i64, key: Key, seq: u32, bytes: u64) {
        if self.open.len() >= MAX_FLOWS && !self.make_room(time_ns) {
            self.left_out += 1;
            return;
        }
        self.index.insert(key, self.open.len());
        let (lost, reordered, copies, restarts) = (0, 0, 0, 0);
        let flow = Flow {
            key,
            packets: 1,
            bytes,
            first_ns: time_ns,
            last_ns: time_ns,
            lost,
            reordered,
            copies,
            restarts,
        };
        self.births += 1;
        self.open.push(Open { birth: self.births, flow, numbers: Numbers::new(seq.into()) });
    }

    /// Finishes flows that are silent; false if there is none.
    #[cold]
    fn make_room(&mut self, now_ns: i64) -> bool {
        if self.swept_ns.is_some_and(|swept_ns| swept_ns.abs_diff(now_ns) < SWEEP_NS)
            || self.ended.len() >= MAX_ENDED
        {
            return false;
        }
        self.swept_ns = Some(now_ns);
        let is_silent = |open: &mut Open| now_ns.saturating_sub(open.flow.last_ns) > SILENT_NS;
        self.ended.extend(self.open.extract_if(.., is_silent).map(Open::end));
        self.index = self.open.iter().enumerate().map(|(at, open)| (open.flow.key, at)).collect();
        self.open.len() < MAX_FLOWS
    }
}

impl Open {
    fn end(self) -> (u64, Flow) {
        let Self { birth, mut flow, numbers } = self;
        add(&mut flow, &numbers);
        (birth, flow)
    }
}

fn add(flow: &mut Flow, numbers: &Numbers) {
    flow.lost += numbers.lost();
    flow.reordered += numbers.reordered();
    flow.copies += numbers.copies();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::LinkType;
    use crate::packet::decode;
    use crate::testing::{udp_frame, udp_over_ipv4};

    const UDP_PORT: u16 = 4_500;

    fn esp(spi: u32, sequence: u32) -> Vec<u8> {
        [&spi.to_be_bytes()[..], &sequence.to_be_bytes(), &[0x5a; 80]].concat()
    }

    /// Flows of datagrams on the port of ESP, a millisecond apart.
    fn flows(payloads: impl IntoIterator<Item = Vec<u8>>) -> Vec<Flow> {
        let mut flows = Flows::default();
        for (time_ns, payload) in (0..).step_by(1_000_000).zip(payloads) {
            let data = udp_frame(UDP_PORT, UDP_PORT, &payload);
            let packet = Packet::new(time_ns, LinkType(1), &data);
            flows.put(&packet, &decode(&packet));
        }
        flows.finish().collect()
    }

    fn counted(numbers: impl IntoIterator<Item = u32>) -> (u64, u64, u64, u64, u64) {
        let found = flows(numbers.into_iter().map(|number| esp(0x1000, number)));
        assert_eq!(found.len(), 1);
        (found[0].packets, found[0].lost, found[0].reordered, found[0].copies, found[0].restarts)
    }

    #[test]
    fn each_spi_is_a_flow() {
        let found = flows([esp(0x1000, 1), esp(0x2000, 7), esp(0x1000, 2)]);
        assert_eq!(
            found.iter().map(|f| (f.key.spi, f.packets)).collect::<Vec<_>>(),
            [(0x1000, 2), (0x2000, 1)]
        );
        assert_eq!((found[0].bytes, found[0].first_ns, found[0].last_ns), (176, 0, 2_000_000));
        assert_eq!(found[0].key.ports, Some((4_500, 4_500)));
    }

    #[test]
    fn packets_without_udp_are_another_flow() {
        let mut flows = Flows::default();
        let mut data = udp_over_ipv4(1, 2, &[0x5a; 84]);
        data[9] = 50;
        data[20..28].copy_from_slice(&[0, 0, 0x10, 0, 0, 0, 0, 7]);
        let packet = Packet::new(5, LinkType(101), &data);
        assert!(flows.put(&packet, &decode(&packet)));
        let found: Vec<_> = flows.finish().collect();
        assert_eq!((found[0].key.spi, found[0].key.ports, found[0].bytes), (0x1000, None, 92));
    }

    #[test]
    fn ike_and_keep_alives_are_no_flow() {
        let ike = [&[0; 4][..], &[0x5a; 40]].concat();
        assert!(flows([ike, vec![0xff], vec![], esp(255, 1)]).is_empty());
    }

    #[test]
    fn losses_order_and_copies_are_told_by_sequence_numbers() {
        assert_eq!(counted([1, 2, 5, 4, 4, 6]), (6, 1, 1, 1, 0));
    }

    #[test]
    fn numbers_go_on_when_they_wrap() {
        assert_eq!(counted([u32::MAX - 1, u32::MAX, 0, 2]), (4, 1, 0, 0, 0));
    }

    #[test]
    fn an_association_set_up_anew_loses_nothing_between() {
        assert_eq!(counted((100_000..100_010).chain(1..5)), (14, 0, 0, 0, 1));
        assert_eq!(counted([1, 2, 3_000_000, 3_000_002]), (4, 1, 0, 0, 1));
    }

    #[test]
    fn a_packet_that_comes_very_late_is_reordered() {
        assert_eq!(counted((1..10).chain(11..400).chain([10])), (399, 0, 1, 0, 0));
    }

    #[test]
    fn copies_far_behind_fill_no_gap() {
        // Every 50th is lost, and every 49th comes again 300 later.
        let numbers = (1..5_001_u32).flat_map(|n| {
            let copy = (n > 300 && n % 49 == 0).then(|| if (n - 300) % 50 == 0 { n - 299 } else { n - 300 });
            (n % 50 != 0).then_some(n).into_iter().chain(copy)
        });
        let (packets, lost, reordered, copies, _) = counted(numbers);
        assert_eq!((lost, reordered, copies), (99, 0, packets - 4_900));
        assert_eq!(counted((1..10_001).chain([5_000])), (10_001, 0, 1, 0, 0));
        assert_eq!(counted((1..5_000).chain(5_001..10_001).chain([5_000, 5_000])), (10_001, 1, 2, 0, 0));
    }

    #[test]
    fn silent_flows_make_room_for_later_ones() {
        let mut flows = Flows::default();
        let mut put = |time_s: i64, spi: u32| {
            let data = udp_frame(UDP_PORT, UDP_PORT, &esp(LEAST_SPI + spi, 1));
            let packet = Packet::new(time_s * 1_000_000_000, LinkType(1), &data);
            flows.put(&packet, &decode(&packet));
        };
        (0..MAX_FLOWS as u32).for_each(|spi| put(0, spi));
        put(500, MAX_FLOWS as u32 - 1);
        put(700, MAX_FLOWS as u32);
        put(701, 0);
        put(702, MAX_FLOWS as u32 - 1);
        assert_eq!(flows.left_out(), 0);
        let found: Vec<_> = flows.finish().map(|flow| (flow.key.spi - LEAST_SPI, flow.packets)).collect();
        assert_eq!(found.len(), MAX_FLOWS + 2);
        assert_eq!(found[0], (0, 1));
        let last = MAX_FLOWS as u32;
        assert_eq!(found[MAX_FLOWS - 1..], [(last - 1, 3), (last, 1), (0, 1)]);
    }

    #[test]
    fn a_flood_of_flows_is_counted() {
        let mut flows = Flows::default();
        for spi in 0..MAX_FLOWS as u32 + 10 {
            let data = udp_frame(UDP_PORT, UDP_PORT, &esp(LEAST_SPI + spi, 1));
            let packet = Packet::new(0, LinkType(1), &data);
            assert!(flows.put(&packet, &decode(&packet)));
        }
        assert_eq!(flows.left_out(), 10);
        assert_eq!(flows.finish().count(), MAX_FLOWS);
    }
}
