//! Connections carried over parallel sockets; see `weirlab.studies.psock.dropin`.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_psock::io::Route;
use weir_relay::{
    Ended, MOST_CONNECTIONS, PORT, Proxy, RedirectError, Relay, RelayError, RuleError, Rules, Settings,
};

use crate::errors::{describe, exception};
use crate::psock::{Given, describe_session, end, open_error};

/// Adds everything about relays to the module.
pub fn add_to(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<ParallelRelay>()?;
    m.add_class::<ParallelProxy>()?;
    m.add_function(wrap_pyfunction!(relay_limits, m)?)
}

/// What Python says too, for its help: a test holds them against each other.
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
        RelayError::Redirect(RedirectError::NotAllowed(_) | RedirectError::Refused { .. }) => {
            "MissingCapability"
        }
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

/// Carries the connections of the programs in a control group.
#[pyclass(module = "weirlab._engine", frozen)]
pub struct ParallelRelay {
    inner: Relay,
}

#[pymethods]
impl ParallelRelay {
    /// `cgroup`: a descriptor of the group's folder, which is not needed any more afterwards.
    #[new]
    #[pyo3(signature = (cgroup, routes, how, *, only, fallback, most))]
    fn new(
        py: Python<'_>,
        cgroup: i32,
        routes: Vec<(Option<IpAddr>, IpAddr, u16)>,
        how: Given,
        only: Vec<String>,
        fallback: bool,
        most: usize,
    ) -> PyResult<Self> {
        if cgroup < 0 {
            return Err(PyValueError::new_err("cgroup is no descriptor"));
        }
        let route = |(local, remote, port)| Route { local, remote: SocketAddr::new(remote, port) };
        let settings = Settings {
            routes: routes.into_iter().map(route).collect(),
            options: how.options(py)?,
            rules: rules(py, &only, "--only")?,
            is_fallback: fallback,
            most,
        };
        // SAFETY: Python's caller keeps it open during the call.
        let cgroup = unsafe { BorrowedFd::borrow_raw(cgroup) };
        let inner = py.detach(|| Relay::start(cgroup, settings));
        Ok(Self { inner: inner.map_err(|error| relay_error(py, &error))? })
    }

    /// Connections that there are.
    #[getter]
    fn active(&self) -> usize {
        self.inner.active()
    }

    /// Connections that have ended since the last time.
    fn ended<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        stories(py, &self.inner.ended())
    }

    /// The programs have ended.
    fn finish(&self) {
        self.inner.finish();
    }

    /// Breaks off what there is.
    fn stop(&self) {
        self.inner.stop();
    }
}

/// Makes the connections that sessions ask for.
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

    /// Sessions that there are.
    #[getter]
    fn active(&self) -> usize {
        self.inner.active()
    }

    /// Sessions that have ended since the last time.
    fn ended<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        stories(py, &self.inner.ended())
    }

    /// Somebody who connected in vain, and why; None: nobody since the last time.
    fn stranger(&self) -> Option<((String, u16), String)> {
        self.inner.stranger().map(|stranger| (end(stranger.peer), stranger.why))
    }

    /// Breaks off what there is.
    fn stop(&self) {
        self.inner.stop();
    }
}
