//! `weirlab._engine`: plans in, outcomes out. Nothing is decided here.

#[macro_use]
mod dicts;

mod analysis;
mod cut;
mod diagnosis;
mod emulator;
mod endpoints;
mod errors;
mod esp;
mod esp_cost;
mod extent;
mod gateway;
mod media;
mod outcome;
mod plan;
mod psock;
mod record;
mod relay;
mod sandbox;
mod tap;
mod tcp;
mod trace;

use std::path::{Path, PathBuf};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use weir_engine::{
    Backend, BackendChoice, Device, DeviceError, Endpoint, Engine as Inner, EngineError, FlowPath, Macs,
    Noise, Options, Way,
};

/// Where `ip netns` keeps named namespaces.
const NETNS_DIR: &str = "/run/netns";

/// Sender and receiver on two interfaces, each in a named network namespace or here.
#[pyclass(name = "Engine", module = "weirlab._engine")]
struct Engine {
    inner: Option<Inner>,
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (*, tx_netns, tx_if, rx_netns, rx_if, tx_cpus=vec![], spin_cpu=None,
        device_threads=vec![], backend="auto", program_at_sender=false))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments in Python")]
    fn new(
        py: Python<'_>,
        tx_netns: Option<&str>,
        tx_if: String,
        rx_netns: Option<&str>,
        rx_if: String,
        tx_cpus: Vec<usize>,
        spin_cpu: Option<usize>,
        device_threads: Vec<i32>,
        backend: &str,
        program_at_sender: bool,
    ) -> PyResult<Self> {
        let netns = |name: Option<&str>| name.map(|name| -> PathBuf { Path::new(NETNS_DIR).join(name) });
        let backend = match backend {
            "auto" => BackendChoice::Auto,
            "xdp" => BackendChoice::Xdp,
            "af_packet" => BackendChoice::AfPacket,
            other => {
                let message = format!("backend {other:?}: expected auto, xdp or af_packet");
                return Err(PyValueError::new_err(message));
            }
        };
        let options = Options {
            tx: Endpoint { netns: netns(tx_netns), interface: tx_if },
            rx: Endpoint { netns: netns(rx_netns), interface: rx_if },
            tx_cpus,
            spin_cpu,
            device_threads,
            backend,
            program_at_sender,
        };
        let inner = py.detach(|| Inner::open(options)).map_err(|e| errors::translate(py, &e))?;
        Ok(Self { inner: Some(inner) })
    }

    /// `xdp` or `af_packet`.
    #[getter]
    fn backend(&self) -> PyResult<&'static str> {
        Ok(outcome::backend_name(&self.open()?.backend()))
    }

    /// `native`, `generic` or empty.
    #[getter]
    fn xdp_mode(&self) -> PyResult<&'static str> {
        Ok(match self.open()?.backend() {
            Backend::Xdp(mode) => mode,
            _ => "",
        })
    }

    /// Why packet sockets are used although XDP was requested, or None.
    #[getter]
    fn fallback_reason(&self) -> PyResult<Option<String>> {
        Ok(self.open()?.fallback_reason().map(str::to_owned))
    }

    /// Why the last trial was not real-time although it was short enough, or None.
    #[getter]
    fn real_time_refused(&self) -> PyResult<Option<String>> {
        Ok(self.open()?.real_time_refused().map(str::to_owned))
    }

    /// Plays a plan; see `weirlab.lab.engine`.
    #[pyo3(signature = (plan, macs, back_macs=None, *, holds=None))]
    fn run<'py>(
        &mut self,
        py: Python<'py>,
        plan: &Bound<'py, PyAny>,
        macs: Pair,
        back_macs: Option<Pair>,
        holds: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let plan = plan::extract(plan)?;
        let inner = self.inner.as_mut().ok_or_else(closed)?;
        let mut caller = Caller { holds, raised: None };
        let result = py.detach(|| inner.run(&plan, from_to(macs), back_macs.map(from_to), &mut caller));
        match (result, caller.raised) {
            (Err(EngineError::Interrupted), Some(raised)) => Err(raised),
            (Err(e), _) => Err(errors::translate(py, &e)),
            (Ok(result), _) => outcome::to_dict(py, result),
        }
    }

    /// Detaches the programs and closes the sockets; may be called twice.
    fn close(&mut self) {
        self.inner = None;
    }
}

