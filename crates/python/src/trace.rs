//! Voice streams of a capture file as NumPy arrays; see `weirlab._engine.rtp_packets`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use numpy::{Element, PyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_trace::capture::{CaptureError, Compression, Format};
use weir_trace::voice::{Kind, KnownBy, Options, Protocol, Row, Stream, Voice};

use crate::errors::{describe, exception};

/// Ctrl-C is looked for once per so many bytes, of which compressed ones may stand for a thousand times more.
const BETWEEN_SIGNALS: usize = 256 << 10;

/// Every packet of every voice stream in a capture file.
#[pyfunction]
#[pyo3(signature = (path, decode_as=Vec::new()))]
pub fn rtp_packets(py: Python<'_>, path: PathBuf, decode_as: Vec<(u16, u16)>) -> PyResult<Bound<'_, PyDict>> {
    let options = Options { decode_as: decode_as.into_iter().map(|(low, high)| low..=high).collect() };
    let file = open(py, &path)?;
    let mut signal = None;
    let found = py.detach(|| weir_trace::voice_of(Interruptible::new(file, &mut signal), options));
    match (signal, found) {
        (Some(signal), _) => Err(signal),
        (None, Ok(voice)) => to_dict(py, &voice),
        (None, Err(error)) => Err(refusal(py, &path, &error)),
    }
}

/// Opens a capture file.
pub fn open(py: Python<'_>, path: &Path) -> PyResult<File> {
    let name = path.display();
    let refuse = |message: String| exception(py, "InputError", &message);
    if path.is_dir() {
        return Err(refuse(format!("{name} is a folder; expected is a capture file")));
    }
    File::open(path).map_err(|e| refuse(format!("the capture {name} cannot be opened: {e}")))
}

/// What to say of a capture that cannot be read.
pub fn refusal(py: Python<'_>, path: &Path, error: &CaptureError) -> PyErr {
    let message = format!("the capture {}: {}; {}", path.display(), describe(error), way_out(error));
    exception(py, "InputError", &message)
}

const fn way_out(error: &CaptureError) -> &'static str {
    match error {
        CaptureError::TooShort { .. } | CaptureError::Unknown { .. } => {
            "files of tcpdump, dumpcap and Wireshark can be read: pcap and pcapng, also in gzip or zstd"
        }
        _ => "what lies before it can be saved with: tshark -r FILE -w SAVED.pcapng",
    }
}

/// A file whose reading Ctrl-C ends.
pub struct Interruptible<'a> {
    file: File,
    since: usize,
    signal: &'a mut Option<PyErr>,
}

impl<'a> Interruptible<'a> {
    /// Reads `file`; what Ctrl-C raised goes into `signal`.
    pub const fn new(file: File, signal: &'a mut Option<PyErr>) -> Self {
        Self { file, since: 0, signal }
    }
}

impl Read for Interruptible<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.since >= BETWEEN_SIGNALS {
            self.since = 0;
            if let Err(signal) = Python::attach(|py| py.check_signals()) {
                *self.signal = Some(signal);
                return Err(io::Error::other("interrupted"));
            }
        }
        let read = self.file.read(buffer)?;
        self.since += read;
        Ok(read)
    }
}

fn to_dict<'py>(py: Python<'py>, voice: &Voice) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("packets", packets(py, &voice.streams)?)?;
    dict.set_item("streams", streams(py, &voice.streams)?)?;
    dict.set_item("capture", capture(py, voice)?)?;
    Ok(dict)
}

fn packets<'py>(py: Python<'py>, streams: &[Stream]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let owners = streams.iter().zip(0_u32..).flat_map(|(stream, i)| stream.rows.iter().map(move |_| i));
    dict.set_item("stream", PyArray1::from_iter(py, owners))?;
    column(&dict, streams, "arrival_ns", |row| row.arrival_ns)?;
    column(&dict, streams, "seq", |row| row.seq)?;
    column(&dict, streams, "timestamp", |row| row.timestamp)?;
    column(&dict, streams, "payload_type", |row| row.payload_type)?;
    column(&dict, streams, "marker", |row| row.marker)?;
    column(&dict, streams, "payload_bytes", |row| row.payload_bytes)?;
    column(&dict, streams, "speech", |row| row.speech)?;
    Ok(dict)
}

fn column<T: Element>(
    dict: &Bound<'_, PyDict>,
    streams: &[Stream],
    name: &str,
    field: impl Fn(&Row) -> T,
) -> PyResult<()> {
    let values = streams.iter().flat_map(|stream| &stream.rows).map(field);
    dict.set_item(name, PyArray1::from_iter(dict.py(), values))
}

