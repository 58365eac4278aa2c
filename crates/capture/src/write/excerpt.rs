//! Part of a capture, written as a capture of its own.

use std::collections::HashMap;
use std::io::{self, Read, Write};

use thiserror::Error;

use super::{Frame, Interface, Section, frame, interface, section};
use crate::{Capture, CaptureError, LinkType, Packet};

/// Written at a time.
const PART_BYTES: usize = 256 << 10;

/// Why an excerpt is not whole.
#[derive(Debug, Error)]
pub enum ExcerptError {
    /// The capture is damaged, or cannot be read.
    #[error(transparent)]
    Read(#[from] CaptureError),
    /// What is written cannot be.
    #[error("writing failed")]
    Write(#[source] io::Error),
}

/// Writes those packets of `capture` that `take` accepts to `target` as pcapng, in their order.
///
/// Times, lengths, directions and counts of lost packets stay, as do names of interfaces; of pcapng sections
/// one is made. Returns how many packets there are.
///
/// # Errors
/// [`ExcerptError`]; `target` then holds a beginning.
pub fn excerpt<R: Read>(
    capture: &mut Capture<R>,
    about: &Section,
    mut take: impl FnMut(&Packet<'_>) -> bool,
    target: &mut impl Write,
) -> Result<u64, ExcerptError> {
    let mut out = Vec::with_capacity(2 * PART_BYTES);
    let mut data = Vec::new();
    let mut interfaces = Interfaces::default();
    let mut packets = 0;
    section(&mut out, about);
    while let Some(packet) = capture.next_packet()? {
        if !take(&packet) {
            continue;
        }
        // The buffer it lies in also knows the interfaces.
        data.clear();
        data.extend_from_slice(packet.data);
        let Packet { time_ns, link, interface, direction, original_len, lost_before, .. } = packet;
        let interface = interfaces.written(capture, interface, link, &mut out);
        frame(&mut out, &Frame { time_ns, interface, direction, lost_before, original_len, data: &data });
        packets += 1;
        if out.len() >= PART_BYTES {
            target.write_all(&out).map_err(ExcerptError::Write)?;
            out.clear();
        }
    }
    target.write_all(&out).and_then(|()| target.flush()).map_err(ExcerptError::Write)?;
    Ok(packets)
}

/// Which interfaces of the capture have been written, and at which place.
#[derive(Default)]
struct Interfaces {
    /// By the place of their description in the capture, None where it has none, and by link type.
    places: HashMap<(Option<usize>, LinkType), u32>,
    /// Of the packet before, mostly of the next one too: what was asked for, and the answer.
    last: Option<((u32, LinkType, usize), u32)>,
}

impl Interfaces {
    /// The place of the interface with this `number` in the present section, described in `out` if it is new.
    fn written<R: Read>(
        &mut self,
        capture: &Capture<R>,
        number: u32,
        link: LinkType,
        out: &mut Vec<u8>,
    ) -> u32 {
        let known = capture.interfaces();
        let asked = (number, link, known.len());
        if let Some((before, place)) = self.last
            && before == asked
        {
            return place;
        }
        // Numbers begin anew with each section.
        let described = known.iter().rposition(|each| each.id == number);
        let next = self.places.len() as u32;
        let place = *self.places.entry((described, link)).or_insert(next);
        if place == next {
            let about = described.map(|at| known[at].clone()).unwrap_or_default();
            let new = Interface {
                link,
                snap_bytes: about.snap_bytes,
                name: about.name,
                description: about.description,
                mac: [0; 6],
                filter: about.filter,
                os: String::new(),
            };
            interface(out, &new);
        }
        self.last = Some((asked, place));
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direction, open};

    fn made(sections: &[&[(&str, u16, &[i64])]]) -> Vec<u8> {
        let mut out = Vec::new();
        for interfaces in sections {
            section(&mut out, &Section::default());
            for (name, link, _) in *interfaces {
                let new = Interface {
                    link: LinkType(*link),
                    snap_bytes: 96,
                    name: (*name).to_owned(),
                    description: String::new(),
                    mac: [0; 6],
                    filter: String::new(),
                    os: String::new(),
                };
                interface(&mut out, &new);
            }
            for (number, (_, _, times)) in interfaces.iter().enumerate() {
                for &time_ns in *times {
                    let each = Frame {
                        time_ns,
                        interface: number as u32,
                        direction: Direction::Outbound,
                        lost_before: 2,
                        original_len: 1500,
                        data: &[time_ns as u8; 5],
                    };
                    frame(&mut out, &each);
                }
            }
        }
        out
    }

    fn cut(file: &[u8], take: impl FnMut(&Packet<'_>) -> bool) -> (u64, Vec<u8>) {
        let mut out = Vec::new();
        let number = excerpt(&mut open(file).unwrap(), &Section::default(), take, &mut out).unwrap();
        (number, out)
    }

    fn times(file: &[u8]) -> Vec<(i64, String)> {
        let mut read = open(file).unwrap();
        let mut found = Vec::new();
        while let Some(packet) = read.next_packet().unwrap() {
            assert_eq!((packet.original_len, packet.lost_before), (1500, 2));
            assert_eq!(packet.direction, Direction::Outbound);
            assert_eq!(packet.data, [packet.time_ns as u8; 5]);
            let (time_ns, number) = (packet.time_ns, packet.interface);
            let name = read.interfaces().iter().find(|each| each.id == number).unwrap().name.clone();
            found.push((time_ns, name));
        }
        found
    }

    #[test]
    fn an_excerpt_holds_the_packets_that_are_taken_as_they_were() {
        let file = made(&[&[("a", 1, &[1, 5, 9]), ("b", 1, &[2, 6])]]);
        let (number, part) = cut(&file, |packet| (2..9).contains(&packet.time_ns));
        assert_eq!(number, 3);
        let expected = [(5, "a".to_owned()), (2, "b".to_owned()), (6, "b".to_owned())];
        assert_eq!(times(&part), expected);
    }

    #[test]
    fn interfaces_of_several_sections_are_kept_apart() {
        let file = made(&[&[("a", 1, &[1, 2])], &[("b", 1, &[3]), ("c", 113, &[4])]]);
        let (_, part) = cut(&file, |_| true);
        let names: Vec<_> = times(&part).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["a", "a", "b", "c"]);
        assert_eq!(open(&part[..]).unwrap().compression(), crate::Compression::None);
    }

    #[test]
    fn an_excerpt_of_nothing_is_a_capture_without_packets() {
        let (number, part) = cut(&made(&[&[("a", 1, &[1])]]), |_| false);
        assert_eq!(number, 0);
        assert!(open(&part[..]).unwrap().next_packet().unwrap().is_none());
    }

    #[test]
    fn what_cannot_be_written_is_told() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let file = made(&[&[("a", 1, &[1])]]);
        let failed = excerpt(&mut open(&file[..]).unwrap(), &Section::default(), |_| true, &mut Full);
        assert!(matches!(failed, Err(ExcerptError::Write(_))));
    }
}
