//! Selected packets of captures, written as one pcapng file.

use std::collections::HashMap;
use std::io::{self, Read, Write};

use thiserror::Error;

use super::{Capture, CaptureError, Direction, LinkType, Packet, write};

/// Written at a time.
const FLUSH_BYTES: usize = 256 << 10;

/// Why no file was written, or not all of it.
#[derive(Debug, Error)]
pub enum CutError {
    /// A capture cannot be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The new file cannot be written.
    #[error("the new file cannot be written")]
    Write(#[source] io::Error),
}

/// Times from `from_ns` on and before `to_ns`; None: no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First time, ns.
    pub from_ns: Option<i64>,
    /// First time beyond.
    pub to_ns: Option<i64>,
    /// Whether times count from the first packet of all rather than from 1970.
    pub relative: bool,
}

impl Span {
    fn holds(&self, time_ns: i64, origin_ns: i64) -> bool {
        let at = if self.relative { time_ns.saturating_sub(origin_ns) } else { time_ns };
        self.from_ns.is_none_or(|from| at >= from) && self.to_ns.is_none_or(|to| at < to)
    }
}

/// What was read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets in the captures.
    pub read: u64,
    /// Packets in the new file.
    pub written: u64,
    /// Bytes of the new file.
    pub bytes: u64,
    /// Earliest time of a packet in the new file, ns since 1970.
    pub first_ns: Option<i64>,
    /// Latest.
    pub last_ns: Option<i64>,
    /// Interfaces in the new file.
    pub interfaces: u32,
    /// Whether a capture ends inside a packet.
    pub cut_short: bool,
}

/// An interface: of which capture and section, its number there, and its link type.
type Key = (u32, u32, u32, LinkType);

/// An interface in the new file, and packets lost since the last one that was written.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    place: Option<u32>,
    lost: u64,
}

/// A packet without its bytes.
struct Head {
    time_ns: i64,
    link: LinkType,
    interface: u32,
    direction: Direction,
    original_len: u32,
    lost_before: u64,
}

/// A file under way: captures go in one after the other.
#[derive(Debug)]
pub struct Cut<W> {
    out: W,
    span: Span,
    origin_ns: Option<i64>,
    counts: Counts,
    captures: u32,
    known: HashMap<Key, Known>,
    data: Vec<u8>,
    buffer: Vec<u8>,
}

impl<W: Write> Cut<W> {
    /// Begins a file for packets of `span`.
    pub fn new(out: W, span: Span, section: &write::Section) -> Self {
        let mut buffer = Vec::new();
        write::section(&mut buffer, section);
        Self {
            out,
            span,
            origin_ns: None,
            counts: Counts::default(),
            captures: 0,
            known: HashMap::new(),
            data: Vec::new(),
            buffer,
        }
    }

