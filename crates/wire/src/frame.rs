//! Whole frames: built for senders without templates of their own, and searched
//! for their probe by receivers.

use crate::{ETHERNET_LEN, Header, IPV4_LEN, IPV6_LEN, L4, PROBE_LEN, Probe, fold, ones_complement_sum};

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_QINQ: u16 = 0x88a8;

/// Writes a frame of `frame.len()` bytes (without FCS): headers, `skip` bytes left as they
/// are, the probe, the rest left as it is; lengths and checksums are right for the whole.
///
/// Returns `false`, having written nothing, when the frame is too short.
#[must_use]
pub fn build(frame: &mut [u8], header: &Header, skip: usize, probe: &Probe) -> bool {
    let at = header.len() + skip;
    if frame.len() < at + PROBE_LEN {
        return false;
    }
    frame[..header.len()].copy_from_slice(&header.bytes()[..header.len()]);
    frame[at..at + PROBE_LEN].copy_from_slice(&probe.emit());
    finish(frame, header);
    true
}

/// Writes lengths and checksums into an otherwise complete frame.
pub(crate) fn finish(frame: &mut [u8], header: &Header) {
    let len = frame.len();
    let l4_at = header.l4_at();
    // A frame has at most 2048 bytes; lengths fit in 16 bits.
    let l4_len = ((len - l4_at) as u16).to_be_bytes();
    if header.ip() == 4 {
        let total = ((len - ETHERNET_LEN) as u16).to_be_bytes();
        frame[16..18].copy_from_slice(&total);
        let sum = !fold(u64::from(header.ip_sum()) + u64::from(u16::from_ne_bytes(total)));
        frame[24..26].copy_from_slice(&sum.to_ne_bytes());
    } else {
        let payload = ((len - ETHERNET_LEN - IPV6_LEN) as u16).to_be_bytes();
        frame[18..20].copy_from_slice(&payload);
    }
    let mut sum = u64::from(header.l4_sum())
        + u64::from(u16::from_ne_bytes(l4_len))
        + u64::from(ones_complement_sum(&frame[header.len()..]));
    match header.l4() {
        L4::Udp => {
            frame[l4_at + 4..l4_at + 6].copy_from_slice(&l4_len);
            sum += u64::from(u16::from_ne_bytes(l4_len));
            // RFC 768: a sum of zero is sent as all ones.
            let check = match !fold(sum) {
                0 => 0xffff,
                check => check,
            };
            frame[l4_at + 6..l4_at + 8].copy_from_slice(&check.to_ne_bytes());
        }
        L4::Tcp => frame[l4_at + 16..l4_at + 18].copy_from_slice(&(!fold(sum)).to_ne_bytes()),
    }
}

/// Finds the probe in a received frame: Ethernet, up to two VLAN tags, IPv4 with options or
/// IPv6 without extensions, UDP or TCP, `skip` bytes, probe. `None` for everything else.
#[must_use]
pub fn find_probe(frame: &[u8], skip: usize) -> Option<Probe> {
    let (mut at, protocol) = payload_of(frame)?;
    at += match protocol {
        17 => crate::UDP_LEN,
        6 => usize::from(*frame.get(at + 12)? >> 4) * 4,
        _ => return None,
    };
    Probe::parse(frame.get(at + skip..)?)
}

