//! The emulated link; see `weirlab.links.emulator`.

use std::path::Path as FilePath;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use weir_engine::Endpoint;
use weir_engine::emulator::{Crossed, Direction, Emulator as Inner, EmulatorError, Options, Progress};
use weir_link::{
    Behaviour, CoDel, Counters, Discipline, Distribution, GilbertElliott, Jitter, Limit, Path, PathSpec,
    Queue, Rate, Red, Reorder, Selection, Trace,
};

use crate::errors::{describe, exception, translate_port};
use crate::{NETNS_DIR, outcome};

/// A link between two interfaces, each in a named network namespace or here.
#[pyclass(name = "Emulator", module = "weirlab._engine", frozen)]
pub struct Emulator {
    inner: Mutex<Inner>,
}

#[pymethods]
impl Emulator {
    #[new]
    #[pyo3(signature = (*, a, b, a_netns=None, b_netns=None, paths, device=None, duration_s=None, cpu=None, busy=false,
        slack_s=0.0, real_time=false, memory_bytes=1 << 30))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments in Python")]
    fn new(
        py: Python<'_>,
        a: String,
        b: String,
        a_netns: Option<&str>,
        b_netns: Option<&str>,
        paths: (Bound<'_, PyDict>, Bound<'_, PyDict>),
        device: Option<Bound<'_, PyDict>>,
        duration_s: Option<f64>,
        cpu: Option<usize>,
        busy: bool,
        slack_s: f64,
        real_time: bool,
        memory_bytes: u64,
    ) -> PyResult<Self> {
        let end = |interface, netns: Option<&str>| Endpoint {
            netns: netns.map(|name| FilePath::new(NETNS_DIR).join(name)),
            interface,
        };
        let duration = duration_s
            .map(Duration::try_from_secs_f64)
            .transpose()
            .map_err(|e| PyValueError::new_err(e.to_string()))?;
        let slack = Duration::try_from_secs_f64(slack_s).map_err(|e| PyValueError::new_err(e.to_string()))?;
        let options = Options {
            ends: [end(a, a_netns), end(b, b_netns)],
            paths: [path_spec(&paths.0)?, path_spec(&paths.1)?],
            device: device.as_ref().map(crossed).transpose()?,
            duration,
            cpu,
            busy,
            slack,
            real_time,
            memory_bytes,
        };
        let inner = py.detach(|| Inner::start(options)).map_err(|e| translate(py, &e))?;
        Ok(Self { inner: Mutex::new(inner) })
    }

    /// What became of frames so far.
    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let progress = py.detach(|| self.lock().progress());
        progress_to_dict(py, &progress)
    }

    /// Changes one direction.
    fn change(&self, py: Python<'_>, direction: usize, path: &Bound<'_, PyDict>) -> PyResult<()> {
        if direction > 1 {
            return Err(PyValueError::new_err(format!("direction {direction}: expected 0 or 1")));
        }
        let spec = path_spec(path)?;
        py.detach(|| self.lock().change(direction, spec)).map_err(|e| refuse(py, &e))
    }

    /// Stops it; may be called again.
    fn stop<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let progress = py.detach(|| self.lock().stop());
        progress_to_dict(py, &progress)
    }
}

impl Emulator {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks whether a path is valid.
#[pyfunction]
pub fn check_path(py: Python<'_>, path: &Bound<'_, PyDict>) -> PyResult<()> {
    path_spec(path)?.check().map_err(|e| refuse(py, &e))
}

/// Frames through one direction, without any network; see `weirlab._engine`.
#[pyfunction]
pub fn emulate_path<'py>(
    py: Python<'py>,
    path: &Bound<'py, PyDict>,
    at_ns: PyReadonlyArray1<'py, u64>,
    frame_bytes: PyReadonlyArray1<'py, u32>,
) -> PyResult<Bound<'py, PyDict>> {
    let (spec, at_ns, frame_bytes) = (path_spec(path)?, at_ns.as_slice()?, frame_bytes.as_slice()?);
    if at_ns.len() != frame_bytes.len() || !at_ns.is_sorted() {
        return Err(PyValueError::new_err("at_ns and frame_bytes have one length, and at_ns never falls"));
    }
    let (departed, counters) = py
        .detach(|| {
            let mut path = Path::new(spec, 0)?;
            for (number, (&at_ns, &bytes)) in (0_u64..).zip(at_ns.iter().zip(frame_bytes)) {
                path.arrive(at_ns, number, bytes);
            }
            let departed: Vec<_> = std::iter::from_fn(|| path.depart(u64::MAX >> 1)).collect();
            Ok((departed, path.counters()))
        })
        .map_err(|e: weir_link::SpecError| refuse(py, &e))?;
    let dict = PyDict::new(py);
    columns!(dict, departed.iter(); frame, due_ns);
    set_counters(&dict, &counters)?;
    Ok(dict)
}

