//! Both directions of a gateway, without I/O: IP packets in the clear on one side, Ethernet frames with ESP on the
//! other.

use std::ops::Range;

use weir_esp::{RekeyingInbound, RekeyingOutbound, Slot, Suite};

use super::Outside;
use super::counts::Counts;
use crate::packet::port::BATCH;

const ETHERNET_BYTES: usize = 14;
const ADDRESS_BYTES: usize = 6;
/// Pad length and next header of ESP.
const TRAILER_BYTES: usize = 2;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];

/// From the clear into the tunnel.
pub struct Outward {
    sender: RekeyingOutbound,
    /// Destination and source of what is sent.
    front: [u8; 2 * ADDRESS_BYTES],
    longest_bytes: usize,
    batch: Batch,
}

/// From the tunnel into the clear.
pub struct Inward {
    receiver: RekeyingInbound,
    own: [u8; ADDRESS_BYTES],
    not_ip: u64,
    batch: Batch,
}

/// Buffers, and where in them packets or frames are.
struct Batch {
    buffers: Vec<Box<[u8]>>,
    ranges: Vec<Range<usize>>,
}

impl Outward {
    pub fn new(sender: RekeyingOutbound, suite: Suite, outside: &Outside) -> Self {
        let longest_bytes = longest_inside(&sender, suite, outside.mtu_bytes);
        let len = ETHERNET_BYTES + sender.headroom() + longest_bytes + sender.tailroom();
        let mut front = [0; 2 * ADDRESS_BYTES];
        front[..ADDRESS_BYTES].copy_from_slice(&outside.neighbour);
        front[ADDRESS_BYTES..].copy_from_slice(&outside.address);
        Self { sender, front, longest_bytes, batch: Batch::new(len) }
    }

    /// Where to put the next packet; one byte longer than the longest packet, so that longer ones show.
    pub fn room(&mut self) -> &mut [u8] {
        let start = self.start();
        &mut self.batch.next()[start..=start + self.longest_bytes]
    }

    /// Takes the packet of `len` bytes that was put there.
    pub fn add(&mut self, len: usize, counts: &mut Counts) {
        if len > self.longest_bytes {
            counts.out_too_long += 1;
            return;
        }
        let start = self.start();
        self.batch.ranges.push(start..start + len);
    }

    /// Encapsulates what was added.
    pub fn seal(&mut self, counts: &mut Counts) {
        let Batch { buffers, ranges } = &mut self.batch;
        let packets = buffers.iter_mut().zip(ranges.iter());
        let mut slots: Vec<_> =
            packets.map(|(buffer, range)| Slot { buffer, range: range.clone(), error: None }).collect();
        self.sender.encapsulate_each(&mut slots);
        counts.out_rekeys = self.sender.rekeys();
        for (slot, range) in slots.iter_mut().zip(ranges.iter_mut()) {
            *range = match slot.error {
                None => {
                    counts.out_packets += 1;
                    framed(slot.buffer, slot.range.clone(), &self.front)
                }
                Some(error) => {
                    *counts.of_outgoing(error) += 1;
                    0..0
                }
            };
        }
    }

    /// Encapsulates what follows with another SPI and other keys.
    pub fn rekey(&mut self, counts: &mut Counts) {
        self.sender.rekey();
        counts.out_rekeys = self.sender.rekeys();
    }

    /// Frames to be sent, after [`seal`](Self::seal).
    pub fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.batch.taken()
    }

    /// Begins a new batch.
    pub fn clear(&mut self) {
        self.batch.ranges.clear();
    }

    const fn start(&self) -> usize {
        ETHERNET_BYTES + self.sender.headroom()
    }
}

impl Inward {
    pub fn new(receiver: RekeyingInbound, outside: &Outside) -> Self {
        Self { receiver, own: outside.address, not_ip: 0, batch: Batch::new(outside.mtu_bytes) }
    }

    /// Decapsulates a frame of `len` bytes, of which `frame` is the part received. A frame for another
    /// host is ignored.
    pub fn add(&mut self, frame: &[u8], len: usize, counts: &mut Counts) {
        if !frame.starts_with(&self.own) {
            return;
        }
        let buffer = self.batch.next();
        match packet_in(frame) {
            Some(packet) if len <= frame.len() && packet.len() <= buffer.len() => {
                let there = &mut buffer[..packet.len()];
                there.copy_from_slice(packet);
                if let Ok(inside) = self.receiver.decapsulate(there) {
                    self.batch.ranges.push(inside);
                }
            }
            _ => self.not_ip += 1,
        }
        counts.take_incoming(&self.receiver, self.not_ip);
    }

    /// Packets that were inside.
    pub fn packets(&self) -> impl Iterator<Item = &[u8]> {
        self.batch.taken()
    }

    /// Begins a new batch.
    pub fn clear(&mut self) {
        self.batch.ranges.clear();
    }
}

impl Batch {
    fn new(buffer_bytes: usize) -> Self {
        let buffers = (0..BATCH).map(|_| vec![0; buffer_bytes].into_boxed_slice()).collect();
        Self { buffers, ranges: Vec::with_capacity(BATCH) }
    }

