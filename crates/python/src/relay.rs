//! Connections carried over parallel sockets; see `weirlab.transfers.psock.dropin`.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use weir_psock::io::Route;
use weir_relay::{
    Ended, MOST_CONNECTIONS, PORT, Proxy, RedirectError, Relay, RelayError, RuleError, Rules, Settings,
    Watched, Way, connect_filter,
};
use weir_tcp::interface::networks;

use crate::errors::{describe, exception};
use crate::psock::{Given, describe_session, end, open_error};

/// Adds everything about relays to the module.
pub fn add_to(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<ParallelRelay>()?;
    m.add_class::<ParallelProxy>()?;
    m.add_function(wrap_pyfunction!(relay_limits, m)?)?;
    m.add_function(wrap_pyfunction!(seccomp_filter, m)?)
}

/// The number of seccomp(2), and the filter that notifies of connect().
#[pyfunction]
fn seccomp_filter(py: Python<'_>) -> PyResult<(i64, Bound<'_, PyBytes>)> {
    let (number, filter) = connect_filter().map_err(|error| relay_error(py, &error.into()))?;
    Ok((number, PyBytes::new(py, &filter)))
}

/// Values that Python repeats for its help: a test compares them.
#[pyfunction]
fn relay_limits(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("port", PORT)?;
    dict.set_item("connections", MOST_CONNECTIONS)?;
    Ok(dict)
}

fn rules(py: Python<'_>, texts: &[String], option: &str) -> PyResult<Rules> {
    let in_words = |e: RuleError| exception(py, "InputError", &format!("{option}: {e}"));
    Rules::parse(texts).map_err(in_words)
}

fn relay_error(py: Python<'_>, error: &RelayError) -> PyErr {
    let class = match error {
        RelayError::Redirect(RedirectError::NotAllowed(_) | RedirectError::Refused { .. })
        | RelayError::Seccomp(_) => "MissingCapability",
        _ => "LabError",
    };
    exception(py, class, &describe(error))
}

fn story<'py>(py: Python<'py>, ended: &Ended) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("peer", end(ended.peer))?;
    dict.set_item("to", ended.to.map(end))?;
    dict.set_item("sent_bytes", ended.sent_bytes)?;
    dict.set_item("received_bytes", ended.received_bytes)?;
    dict.set_item("seconds", ended.lasted.as_secs_f64())?;
    dict.set_item("direct", ended.is_direct)?;
    dict.set_item("reset", ended.is_reset)?;
    dict.set_item("failure", &ended.failure)?;
    let report = ended.report.as_ref().map(|report| describe_session(py, report)).transpose()?;
    dict.set_item("session", report)?;
    Ok(dict)
}

fn stories<'py>(py: Python<'py>, ended: &[Ended]) -> PyResult<Vec<Bound<'py, PyDict>>> {
    ended.iter().map(|each| story(py, each)).collect()
}

/// Routes to the proxy: this end's address (None: any), the proxy's, and its port.
type Routes = Vec<(Option<IpAddr>, IpAddr, u16)>;

/// Carries the connections of programs.
#[pyclass(module = "weirlab._engine", frozen)]
pub struct ParallelRelay {
    inner: Relay,
}

impl ParallelRelay {
    fn start(py: Python<'_>, way: Way<'_>, settings: Settings) -> PyResult<Self> {
        let inner = py.detach(|| Relay::start(way, settings));
        Ok(Self { inner: inner.map_err(|error| relay_error(py, &error))? })
    }
}

fn settings(
    py: Python<'_>,
    routes: Routes,
    how: Given,
    (only, excepted): (&[String], &[String]),
    is_fallback: bool,
    most: usize,
) -> PyResult<Settings> {
    // So that the message names the option.
    rules(py, only, "--only")?;
    rules(py, excepted, "--except")?;
    let local = networks().map_err(|e| exception(py, "LabError", &format!("this host's addresses: {e}")))?;
    let selected = Rules::select(only, excepted, &local);
    let selected = selected.map_err(|e| exception(py, "LabError", &e.to_string()))?;
    let route = |(local, remote, port)| Route { local, remote: SocketAddr::new(remote, port) };
    Ok(Settings {
        routes: routes.into_iter().map(route).collect(),
        options: how.options(py)?,
        rules: selected,
        is_fallback,
        most,
    })
}

