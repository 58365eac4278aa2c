//! The connections of a session: they come and go, take what is pending, and are judged.

use super::{Close, Session, SessionError, Stream, StreamTotals};
use crate::schedule::{PathStats, StreamId};
use crate::wire::{Frame, MOST_STREAMS};

impl Session {
    /// A connection has been greeted.
    ///
    /// `None`: there are already [`MOST_STREAMS`].
    pub fn attach(&mut self, now_ns: u64) -> Option<StreamId> {
        if self.streams.len() >= MOST_STREAMS {
            return None;
        }
        let id = StreamId(self.next_id);
        self.next_id += 1;
        let mut stream = Stream::new(now_ns);
        if let Some(reason) = self.failure.and_then(SessionError::reason) {
            stream.put(Frame::Abort { reason });
        }
        self.streams.insert(id, stream);
        self.alone_since_ns = None;
        self.closed = None;
        // It may carry what the others hold up.
        for stream in self.streams.values().filter(|stream| stream.is_suspect()) {
            stream.carried.iter().for_each(|offset| self.outgoing.doubt(*offset));
        }
        Some(id)
    }

    /// A connection has ended, for whatever reason: what it carried and is not known to have arrived goes by others.
    pub fn detach(&mut self, id: StreamId) {
        if let Some(coupling) = &mut self.coupling {
            coupling.remove(id);
        }
        if let Some(stream) = self.streams.remove(&id) {
            self.has_trusted_ended |= !stream.is_suspect();
            for offset in stream.carried {
                self.outgoing.lose(offset);
            }
        }
    }

    /// The other end has closed the connection of a stream; as [`Session::detach`]. Its process may have ended.
    ///
    /// A reset may also come from an end that lives: it resets what made no progress for [`Timing::dead_ns`], and has
    /// the rest of [`Timing::lost_ns`] to make another stream.
    pub fn close(&mut self, id: StreamId, how: Close, now_ns: u64) {
        let timing = &self.config.timing;
        let patience_ns = match how {
            Close::End => timing.gone_ns,
            Close::Reset => {
                timing.gone_ns.max(timing.lost_ns.saturating_sub(timing.dead_ns) + timing.gone_ns / 2)
            }
        };
        let patience_ns = patience_ns.saturating_add(self.answer_ns(id).saturating_mul(8));
        self.detach(id);
        let before_ns = self.closed.map_or(u64::MAX, |(_, before_ns)| before_ns);
        self.closed = Some((now_ns, patience_ns.min(before_ns)));
    }

    /// A stream that was given up; its connection is to be closed.
    pub fn take_dead(&mut self) -> Option<StreamId> {
        self.dead.pop_front()
    }

    /// Streams, in the order in which they were attached.
    pub fn streams(&self) -> impl Iterator<Item = StreamId> {
        self.streams.keys().copied()
    }

    /// What is known about a stream's connection.
    pub fn set_stats(&mut self, id: StreamId, mut stats: PathStats, now_ns: u64) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if let Some(coupling) = &mut self.coupling {
            stats.cwnd_bytes = coupling.update(id, &stats);
        }
        stream.update(stats, now_ns);
    }

    /// The rate that the connection of a stream must not exceed; `None`: TCP's own.
    #[must_use]
    pub fn pacing_bytes_per_s(&self, id: StreamId) -> Option<u64> {
        self.coupling.as_ref()?.rate_bytes_per_s(id)
    }

    /// The connection can take more; to be set again for each block.
    pub fn set_writable(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.set_writable(true);
        }
    }

    /// The stream's connection is not known to be full: [`Session::set_writable`] would change nothing.
    #[must_use]
    pub fn is_writable(&self, id: StreamId) -> bool {
        self.streams.get(&id).is_some_and(Stream::is_writable)
    }

    /// A stream makes no progress, and gets nothing new.
    #[must_use]
    pub fn is_suspect(&self, id: StreamId) -> bool {
        self.streams.get(&id).is_some_and(Stream::is_suspect)
    }

    /// A stream has made no progress for so long that another one over the same path should be tried.
    #[must_use]
    pub fn is_stalled(&self, id: StreamId) -> bool {
        self.streams.get(&id).is_some_and(Stream::is_stalled)
    }

    /// How long an answer by a stream may take, according to its TCP (RFC 6298, without its minimum); 0: not known.
    #[must_use]
    pub fn answer_ns(&self, id: StreamId) -> u64 {
        self.streams
            .get(&id)
            .map_or(0, |stream| stream.stats.srtt_ns.saturating_add(stream.stats.rttvar_ns.saturating_mul(4)))
    }

    /// What the connection of a stream is to take next; empty if there is nothing.
    #[must_use]
    pub fn pending(&self, id: StreamId) -> &[u8] {
        self.streams.get(&id).map_or(&[], Stream::pending)
    }

    /// The connection of a stream has taken `len` of the pending bytes.
    pub fn sent(&mut self, id: StreamId, len: usize) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.sent(len);
        }
    }

    /// What a stream has carried, while it is attached.
    #[must_use]
    pub fn stream_totals(&self, id: StreamId) -> Option<StreamTotals> {
        self.streams.get(&id).map(|stream| stream.totals)
    }
}
