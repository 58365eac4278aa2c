//! Voice streams of a capture file as NumPy arrays; see `weirlab._engine.rtp_packets`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use weir_trace::Share;
use weir_trace::capture::{CaptureError, Compression, Format};
use weir_trace::packet::Opaque;
use weir_trace::voice::{
    AdaptiveBuffer, Arrival, Beginning, Call, CapturedNumbers, Claim, Depths, Encoding, Kind, KnownBy, Loss,
    Measured, Missed, Options, Party, Protocol, Reports, Stream, Told, Voice,
};

use crate::errors::{describe, exception};

/// Ctrl-C is checked once per this many bytes; compressed ones may stand for a thousand times more.
const BETWEEN_SIGNALS: usize = 256 << 10;

/// Every packet of every voice stream in a capture file.
#[pyfunction]
#[pyo3(signature = (path, decode_as=Vec::new(), encodings=Vec::new(), share=(0, 1)))]
pub fn rtp_packets(
    py: Python<'_>,
    path: PathBuf,
    decode_as: Vec<(u16, u16)>,
    encodings: Vec<(Option<u8>, String, u32)>,
    share: (u32, u32),
) -> PyResult<Bound<'_, PyDict>> {
    let encoding = |(number, name, clock_hz)| (number, Encoding { name, clock_hz, kind: Kind::Unknown });
    let options = Options {
        decode_as: decode_as.into_iter().map(|(low, high)| low..=high).collect(),
        told: Told { encodings: encodings.into_iter().map(encoding).collect() },
        share: share_of(share)?,
    };
    let file = open(py, &path)?;
    let mut signal = None;
    let found = py.detach(|| weir_trace::voice_of(Interruptible::new(file, &mut signal), options));
    match (signal, found) {
        (Some(signal), _) => Err(signal),
        (None, Ok(voice)) => to_dict(py, &voice),
        (None, Err(error)) => Err(refusal(py, &path, &error)),
    }
}

/// Share `number`, from 0, `of` several; raises `ValueError`.
pub fn share_of((number, of): (u32, u32)) -> PyResult<Share> {
    let wrong = || PyValueError::new_err(format!("share {number} of {of}: they are numbered from 0"));
    Share::new(number, of).ok_or_else(wrong)
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

/// The error for a capture that cannot be read.
pub fn refusal(py: Python<'_>, path: &Path, error: &CaptureError) -> PyErr {
    let message = format!("the capture {}: {}; {}", path.display(), describe(error), way_out(error));
    exception(py, "InputError", &message)
}

const fn way_out(error: &CaptureError) -> &'static str {
    match error {
        CaptureError::TooShort { .. } | CaptureError::Unknown { .. } => {
            "files of tcpdump, dumpcap and Wireshark can be read: pcap and pcapng, also in gzip, zstd, xz, lz4 or bzip2"
        }
        CaptureError::CutShort { .. } => "copy it again",
        _ => "what lies before it can be saved with: tshark -r FILE -w SAVED.pcapng",
    }
}

/// A file whose reading Ctrl-C interrupts.
pub struct Interruptible<'a> {
    file: File,
    since: usize,
    signal: &'a mut Option<PyErr>,
}

impl<'a> Interruptible<'a> {
    /// Reads `file`; the exception that Ctrl-C raised goes into `signal`.
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
    dict.set_item("calls", calls(py, &voice.calls)?)?;
    dict.set_item("capture", capture(py, voice)?)?;
    Ok(dict)
}

fn packets<'py>(py: Python<'py>, streams: &[Stream]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let owners = streams.iter().zip(0_u32..).flat_map(|(stream, i)| stream.rows.iter().map(move |_| i));
    dict.set_item("stream", PyArray1::from_iter(py, owners))?;
    let rows = || streams.iter().flat_map(|stream| &stream.rows);
    columns!(dict, rows(); arrival_ns, seq, timestamp, payload_type, marker, payload_bytes, speech, stretch);
    Ok(dict)
}

fn streams<'py>(py: Python<'py>, streams: &[Stream]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    let mut first = 0;
    for stream in streams {
        let dict = measured(py, &stream.measured)?;
        dict.set_item("first", first)?;
        dict.set_item("kept", stream.kept)?;
        first += stream.rows.len();
        list.append(dict)?;
    }
    Ok(list)
}

