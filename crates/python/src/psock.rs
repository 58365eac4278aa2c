//! Parallel sockets; see `weirlab.transfers.psock`.

use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyList};
use weir_psock::io::{
    LEAST_MEMORY_BYTES, Listener, MOST_MEMORY_BYTES, OpenError, Opening, Options, PORT, ParallelSocket,
    Report, Route, SocketError, UNSENT_BYTES,
};
use weir_psock::schedule::SCHEDULERS;
use weir_psock::session::{Config, Timing};
use weir_psock::wire::{GreetingError, MOST_BLOCK_BYTES, MOST_STREAMS};
use weir_tcp::option::Setting;

use crate::errors::{describe, exception};

/// Longest wait in one call, after which Ctrl-C is checked.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// Most bytes that are read at once.
const MOST_READ_BYTES: usize = 16 << 20;

/// Adds everything about parallel sockets to the module.
pub fn add_to(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<ParallelSocketObject>()?;
    m.add_class::<ParallelListener>()?;
    m.add_function(wrap_pyfunction!(psock_limits, m)?)
}

/// Values that Python repeats for its help: a test compares them.
#[pyfunction]
fn psock_limits(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let usual = Config::default();
    let dict = PyDict::new(py);
    dict.set_item("port", PORT)?;
    dict.set_item("schedulers", SCHEDULERS)?;
    dict.set_item("most_streams", MOST_STREAMS)?;
    dict.set_item("most_block_bytes", MOST_BLOCK_BYTES)?;
    dict.set_item("block_bytes", usual.block_bytes)?;
    dict.set_item("memory_bytes", usual.receive_bytes)?;
    dict.set_item("memory_limits_bytes", (LEAST_MEMORY_BYTES, MOST_MEMORY_BYTES))?;
    dict.set_item("unsent_bytes", UNSENT_BYTES)?;
    dict.set_item("lost_ns", usual.timing.lost_ns)?;
    Ok(dict)
}

/// The options of a session, as Python gives them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Given {
    token: String,
    scheduler: String,
    block_bytes: u32,
    memory_bytes: usize,
    unsent_bytes: u32,
    lost_ns: u64,
    options: Vec<(String, String)>,
    #[pyo3(default)]
    fair: bool,
    #[pyo3(default)]
    fallback: bool,
    #[pyo3(default)]
    wait_for_paths: bool,
}

impl Given {
    pub fn options(self, py: Python<'_>) -> PyResult<Options> {
        let read = |(name, value): &(String, String)| {
            Setting::new(name, value).map_err(|e| exception(py, "InputError", &describe(&e)))
        };
        Ok(Options {
            token: self.token.into_bytes(),
            config: Config {
                receive_bytes: self.memory_bytes,
                send_bytes: self.memory_bytes,
                block_bytes: self.block_bytes,
                timing: Timing { lost_ns: self.lost_ns, ..Timing::default() },
                is_fair: self.fair,
            },
            scheduler: self.scheduler,
            unsent_bytes: self.unsent_bytes,
            settings: self.options.iter().map(read).collect::<PyResult<_>>()?,
            is_fallback: self.fallback,
            waits_for_routes: self.wait_for_paths,
            ..Options::default()
        })
    }
}

pub fn open_error(py: Python<'_>, error: &OpenError) -> PyErr {
    let class = match error {
        OpenError::Connect { .. }
        | OpenError::Listen { .. }
        | OpenError::Silent { .. }
        | OpenError::System { .. } => "LabError",
        OpenError::Greeting { source, .. } if *source != GreetingError::Secret => "LabError",
        _ => "InputError",
    };
    let advice = match error {
        OpenError::Greeting { source: GreetingError::Secret, .. } => "; check --token",
        OpenError::TokenShort(_) => ", for example the output of: openssl rand -hex 16",
        OpenError::Greeting { source: GreetingError::NotPsock | GreetingError::Version(_), .. }
        | OpenError::Silent { .. } => "; --fallback uses plain TCP with such a peer",
        _ => "",
    };
    exception(py, class, &format!("{}{advice}", describe(error)))
}

