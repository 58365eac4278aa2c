//! The recorder; see `weirlab.link`.

use std::net::IpAddr;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use weir_engine::Endpoint;
use weir_engine::record::{
    Connections, File, FilterError, Gap, InterfaceSource, Options, Progress, RecordError, Recorder as Inner,
    Source, Stage, Summary, Watch,
};
use weir_engine::tap::RingSource;

use crate::NETNS_DIR;
use crate::errors::{describe, exception, translate};

/// Fast enough not to limit a recorder.
const ZSTD_LEVEL: i32 = 1;

/// Writes frames into pcapng files, in its own thread.
#[pyclass(name = "Recorder", module = "weirlab._engine", frozen)]
pub struct Recorder {
    inner: Mutex<State>,
    connections: Option<Connections>,
    /// Used for progress, even while another thread waits for the end.
    watch: OnceLock<Watch>,
}

struct State {
    recorder: Inner,
    /// Until the start.
    opened: Option<Opened>,
}

enum Opened {
    Interface(InterfaceSource),
    Ring(RingSource),
}

#[pymethods]
impl Recorder {
    #[new]
    #[pyo3(signature = (
        path, *, ring_fds=Vec::new(), interface=None, netns=None, filter=String::new(), tcp_port=None,
        snap_bytes=262_144, rotate_bytes=None, rotate_seconds=None, most_bytes=None, keep_files=None, compress="",
        ring_bytes=64 << 20, cpu=None, comment=String::new()
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments in Python")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        ring_fds: Vec<RawFd>,
        interface: Option<String>,
        netns: Option<&str>,
        filter: String,
        tcp_port: Option<u16>,
        snap_bytes: u32,
        rotate_bytes: Option<u64>,
        rotate_seconds: Option<f64>,
        most_bytes: Option<u64>,
        keep_files: Option<usize>,
        compress: &str,
        ring_bytes: usize,
        cpu: Option<usize>,
        comment: String,
    ) -> PyResult<Self> {
        let zstd_level = match compress {
            "" => None,
            "zstd" => Some(ZSTD_LEVEL),
            other => return Err(refuse(py, &format!("compress {other:?}: expected zstd or nothing"))),
        };
        let rotate_after = rotate_seconds
            .map(|seconds| {
                Duration::try_from_secs_f64(seconds)
                    .map_err(|e| refuse(py, &format!("rotate_seconds {seconds}: {e}")))
            })
            .transpose()?;
        let connections = tcp_port.map(Connections::of_port);
        let options = Options {
            filter,
            connections: connections.clone(),
            snap_bytes,
            rotate_bytes,
            rotate_after,
            most_bytes,
            keep_files,
            zstd_level,
            cpu,
            comment,
            ..Options::new(path)
        };
        let recorder = py.detach(|| Inner::new(options)).map_err(|e| raise(py, &e))?;
        let opened = match (&ring_fds[..], interface) {
            ([], Some(interface)) => {
                let at = Endpoint { netns: netns.map(|name| Path::new(NETNS_DIR).join(name)), interface };
                let source = py.detach(|| InterfaceSource::open(&at, ring_bytes));
                Opened::Interface(source.map_err(|e| translate(py, &e))?)
            }
            ([_, ..], None) => {
                let source = RingSource::open(&ring_fds).map_err(|e| {
                    exception(py, "LabError", &format!("the ring of the tap cannot be read: {e}"))
                })?;
                Opened::Ring(source)
            }
            _ => {
                let message = "a recorder reads a ring or an interface: give ring_fds or interface, not both";
                return Err(PyValueError::new_err(message));
            }
        };
        let state = State { recorder, opened: Some(opened) };
        Ok(Self { inner: Mutex::new(state), connections, watch: OnceLock::new() })
    }

    /// Start recording.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let mut state = self.lock();
            let source: Box<dyn Source> = match state.opened.take() {
                None => return Err(StartError::Record(RecordError::Started)),
                Some(Opened::Ring(source)) => Box::new(source),
                Some(Opened::Interface(mut source)) => {
                    source.listen().map_err(StartError::Interface)?;
                    Box::new(source)
                }
            };
            state.recorder.start(source).map_err(StartError::Record)?;
            if let Some(watch) = state.recorder.watch() {
                self.watch.get_or_init(|| watch);
            }
            Ok(())
        })
        .map_err(|e| match e {
            StartError::Record(e) => raise(py, &e),
            StartError::Interface(e) => translate(py, &e),
        })
    }

    /// Name the connections whose headers are written, as (address, port) of both ends.
    fn name_connections(&self, connections: Vec<(End, End)>) -> PyResult<()> {
        let Some(named) = &self.connections else {
            return Err(PyValueError::new_err("this recorder has no tcp_port"));
        };
        named.name(connections.into_iter().map(|(one, other)| (one.into(), other.into())));
        Ok(())
    }

    /// What became of frames so far.
    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let progress = match self.watch.get() {
            Some(watch) => watch.progress(),
            None => py.detach(|| self.lock().recorder.progress()),
        };
        progress_to_dict(py, &progress)
    }

    /// Write what has come so far, and close the file.
    fn stop<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let summary = py.detach(|| {
            let mut state = self.lock();
            state.opened = None;
            state.recorder.stop()
        });
        summary_to_dict(py, &summary)
    }
}