/// Where the IP payload begins, and its protocol.
pub(crate) fn payload_of(frame: &[u8]) -> Option<(usize, u8)> {
    let mut at = ETHERNET_LEN;
    let mut ethertype = be16(frame, at - 2)?;
    for _ in 0..2 {
        if ethertype == ETHERTYPE_VLAN || ethertype == ETHERTYPE_QINQ {
            at += 4;
            ethertype = be16(frame, at - 2)?;
        }
    }
    let protocol = match ethertype {
        ETHERTYPE_IPV4 => {
            let header = frame.get(at..at + IPV4_LEN)?;
            at += usize::from(header[0] & 0x0f) * 4;
            header[9]
        }
        ETHERTYPE_IPV6 => {
            let header = frame.get(at..at + IPV6_LEN)?;
            at += IPV6_LEN;
            header[6]
        }
        _ => return None,
    };
    Some((at, protocol))
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;
    use crate::Addresses;

    const SRC: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const DST: [u8; 6] = [2, 0, 0, 0, 0, 2];
    const PROBE: Probe = Probe { magic: 0x5745, flow: 1, seq: 2, time_ns: 3 };

    fn addresses(ip: u8) -> Addresses {
        let (src_ip, dst_ip) = if ip == 4 {
            (IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)), IpAddr::V4(Ipv4Addr::new(198, 19, 0, 1)))
        } else {
            (
                IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 1)),
                IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 2, 0, 0, 0, 1)),
            )
        };
        Addresses { src_ip, dst_ip, src_port: 20_000, dst_port: 30_000 }
    }

    /// Verifies both checksums the way a receiver does: the sum over everything is all ones.
    pub fn checksums_hold(frame: &[u8], header: &Header) -> bool {
        let l4_at = header.l4_at();
        let l4_len = u16::try_from(frame.len() - l4_at).expect("short").to_be_bytes();
        let pseudo = ones_complement_sum(&frame[if header.ip() == 4 { 26..34 } else { 22..54 }])
            + ones_complement_sum(&[0, header.l4().protocol()])
            + ones_complement_sum(&l4_len);
        let l4 = fold(u64::from(pseudo) + u64::from(ones_complement_sum(&frame[l4_at..])));
        let ip = fold(ones_complement_sum(&frame[ETHERNET_LEN..ETHERNET_LEN + IPV4_LEN]).into());
        l4 == 0xffff && (header.ip() == 6 || ip == 0xffff)
    }

    #[test]
    fn shortest_udp_frame_has_these_bytes() {
        let header = Header::new(SRC, DST, &addresses(4), L4::Udp).expect("same family");
        let mut frame = [0; 60];
        assert!(build(&mut frame, &header, 0, &PROBE));
        #[rustfmt::skip]
        let expected = [
            2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00, // Ethernet
            0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0xae, 0x97, // IPv4
            198, 18, 0, 1, 198, 19, 0, 1,
            0x4e, 0x20, 0x75, 0x30, 0, 26, 0x58, 0xf6, // UDP
            0x57, 0x45, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, // probe
        ];
        assert_eq!(frame, expected);
    }

    #[test]
    fn a_frame_without_room_for_the_probe_is_refused() {
        let header = Header::new(SRC, DST, &addresses(4), L4::Udp).expect("same family");
        assert!(!build(&mut [0; 59], &header, 0, &PROBE));
    }

    #[test]
    fn mixed_families_are_refused() {
        let to = Addresses { dst_ip: addresses(6).dst_ip, ..addresses(4) };
        assert!(Header::new(SRC, DST, &to, L4::Udp).is_err());
    }

    #[test]
    fn a_probe_is_found_behind_vlan_tags() {
        let header = Header::new(SRC, DST, &addresses(4), L4::Udp).expect("same family");
        let mut plain = [0; 60];
        assert!(build(&mut plain, &header, 0, &PROBE));
        let mut tagged = plain[..12].to_vec();
        tagged.extend([0x88, 0xa8, 0, 1, 0x81, 0x00, 0, 2]);
        tagged.extend(&plain[12..]);
        assert_eq!(find_probe(&tagged, 0), Some(PROBE));
    }

    proptest! {
        #[test]
        fn every_frame_has_valid_checksums_and_gives_its_probe_back(
            ip in prop_oneof![Just(4u8), Just(6u8)],
            l4 in prop_oneof![Just(L4::Udp), Just(L4::Tcp)],
            extra in 0usize..1500,
            skip in 0usize..16,
            (magic, flow, seq, time_ns) in any::<(u16, u32, u32, u64)>(),
        ) {
            let header = Header::new(SRC, DST, &addresses(ip), l4).expect("same family");
            let probe = Probe { magic, flow, seq, time_ns };
            let mut frame = vec![0; header.len() + skip + PROBE_LEN + extra];
            prop_assert!(build(&mut frame, &header, skip, &probe));
            prop_assert!(checksums_hold(&frame, &header));
            prop_assert_eq!(find_probe(&frame, skip), Some(probe));
        }

        #[test]
        fn no_bytes_make_the_search_fail(frame in proptest::collection::vec(any::<u8>(), 0..200), skip in 0usize..64) {
            let _ = find_probe(&frame, skip);
        }
    }
}
