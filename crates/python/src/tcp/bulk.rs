//! Client and server of bulk transfers; see `weirlab.transfers.tcp.ends` and `serving`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use weir_tcp::bulk::{
    BlockSample, Client, ClientError, ClientEvent, ClientOptions, FetchOptions, Here, Reading, Server,
    ServerError, ServerEvent, ServerOptions, Via,
};
use weir_tcp::control::{Event, Flow, Joined, Record, Request, Total, Wish};
use weir_tcp::option::{Setting, Value};

use super::recording::{self, Allowed};
use super::{end, fields_dict, info_dict};
use crate::errors::{describe, exception};

/// Longest wait for an event, after which Ctrl-C is checked.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

fn settings(py: Python<'_>, given: &[(String, String)]) -> PyResult<Vec<Setting>> {
    let read = |(name, value): &(String, String)| {
        Setting::new(name, value).map_err(|e| exception(py, "InputError", &describe(&e)))
    };
    given.iter().map(read).collect()
}

fn wait(within_s: f64) -> Duration {
    Duration::try_from_secs_f64(within_s).unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT)
}

/// A new file for a capture, whether the transfer requires it, and its largest size in bytes.
type Fetch = (PathBuf, bool, u64);

fn fetching((file, must, most_bytes): Fetch) -> FetchOptions {
    FetchOptions { file, must, most_bytes }
}

fn reading(bytes_per_s: Option<u64>, pause_ns: Option<(u64, u64)>) -> Reading {
    Reading { bytes_per_s: bytes_per_s.map(|rate| rate.max(1)), pause_ns }
}

/// A bulk transfer with a server.
#[pyclass(name = "TcpClient", module = "weirlab._engine", frozen)]
pub struct TcpClient {
    inner: Client,
    names: Vec<String>,
}

#[pymethods]
impl TcpClient {
    #[new]
    #[pyo3(signature = (
        *, host, port, token, up, down, block_bytes, lasts_ns, total_bytes, bytes_per_s, interval_ns, congestion,
        options, local, local_port, every_block, clocks = false, via = None, fetch = None,
        fetch_via = None, read_bytes_per_s = None, read_pause_ns = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments in Python")]
    fn new(
        py: Python<'_>,
        host: String,
        port: u16,
        token: String,
        up: u16,
        down: u16,
        block_bytes: u32,
        lasts_ns: Option<u64>,
        total_bytes: Option<u64>,
        bytes_per_s: Option<u64>,
        interval_ns: u64,
        congestion: String,
        options: Vec<(String, String)>,
        local: Option<IpAddr>,
        local_port: Option<u16>,
        every_block: bool,
        clocks: bool,
        via: Option<(String, u16, String)>,
        fetch: Option<Fetch>,
        fetch_via: Option<Fetch>,
        read_bytes_per_s: Option<u64>,
        read_pause_ns: Option<(u64, u64)>,
    ) -> PyResult<Self> {
        let mut settings = settings(py, &options)?;
        let mut names: Vec<String> = options.into_iter().map(|(name, _)| name).collect();
        let request = Request {
            host: [0; 32],
            up,
            down,
            block_bytes,
            lasts_ns,
            bytes: total_bytes,
            bytes_per_s,
            interval_ns,
            congestion: congestion.clone(),
            capture: Wish::None,
            capture_bytes: 0,
        };
        if let Some(problem) = request.problem() {
            return Err(exception(py, "InputError", &format!("such a transfer cannot be: {problem}")));
        }
        let via = via.map(|(host, port, token)| Via { host, port, token });
        // The host that is the client sets it.
        if !congestion.is_empty() && via.is_none() {
            settings.insert(0, Setting::congestion(&congestion));
            names.insert(0, "TCP_CONGESTION".to_owned());
        }
        let options = ClientOptions {
            host,
            port,
            token,
            request,
            settings,
            local,
            local_port,
            every_block,
            reading: reading(read_bytes_per_s, read_pause_ns),
            clocks,
            via,
            fetch: fetch.map(fetching),
            fetch_via: fetch_via.map(fetching),
        };
        Ok(Self { inner: Client::start(options)?, names })
    }

