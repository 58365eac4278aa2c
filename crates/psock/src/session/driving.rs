//! What a session does by itself: it judges streams, acknowledges data and gives blocks to streams.

use super::Session;
use super::stream::Stream;
use crate::schedule::Work;

/// A block is late when this part of the receiver's room is taken by what arrived after it.
const PATIENCE: u64 = 8;

impl Session {
    pub(super) fn judge(&mut self, now_ns: u64) {
        let timing = self.config.timing;
        let mut dead = Vec::new();
        for (id, stream) in &mut self.streams {
            if stream.judge(now_ns, &timing) {
                stream.carried.iter().for_each(|offset| self.outgoing.doubt(*offset));
            }
            if stream.is_dead(now_ns, &timing) {
                dead.push(*id);
            }
        }
        for id in dead {
            self.detach(id);
            self.dead.push_back(id);
        }
    }

    /// For how long no stream has worked; `None` while one does, and when there is nothing left to do.
    pub(super) fn alone_ns(&mut self, now_ns: u64) -> Option<u64> {
        let has_ended = std::mem::take(&mut self.has_trusted_ended);
        if self.is_finished() || self.streams.values().any(|stream| !stream.is_suspect()) {
            self.alone_since_ns = None;
            return None;
        }
        let since = self.worked_ns().filter(|_| !has_ended).unwrap_or(now_ns);
        Some(now_ns.saturating_sub(*self.alone_since_ns.get_or_insert(since)))
    }

    pub(super) fn acknowledge(&mut self, now_ns: u64) {
        if !self.incoming.is_news() {
            return;
        }
        let due_ns = *self.ack_due_ns.get_or_insert(now_ns.saturating_add(self.config.timing.ack_ns));
        if now_ns >= due_ns || self.incoming.is_due(self.config.block_bytes.into()) {
            self.ack = self.incoming.told();
            self.ack_due_ns = None;
        }
    }

    pub(super) fn control(&mut self) {
        // On every stream: the first to arrive counts, and a stream that fails takes nothing with it.
        let end = self.outgoing.total().filter(|_| !self.outgoing.is_done());
        for stream in self.streams.values_mut() {
            if stream.control(self.ack, end) {
                self.outgoing.end_told();
            }
        }
    }

    /// Gives one block to one stream, if there are both.
    pub(super) fn give(&mut self, now_ns: u64) -> bool {
        let again = self.outgoing.first_lost();
        if again.is_none() && (self.scheduler.copies() && self.copy() || self.repeat(now_ns)) {
            return true;
        }
        let sendable_bytes = self.outgoing.sendable();
        let is_limited = self.outgoing.is_limited();
        let most = self.config.block_bytes;
        let block_bytes = match again {
            Some((_, len)) => u64::from(len),
            None => sendable_bytes.min(most.into()),
        };
        // A window that opens by a little is not filled by blocks as little (RFC 9293, 3.8.6.2).
        let is_silly = block_bytes < u64::from(most) && is_limited && self.outgoing.blocks_under_way() > 0;
        if block_bytes == 0 || again.is_none() && is_silly {
            return false;
        }
        // If every stream is suspect, any of them may be the first to work again.
        let has_trusted = self.streams.values().any(|stream| !stream.is_suspect());
        let offset = again.map(|(offset, _)| offset);
        self.paths.clear();
        self.paths.extend(
            self.streams
                .iter()
                .filter(|(_, stream)| !(has_trusted && stream.is_suspect()))
                .filter(|(_, stream)| offset.is_none_or(|offset| !stream.carried.contains(&offset)))
                .map(|(id, stream)| stream.path(*id)),
        );
        if let Some(offset) = offset {
            let carries = |stream: &Stream| !stream.is_suspect() && stream.carried.contains(&offset);
            let is_under_way = self.streams.values().any(carries);
            // Either a working stream carries it, or all that could carry it do so already.
            if is_under_way || self.paths.is_empty() && self.outgoing.is_carried(offset) {
                self.outgoing.leave(offset);
                return true;
            }
        }
        if !self.paths.iter().any(|path| path.is_ready) {
            return false;
        }
        let work = Work {
            now_ns,
            block_bytes,
            sendable_bytes: sendable_bytes.max(1),
            window_bytes: self.outgoing.window(),
            is_limited,
            is_again: again.is_some(),
        };
        let Some(choice) = self.scheduler.choose(&work, &self.paths) else { return false };
        let Some(stream) = self.streams.get_mut(&choice.stream).filter(|stream| stream.is_ready()) else {
            return false;
        };
        let (offset, len) = match again {
            Some((offset, len)) => {
                self.outgoing.send_again(offset);
                self.resent.0 += u64::from(len);
                self.resent.1 += 1;
                (offset, len)
            }
            None => match self.outgoing.take(choice.skip_bytes, most) {
                Some(block) => block,
                None => return false,
            },
        };
        stream.put_block(offset, len, again.is_some(), |to| self.outgoing.copy(offset, len, to));
        true
    }