fn refuse(py: Python<'_>, error: &dyn std::error::Error) -> PyErr {
    exception(py, "InputError", &describe(error))
}

fn translate(py: Python<'_>, error: &EmulatorError) -> PyErr {
    let class = match error {
        EmulatorError::Spec(_) | EmulatorError::Same { .. } => "InputError",
        EmulatorError::Port(error) => return translate_port(py, error),
        EmulatorError::Thread(_) | EmulatorError::Device(_) => "LabError",
    };
    exception(py, class, &describe(error))
}

fn get<'py, T: FromPyObjectOwned<'py>>(dict: &Bound<'py, PyDict>, name: &str) -> PyResult<T> {
    let value =
        dict.get_item(name)?.ok_or_else(|| PyValueError::new_err(format!("the path lacks {name}")))?;
    value.extract().map_err(Into::into)
}

/// A device with its `position` and `seed`, the rest as `BehaviourGrid.plain` writes it.
fn crossed(dict: &Bound<'_, PyDict>) -> PyResult<Crossed> {
    Ok(Crossed { behaviour: behaviour(dict)?, position: get(dict, "position")?, seed: get(dict, "seed")? })
}

/// As `BehaviourGrid.plain` writes it.
pub fn behaviour(dict: &Bound<'_, PyDict>) -> PyResult<Behaviour> {
    Ok(Behaviour {
        positions: get(dict, "positions")?,
        frames_bytes: get(dict, "frames_bytes")?,
        rhos: get(dict, "rhos")?,
        service_ns: get(dict, "service_ns")?,
        states: get(dict, "states")?,
        queue_packets: get(dict, "queue_packets")?,
        rate_min_pps: get(dict, "rate_min_pps")?,
    })
}