fn streams<'py>(py: Python<'py>, streams: &[Stream]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let sizes = streams.iter().map(|s| s.rows.len() as u64);
    let firsts = sizes.clone().scan(0, |sum, size| Some(std::mem::replace(sum, *sum + size)));
    dict.set_item("first", PyArray1::from_iter(py, firsts))?;
    dict.set_item("packets", PyArray1::from_iter(py, sizes))?;
    dict.set_item("ssrc", PyArray1::from_iter(py, streams.iter().map(|s| s.key.source)))?;
    dict.set_item("src_port", PyArray1::from_iter(py, streams.iter().map(|s| s.key.src_port)))?;
    dict.set_item("dst_port", PyArray1::from_iter(py, streams.iter().map(|s| s.key.dst_port)))?;
    dict.set_item("part", PyArray1::from_iter(py, streams.iter().map(|s| s.part)))?;
    dict.set_item("strays", PyArray1::from_iter(py, streams.iter().map(|s| s.strays)))?;
    dict.set_item("payload_type", PyArray1::from_iter(py, streams.iter().map(|s| s.facts.payload_type)))?;
    dict.set_item("clock_hz", PyArray1::from_iter(py, streams.iter().map(|s| s.facts.clock_hz)))?;
    let list = |name: &str, text: &dyn Fn(&Stream) -> String| {
        dict.set_item(name, streams.iter().map(text).collect::<Vec<_>>())
    };
    list("src", &|s| s.key.src.to_string())?;
    list("dst", &|s| s.key.dst.to_string())?;
    list("vlan", &|s| s.key.tags.to_string())?;
    list("interface", &|s| interface_name(s.key.interface))?;
    list("codec", &|s| s.facts.codec.clone())?;
    list("protocol", &|s| protocol_name(s.key.protocol).to_owned())?;
    list("media", &|s| kind_name(s.facts.kind).to_owned())?;
    list("known_by", &|s| known_by_name(s.facts.known_by).to_owned())?;
    let types = streams.iter().map(|s| s.facts.payload_types.clone()).collect::<Vec<_>>();
    dict.set_item("payload_types", types)?;
    Ok(dict)
}

/// Interface of the file, and that of the link layer if it names one.
pub fn interface_name((of_file, of_link): (u32, u32)) -> String {
    if of_link == 0 { of_file.to_string() } else { format!("{of_file}.{of_link}") }
}

pub const fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Rtp => "rtp",
        Protocol::Iax2 => "iax2",
    }
}

pub const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Audio => "audio",
        Kind::Video => "video",
        Kind::Unknown => "unknown",
    }
}

pub const fn known_by_name(known_by: KnownBy) -> &'static str {
    match known_by {
        KnownBy::Nothing => "",
        KnownBy::Sdp => "sdp",
        KnownBy::Static => "static",
        KnownBy::Iax2 => "iax2",
        KnownBy::Estimated => "estimated",
    }
}

fn capture<'py>(py: Python<'py>, voice: &Voice) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("format", format_name(voice.format, voice.compression))?;
    let counts = &voice.counts;
    dict.set_item("first_ns", counts.first_ns)?;
    dict.set_item("last_ns", counts.last_ns)?;
    for (name, value) in [
        ("packets", counts.packets),
        ("bytes", counts.bytes),
        ("truncated", counts.truncated),
        ("fragments", counts.fragments),
        ("not_ip", counts.not_ip),
        ("not_udp", counts.not_udp),
        ("malformed", counts.malformed),
        ("unknown_link", counts.unknown_link),
        ("timeless", counts.timeless),
        ("rtcp", counts.rtcp),
        ("sip", counts.sip),
        ("iax2", counts.iax2),
        ("other_udp", counts.other_udp),
    ] {
        dict.set_item(name, value)?;
    }
    dict.set_item("unknown_links", counts.unknown_links.iter().copied().collect::<Vec<u16>>())?;
    dict.set_item("cut_short", voice.cut_short)?;
    Ok(dict)
}

/// `pcapng+zstd`, for instance.
pub fn format_name(format: Format, compression: Compression) -> String {
    let format = match format {
        Format::Pcap => "pcap",
        Format::Pcapng => "pcapng",
    };
    let wrapping = match compression {
        Compression::None => "",
        Compression::Gzip => "+gzip",
        Compression::Zstd => "+zstd",
    };
    format!("{format}{wrapping}")
}