    /// The first block that waits for the repair of a loss on its stream, while much has arrived after it.
    pub(super) fn late(&self) -> Option<(u64, u32)> {
        if !self.scheduler.repeats() {
            return None;
        }
        let unacked_bytes: u64 = self.streams.values().map(Stream::unacked_bytes).sum();
        // What TCP has acknowledged has arrived.
        let waiting_bytes = self.outgoing.bytes_under_way().saturating_sub(unacked_bytes);
        let late_bytes = waiting_bytes.checked_sub(self.outgoing.window() / PATIENCE)?;
        let first = self.outgoing.first_under_way()?;
        let has_lost = |stream: &&Stream| stream.stats.sacked_bytes > 0 && stream.carried.contains(&first);
        let stream = self.streams.values().find(has_lost)?;
        let is_due = |offset: &&u64| **offset - first <= late_bytes;
        stream.carried.iter().take_while(is_due).find_map(|offset| self.outgoing.carried_once(*offset))
    }

    /// Gives a late block to another stream as well.
    fn repeat(&mut self, now_ns: u64) -> bool {
        let Some((offset, len)) = self.late() else { return false };
        self.paths.clear();
        let may = |stream: &Stream| !stream.is_suspect() && !stream.carried.contains(&offset);
        let others = self.streams.iter().filter(|(_, stream)| may(stream));
        self.paths.extend(others.map(|(id, stream)| stream.path(*id)));
        if !self.paths.iter().any(|path| path.is_ready) {
            return false;
        }
        let work = Work {
            now_ns,
            block_bytes: len.into(),
            sendable_bytes: len.into(),
            window_bytes: self.outgoing.window(),
            is_limited: self.outgoing.is_limited(),
            is_again: true,
        };
        let Some(choice) = self.scheduler.choose(&work, &self.paths) else { return false };
        let Some(stream) = self.streams.get_mut(&choice.stream).filter(|stream| stream.is_ready()) else {
            return false;
        };
        self.outgoing.send_again(offset);
        self.resent.0 += u64::from(len);
        self.resent.1 += 1;
        stream.put_block(offset, len, true, |to| self.outgoing.copy(offset, len, to));
        true
    }

    /// Gives a block that another stream carries to one that could carry it too.
    fn copy(&mut self) -> bool {
        let has_trusted = self.streams.values().any(|stream| !stream.is_suspect());
        let may = |stream: &Stream| stream.is_ready() && !(has_trusted && stream.is_suspect());
        for stream in self.streams.values_mut().filter(|stream| may(stream)) {
            let Some((offset, len)) = self.outgoing.first_without(&stream.carried) else { continue };
            self.outgoing.send_again(offset);
            self.resent.0 += u64::from(len);
            self.resent.1 += 1;
            stream.put_block(offset, len, true, |to| self.outgoing.copy(offset, len, to));
            return true;
        }
        false
    }
}