/// As `PathSpec.plain` writes it.
fn path_spec(dict: &Bound<'_, PyDict>) -> PyResult<PathSpec> {
    let py = dict.py();
    let trace: Option<Vec<u8>> = get(dict, "trace")?;
    let rate_bps: Option<u64> = get(dict, "rate_bps")?;
    let rate = match (rate_bps, trace) {
        (None, None) => None,
        (Some(bps), None) => Some(Rate::Constant { bps }),
        (None, Some(text)) => {
            let trace = Trace::parse(&text);
            Some(Rate::Trace(Arc::new(
                trace.map_err(|e| exception(py, "InputError", &format!("trace: {e}")))?,
            )))
        }
        (Some(_), Some(_)) => return Err(PyValueError::new_err("a path has a rate or a trace, not both")),
    };
    let jitter: Option<(String, u64, bool)> = get(dict, "jitter")?;
    let reorder: Option<(Bound<'_, PyAny>, u64)> = get(dict, "reorder")?;
    Ok(PathSpec {
        rate,
        overhead_bytes: get(dict, "overhead_bytes")?,
        queue: Queue {
            limit: limit(get(dict, "queue")?)?,
            discipline: discipline(&get::<Bound<'_, PyDict>>(dict, "discipline")?)?,
        },
        loss: selection(&get(dict, "loss")?, "loss")?,
        delay_ns: get(dict, "delay_ns")?,
        jitter: jitter
            .map(|(name, ns, keeps_order)| {
                let distribution = match name.as_str() {
                    "uniform" => Distribution::Uniform,
                    "normal" => Distribution::Normal,
                    other => return Err(unknown("distribution", other, "uniform or normal")),
                };
                Ok(Jitter { distribution, ns, keeps_order })
            })
            .transpose()?,
        reorder: reorder
            .map(|(found, by_ns)| Ok::<_, PyErr>(Reorder { selection: selection(&found, "reorder")?, by_ns }))
            .transpose()?,
        duplicate: selection(&get(dict, "duplicate")?, "duplicate")?,
        seed: get(dict, "seed")?,
    })
}

fn limit((unit, amount): (String, u64)) -> PyResult<Limit> {
    match unit.as_str() {
        "packets" => Ok(Limit::Packets(amount)),
        "bytes" => Ok(Limit::Bytes(amount)),
        "ns" => Ok(Limit::Time(amount)),
        other => Err(unknown("unit", other, "packets, bytes or ns")),
    }
}

fn discipline(dict: &Bound<'_, PyDict>) -> PyResult<Discipline> {
    match get::<String>(dict, "kind")?.as_str() {
        "drop-tail" => Ok(Discipline::TailDrop),
        "codel" => Ok(Discipline::CoDel(CoDel {
            target_ns: get(dict, "target_ns")?,
            interval_ns: get(dict, "interval_ns")?,
        })),
        "red" => Ok(Discipline::Red(Red {
            min: limit(get(dict, "min")?)?,
            max: limit(get(dict, "max")?)?,
            max_ratio: get(dict, "max_ratio")?,
            weight: get(dict, "weight")?,
            gentle: get(dict, "gentle")?,
        })),
        other => Err(unknown("discipline", other, "drop-tail, codel or red")),
    }
}

/// A kind and its numbers; `what` is selected, for messages.
fn selection(found: &Bound<'_, PyAny>, what: &str) -> PyResult<Selection> {
    let refuse =
        |message: &dyn std::fmt::Display| exception(found.py(), "InputError", &format!("{what}: {message}"));
    let (kind, values): (String, Bound<'_, PyAny>) = found.extract()?;
    Ok(match kind.as_str() {
        "never" => Selection::Never,
        "random" => Selection::Random { ratio: values.extract()? },
        "frames" => {
            let text: String = values.extract()?;
            Selection::Frames(text.parse().map_err(|e: weir_link::PatternError| refuse(&e))?)
        }
        "runs" => {
            let (ratio, mean_run): (f64, f64) = values.extract()?;
            let model = GilbertElliott::of_runs(ratio, mean_run);
            Selection::GilbertElliott(model.ok_or_else(|| {
                refuse(&format!(
                    "runs of {mean_run} frames on average cannot be a share of {ratio}: the mean run must be at \
                     least 1, and the share no more than mean/(mean+1)"
                ))
            })?)
        }
        "gilbert-elliott" => {
            let (to_bad, to_good, in_bad, in_good) = values.extract()?;
            Selection::GilbertElliott(GilbertElliott { to_bad, to_good, in_bad, in_good })
        }
        other => return Err(unknown("selection", other, "never, random, frames, runs or gilbert-elliott")),
    })
}

fn unknown(what: &str, found: &str, expected: &str) -> PyErr {
    PyValueError::new_err(format!("{what} {found:?}: expected {expected}"))
}

fn progress_to_dict<'py>(py: Python<'py>, progress: &Progress) -> PyResult<Bound<'py, PyDict>> {
    let directions = PyList::empty(py);
    for direction in &progress.directions {
        directions.append(direction_to_dict(py, direction)?)?;
    }
    let dict = PyDict::new(py);
    dict.set_item("directions", directions)?;
    fields!(dict, progress; elapsed_ns, cpu_ns, ended, real_time_refused, failure);
    Ok(dict)
}

fn direction_to_dict<'py>(py: Python<'py>, direction: &Direction) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    set_counters(&dict, &direction.counters)?;
    let overload = &direction.overload;
    fields!(dict, direction; held, queued, sent, sent_bytes);
    fields!(dict, overload; not_received, too_long, no_memory, refused, unfinished);
    dict.set_item("late_max_ns", direction.late.max_ns)?;
    dict.set_item("paced_bits", direction.pace.bits)?;
    dict.set_item("paced_ns", direction.pace.ns)?;
    dict.set_item("paced_bursts", direction.pace.bursts)?;
    dict.set_item("refused_reason", &overload.reason)?;
    let counts = direction.late.counts.iter().enumerate().filter(|&(_, &count)| count > 0);
    let buckets: Vec<(u32, u64)> = counts.map(|(bucket, &count)| (bucket as u32, count)).collect();
    dict.set_item("late", outcome::histogram(py, &buckets)?)?;
    Ok(dict)
}

fn set_counters(dict: &Bound<'_, PyDict>, counters: &Counters) -> PyResult<()> {
    fields!(dict, counters; arrived, arrived_bytes, departed, departed_bytes, lost, dropped_full);
    fields!(dict, counters; dropped_early, duplicated, held_back);
    Ok(())
}
