//! Captures that others made: pcap and pcapng in, facts out. No file is opened here and no clock read.
//!
//! [`capture`] splits a stream of bytes into packets with their times, [`packet`] finds what an IP
//! packet carries, [`voice`] recognises RTP and IAX2 streams, [`esp`] security associations. Bytes are never
//! trusted: damaged data is an error with its offset or is counted and skipped, and memory grows only with
//! what is kept.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

pub mod analysis;
pub mod esp;
pub mod packet;
mod share;
pub mod tcp;
#[cfg(test)]
mod testing;
pub mod timeline;
pub mod voice;

use std::io::Read;

pub use weir_capture as capture;

pub use share::Share;

use capture::CaptureError;
use voice::{Options, Voice};

/// Reads a whole capture and returns its voice streams.
///
/// # Errors
/// [`CaptureError`] for data that is not a capture, or for a damaged one.
pub fn voice_of(source: impl Read, options: Options) -> Result<Voice, CaptureError> {
    let mut capture = capture::open(source)?;
    let mut collector = voice::Collector::new(options);
    while let Some(packet) = capture.next_packet()? {
        collector.put(&packet);
    }
    Ok(collector.finish(&capture))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{pcap, rtp, udp_frame};

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
            drop(voice_of(&bytes[..], Options::default()));
        }

        /// Behind the right first bytes, where it gets interesting.
        #[test]
        fn arbitrary_bytes_behind_a_header_never_panic(
            kind in 0..6_usize,
            bytes in proptest::collection::vec(any::<u8>(), 0..2_000),
        ) {
            let section = [&[10, 13, 13, 10, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..],
                &[255; 8], &[28, 0, 0, 0]].concat();
            let interface = [1, 0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 4, 0, 20, 0, 0, 0];
            let head = match kind {
                0 => pcap(1, &[]),
                1 => pcap(101, &[]),
                2 => section,
                3 => [&section[..], &interface].concat(),
                4 => vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3],
                _ => vec![0x28, 0xb5, 0x2f, 0xfd],
            };
            drop(voice_of(&[head, bytes].concat()[..], Options::default()));
        }

        /// Whole packets of noise on every link type, through every decoder.
        #[test]
        fn arbitrary_packets_never_panic(
            link in prop::sample::select(vec![0_u32, 1, 9, 12, 101, 108, 113, 228, 276, 999]),
            packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..120), 0..30),
        ) {
            let count = packets.len() as u64;
            let packets: Vec<_> = packets.into_iter().zip(0..).map(|(data, at)| (at, data)).collect();
            let voice = voice_of(&pcap(link, &packets)[..], Options { decode_as: vec![0..=65_535], ..Options::default() }).unwrap();
            prop_assert_eq!(voice.counts.packets, count);
        }

        /// A good capture with a few bytes changed.
        #[test]
        fn damaged_captures_never_panic(
            places in proptest::collection::vec((0..6_000_usize, any::<u8>()), 1..12),
        ) {
            let packets: Vec<_> = (0..25_u16)
                .map(|i| (u64::from(i) * 20_000, udp_frame(4_000, 4_002, &rtp(0, i, u32::from(i) * 160, 7))))
                .collect();
            let mut file = pcap(1, &packets);
            for (place, value) in places {
                let at = place % file.len();
                file[at] = value;
            }
            drop(voice_of(&file[..], Options::default()));
        }
    }
}