/// An address and a port.
type End = (IpAddr, u16);

enum StartError {
    Record(RecordError),
    Interface(weir_engine::EngineError),
}

impl Recorder {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refuse(py: Python<'_>, message: &str) -> PyErr {
    exception(py, "InputError", message)
}

fn raise(py: Python<'_>, error: &RecordError) -> PyErr {
    let class = match error {
        RecordError::Filter(FilterError::NoLibrary { .. }) => "MissingCapability",
        RecordError::Option { .. } | RecordError::Filter(_) | RecordError::Path { .. } => "InputError",
        RecordError::Started => return PyValueError::new_err(error.to_string()),
        RecordError::Thread(_) => "LabError",
    };
    exception(py, class, &describe(error))
}

fn progress_to_dict<'py>(py: Python<'py>, progress: &Progress) -> PyResult<Bound<'py, PyDict>> {
    let interfaces = PyList::empty(py);
    for interface in &progress.interfaces {
        let dict = PyDict::new(py);
        fields!(dict, interface; name, seen, lost, filtered, written, not_written);
        interfaces.append(dict)?;
    }
    let dict = PyDict::new(py);
    dict.set_item("interfaces", interfaces)?;
    dict.set_item("file", progress.file.to_string_lossy())?;
    fields!(dict, progress; bytes, failure, ended);
    Ok(dict)
}

fn summary_to_dict<'py>(py: Python<'py>, summary: &Summary) -> PyResult<Bound<'py, PyDict>> {
    let dict = progress_to_dict(py, &summary.progress)?;
    let files = summary.files.iter().map(|file| file_to_dict(py, file)).collect::<PyResult<Vec<_>>>()?;
    let gaps = summary.gaps.iter().map(|gap| gap_to_dict(py, gap, &summary.progress));
    dict.set_item("files", files)?;
    dict.set_item("files_removed", summary.files_removed)?;
    dict.set_item("gaps", gaps.collect::<PyResult<Vec<_>>>()?)?;
    Ok(dict)
}

fn file_to_dict<'py>(py: Python<'py>, file: &File) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("path", file.path.to_string_lossy())?;
    fields!(dict, file; frames, bytes, first_ns, last_ns);
    Ok(dict)
}

fn gap_to_dict<'py>(py: Python<'py>, gap: &Gap, progress: &Progress) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("interface", progress.interfaces.get(gap.interface).map(|interface| &interface.name))?;
    fields!(dict, gap; from_ns, to_ns, frames);
    dict.set_item("stage", if gap.stage == Stage::Ring { "ring" } else { "disk" })?;
    Ok(dict)
}
