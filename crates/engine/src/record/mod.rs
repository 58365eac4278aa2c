//! Frames from a link into capture files: pcapng, filtered, rotated, with an account of what is missing.
//!
//! Two threads: one reads the [`Source`] and fills buffers with what is to be written, the other writes the
//! buffers to disk. A disk that stalls fills the queue between them, and then the ring of the source; when
//! that is full too, the source counts what it loses. Only what the disk refuses is left out here. The link
//! behind the source never waits.

mod chunk;
mod connections;
mod disk;
mod drain;
mod gaps;
mod interface;
mod options;
mod progress;
mod recorder;
mod source;

pub use connections::Connections;
pub use disk::File;
pub use gaps::{Gap, Stage};
pub use interface::InterfaceSource;
pub use options::{Options, RecordError};
pub use progress::{InterfaceProgress, Progress};
pub use recorder::{Recorder, Summary, Watch};
pub use source::{Direction, Frame, Interface, Source};
pub use weir_capture::FilterError;

#[cfg(test)]
mod tests;