    /// The next event, or None if none comes in time.
    fn next_event<'py>(&self, py: Python<'py>, within_s: f64) -> PyResult<Option<Bound<'py, PyDict>>> {
        let event = py.detach(|| self.inner.next_event(wait(within_s)));
        py.check_signals()?;
        event.map(|event| self.event_dict(py, event)).transpose()
    }

    /// Ends the transfer properly.
    fn stop(&self) {
        self.inner.stop();
    }
}

impl TcpClient {
    fn event_dict<'py>(&self, py: Python<'py>, event: ClientEvent) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let name = match event {
            ClientEvent::Transfer(Event::Started { connections, same_clock, since_1970_ns }) => {
                let made = connections.iter().map(|each| self.joined_dict(py, each));
                dict.set_item("connections", made.collect::<PyResult<Vec<_>>>()?)?;
                dict.set_item("same_clock", same_clock)?;
                dict.set_item("since_1970_ns", since_1970_ns)?;
                "started"
            }
            ClientEvent::Transfer(Event::Clock { sent_ns, at_ns, heard_ns }) => {
                dict.set_item("sent_ns", sent_ns)?;
                dict.set_item("at_ns", at_ns)?;
                dict.set_item("heard_ns", heard_ns)?;
                "clock"
            }
            ClientEvent::Transfer(Event::Begun { server_ns, client_ns }) => {
                dict.set_item("server_ns", server_ns)?;
                dict.set_item("client_ns", client_ns)?;
                "begun"
            }
            ClientEvent::Transfer(Event::Interval { of_server, at_ns, flows }) => {
                dict.set_item("of_server", of_server)?;
                dict.set_item("at_ns", at_ns)?;
                let flows = flows.iter().map(|flow| flow_dict(py, flow));
                dict.set_item("flows", flows.collect::<PyResult<Vec<_>>>()?)?;
                "interval"
            }
            ClientEvent::Samples { samples, lost } => {
                let list = PyList::empty(py);
                for BlockSample { flow, block, at_ns, info } in samples {
                    let dict = PyDict::new(py);
                    dict.set_item("connection", flow)?;
                    dict.set_item("block", block)?;
                    dict.set_item("at_ns", at_ns)?;
                    dict.set_item("fields", info_dict(py, &info)?)?;
                    list.append(dict)?;
                }
                dict.set_item("samples", list)?;
                dict.set_item("lost", lost)?;
                "samples"
            }
            ClientEvent::Transfer(Event::Done { client, server, stopped }) => {
                for (name, totals) in [("client", client), ("server", server)] {
                    let totals = totals.iter().map(|total| total_dict(py, total));
                    dict.set_item(name, totals.collect::<PyResult<Vec<_>>>()?)?;
                }
                dict.set_item("stopped", stopped)?;
                "done"
            }
            ClientEvent::Recorded { of, found } => {
                dict.set_item("end", if of == Here::Client { "client" } else { "server" })?;
                set_record(&dict, found.as_deref())?;
                "recorded"
            }
            ClientEvent::Failed(error) => return Err(client_error(py, &error)),
        };
        dict.set_item("event", name)?;
        Ok(dict)
    }

    fn joined_dict<'py>(&self, py: Python<'py>, joined: &Joined) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("local", end(py, joined.local)?)?;
        dict.set_item("remote", end(py, joined.remote)?)?;
        dict.set_item("up", joined.up)?;
        dict.set_item("congestion", Some(&joined.congestion).filter(|name| !name.is_empty()))?;
        let options = PyDict::new(py);
        for (name, value) in self.names.iter().zip(&joined.settings) {
            set_value(&options, name, value.as_ref())?;
        }
        dict.set_item("options", options)?;
        Ok(dict)
    }
}