/// What is known about a stream, the same for every consumer.
pub fn measured<'py>(py: Python<'py>, stream: &Measured) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let (key, facts) = (&stream.key, &stream.facts);
    dict.set_item("src", key.src.to_string())?;
    dict.set_item("dst", key.dst.to_string())?;
    fields!(dict, key; src_port, dst_port);
    dict.set_item("protocol", protocol_name(key.protocol))?;
    dict.set_item("ssrc", key.source)?;
    dict.set_item("vlan", key.tags.to_string())?;
    dict.set_item("interface", interface_name(key.interface))?;
    dict.set_item("payload_types", facts.payload_types.clone())?;
    dict.set_item("media", kind_name(facts.kind))?;
    dict.set_item("known_by", known_by_name(facts.known_by))?;
    fields!(dict, facts; codec, payload_type, clock_hz, nominal_hz);
    dict.set_item("tag_bytes", facts.tag_bytes)?;
    dict.set_item("encrypted", facts.is_secure)?;
    fields!(dict, stream; part, packets, payload_bytes, first_ns, last_ns, expected);
    dict.set_item("lost", stream.loss.is_known().then_some(stream.lost))?;
    dict.set_item("missed", missed_name(stream.loss))?;
    dict.set_item("loss_estimated", stream.loss == Loss::Estimated)?;
    fields!(dict, stream; loss_runs, longest_run, copies, repeats, reordered, strays, markers, gap_max_ns);
    fields!(dict, stream; lead, still);
    dict.set_item("begins", beginning_name(stream.beginning))?;
    let pauses = &stream.pauses;
    dict.set_item("pauses", pauses.count)?;
    dict.set_item("pauses_ns", pauses.lasted_ns)?;
    dict.set_item("not_sent", pauses.skipped)?;
    dict.set_item("jitter_mean_ns", stream.jitter.map(|jitter| jitter.mean_ns))?;
    dict.set_item("jitter_max_ns", stream.jitter.map(|jitter| jitter.max_ns))?;
    let reports = stream.reports.filter(|reports| reports.count > 0 || reports.claim.is_some());
    let far_end = reports.map(|reports| far_end(py, &reports, stream.captured, facts.clock_hz));
    dict.set_item("far_end", far_end.transpose()?)?;
    Ok(dict)
}

/// What the receiver of a stream reported by RTCP.
fn far_end<'py>(
    py: Python<'py>,
    reports: &Reports,
    captured: Option<CapturedNumbers>,
    clock_hz: u32,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let ns = |ticks: f64| (clock_hz > 0).then(|| ticks * 1e9 / f64::from(clock_hz));
    dict.set_item("reports", reports.count)?;
    dict.set_item("loss_ratio", captured.and_then(|captured| reports.loss_ratio(captured)))?;
    dict.set_item("lost_others", captured.is_some_and(|captured| reports.lost_others(captured)))?;
    let mean = (reports.count > 0).then(|| reports.jitter_sum as f64 / reports.count as f64);
    dict.set_item("jitter_mean_ns", mean.and_then(ns))?;
    dict.set_item("jitter_max_ns", mean.and_then(|_| ns(reports.jitter_max.into())))?;
    let trips = &reports.round_trips;
    let known = (trips.count > 0).then_some(trips);
    dict.set_item("round_trips", trips.count)?;
    dict.set_item("round_trip_min_ns", known.map(|trips| trips.least_ns))?;
    dict.set_item("round_trip_mean_ns", known.map(|trips| trips.sum_ns as f64 / trips.count as f64))?;
    dict.set_item("round_trip_max_ns", known.map(|trips| trips.most_ns))?;
    dict.set_item("claim", reports.claim.as_ref().map(|claim| self::claim(py, claim)).transpose()?)?;
    Ok(dict)
}

fn claim<'py>(py: Python<'py>, claim: &Claim) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    fields!(dict, claim; loss_ratio, discard_ratio, round_trip_ms, end_system_ms, r, mos_lq, mos_cq);
    Ok(dict)
}

fn calls<'py>(py: Python<'py>, calls: &[Call]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for call in calls {
        let dict = PyDict::new(py);
        fields!(dict, call; id, from, to, first_ns, answered_ns, ended_ns, both_ways);
        let parties = call.parties.iter().map(|party| self::party(py, party));
        dict.set_item("parties", parties.collect::<PyResult<Vec<_>>>()?)?;
        list.append(dict)?;
    }
    Ok(list)
}

fn party<'py>(py: Python<'py>, party: &Party) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("address", party.signals.0.to_string())?;
    dict.set_item("port", party.signals.1)?;
    let media = party.media.iter().map(|(address, port)| (address.to_string(), *port));
    dict.set_item("media", media.collect::<Vec<_>>())?;
    dict.set_item("sends", party.direction.sends)?;
    dict.set_item("receives", party.direction.receives)?;
    Ok(dict)
}

