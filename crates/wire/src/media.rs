//! Packets of calls: an application header and a payload in front of the probe, which comes
//! last in the UDP payload.

use std::fmt;

use crate::frame::{finish, payload_of};
use crate::{Header, PROBE_LEN, Probe};

/// Longest application header: that of RTP.
pub const APP_HEADER_MAX: usize = 12;

/// What precedes a payload, and which part of it varies from packet to packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// RTP (RFC 3550, section 5.1): marker, sequence number and time stamp.
    Rtp,
    /// IAX2 mini frame (RFC 5456, section 8.1.2): a time stamp of 16 bits.
    Iax2Mini,
    /// IAX2 meta trunk frame (RFC 5456, section 8.1.3.2): a time stamp of 32 bits.
    Iax2Meta,
    /// No header: everything is payload.
    #[default]
    Raw,
}

impl Kind {
    /// Length of the header.
    #[must_use]
    pub const fn header_len(self) -> usize {
        match self {
            Self::Rtp => 12,
            Self::Iax2Mini => 4,
            Self::Iax2Meta => 8,
            Self::Raw => 0,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rtp => "RTP",
            Self::Iax2Mini => "an IAX2 mini frame",
            Self::Iax2Meta => "an IAX2 trunk frame",
            Self::Raw => "a raw packet",
        })
    }
}

/// What a packet of a call carries besides its probe.
#[derive(Clone, Copy, Debug)]
pub struct Media<'a> {
    /// Its kind.
    pub kind: Kind,
    /// The flow's application header, of at least [`Kind::header_len`] bytes: sequence number and
    /// time stamp count from what is written there.
    pub header: &'a [u8],
    /// Added to the header's time stamp.
    pub stamp: u32,
    /// RTP's marker bit.
    pub marker: bool,
    /// What follows the header, zeros behind it; the probe takes the last bytes of the packet.
    pub payload: &'a [u8],
}

/// Writes a frame of `frame.len()` bytes (without FCS) as [`crate::build`] does, with an
/// application header and a payload. RTP's sequence number counts as the probe's.
///
/// Returns `false`, having written nothing, when the frame is too short.
#[must_use]
pub fn build_media(frame: &mut [u8], header: &Header, media: &Media<'_>, probe: &Probe) -> bool {
    let app_len = media.kind.header_len();
    let body_at = header.len() + app_len;
    let Some(probe_at) = frame.len().checked_sub(PROBE_LEN).filter(|at| *at >= body_at) else {
        return false;
    };
    let Some(app) = media.header.get(..app_len) else { return false };
    frame[..header.len()].copy_from_slice(&header.bytes()[..header.len()]);
    let at = &mut frame[header.len()..body_at];
    at.copy_from_slice(app);
    vary(at, media, probe.seq);
    let body = &mut frame[body_at..probe_at];
    let carried = media.payload.len().min(body.len());
    body[..carried].copy_from_slice(&media.payload[..carried]);
    body[carried..].fill(0);
    frame[probe_at..].copy_from_slice(&probe.emit());
    finish(frame, header);
    true
}

/// Writes what varies into an application header.
fn vary(app: &mut [u8], media: &Media<'_>, seq: u32) {
    match media.kind {
        Kind::Rtp => {
            app[1] |= u8::from(media.marker) << 7;
            add16(app, 2, seq);
            add32(app, 4, media.stamp);
        }
        Kind::Iax2Mini => add16(app, 2, media.stamp),
        Kind::Iax2Meta => add32(app, 4, media.stamp),
        Kind::Raw => {}
    }
}