    /// The buffer for one more; a batch has at most [`BATCH`].
    fn next(&mut self) -> &mut [u8] {
        &mut self.buffers[self.ranges.len()]
    }

    fn taken(&self) -> impl Iterator<Item = &[u8]> {
        let there = self.buffers.iter().zip(&self.ranges).filter(|(_, range)| !range.is_empty());
        there.map(|(buffer, range)| &buffer[range.clone()])
    }
}

/// The longest packet that fits into `mtu_bytes` once encapsulated; 0 if none does.
fn longest_inside(sender: &RekeyingOutbound, suite: Suite, mtu_bytes: usize) -> usize {
    let room = mtu_bytes.saturating_sub(sender.headroom() + suite.icv_len());
    let longest = (room / suite.align() * suite.align()).saturating_sub(TRAILER_BYTES);
    // No interface in the clear carries a longer one.
    longest.min(mtu_bytes)
}

/// The IP packet in an Ethernet frame.
fn packet_in(frame: &[u8]) -> Option<&[u8]> {
    let (head, packet) = frame.split_at_checked(ETHERNET_BYTES)?;
    [IPV4, IPV6].iter().any(|kind| head.ends_with(kind)).then_some(packet)
}

/// Puts an Ethernet header in front of a packet in `buffer`; returns where the frame is.
fn framed(buffer: &mut [u8], packet: Range<usize>, front: &[u8; 2 * ADDRESS_BYTES]) -> Range<usize> {
    let kind = if buffer[packet.start] >> 4 == 6 { IPV6 } else { IPV4 };
    let head = &mut buffer[packet.start - ETHERNET_BYTES..packet.start];
    head[..2 * ADDRESS_BYTES].copy_from_slice(front);
    head[2 * ADDRESS_BYTES..].copy_from_slice(&kind);
    packet.start - ETHERNET_BYTES..packet.end
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::num::NonZeroU64;

    use proptest::prelude::*;
    use weir_esp::{Association, DEFAULT_WINDOW, Mode, SECRET_LEN, UdpPorts};

    use super::*;

    const NEAR: [u8; 6] = [2, 0, 0, 0, 0, 3];
    const FAR: [u8; 6] = [2, 0, 0, 0, 0, 4];
    const MTU: usize = 1500;
    const SHORTEST: usize = 20;

    fn side(address: [u8; 6], neighbour: [u8; 6]) -> Outside {
        Outside { interface: String::new(), address, neighbour, mtu_bytes: MTU }
    }

    /// The near gateway's way out and the far gateway's way in.
    fn pair(suite: Suite, udp: bool, key: u8) -> (Outward, Inward) {
        rekeying_pair(suite, udp, key, None)
    }

    fn rekeying_pair(suite: Suite, udp: bool, key: u8, most: Option<NonZeroU64>) -> (Outward, Inward) {
        let keys: &'static [[u8; 36]; 2] = Box::leak(Box::new([[1; 36], [key; 36]]));
        let of = |key: &'static [u8; 36]| Association {
            spi: 0x1000,
            suite,
            encryption_key: &key[..suite.encryption_key_lens()[0]],
            authentication_key: &key[..suite.authentication_key_len()],
            mode: Mode::Tunnel {
                source: Ipv4Addr::new(192, 0, 2, 1).into(),
                destination: Ipv4Addr::new(192, 0, 2, 2).into(),
            },
            udp: udp.then(UdpPorts::default),
            esn: false,
        };
        let secret = [4; SECRET_LEN];
        let sender = RekeyingOutbound::new(&of(&keys[0]), &[3; 16], &secret, most);
        let receiver = RekeyingInbound::new(&of(&keys[1]), DEFAULT_WINDOW, &secret);
        let (sender, receiver) =
            (sender.expect("a valid association"), receiver.expect("a valid association"));
        (Outward::new(sender, suite, &side(NEAR, FAR)), Inward::new(receiver, &side(FAR, NEAR)))
    }

    /// An IPv4 packet of `len` bytes.
    fn packet(len: usize, fill: u8) -> Vec<u8> {
        let mut packet = vec![fill; len];
        packet[..SHORTEST]
            .copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        packet
    }

    /// As a read into the available room.
    fn put(outward: &mut Outward, packet: &[u8], counts: &mut Counts) {
        let room = outward.room();
        let len = packet.len().min(room.len());
        room[..len].copy_from_slice(&packet[..len]);
        outward.add(len, counts);
    }

    fn sealed(outward: &mut Outward, packets: &[Vec<u8>], counts: &mut Counts) -> Vec<Vec<u8>> {
        packets.iter().for_each(|packet| put(outward, packet, counts));
        outward.seal(counts);
        let made = outward.frames().map(<[u8]>::to_vec).collect();
        outward.clear();
        made
    }

    fn opened(inward: &mut Inward, frames: &[Vec<u8>], counts: &mut Counts) -> Vec<Vec<u8>> {
        frames.iter().for_each(|frame| inward.add(frame, frame.len(), counts));
        let made = inward.packets().map(<[u8]>::to_vec).collect();
        inward.clear();
        made
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_goes_into_the_tunnel_comes_out(
            lens in prop::collection::vec(SHORTEST..1400, 1..=BATCH),
            suite in prop::sample::select(Suite::ALL.to_vec()),
            udp in any::<bool>(),
        ) {
            let (mut outward, mut inward) = pair(suite, udp, 1);
            let mut counts = Counts::default();
            let clear: Vec<_> = lens.iter().zip(0..).map(|(&len, fill)| packet(len, fill)).collect();
            let between = sealed(&mut outward, &clear, &mut counts);
            for frame in &between {
                prop_assert!(frame.starts_with(&[&FAR[..], &NEAR, &IPV4].concat()));
            }
            prop_assert_eq!(&opened(&mut inward, &between, &mut counts), &clear);
            let all = clear.len() as u64;
            prop_assert_eq!((counts.out_packets, counts.in_packets), (all, all));
        }
    }

    #[test]
    fn the_longest_packet_fills_the_mtu_and_one_more_byte_is_too_long() {
        for (suite, udp) in Suite::ALL.into_iter().flat_map(|suite| [(suite, false), (suite, true)]) {
            let (mut outward, _) = pair(suite, udp, 1);
            let mut counts = Counts::default();
            let longest = outward.longest_bytes;
            let packets = [packet(longest, 0), packet(longest + 1, 0), packet(longest + 100, 0)];
            let made = sealed(&mut outward, &packets, &mut counts);
            assert_eq!(made.len(), 1, "{suite:?}");
            let len = made[0].len() - ETHERNET_BYTES;
            assert!(len <= MTU && len + suite.align() > MTU, "{suite:?}: {len}");
            assert_eq!(counts, Counts { out_packets: 1, out_too_long: 2, ..Counts::default() });
        }
    }

    #[test]
    fn drops_are_counted_by_their_reason() {
        let (mut outward, mut inward) = pair(Suite::AesGcm, false, 1);
        let mut counts = Counts::default();
        let between = sealed(&mut outward, &[packet(100, 0), packet(100, 1)], &mut counts);
        let mut forged = between[1].clone();
        *forged.last_mut().expect("it is not empty") ^= 1;
        let mut foreign = between[0].clone();
        foreign[ETHERNET_BYTES + SHORTEST] ^= 1;
        let cut = between[0][..60].to_vec();
        let arp = [&FAR[..], &NEAR, &[0x08, 0x06], &[0; 28]].concat();
        let stray = [&NEAR[..], &between[0][6..]].concat();
        let frames = [between[0].clone(), between[0].clone(), forged, foreign, cut, arp, stray];
        assert_eq!(opened(&mut inward, &frames, &mut counts).len(), 1);
        let expected = Counts {
            out_packets: 2,
            in_packets: 1,
            in_replayed: 1,
            in_bad_tag: 1,
            in_foreign: 1,
            in_malformed: 2,
            ..Counts::default()
        };
        assert_eq!(counts, expected);
    }

    #[test]
    fn keys_change_while_packets_pass_and_both_gateways_count_it() {
        let (mut outward, mut inward) = rekeying_pair(Suite::AesGcm, false, 1, NonZeroU64::new(10));
        let mut counts = Counts::default();
        let clear: Vec<_> = (0..25).map(|fill| packet(100, fill)).collect();
        let mut between = sealed(&mut outward, &clear, &mut counts);
        outward.rekey(&mut counts);
        between.extend(sealed(&mut outward, &clear[..1], &mut counts));
        // The first packet with new keys overtakes the last one with old keys.
        between.swap(9, 10);
        assert_eq!(opened(&mut inward, &between, &mut counts).len(), 26);
        let expected = Counts {
            out_packets: 26,
            out_rekeys: 3,
            in_packets: 26,
            in_late: 1,
            in_rekeys: 3,
            ..Counts::default()
        };
        assert_eq!(counts, expected);
    }

    #[test]
    fn other_keys_let_nothing_through() {
        let (mut outward, mut inward) = pair(Suite::AesCbcHmacSha1, true, 2);
        let mut counts = Counts::default();
        let between = sealed(&mut outward, &[packet(200, 0)], &mut counts);
        assert_eq!(opened(&mut inward, &between, &mut counts).len(), 0);
        assert_eq!((counts.in_packets, counts.in_bad_tag), (0, 1));
    }

    #[test]
    fn what_is_no_packet_stays_out_of_the_tunnel() {
        let (mut outward, _) = pair(Suite::AesGcm, false, 1);
        let mut counts = Counts::default();
        let cut = packet(100, 0)[..80].to_vec();
        assert!(sealed(&mut outward, &[vec![0; 40], cut, vec![]], &mut counts).is_empty());
        assert_eq!(counts, Counts { out_not_ip: 3, ..Counts::default() });
    }

    #[test]
    fn a_frame_of_which_only_a_part_was_received_is_dropped() {
        let (mut outward, mut inward) = pair(Suite::AesGcm, false, 1);
        let mut counts = Counts::default();
        let between = sealed(&mut outward, &[packet(100, 0)], &mut counts);
        inward.add(&between[0], 5000, &mut counts);
        assert_eq!((counts.in_malformed, counts.in_packets), (1, 0));
    }
}