/// Packets that are not decoded, by name.
pub fn opaque<'py>(py: Python<'py>, counts: &BTreeMap<Opaque, u64>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (what, count) in counts {
        dict.set_item(what.name(), count)?;
    }
    Ok(dict)
}

/// Interface of the file, and that of the link layer if it names one.
pub fn interface_name((of_file, of_link): (u32, u32)) -> String {
    if of_link == 0 { of_file.to_string() } else { format!("{of_file}.{of_link}") }
}

const fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Rtp => "rtp",
        Protocol::Iax2 => "iax2",
    }
}

const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Audio => "audio",
        Kind::Video => "video",
        Kind::Unknown => "unknown",
    }
}

const fn known_by_name(known_by: KnownBy) -> &'static str {
    match known_by {
        KnownBy::Nothing => "",
        KnownBy::Sdp => "sdp",
        KnownBy::Static => "static",
        KnownBy::Iax2 => "iax2",
        KnownBy::Estimated => "estimated",
        KnownBy::Option => "option",
        KnownBy::WebRtc => "webrtc",
    }
}

/// Why a stream's loss is not known although its numbers are; empty if that is not the reason.
const fn missed_name(loss: Loss) -> &'static str {
    match loss {
        Loss::Missed(Missed::Sparse) => "sparse",
        Loss::Missed(Missed::Gaps) => "gaps",
        Loss::Missed(Missed::Reports) => "reports",
        _ => "",
    }
}

const fn beginning_name(beginning: Beginning) -> &'static str {
    match beginning {
        Beginning::First => "first",
        Beginning::Restart => "restart",
        Beginning::Codec => "codec",
    }
}

fn capture<'py>(py: Python<'py>, voice: &Voice) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("format", format_name(voice.format, voice.compression))?;
    let counts = &voice.counts;
    fields!(dict, counts; first_ns, last_ns, packets, bytes, truncated, fragments, not_ip, not_udp);
    fields!(dict, counts; malformed, unknown_link, timeless, misdated, rtcp, rtcp_unreadable, sip, iax2);
    fields!(dict, counts; other_udp, incomplete, interleaved);
    dict.set_item("opaque", opaque(py, &counts.opaque)?)?;
    dict.set_item("unknown_links", counts.unknown_links.iter().copied().collect::<Vec<u16>>())?;
    fields!(dict, voice; cut_short);
    Ok(dict)
}

/// `pcapng+zstd`, for instance.
pub fn format_name(format: Format, compression: Compression) -> String {
    let format = match format {
        Format::Pcap => "pcap",
        Format::Pcapng => "pcapng",
    };
    match compression {
        Compression::None => format.to_owned(),
        _ => format!("{format}+{}", compression.name()),
    }
}

/// Play-out delays of the packets of every stream, in the adaptive jitter buffer.
#[pyfunction]
#[pyo3(signature = (start, number, sent_ns, transit_ns, packet_ns, depths_ns, /))]
pub fn adaptive_delays<'py>(
    py: Python<'py>,
    start: PyReadonlyArray1<'py, i64>,
    number: PyReadonlyArray1<'py, i64>,
    sent_ns: PyReadonlyArray1<'py, i64>,
    transit_ns: PyReadonlyArray1<'py, i64>,
    packet_ns: PyReadonlyArray1<'py, f64>,
    depths_ns: (f64, f64, f64),
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (start, number, sent_ns) = (start.as_array(), number.as_array(), sent_ns.as_array());
    let (transit_ns, packet_ns) = (transit_ns.as_array(), packet_ns.as_array());
    let ends = start.iter().copied().map(usize::try_from).collect::<Result<Vec<_>, _>>();
    let ends = ends.ok().filter(|ends| {
        let whole = ends.first() == Some(&0) && ends.last() == Some(&number.len()) && ends.is_sorted();
        let columns = [sent_ns.len(), transit_ns.len()] == [number.len(); 2];
        whole && columns && ends.len() == packet_ns.len() + 1
    });
    let ends = ends.ok_or_else(|| PyValueError::new_err("the columns of streams do not fit each other"))?;
    let (least_ns, most_ns, adjust_ns) = depths_ns;
    let depths = Depths { least_ns, most_ns, adjust_ns };
    let mut delays = Vec::with_capacity(number.len());
    for (part, &packet_ns) in ends.windows(2).zip(packet_ns) {
        let mut buffer = AdaptiveBuffer::new(packet_ns, depths);
        delays.extend((part[0]..part[1]).map(|at| {
            buffer.play(Arrival { number: number[at], sent_ns: sent_ns[at], transit_ns: transit_ns[at] })
        }));
    }
    Ok(PyArray1::from_vec(py, delays))
}
