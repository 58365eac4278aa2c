//! Packets of transfers, recorded at their server by the engine's recorder; see `weirlab.transfers.tcp.ends`.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pyo3::prelude::*;
use weir_engine::Endpoint;
use weir_engine::record::{Connections, InterfaceProgress, InterfaceSource, Options, Recorder as Engine};
use weir_tcp::bulk::{CaptureOptions, Here, Recorded, Recorder, Recording, Wanted};
use weir_tcp::interface::towards;

use crate::errors::{describe, translate};

/// Memory before the recorder, and before the disk: the server of a test has other work too.
const RING_BYTES: usize = 16 << 20;
const QUEUE_BYTES: usize = 16 << 20;
/// Room for the final blocks of a capture.
const END_BYTES: u64 = 1024;
const LOOPBACK: &str = "lo";

/// What a server may record: folder, largest file, longest time, bytes of each packet, interface.
pub type Allowed = (PathBuf, u64, u64, u32, Option<String>);

/// In the server's form; raises if nothing can be recorded at all.
pub fn options(py: Python<'_>, allowed: Allowed) -> PyResult<CaptureOptions> {
    let (folder, most_bytes, most_ns, snap_bytes, interface) = allowed;
    // What is not allowed now is not allowed later, and the user is here now.
    let first = Endpoint { netns: None, interface: interface.clone().unwrap_or_else(|| LOOPBACK.to_owned()) };
    InterfaceSource::open(&first, RING_BYTES).map_err(|e| translate(py, &e))?;
    let recorder = InterfaceRecorder { folder, snap_bytes, interface, begun: AtomicU64::new(0) };
    Ok(CaptureOptions { recorder: Arc::new(recorder), most_bytes, most_ns })
}

#[derive(Debug)]
struct InterfaceRecorder {
    folder: PathBuf,
    snap_bytes: u32,
    /// None: the one over which the client is connected.
    interface: Option<String>,
    begun: AtomicU64,
}

impl InterfaceRecorder {
    fn interface(&self, wanted: &Wanted) -> Result<String, String> {
        if let Some(interface) = &self.interface {
            return Ok(interface.clone());
        }
        let (here, peer) = ends(wanted);
        towards(here.ip(), peer.ip()).map_err(|e| e.to_string())?.ok_or_else(|| {
            format!("no interface there has the address {}; name one with --capture-interface", here.ip())
        })
    }
}

/// This end, and the other one.
fn ends(wanted: &Wanted) -> (SocketAddr, SocketAddr) {
    match wanted.here {
        Here::Server => (wanted.server, wanted.client),
        Here::Client => (wanted.client, wanted.server),
    }
}

impl Recorder for InterfaceRecorder {
    fn folder(&self) -> &Path {
        &self.folder
    }

    fn begin(&self, wanted: &Wanted) -> Result<Box<dyn Recording>, String> {
        let interface = self.interface(wanted)?;
        let path = self.folder.join(format!("{}.pcapng", self.begun.fetch_add(1, Relaxed)));
        let connections = Connections::of_port(wanted.server.port());
        let options = Options {
            connections: Some(connections.clone()),
            snap_bytes: self.snap_bytes,
            most_bytes: Some(wanted.most_bytes.saturating_sub(END_BYTES)),
            queue_bytes: QUEUE_BYTES,
            comment: "weir tcp serve".to_owned(),
            ..Options::new(path.clone())
        };
        let mut engine = Engine::new(options).map_err(|e| describe(&e))?;
        let at = Endpoint { netns: None, interface: interface.clone() };
        let mut source = InterfaceSource::open(&at, RING_BYTES).map_err(|e| describe(&e))?;
        source.listen().map_err(|e| describe(&e))?;
        engine.start(Box::new(source)).map_err(|e| describe(&e))?;
        // Without a name it disappears with this process, however that ends.
        let refused = |e: std::io::Error| format!("its capture cannot be kept: {e}");
        let file = File::open(&path).map_err(refused)?;
        fs::remove_file(&path).map_err(refused)?;
        Ok(Box::new(InterfaceRecording { engine, connections, file: Some(file), interface }))
    }
}

struct InterfaceRecording {
    engine: Engine,
    connections: Connections,
    file: Option<File>,
    interface: String,
}

impl Recording for InterfaceRecording {
    fn name(&mut self, connections: &[(SocketAddr, SocketAddr)]) {
        self.connections.name(connections.iter().copied());
    }

    fn stop(&mut self) -> Result<Recorded, String> {
        let progress = self.engine.stop().progress;
        let file = self.file.take().ok_or("it was ended before")?;
        if progress.failure.is_empty() {
            let sum =
                |count: fn(&InterfaceProgress) -> u64| progress.interfaces.iter().map(count).sum::<u64>();
            Ok(Recorded {
                file,
                interface: self.interface.clone(),
                packets: sum(|each| each.written),
                lost: sum(|each| each.lost),
                left_out: sum(|each| each.not_written),
            })
        } else {
            Err(format!("its recorder failed: {}", progress.failure))
        }
    }
}
