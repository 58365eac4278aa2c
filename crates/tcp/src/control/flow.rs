//! What one end knows about its connections.

use super::MOST_TEXT;
use super::codec::{ProtocolError, Reader, Writer, short};
use crate::{Info, Queues};

/// Block latency, one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyNs {
    /// Blocks.
    pub count: u64,
    /// Least.
    pub min: u64,
    /// Mean.
    pub mean: u64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Greatest.
    pub max: u64,
}

/// What one end knows about one connection so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Bytes written or read.
    pub bytes: u64,
    /// Whole blocks written or read.
    pub blocks: u64,
    /// Since the last report, or for a total since the start; of a receiver on the sender's host.
    pub latency: Option<LatencyNs>,
    /// The kernel's state; empty if the connection is gone.
    pub info: Info,
    /// What else its host knows about it; empty if the connection is gone.
    pub queues: Queues,
}

/// The end of one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Its last state.
    pub flow: Flow,
    /// From the start of the transfer to the first byte.
    pub first_ns: Option<u64>,
    /// From the start of the transfer to the last byte.
    pub last_ns: Option<u64>,
    /// Why it ended early; empty if it did not.
    pub failure: String,
}

impl LatencyNs {
    fn write(&self, to: &mut Writer) {
        for value in [self.count, self.min, self.mean, self.p50, self.p99, self.max] {
            to.u64(value);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        Ok(Self {
            count: from.u64()?,
            min: from.u64()?,
            mean: from.u64()?,
            p50: from.u64()?,
            p99: from.u64()?,
            max: from.u64()?,
        })
    }
}

impl Flow {
    pub(super) fn write(&self, to: &mut Writer) {
        to.u64(self.bytes);
        to.u64(self.blocks);
        to.u8(self.latency.is_some().into());
        if let Some(latency) = &self.latency {
            latency.write(to);
        }
        to.bytes(self.info.bytes());
        let queues = &self.queues;
        to.bytes(queues.memory());
        for value in [queues.unread_bytes, queues.unacked_bytes, queues.waited_ns] {
            to.maybe(value);
        }
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        Ok(Self {
            bytes: from.u64()?,
            blocks: from.u64()?,
            latency: if from.flag()? { Some(LatencyNs::read(from)?) } else { None },
            info: Info::new(from.bytes()?),
            queues: Queues::new(from.bytes()?).with(from.maybe()?, from.maybe()?, from.maybe()?),
        })
    }
}

impl Total {
    pub(super) fn write(&self, to: &mut Writer) {
        self.flow.write(to);
        to.maybe(self.first_ns);
        to.maybe(self.last_ns);
        to.text(&self.failure.chars().take(MOST_TEXT / 8).collect::<String>());
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        Ok(Self {
            flow: Flow::read(from)?,
            first_ns: from.maybe()?,
            last_ns: from.maybe()?,
            failure: short(from.text()?, MOST_TEXT)?,
        })
    }
}