fn socket_error(py: Python<'_>, error: &SocketError) -> PyErr {
    let class = if matches!(error, SocketError::System { .. }) { "LabError" } else { "TrialError" };
    exception(py, class, &describe(error))
}

/// Calls `work` with short waits until it is done, looking for signals between them.
fn patiently<T: Send>(
    py: Python<'_>,
    within_s: Option<f64>,
    mut work: impl FnMut(Duration) -> Result<T, SocketError> + Send,
) -> PyResult<Option<T>> {
    let mut left = within_s.map(|within_s| Duration::try_from_secs_f64(within_s).unwrap_or_default());
    loop {
        let wait = left.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT);
        match py.detach(|| work(wait)) {
            Ok(done) => return Ok(Some(done)),
            Err(SocketError::TimedOut) => py.check_signals()?,
            Err(error) => return Err(socket_error(py, &error)),
        }
        if let Some(left) = &mut left {
            *left = left.saturating_sub(wait);
            if left.is_zero() {
                return Ok(None);
            }
        }
    }
}

/// A session.
#[pyclass(name = "ParallelSocket", module = "weirlab._engine", frozen)]
pub struct ParallelSocketObject {
    inner: ParallelSocket,
    /// Buffer of [`ParallelSocketObject::read`], kept between its calls; empty while one is under way.
    buffer: Mutex<Vec<u8>>,
}

impl From<ParallelSocket> for ParallelSocketObject {
    fn from(inner: ParallelSocket) -> Self {
        Self { inner, buffer: Mutex::default() }
    }
}

#[pymethods]
impl ParallelSocketObject {
    /// Opens a session over `routes`, all of which are tried at once: this end's address or None, the other end's,
    /// its port.
    #[staticmethod]
    fn connect(py: Python<'_>, routes: Vec<(Option<IpAddr>, IpAddr, u16)>, how: Given) -> PyResult<Self> {
        let options = how.options(py)?;
        let route = |(local, remote, port)| Route { local, remote: SocketAddr::new(remote, port) };
        let routes: Vec<_> = routes.into_iter().map(route).collect();
        let mut opening = Opening::start(&routes, &options, None).map_err(|error| open_error(py, &error))?;
        loop {
            opening = match py.detach(|| opening.wait(Some(LONGEST_WAIT))) {
                Ok(Ok(inner)) => return Ok(inner.into()),
                Ok(Err(error)) => return Err(open_error(py, &error)),
                Err(still) => still,
            };
            py.check_signals()?;
        }
    }

    /// Writes some of `data`; returns how many bytes, or None if there was no room in time.
    #[pyo3(signature = (data, within_s=None))]
    fn write(&self, py: Python<'_>, data: PyBackedBytes, within_s: Option<f64>) -> PyResult<Option<usize>> {
        patiently(py, within_s, |wait| self.inner.write(&data, Some(wait)))
    }

    /// Writes all of `data`.
    fn write_all(&self, py: Python<'_>, data: PyBackedBytes) -> PyResult<()> {
        let mut rest = &data[..];
        while !rest.is_empty() {
            let written = patiently(py, None, |wait| self.inner.write(rest, Some(wait)))?;
            rest = &rest[written.unwrap_or_default()..];
        }
        Ok(())
    }

