//! `weir_esp` for Python: packets in, packets out. Every packet is copied on its way, and data from
//! Python is not wiped: this is for checks, not for speed and not for keys that matter.

use std::net::IpAddr;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use weir_esp::{Association, Inbound, Mode, Outbound, Slot, Suite, UdpPorts};

/// As `Association`, but it owns its keys meanwhile.
pub struct Given {
    spi: u32,
    suite: Suite,
    encryption_key: Vec<u8>,
    authentication_key: Vec<u8>,
    mode: Mode,
    udp: Option<UdpPorts>,
    esn: bool,
}

impl Given {
    pub fn new(
        spi: u32,
        suite: &str,
        encryption_key: Vec<u8>,
        authentication_key: Vec<u8>,
        tunnel: Option<(String, String)>,
        natt: Option<(u16, u16)>,
        esn: bool,
    ) -> PyResult<Self> {
        let unknown = || PyValueError::new_err(format!("there is no cipher suite {suite:?}"));
        let suite = Suite::from_name(suite).ok_or_else(unknown)?;
        let mode = match tunnel {
            None => Mode::Transport,
            Some((source, destination)) => {
                Mode::Tunnel { source: address(&source)?, destination: address(&destination)? }
            }
        };
        let udp = natt.map(|(source, destination)| UdpPorts { source, destination });
        Ok(Self { spi, suite, encryption_key, authentication_key, mode, udp, esn })
    }

    pub fn association(&self) -> Association<'_> {
        Association {
            spi: self.spi,
            suite: self.suite,
            encryption_key: &self.encryption_key,
            authentication_key: &self.authentication_key,
            mode: self.mode,
            udp: self.udp,
            esn: self.esn,
        }
    }
}

fn address(text: &str) -> PyResult<IpAddr> {
    text.parse().map_err(|_| PyValueError::new_err(format!("{text:?} is not an IP address")))
}

pub fn refusal(error: impl std::error::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The sender's end of a security association.
#[pyclass(module = "weirlab._engine")]
pub struct EspOutbound {
    inner: Outbound,
}

#[pymethods]
impl EspOutbound {
    #[new]
    #[pyo3(signature = (*, spi, suite, iv_key, encryption_key=Vec::new(), authentication_key=Vec::new(), tunnel=None,
        natt=None, esn=false, sent=0))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments in Python")]
    fn new(
        spi: u32,
        suite: &str,
        iv_key: [u8; 16],
        encryption_key: Vec<u8>,
        authentication_key: Vec<u8>,
        tunnel: Option<(String, String)>,
        natt: Option<(u16, u16)>,
        esn: bool,
        sent: u64,
    ) -> PyResult<Self> {
        let given = Given::new(spi, suite, encryption_key, authentication_key, tunnel, natt, esn)?;
        let inner = Outbound::new(&given.association(), &iv_key).map_err(refusal)?.resumed(sent);
        Ok(Self { inner })
    }

    /// The last sequence number that was used.
    #[getter]
    fn sent(&self) -> u64 {
        self.inner.sent()
    }

    /// An IP packet with ESP.
    fn encapsulate<'py>(&mut self, py: Python<'py>, packet: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let (mut buffer, start) = self.roomy(packet);
        let made = self.inner.encapsulate(&mut buffer, start..start + packet.len()).map_err(refusal)?;
        Ok(PyBytes::new(py, &buffer[made]))
    }

    /// The same for many, side by side if that helps.
    fn encapsulate_each<'py>(
        &mut self,
        py: Python<'py>,
        packets: Vec<Vec<u8>>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let mut room: Vec<_> = packets.iter().map(|packet| self.roomy(packet)).collect();
        let slots = room.iter_mut().zip(&packets);
        let mut slots: Vec<_> = slots
            .map(|((buffer, start), packet)| Slot {
                range: *start..*start + packet.len(),
                buffer,
                error: None,
            })
            .collect();
        self.inner.encapsulate_each(&mut slots);
        let made = slots.iter().map(|slot| match slot.error {
            None => Ok(PyBytes::new(py, &slot.buffer[slot.range.clone()])),
            Some(error) => Err(refusal(error)),
        });
        made.collect()
    }
}

impl EspOutbound {
    fn roomy(&self, packet: &[u8]) -> (Vec<u8>, usize) {
        let start = self.inner.headroom();
        let mut buffer = vec![0; start + packet.len() + self.inner.tailroom()];
        buffer[start..start + packet.len()].copy_from_slice(packet);
        (buffer, start)
    }
}

/// The receiver's end of a security association.
#[pyclass(module = "weirlab._engine")]
pub struct EspInbound {
    inner: Inbound,
}

#[pymethods]
impl EspInbound {
    #[new]
    #[pyo3(signature = (*, spi, suite, encryption_key=Vec::new(), authentication_key=Vec::new(), tunnel=None, natt=None,
        esn=false, window=weir_esp::DEFAULT_WINDOW, highest=0))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments in Python")]
    fn new(
        spi: u32,
        suite: &str,
        encryption_key: Vec<u8>,
        authentication_key: Vec<u8>,
        tunnel: Option<(String, String)>,
        natt: Option<(u16, u16)>,
        esn: bool,
        window: usize,
        highest: u64,
    ) -> PyResult<Self> {
        let given = Given::new(spi, suite, encryption_key, authentication_key, tunnel, natt, esn)?;
        let inner = Inbound::new(&given.association(), window).map_err(refusal)?.resumed(highest);
        Ok(Self { inner })
    }

    /// The packet inside, or `ValueError` with the reason why it was dropped.
    fn decapsulate<'py>(&mut self, py: Python<'py>, packet: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let mut buffer = packet.to_vec();
        let inside = self.inner.decapsulate(&mut buffer).map_err(refusal)?;
        Ok(PyBytes::new(py, &buffer[inside]))
    }

    /// What became of the packets so far.
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = self.inner.counts();
        let dict = PyDict::new(py);
        for (name, count) in [
            ("accepted", counts.accepted),
            ("malformed", counts.malformed),
            ("foreign", counts.foreign),
            ("too_old", counts.too_old),
            ("replayed", counts.replayed),
            ("forged", counts.forged),
            ("discarded", counts.discarded),
        ] {
            dict.set_item(name, count)?;
        }
        Ok(dict)
    }
}