/// What was recorded at a server, and ``why_not`` if nothing was.
fn set_record(dict: &Bound<'_, PyDict>, found: Result<&Record, &String>) -> PyResult<()> {
    dict.set_item("why_not", found.err())?;
    if let Ok(record) = found {
        fields!(dict, record; interface, bytes, packets, lost, left_out, ended_early, since_1970_ns);
    }
    Ok(())
}

fn set_value(dict: &Bound<'_, PyDict>, name: &str, value: Option<&Value>) -> PyResult<()> {
    match value {
        Some(Value::Number(number)) => dict.set_item(name, number),
        Some(Value::Name(text)) => dict.set_item(name, text),
        None => dict.set_item(name, dict.py().None()),
    }
}

fn flow_dict<'py>(py: Python<'py>, flow: &Flow) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("bytes", flow.bytes)?;
    dict.set_item("blocks", flow.blocks)?;
    let latency = match &flow.latency {
        None => None,
        Some(found) => {
            let latency = PyDict::new(py);
            latency.set_item("blocks", found.count)?;
            // Without blocks there is no latency.
            let some = |ns: u64| (found.count > 0).then_some(ns);
            latency.set_item("min_ns", some(found.min))?;
            latency.set_item("mean_ns", some(found.mean))?;
            latency.set_item("p50_ns", some(found.p50))?;
            latency.set_item("p99_ns", some(found.p99))?;
            latency.set_item("max_ns", some(found.max))?;
            Some(latency)
        }
    };
    dict.set_item("latency", latency)?;
    dict.set_item(
        "fields",
        fields_dict(py, |field| flow.info.get(field).or_else(|| flow.queues.get(field)))?,
    )?;
    dict.set_item("waited_ns", flow.queues.waited_ns)?;
    Ok(dict)
}

fn total_dict<'py>(py: Python<'py>, total: &Total) -> PyResult<Bound<'py, PyDict>> {
    let dict = flow_dict(py, &total.flow)?;
    dict.set_item("first_ns", total.first_ns)?;
    dict.set_item("last_ns", total.last_ns)?;
    dict.set_item("failure", &total.failure)?;
    Ok(dict)
}

fn client_error(py: Python<'_>, error: &ClientError) -> PyErr {
    let (class, way_out) = match error {
        ClientError::Resolve { .. } => ("InputError", "; give its address"),
        ClientError::Option(_) => ("InputError", ""),
        ClientError::Local { .. } => ("InputError", "; give another port, or an address of this host"),
        ClientError::TokenNeeded => ("InputError", "; give it with --token"),
        ClientError::ViaTokenNeeded { .. } => ("InputError", "; give it with --client-token"),
        ClientError::Connect { .. } => {
            ("LabError", "; is weir tcp serve running there, and does a firewall let it through?")
        }
        ClientError::NotWeir { .. } => (
            "LabError",
            "; start weir tcp serve there. Without Weir there: weir tcp why HOST:PORT, while a program transfers",
        ),
        ClientError::Refused(_)
        | ClientError::ViaRefused { .. }
        | ClientError::Lost { .. }
        | ClientError::Protocol(_) => ("TrialError", ""),
        ClientError::System { .. } => ("LabError", ""),
    };
    exception(py, class, &format!("{}{way_out}", describe(error)))
}

/// A server of bulk transfers.
#[pyclass(name = "TcpServer", module = "weirlab._engine", frozen)]
pub struct TcpServer {
    inner: Server,
}