    /// Appends those packets of `capture` that lie in the span and are wanted.
    ///
    /// Losses that the capture reports are kept; packets that were not wanted are not losses.
    ///
    /// # Errors
    /// [`CutError`].
    pub fn add<R: Read>(
        &mut self,
        capture: &mut Capture<R>,
        mut is_wanted: impl FnMut(&Packet<'_>) -> bool,
    ) -> Result<(), CutError> {
        while let Some(packet) = capture.next_packet()? {
            self.counts.read += 1;
            let origin_ns = *self.origin_ns.get_or_insert(packet.time_ns);
            if !self.span.holds(packet.time_ns, origin_ns) {
                continue;
            }
            let wanted = is_wanted(&packet);
            if !wanted && packet.lost_before == 0 {
                continue;
            }
            self.data.clear();
            self.data.extend_from_slice(packet.data);
            let head = Head {
                time_ns: packet.stated_ns,
                link: packet.link,
                interface: packet.interface,
                direction: packet.direction,
                original_len: packet.original_len,
                lost_before: packet.lost_before,
            };
            self.take(capture, &head, wanted)?;
        }
        self.counts.cut_short |= capture.cut_short();
        self.captures += 1;
        Ok(())
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// [`CutError::Write`].
    pub fn finish(mut self) -> Result<Counts, CutError> {
        self.flush()?;
        self.out.flush().map_err(CutError::Write)?;
        Ok(self.counts)
    }

    fn take<R: Read>(&mut self, capture: &Capture<R>, head: &Head, wanted: bool) -> Result<(), CutError> {
        // If several have this number, the last one belongs to the section that is being read.
        let told = capture.interfaces().iter().rev().find(|each| each.id == head.interface);
        let section = told.map_or(u32::MAX, |each| each.section);
        let known = self.known.entry((self.captures, section, head.interface, head.link)).or_default();
        known.lost = known.lost.saturating_add(head.lost_before);
        if !wanted {
            return Ok(());
        }
        let lost_before = std::mem::take(&mut known.lost);
        let place = *known.place.get_or_insert_with(|| {
            let interface = write::Interface {
                link: head.link,
                snap_bytes: told.map_or(0, |each| each.snap_bytes),
                name: told.map(|each| each.name.clone()).unwrap_or_default(),
                description: told.map(|each| each.description.clone()).unwrap_or_default(),
                mac: [0; 6],
                filter: told.map(|each| each.filter.clone()).unwrap_or_default(),
                os: String::new(),
            };
            write::interface(&mut self.buffer, &interface);
            self.counts.interfaces += 1;
            self.counts.interfaces - 1
        });
        let frame = write::Frame {
            time_ns: head.time_ns,
            interface: place,
            direction: head.direction,
            lost_before,
            original_len: head.original_len,
            data: &self.data,
        };
        write::frame(&mut self.buffer, &frame);
        self.counts.written += 1;
        let at = head.time_ns;
        self.counts.first_ns = Some(self.counts.first_ns.map_or(at, |first| first.min(at)));
        self.counts.last_ns = Some(self.counts.last_ns.map_or(at, |last| last.max(at)));
        if self.buffer.len() >= FLUSH_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), CutError> {
        self.out.write_all(&self.buffer).map_err(CutError::Write)?;
        self.counts.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open;
    use crate::write::{Frame, Interface, Section};

    const ETHERNET: LinkType = LinkType(1);

    fn interface(name: &str) -> Interface {
        Interface {
            link: ETHERNET,
            snap_bytes: 96,
            name: name.to_owned(),
            description: String::new(),
            mac: [0; 6],
            filter: "tcp".to_owned(),
            os: String::new(),
        }
    }

    /// A packet per time, in turn of the interfaces a and b; what it holds is its number.
    fn capture(times_ns: &[i64], lost_before: u64) -> Vec<u8> {
        let mut out = Vec::new();
        write::section(&mut out, &Section::default());
        for name in ["a", "b"] {
            write::interface(&mut out, &interface(name));
        }
        for (number, &time_ns) in times_ns.iter().enumerate() {
            let data = [number as u8; 5];
            let interface = number as u32 % 2;
            let direction = Direction::Inbound;
            let frame = Frame { time_ns, interface, direction, lost_before, original_len: 60, data: &data };
            write::frame(&mut out, &frame);
        }
        out
    }

    fn cut(files: &[Vec<u8>], span: Span, is_wanted: impl Fn(&Packet<'_>) -> bool) -> (Vec<u8>, Counts) {
        let mut out = Vec::new();
        let mut cut = Cut::new(&mut out, span, &Section::default());
        for file in files {
            cut.add(&mut open(file.as_slice()).unwrap(), &is_wanted).unwrap();
        }
        let counts = cut.finish().unwrap();
        (out, counts)
    }

    /// Time, name of the interface, losses before, and first byte of each packet.
    fn read(file: &[u8]) -> Vec<(i64, String, u64, u8)> {
        let mut capture = open(file).unwrap();
        let mut found = Vec::new();
        while let Some(packet) = capture.next_packet().unwrap() {
            assert_eq!((packet.original_len, packet.direction), (60, Direction::Inbound));
            found.push((packet.time_ns, packet.interface as usize, packet.lost_before, packet.data[0]));
        }
        let names: Vec<_> = capture.interfaces().iter().map(|each| each.name.clone()).collect();
        found.into_iter().map(|(time, of, lost, byte)| (time, names[of].clone(), lost, byte)).collect()
    }

    #[test]
    fn packets_of_a_time_are_kept_with_their_interfaces() {
        let span = Span { from_ns: Some(20), to_ns: Some(40), relative: false };
        let (out, counts) = cut(&[capture(&[10, 20, 30, 40], 0)], span, |_| true);
        assert_eq!(read(&out), [(20, "b".to_owned(), 0, 1), (30, "a".to_owned(), 0, 2)]);
        assert_eq!((counts.read, counts.written, counts.interfaces), (4, 2, 2));
        assert_eq!((counts.first_ns, counts.last_ns), (Some(20), Some(30)));
        assert_eq!(counts.bytes, out.len() as u64);
        let mut again = open(out.as_slice()).unwrap();
        while again.next_packet().unwrap().is_some() {}
        assert!(again.interfaces().iter().all(|each| each.snap_bytes == 96 && each.filter == "tcp"));
    }

    #[test]
    fn relative_times_count_from_the_first_packet_of_all_files() {
        let span = Span { from_ns: Some(100), to_ns: None, relative: true };
        let files = [capture(&[1_000, 1_099], 0), capture(&[1_100], 0)];
        let (out, counts) = cut(&files, span, |_| true);
        // Interfaces of two files are two, whatever their names.
        assert_eq!(read(&out), [(1_100, "a".to_owned(), 0, 0)]);
        assert_eq!(counts.read, 3);
    }

    #[test]
    fn losses_before_packets_that_are_not_wanted_are_not_forgotten() {
        let file = [capture(&[10, 20, 30, 40], 7)];
        let (out, _) = cut(&file, Span::default(), |packet| packet.data[0] >= 2);
        assert_eq!(read(&out), [(30, "a".to_owned(), 14, 2), (40, "b".to_owned(), 14, 3)]);
    }

    #[test]
    fn what_has_no_packet_in_the_span_is_a_file_without_packets() {
        let span = Span { from_ns: Some(1_000), ..Span::default() };
        let (out, counts) = cut(&[capture(&[10], 0)], span, |_| true);
        assert_eq!(read(&out), []);
        assert_eq!((counts.written, counts.first_ns), (0, None));
    }

    #[test]
    fn a_capture_that_ends_inside_a_packet_is_read_that_far() {
        let mut file = capture(&[10, 20], 0);
        file.truncate(file.len() - 4);
        let (out, counts) = cut(&[file], Span::default(), |_| true);
        assert_eq!(read(&out).len(), 1);
        assert!(counts.cut_short);
    }

    #[test]
    fn a_full_disk_is_told() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let cut = Cut::new(Full, Span::default(), &Section::default());
        assert!(matches!(cut.finish(), Err(CutError::Write(_))));
    }
}
