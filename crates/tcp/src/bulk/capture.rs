//! Packets of a transfer, recorded at the server. This crate cannot record: the code that starts a server provides
//! a recorder.

use std::fmt::Debug;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// What a server records for clients that request it.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// The recorder.
    pub recorder: Arc<dyn Recorder>,
    /// The largest file.
    pub most_bytes: u64,
    /// Counted from the start of the transfer; what comes later is not recorded.
    pub most_ns: u64,
}

/// What is to be recorded: the headers of the data connections, once they are named.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The server's end of the control connection.
    pub server: SocketAddr,
    /// The client's end of it.
    pub client: SocketAddr,
    /// Which of the two is this host's.
    pub here: Here,
    /// The largest file.
    pub most_bytes: u64,
}

/// The end of a transfer that is on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Here {
    /// Its server.
    Server,
    /// Its client, for a third host.
    Client,
}

/// Begins captures.
pub trait Recorder: Debug + Send + Sync {
    /// Folder for files that are removed soon.
    fn folder(&self) -> &Path;

    /// Starts one; packets from now on are in it.
    ///
    /// # Errors
    /// Why it is not possible, for people to read.
    fn begin(&self, wanted: &Wanted) -> Result<Box<dyn Recording>, String>;
}

/// A capture under way; dropping it ends it.
pub trait Recording: Send {
    /// Names the data connections by their ends: all of them, as soon as they exist. Of other connections,
    /// nothing is kept.
    fn name(&mut self, connections: &[(SocketAddr, SocketAddr)]);

    /// Ends it; called once.
    ///
    /// # Errors
    /// What failed, for people to read.
    fn stop(&mut self) -> Result<Recorded, String>;
}

/// A capture that has ended.
#[derive(Debug)]
pub struct Recorded {
    /// To be read from its beginning.
    pub file: File,
    /// The interface that was recorded.
    pub interface: String,
    /// Packets in it.
    pub packets: u64,
    /// Packets that came too fast.
    pub lost: u64,
    /// Packets for which `most_bytes` left no room.
    pub left_out: u64,
}