#[pymethods]
impl TcpServer {
    #[new]
    #[pyo3(signature = (*, address, port, token, most_ns, most_bytes, most_clients, options, errands=false,
        capture=None, read_bytes_per_s=None, read_pause_ns=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments in Python")]
    fn new(
        py: Python<'_>,
        address: IpAddr,
        port: u16,
        token: String,
        most_ns: Option<u64>,
        most_bytes: Option<u64>,
        most_clients: usize,
        options: Vec<(String, String)>,
        errands: bool,
        capture: Option<Allowed>,
        read_bytes_per_s: Option<u64>,
        read_pause_ns: Option<(u64, u64)>,
    ) -> PyResult<Self> {
        let settings = settings(py, &options)?;
        let address = SocketAddr::new(address, port);
        let capture = capture.map(|allowed| recording::options(py, allowed)).transpose()?;
        let reading = reading(read_bytes_per_s, read_pause_ns);
        let options = ServerOptions {
            address,
            token,
            most_ns,
            most_bytes,
            most_clients,
            errands,
            reading,
            capture,
            settings,
        };
        Ok(Self { inner: Server::start(options).map_err(|e| server_error(py, &e))? })
    }

    /// Where it listens.
    #[getter]
    fn address<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let address = self.inner.address();
        Ok((address.ip().to_string(), address.port()).into_pyobject(py)?.into_any())
    }

    /// Transfers under way.
    #[getter]
    fn clients(&self) -> usize {
        self.inner.clients()
    }

    /// The next event, or None if none comes in time.
    fn next_event<'py>(&self, py: Python<'py>, within_s: f64) -> PyResult<Option<Bound<'py, PyDict>>> {
        let event = py.detach(|| self.inner.next_event(wait(within_s)));
        py.check_signals()?;
        event.map(|event| server_event_dict(py, event)).transpose()
    }

    /// Stops listening, and ends all transfers; their clients are told.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.inner.stop());
    }
}

fn server_event_dict(py: Python<'_>, event: ServerEvent) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    let name = match event {
        ServerEvent::Garbage { peer, why } => {
            dict.set_item("peer", (peer.to_string(), py.None()))?;
            dict.set_item("why", why)?;
            "garbage"
        }
        ServerEvent::Refused { peer, why } => {
            dict.set_item("peer", end(py, peer)?)?;
            dict.set_item("why", why)?;
            "refused"
        }
        ServerEvent::Began { number, peer, request, with } => {
            dict.set_item("number", number)?;
            dict.set_item("peer", end(py, peer)?)?;
            dict.set_item("up", request.up)?;
            dict.set_item("down", request.down)?;
            dict.set_item("block_bytes", request.block_bytes)?;
            dict.set_item("lasts_ns", request.lasts_ns)?;
            dict.set_item("total_bytes", request.bytes)?;
            dict.set_item("bytes_per_s", request.bytes_per_s)?;
            dict.set_item("with", with)?;
            "began"
        }
        ServerEvent::Recorded { number, peer, found } => {
            dict.set_item("number", number)?;
            dict.set_item("peer", end(py, peer)?)?;
            set_record(&dict, found.as_deref())?;
            "recorded"
        }
        ServerEvent::Ended { number, peer, received, sent, lasted_ns, failure } => {
            dict.set_item("number", number)?;
            dict.set_item("peer", end(py, peer)?)?;
            dict.set_item("received_bytes", received)?;
            dict.set_item("sent_bytes", sent)?;
            dict.set_item("lasted_ns", lasted_ns)?;
            dict.set_item("failure", failure)?;
            "ended"
        }
    };
    dict.set_item("event", name)?;
    Ok(dict)
}

fn server_error(py: Python<'_>, error: &ServerError) -> PyErr {
    let (class, way_out) = match error {
        ServerError::TokenNeeded(_) => ("InputError", "; give one with --token, or leave --bind out"),
        ServerError::ErrandsNeedToken => ("InputError", "; give one with --token"),
        ServerError::TokenShort(_) => ("InputError", ", for example the output of: openssl rand -hex 16"),
        ServerError::Listen { .. } => ("LabError", "; give another port, or an address of this host"),
        ServerError::Option(_) => ("InputError", ""),
        ServerError::System { .. } => ("LabError", ""),
    };
    exception(py, class, &format!("{}{way_out}", describe(error)))
}