#[pymethods]
impl ParallelRelay {
    /// `cgroup`: a descriptor of the group's folder, which is not needed afterwards.
    #[new]
    #[pyo3(signature = (cgroup, routes, how, *, only, excepted, fallback, most))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments in Python")]
    fn new(
        py: Python<'_>,
        cgroup: i32,
        routes: Routes,
        how: Given,
        only: Vec<String>,
        excepted: Vec<String>,
        fallback: bool,
        most: usize,
    ) -> PyResult<Self> {
        if cgroup < 0 {
            return Err(PyValueError::new_err("cgroup is no descriptor"));
        }
        let settings = settings(py, routes, how, (&only, &excepted), fallback, most)?;
        // SAFETY: Python's caller keeps it open during the call.
        let cgroup = unsafe { BorrowedFd::borrow_raw(cgroup) };
        Self::start(py, Way::Bpf(cgroup), settings)
    }

    /// `watched`: the descriptor that seccomp(2) gave a process, which is closed at the end; the process's number;
    /// one of its descriptors.
    #[staticmethod]
    #[pyo3(signature = (watched, routes, how, *, only, excepted, fallback, most))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments in Python")]
    fn by_seccomp(
        py: Python<'_>,
        watched: (i32, u32, i32),
        routes: Routes,
        how: Given,
        only: Vec<String>,
        excepted: Vec<String>,
        fallback: bool,
        most: usize,
    ) -> PyResult<Self> {
        let (listener, process, open) = watched;
        if listener < 0 {
            return Err(PyValueError::new_err("listener is no descriptor"));
        }
        // SAFETY: Python's caller hands it over.
        let listener = unsafe { OwnedFd::from_raw_fd(listener) };
        let settings = settings(py, routes, how, (&only, &excepted), fallback, most)?;
        Self::start(py, Way::Seccomp(Watched { listener, process, open }), settings)
    }

    /// Whether programs under a seccomp filter are still running.
    #[getter]
    fn watches(&self) -> bool {
        self.inner.watches()
    }

    /// Threads that could not be examined since the last call.
    fn unseen(&self) -> Vec<u32> {
        self.inner.unseen()
    }

    /// Open connections.
    #[getter]
    fn active(&self) -> usize {
        self.inner.active()
    }

    /// Connections that have ended since the last call.
    fn ended<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        stories(py, &self.inner.ended())
    }

    /// The programs have ended.
    fn finish(&self) {
        self.inner.finish();
    }

    /// Aborts everything that is open.
    fn stop(&self) {
        self.inner.stop();
    }
}

/// Makes the connections that sessions request.
#[pyclass(module = "weirlab._engine", frozen)]
pub struct ParallelProxy {
    inner: Proxy,
}

#[pymethods]
impl ParallelProxy {
    #[new]
    #[pyo3(signature = (addresses, how, *, allow, most))]
    fn new(
        py: Python<'_>,
        addresses: Vec<(IpAddr, u16)>,
        how: Given,
        allow: Vec<String>,
        most: usize,
    ) -> PyResult<Self> {
        let (options, allowed) = (how.options(py)?, rules(py, &allow, "--allow")?);
        let addresses: Vec<_> = addresses.into_iter().map(SocketAddr::from).collect();
        let inner = py.detach(|| Proxy::start(&addresses, options, allowed, most));
        Ok(Self { inner: inner.map_err(|error| open_error(py, &error))? })
    }

    /// Where it listens.
    #[getter]
    fn addresses(&self) -> Vec<(String, u16)> {
        self.inner.addresses().iter().copied().map(end).collect()
    }

    /// Open sessions.
    #[getter]
    fn active(&self) -> usize {
        self.inner.active()
    }

    /// Sessions that have ended since the last call.
    fn ended<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        stories(py, &self.inner.ended())
    }

    /// A peer that connected without success, and why; None: there was none since the last call.
    fn stranger(&self) -> Option<((String, u16), String)> {
        self.inner.stranger().map(|stranger| (end(stranger.peer), stranger.why))
    }

    /// Aborts everything that is open.
    fn stop(&self) {
        self.inner.stop();
    }
}
