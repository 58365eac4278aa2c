//! How to record.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use weir_capture::FilterError;

use super::connections::Connections;

/// Longest part of a frame that is written, as in libpcap.
pub const MAX_SNAP_BYTES: u32 = 262_144;

/// What to write, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file. With rotation, files next to it: `STEM-00001-20261121T165000.pcapng`, numbered from 1, with
    /// the time (UTC) of their first frame.
    pub path: PathBuf,
    /// libpcap expression; empty: every frame.
    pub filter: String,
    /// Write only the headers of these connections.
    pub connections: Option<Connections>,
    /// Bytes of each frame that are written.
    pub snap_bytes: u32,
    /// A file that would grow beyond this, before compression, is followed by another.
    pub rotate_bytes: Option<u64>,
    /// So is one whose first frame is this much older than the next frame.
    pub rotate_after: Option<Duration>,
    /// Most bytes over all files, before compression; frames beyond count as not written.
    pub most_bytes: Option<u64>,
    /// With rotation: keep only this many files, the latest.
    pub keep_files: Option<usize>,
    /// Compress with zstd, at this level.
    pub zstd_level: Option<i32>,
    /// Memory between the link and the disk, besides the source's own ring: a disk may stall for as long as it
    /// takes to fill both. Touched only then.
    pub queue_bytes: usize,
    /// CPU of the thread that reads the source.
    pub cpu: Option<usize>,
    /// Comment in the header of each file.
    pub comment: String,
}

impl Options {
    /// Everything into one file.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            filter: String::new(),
            connections: None,
            snap_bytes: MAX_SNAP_BYTES,
            rotate_bytes: None,
            rotate_after: None,
            most_bytes: None,
            keep_files: None,
            zstd_level: None,
            queue_bytes: 128 << 20,
            cpu: None,
            comment: String::new(),
        }
    }

    /// Whether there are to be several files.
    pub(super) const fn rotates(&self) -> bool {
        self.rotate_bytes.is_some() || self.rotate_after.is_some()
    }

    pub(super) fn check(&self) -> Result<(), RecordError> {
        let refuse = |what| Err(RecordError::Option { what });
        if self.snap_bytes == 0 {
            return refuse("snap_bytes is 0: nothing of a frame would be written");
        }
        if self.rotate_bytes == Some(0) || self.rotate_after == Some(Duration::ZERO) {
            return refuse(
                "rotation after 0 would begin a file with each frame; leave it out to have one file",
            );
        }
        if self.keep_files == Some(0) {
            return refuse("keep_files is 0: no file would be left");
        }
        if self.keep_files.is_some() && !self.rotates() {
            return refuse("keep_files has no effect without rotation by size or time");
        }
        Ok(())
    }
}

/// Why recording is impossible.
#[derive(Debug, Error)]
pub enum RecordError {
    /// Invalid options.
    #[error("{what}")]
    Option {
        /// Which, and why.
        what: &'static str,
    },
    /// The filter expression is invalid.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Path {
        /// Its path, or that of its folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It is running already, or has run.
    #[error("this recorder was started before; make another one")]
    Started,
    /// No thread can be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}
