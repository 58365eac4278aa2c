//! The link tap; see `weirlab.link`.

use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_engine::tap::{MirrorOptions, Mode, Tap as Inner, TapOptions};

use crate::{NETNS_DIR, errors};

/// A bridge between two interfaces that copies everything that crosses it.
#[pyclass(name = "Tap", module = "weirlab._engine")]
pub struct Tap {
    inner: Inner,
}

#[pymethods]
impl Tap {
    #[new]
    #[pyo3(signature = (
        *, a, b, netns=None, ring=false, mirror=None, logger_mac=None, ring_bytes=64 << 20,
        snap_bytes=262_144, link_first=true, mirror_cpu=None, mode="auto"
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments in Python")]
    fn new(
        py: Python<'_>,
        a: String,
        b: String,
        netns: Option<&str>,
        ring: bool,
        mirror: Option<String>,
        logger_mac: Option<[u8; 6]>,
        ring_bytes: usize,
        snap_bytes: usize,
        link_first: bool,
        mirror_cpu: Option<usize>,
        mode: &str,
    ) -> PyResult<Self> {
        let mode = match mode {
            "auto" => Mode::Auto,
            "native" => Mode::Native,
            "generic" => Mode::Generic,
            other => {
                let message = format!("mode {other:?}: expected auto, native or generic");
                return Err(PyValueError::new_err(message));
            }
        };
        let mirror = match (mirror, logger_mac) {
            (Some(interface), Some(logger_mac)) => {
                Some(MirrorOptions { interface, logger_mac, cpu: mirror_cpu })
            }
            (None, None) => None,
            _ => {
                return Err(PyValueError::new_err("mirror and logger_mac go together: give both or neither"));
            }
        };
        let options = TapOptions {
            netns: netns.map(|name| Path::new(NETNS_DIR).join(name)),
            interfaces: [a, b],
            ring,
            mirror,
            ring_bytes,
            snap_bytes,
            link_first,
            mode,
        };
        let inner = py.detach(|| Inner::open(&options)).map_err(|e| errors::translate_tap(py, &e))?;
        Ok(Self { inner })
    }

    /// `native` or `generic`.
    #[getter]
    fn xdp_mode(&self) -> &'static str {
        self.inner.mode()
    }

    /// What does not work as it should, in sentences.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.inner.warnings().to_vec()
    }

    /// The share of each CPU in each ring.
    #[getter]
    fn ring_bytes_per_cpu(&self) -> usize {
        self.inner.ring_bytes_per_cpu()
    }

    /// Frames so far, or until the end, by stage.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = self.inner.counters();
        let result = PyDict::new(py);
        for (name, side) in ["a", "b"].into_iter().zip(&counters.sides) {
            let of_side = PyDict::new(py);
            fields!(of_side, side; received, bytes, forwarded, not_forwarded, copied, not_copied, cut, reason);
            result.set_item(name, of_side)?;
        }
        let mirror = PyDict::new(py);
        fields!(mirror, counters.mirror; sent, not_sent, waiting, reason);
        result.set_item("mirror", mirror)?;
        fields!(result, counters; assumed);
        Ok(result)
    }

    /// File descriptors through which a recorder reads the ring.
    fn ring_fds(&self) -> PyResult<Vec<RawFd>> {
        if self.inner.is_closed() {
            return Err(PyValueError::new_err("this tap is closed: its ring is gone"));
        }
        Ok(self.inner.ring_fds().iter().map(AsRawFd::as_raw_fd).collect())
    }

    /// Removes the bridge; may be called twice.
    fn close(&mut self, py: Python<'_>) {
        py.detach(|| self.inner.close());
    }
}