    /// Reads at most `size` bytes: none at the end, None if nothing came in time.
    #[pyo3(signature = (size, within_s=None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        size: usize,
        within_s: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let size = size.clamp(1, MOST_READ_BYTES);
        // No thread waits while it is locked: a second reader makes its own buffer.
        let mut buffer = mem::take(&mut *self.kept());
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        let into = &mut buffer[..size];
        let read = patiently(py, within_s, |wait| self.inner.read(into, Some(wait)))?;
        let found = read.map(|len| PyBytes::new(py, &buffer[..len]));
        *self.kept() = buffer;
        Ok(found)
    }

    /// Nothing more will be written.
    fn finish(&self) {
        self.inner.finish();
    }

    /// Waits until everything written has arrived; False if it has not in time.
    #[pyo3(signature = (within_s=None))]
    fn delivered(&self, py: Python<'_>, within_s: Option<f64>) -> PyResult<bool> {
        Ok(patiently(py, within_s, |wait| self.inner.delivered(Some(wait)))?.is_some())
    }

    /// Ends the session properly; False if that was not done in time.
    #[pyo3(signature = (within_s=None))]
    fn close(&self, py: Python<'_>, within_s: Option<f64>) -> PyResult<bool> {
        Ok(patiently(py, within_s, |wait| self.inner.close(Some(wait)))?.is_some())
    }

    /// Aborts the session.
    fn abort(&self) {
        self.inner.abort();
    }

    /// A descriptor to poll.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.inner.poll_fd().map_err(|error| socket_error(py, &error))
    }

    /// The progress of the session, and of each of its streams.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        describe_session(py, &self.inner.report())
    }
}

impl ParallelSocketObject {
    fn kept(&self) -> MutexGuard<'_, Vec<u8>> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A report as Python gets it.
pub fn describe_session<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
    let totals = report.totals;
    let dict = PyDict::new(py);
    dict.set_item("scheduler", report.scheduler)?;
    dict.set_item("plain", report.is_plain)?;
    for (name, value) in [
        ("written_bytes", totals.written_bytes),
        ("acknowledged_bytes", totals.acknowledged_bytes),
        ("received_bytes", totals.received_bytes),
        ("reorder_bytes", totals.reorder_bytes),
        ("reorder_peak_bytes", totals.reorder_peak_bytes),
        ("duplicate_bytes", totals.duplicate_bytes),
        ("resent_bytes", totals.resent_bytes),
        ("resent_blocks", totals.resent_blocks),
    ] {
        dict.set_item(name, value)?;
    }
    let streams = PyList::empty(py);
    for stream in &report.streams {
        let dict = PyDict::new(py);
        dict.set_item("local", end(stream.local))?;
        dict.set_item("remote", end(stream.remote))?;
        dict.set_item("sent_bytes", stream.totals.sent_bytes)?;
        dict.set_item("resent_bytes", stream.totals.resent_bytes)?;
        dict.set_item("received_bytes", stream.totals.received_bytes)?;
        dict.set_item("retransmitted_segments", stream.retransmitted_segments)?;
        dict.set_item("rtt_ns", stream.srtt_ns)?;
        dict.set_item("ended", &stream.ended)?;
        streams.append(dict)?;
    }
    dict.set_item("streams", streams)?;
    Ok(dict)
}

/// Listens for sessions.
#[pyclass(name = "ParallelListener", module = "weirlab._engine", frozen)]
pub struct ParallelListener {
    inner: Listener,
}

#[pymethods]
impl ParallelListener {
    #[new]
    fn new(py: Python<'_>, addresses: Vec<(IpAddr, u16)>, how: Given) -> PyResult<Self> {
        let options = how.options(py)?;
        let addresses: Vec<_> = addresses.into_iter().map(SocketAddr::from).collect();
        let inner = py.detach(|| Listener::bind(&addresses, options));
        Ok(Self { inner: inner.map_err(|error| open_error(py, &error))? })
    }

    /// Where it listens.
    #[getter]
    fn addresses(&self) -> Vec<(String, u16)> {
        self.inner.addresses().iter().copied().map(end).collect()
    }

    /// The next session and its peer, or None within `within_s`, at most 0.1 s.
    fn accept(&self, py: Python<'_>, within_s: f64) -> Option<(ParallelSocketObject, (String, u16))> {
        let wait = Duration::try_from_secs_f64(within_s).unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT);
        let (inner, peer) = py.detach(|| self.inner.accept(Some(wait)))?;
        Some((inner.into(), end(peer)))
    }

    /// A peer that connected without success, and why; None: there was none since the last call.
    fn stranger(&self) -> Option<((String, u16), String)> {
        self.inner.stranger().map(|stranger| (end(stranger.peer), stranger.why))
    }
}

pub fn end(address: SocketAddr) -> (String, u16) {
    (address.ip().to_canonical().to_string(), address.port())
}