impl Engine {
    fn open(&self) -> PyResult<&Inner> {
        self.inner.as_ref().ok_or_else(closed)
    }
}

/// Python during a trial.
struct Caller {
    /// Tells whether the device holds packets.
    holds: Option<Py<PyAny>>,
    /// A signal, or what `holds` raised: ends the trial.
    raised: Option<PyErr>,
}

impl weir_engine::Caller for Caller {
    fn interrupted(&mut self) -> bool {
        if self.raised.is_none() {
            self.raised = Python::attach(|py| py.check_signals()).err();
        }
        self.raised.is_some()
    }

    fn holds(&mut self) -> Option<bool> {
        let holds = self.holds.as_ref()?;
        Python::attach(|py| holds.call0(py)?.extract(py)).unwrap_or_else(|error| {
            self.raised = Some(error);
            Some(true) // wait until `interrupted` is asked
        })
    }
}

fn closed() -> PyErr {
    PyValueError::new_err("this engine is closed")
}

/// Source and destination.
type Pair = ([u8; 6], [u8; 6]);

fn from_to((src, dst): Pair) -> Macs {
    Macs { src, dst }
}

/// Every frame of a plan as it would be sent; see `weirlab.lab.capture`.
#[pyfunction]
#[pyo3(signature = (plan, macs, back_macs=None))]
fn frames<'py>(
    py: Python<'py>,
    plan: &Bound<'py, PyAny>,
    macs: Pair,
    back_macs: Option<Pair>,
) -> PyResult<Bound<'py, PyDict>> {
    let plan = plan::extract(plan)?;
    let made = py.detach(|| weir_engine::frames(&plan, from_to(macs), back_macs.map(from_to)));
    outcome::frames_to_dict(py, made.map_err(|e| PyValueError::new_err(e.to_string()))?)
}

/// Sends a plan through a simulated device; see `weirlab.lab.sim`.
#[pyfunction]
#[pyo3(signature = (plan, device, behaviour=None))]
fn simulate<'py>(
    py: Python<'py>,
    plan: &Bound<'py, PyAny>,
    device: &Bound<'py, PyDict>,
    behaviour: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let plan = plan::extract(plan)?;
    let behaviour = behaviour.map(emulator::behaviour).transpose()?;
    let (positions, servers) = (get::<Vec<f64>>(device, "positions")?, get::<Vec<usize>>(device, "servers")?);
    if positions.len() != servers.len() {
        return Err(PyValueError::new_err("positions and servers have different lengths"));
    }
    let paths: Vec<_> =
        positions.into_iter().zip(servers).map(|(position, server)| FlowPath { position, server }).collect();
    let device = device_from(device)?;
    let result = py.detach(|| weir_engine::simulate(&plan, &device, &paths, behaviour));
    let result = result.map_err(|e| match e {
        DeviceError::Plan(e) => errors::translate(py, &EngineError::Plan(e)),
        e => PyValueError::new_err(e.to_string()),
    })?;
    outcome::to_dict(py, result)
}

/// Time in ns for a cache line to pass between two CPUs and back; None if it cannot be measured.
#[pyfunction]
fn handover_ns(py: Python<'_>, cpu: usize, other: usize) -> Option<f64> {
    py.detach(|| weir_engine::handover_ns(cpu, other)).ok()
}

/// What took CPUs from threads that wanted them; see `weirlab.measure.noise`.
#[pyfunction]
fn listen<'py>(
    py: Python<'py>,
    spinning: Vec<usize>,
    waking: Vec<usize>,
    seconds: f64,
    threshold_ns: u64,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let lasts = Duration::try_from_secs_f64(seconds).map_err(|e| PyValueError::new_err(e.to_string()))?;
    let in_a_way = |cpus: Vec<usize>, way| cpus.into_iter().map(move |cpu| (cpu, way));
    let cpus: Vec<_> = in_a_way(spinning, Way::Spinning).chain(in_a_way(waking, Way::Waking)).collect();
    let heard = py.detach(|| weir_engine::listen(&cpus, lasts, threshold_ns))?;
    heard.into_iter().map(|heard| outcome::heard_to_dict(py, &heard)).collect()
}