/// Adds the low half of a number to the 16 bits at a place.
fn add16(bytes: &mut [u8], at: usize, more: u32) {
    let value = u16::from_be_bytes([bytes[at], bytes[at + 1]]).wrapping_add(more as u16);
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn add32(bytes: &mut [u8], at: usize, more: u32) {
    let was = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    bytes[at..at + 4].copy_from_slice(&u32::from_be_bytes(was).wrapping_add(more).to_be_bytes());
}

/// Finds the probe of a packet of a call: the last bytes of the UDP payload, whose length UDP
/// tells. `None` for everything else.
#[must_use]
pub fn find_last_probe(frame: &[u8]) -> Option<Probe> {
    let (at, protocol) = payload_of(frame)?;
    if protocol != 17 {
        return None;
    }
    let length = usize::from(u16::from_be_bytes([*frame.get(at + 4)?, *frame.get(at + 5)?]));
    if length < crate::UDP_LEN + PROBE_LEN {
        return None;
    }
    Probe::parse(frame.get(at + length - PROBE_LEN..)?)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;
    use crate::frame::tests::checksums_hold;
    use crate::{Addresses, L4};

    const PROBE: Probe = Probe { magic: 0x5745, flow: 1, seq: 0x1_0002, time_ns: 3 };
    const RTP: [u8; 12] = [0x80, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4];

    fn header(ip: u8) -> Header {
        let (src_ip, dst_ip) = if ip == 4 {
            (IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)), IpAddr::V4(Ipv4Addr::new(198, 19, 0, 1)))
        } else {
            (
                IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 1)),
                IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 2, 0, 0, 0, 1)),
            )
        };
        let to = Addresses { src_ip, dst_ip, src_port: 20_000, dst_port: 30_000 };
        Header::new([2; 6], [4; 6], &to, L4::Udp).expect("same family")
    }

    fn built(media: &Media<'_>, len: usize) -> Vec<u8> {
        let mut frame = vec![0xee; len];
        assert!(build_media(&mut frame, &header(4), media, &PROBE));
        frame
    }

    #[test]
    fn an_rtp_packet_has_these_bytes_behind_udp() {
        let media = Media { kind: Kind::Rtp, header: &RTP, stamp: 161, marker: true, payload: &[7, 8, 9] };
        #[rustfmt::skip]
        let expected = [
            0x80, 0x80, 0, 1, 0, 0, 0, 160, 1, 2, 3, 4, // RTP: both numbers have wrapped
            7, 8, 9, 0, // payload
            0x57, 0x45, 0, 0, 0, 1, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, // probe
        ];
        assert_eq!(built(&media, 42 + 34)[42..], expected);
    }

    #[test]
    fn iax2_frames_carry_their_share_of_the_stamp() {
        let mini = Media {
            kind: Kind::Iax2Mini,
            header: &[0, 9, 0, 0],
            stamp: 0x12_3456,
            marker: false,
            payload: &[],
        };
        assert_eq!(built(&mini, 64)[42..46], [0, 9, 0x34, 0x56]);
        let meta = Media { kind: Kind::Iax2Meta, header: &[0, 0, 1, 1, 0, 0, 0, 0], ..mini };
        assert_eq!(built(&meta, 68)[42..50], [0, 0, 1, 1, 0, 0x12, 0x34, 0x56]);
    }

    #[test]
    fn a_raw_packet_is_all_payload_and_the_probe_covers_its_end() {
        let text = [b'x'; 30];
        let raw = Media { kind: Kind::Raw, header: &RTP, stamp: 5, marker: true, payload: &text };
        let frame = built(&raw, 42 + 30);
        assert_eq!(frame[42..54], text[..12]);
        assert_eq!(find_last_probe(&frame), Some(PROBE));
    }

    #[test]
    fn a_packet_without_room_for_header_and_probe_is_refused() {
        let media = Media { kind: Kind::Rtp, header: &RTP, stamp: 0, marker: false, payload: &[] };
        assert!(!build_media(&mut [0; 42 + 29], &header(4), &media, &PROBE));
        let short = Media { header: &RTP[..11], ..media };
        assert!(!build_media(&mut [0; 200], &header(4), &short, &PROBE));
    }

    #[test]
    fn padding_behind_the_udp_payload_does_not_hide_the_probe() {
        let media = Media { kind: Kind::Raw, header: &[], stamp: 0, marker: false, payload: &[] };
        let mut frame = built(&media, 60);
        frame.extend([0xaa; 4]);
        assert_eq!(find_last_probe(&frame), Some(PROBE));
    }

    proptest! {
        #[test]
        fn every_packet_has_valid_checksums_and_gives_its_probe_back(
            ip in prop_oneof![Just(4u8), Just(6u8)],
            kind in prop_oneof![Just(Kind::Rtp), Just(Kind::Iax2Mini), Just(Kind::Iax2Meta), Just(Kind::Raw)],
            payload in proptest::collection::vec(any::<u8>(), 0..600),
            room in 0usize..600,
            app in any::<[u8; 12]>(),
            (stamp, marker) in any::<(u32, bool)>(),
            (magic, flow, seq, time_ns) in any::<(u16, u32, u32, u64)>(),
        ) {
            let header = header(ip);
            let media = Media { kind, header: &app, stamp, marker, payload: &payload };
            let probe = Probe { magic, flow, seq, time_ns };
            let mut frame = vec![0xee; header.len() + kind.header_len() + room + PROBE_LEN];
            prop_assert!(build_media(&mut frame, &header, &media, &probe));
            prop_assert!(checksums_hold(&frame, &header));
            prop_assert_eq!(find_last_probe(&frame), Some(probe));
        }

        #[test]
        fn no_bytes_make_the_search_fail(frame in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = find_last_probe(&frame);
        }
    }
}