fn get<'py, T: FromPyObjectOwned<'py>>(device: &Bound<'py, PyDict>, name: &str) -> PyResult<T> {
    let value =
        device.get_item(name)?.ok_or_else(|| PyValueError::new_err(format!("the device lacks {name}")))?;
    value.extract().map_err(Into::into)
}

fn device_from(device: &Bound<'_, PyDict>) -> PyResult<Device> {
    let noise = match get::<String>(device, "noise")?.as_str() {
        "none" => Noise::None,
        "exponential" => Noise::Gamma(1.0),
        "gamma" => Noise::Gamma(get(device, "noise_cv")?),
        other => {
            let message = format!("noise {other:?}: expected none, exponential or gamma");
            return Err(PyValueError::new_err(message));
        }
    };
    Ok(Device {
        service_fixed_ns: get(device, "service_fixed_ns")?,
        service_per_rule_ns: get(device, "service_per_rule_ns")?,
        service_per_byte_ns: get(device, "service_per_byte_ns")?,
        io_service_ns: get(device, "io_service_ns")?,
        queue_packets: get(device, "queue_packets")?,
        base_delay_ns: get(device, "base_delay_ns")?,
        base_per_byte_ns: get(device, "base_per_byte_ns")?,
        noise,
        interrupt_every_ns: get(device, "interrupt_every_ns")?,
        interrupt_ns: get(device, "interrupt_ns")?,
        disturb_every_ns: get(device, "disturb_every_ns")?,
        disturb_ns: get(device, "disturb_ns")?,
        unpaced_gap_ns: get(device, "unpaced_gap_ns")?,
        seed: get(device, "seed")?,
    })
}

#[pymodule]
fn _engine(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<analysis::ConnectionRows>()?;
    m.add_class::<analysis::Connections>()?;
    m.add_class::<emulator::Emulator>()?;
    m.add_class::<Engine>()?;
    m.add_class::<esp_cost::EspCosts>()?;
    m.add_class::<esp::EspInbound>()?;
    m.add_class::<esp::EspOutbound>()?;
    m.add("ESP_COUNTERS", PyTuple::new(m.py(), weir_engine::gateway::COUNTERS)?)?;
    m.add_class::<record::Recorder>()?;
    m.add_class::<tap::Tap>()?;
    psock::add_to(m)?;
    relay::add_to(m)?;
    sandbox::add_to(m)?;
    tcp::add_to(m)?;
    m.add_function(wrap_pyfunction!(analysis::analyse, m)?)?;
    m.add_function(wrap_pyfunction!(diagnosis::finite_median, m)?)?;
    m.add_function(wrap_pyfunction!(diagnosis::least_rtts, m)?)?;
    m.add_function(wrap_pyfunction!(diagnosis::queue_explains, m)?)?;
    m.add_function(wrap_pyfunction!(diagnosis::rates, m)?)?;
    m.add_function(wrap_pyfunction!(diagnosis::sender_timeline, m)?)?;
    m.add_function(wrap_pyfunction!(diagnosis::weighted_quantile, m)?)?;
    m.add_function(wrap_pyfunction!(cut::cut_captures, m)?)?;
    m.add_function(wrap_pyfunction!(emulator::check_path, m)?)?;
    m.add_function(wrap_pyfunction!(emulator::emulate_path, m)?)?;
    m.add_function(wrap_pyfunction!(endpoints::talk_between, m)?)?;
    m.add_function(wrap_pyfunction!(endpoints::try_af_xdp, m)?)?;
    m.add_function(wrap_pyfunction!(extent::parquet_extent, m)?)?;
    m.add_function(wrap_pyfunction!(gateway::esp_key_bytes, m)?)?;
    m.add_function(wrap_pyfunction!(gateway::run_esp_gateway, m)?)?;
    m.add_function(wrap_pyfunction!(frames, m)?)?;
    m.add_function(wrap_pyfunction!(handover_ns, m)?)?;
    m.add_function(wrap_pyfunction!(listen, m)?)?;
    m.add_function(wrap_pyfunction!(trace::adaptive_delays, m)?)?;
    m.add_function(wrap_pyfunction!(trace::rtp_packets, m)?)?;
    m.add_function(wrap_pyfunction!(simulate, m)?)
}
