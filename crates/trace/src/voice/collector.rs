//! Packets in, streams out: who is a candidate, who is a stream, who is forgotten.

use std::collections::{HashMap, VecDeque};
use std::io::Read;
use std::rc::Rc;

use super::track::{Put, Raw, Track};
use super::{Counts, Key, Options, Protocol, Stream, Voice, iax2, rtp, sdp};
use crate::capture::{Capture, Packet};
use crate::packet::{Datagram, Decoded, decode};

/// Candidates at a time, and their packets: what a flood of nonsense can make this hold.
pub(super) const MAX_CANDIDATES: usize = 1 << 16;
const MAX_PENDING_ROWS: u64 = 1 << 20;
const MAX_LINKS_NAMED: usize = 16;

/// Finds streams, packet by packet.
#[derive(Debug)]
pub struct Collector {
    options: Options,
    pub(super) counts: Counts,
    sessions: sdp::Sessions,
    pub(super) tracks: Vec<Track>,
    pub(super) index: HashMap<Key, usize>,
    /// Candidates in the order of their beginning, and places of `tracks` that are free.
    candidates: VecDeque<(usize, u64)>,
    free: Vec<usize>,
    pending_rows: u64,
}

impl Collector {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            counts: Counts::default(),
            sessions: sdp::Sessions::default(),
            tracks: Vec::new(),
            index: HashMap::new(),
            candidates: VecDeque::new(),
            free: Vec::new(),
            pending_rows: 0,
        }
    }

    /// The next packet.
    pub fn put(&mut self, packet: &Packet<'_>) {
        let counts = &mut self.counts;
        let first = counts.packets == 0;
        counts.first_ns = if first { packet.time_ns } else { counts.first_ns.min(packet.time_ns) };
        counts.last_ns = if first { packet.time_ns } else { counts.last_ns.max(packet.time_ns) };
        counts.packets += 1;
        counts.bytes += u64::from(packet.original_len);
        counts.truncated += u64::from(packet.original_len as usize > packet.data.len());
        match decode(packet) {
            Decoded::Udp(datagram) => self.datagram(packet, &datagram),
            Decoded::Tcp(segment) => {
                // A message that begins with its segment; what is spread over several is not put together.
                if sdp::is_sip(segment.payload) {
                    self.counts.sip += 1;
                    self.sessions.learn(segment.payload);
                } else {
                    self.counts.not_udp += 1;
                }
            }
            Decoded::OtherIp => self.counts.not_udp += 1,
            Decoded::Fragment => self.counts.fragments += 1,
            Decoded::NotIp => self.counts.not_ip += 1,
            Decoded::Malformed => self.counts.malformed += 1,
            Decoded::UnknownLink => {
                self.counts.unknown_link += 1;
                if self.counts.unknown_links.len() < MAX_LINKS_NAMED {
                    self.counts.unknown_links.insert(packet.link.0);
                }
            }
        }
    }

    /// All streams; `capture` has been read to its end.
    pub fn finish<R: Read>(mut self, capture: &Capture<R>) -> Voice {
        self.counts.timeless = capture.timeless();
        let mut proven = Vec::new();
        // A place without rows is that of a candidate which was forgotten.
        for mut track in std::mem::take(&mut self.tracks).into_iter().filter(|track| !track.rows.is_empty()) {
            let media = track.media.take().or_else(|| self.session_of(&track.key));
            track.announce(media);
            track.end();
            if track.is_proven() {
                proven.push(track);
            } else {
                self.counts.other_udp += track.rows.len() as u64;
            }
        }
        proven.sort_by_key(|track| (track.order, track.part));
        Voice {
            streams: proven.into_iter().map(Stream::of).collect(),
            counts: self.counts,
            format: capture.format(),
            compression: capture.compression(),
            cut_short: capture.cut_short(),
        }
    }

    fn datagram(&mut self, packet: &Packet<'_>, datagram: &Datagram<'_>) {
        let ports = [datagram.src_port, datagram.dst_port];
        let trusted = self.options.decode_as.iter().any(|range| ports.iter().any(|p| range.contains(p)));
        if ports.contains(&iax2::PORT) && !trusted {
            return self.iax2(packet, datagram);
        }
        match rtp::look(datagram.payload, datagram.payload_len) {
            rtp::Look::Rtp(header) => {
                let key = key_of(packet, datagram, header.ssrc, Protocol::Rtp);
                self.rtp(key, Raw { arrival_ns: packet.time_ns, header }, trusted);
            }
            rtp::Look::Rtcp => self.counts.rtcp += 1,
            rtp::Look::Other if sdp::is_sip(datagram.payload) => {
                self.counts.sip += 1;
                self.sessions.learn(datagram.payload);
            }
            rtp::Look::Other => self.counts.other_udp += 1,
        }
    }

    fn rtp(&mut self, key: Key, raw: Raw, trusted: bool) {
        let order = self.counts.packets;
        let Some(&at) = self.index.get(&key) else {
            let track = Track::new(key, order, 0, raw, trusted);
            self.begin(track);
            return self.forget();
        };
        let was_proven = self.tracks[at].is_proven();
        match self.tracks[at].put(raw, order) {
            Put::Kept if was_proven => {}
            Put::Kept => {
                self.pending_rows += 1;
                self.check(at);
            }
            Put::Refuted(dropped) => {
                self.counts.other_udp += dropped;
                self.pending_rows = (self.pending_rows + 1).saturating_sub(dropped);
            }
            Put::Restart(first, second) => {
                let mut next = Track::new(key, order, self.tracks[at].part + 1, first, true);
                next.media = self.tracks[at].media.clone();
                next.put(second, order);
                self.begin(next);
            }
        }
        self.forget();
    }

    fn iax2(&mut self, packet: &Packet<'_>, datagram: &Datagram<'_>) {
        match iax2::look(datagram.payload, datagram.payload_len) {
            iax2::Look::Speech(speech) => self.speech(packet, datagram, &speech),
            iax2::Look::Trunk => {
                for speech in iax2::trunk(datagram.payload) {
                    self.speech(packet, datagram, &speech);
                }
            }
            iax2::Look::New(call) => {
                self.counts.iax2 += 1;
                // The number is used again: what comes is another call.
                self.index.remove(&key_of(packet, datagram, call.into(), Protocol::Iax2));
            }
            iax2::Look::Other => self.counts.iax2 += 1,
            iax2::Look::Foreign => self.counts.other_udp += 1,
        }
    }

    fn speech(&mut self, packet: &Packet<'_>, datagram: &Datagram<'_>, speech: &iax2::Speech) {
        let key = key_of(packet, datagram, speech.call.into(), Protocol::Iax2);
        let known = self.index.get(&key).copied();
        if let Some(at) = known.filter(|at| self.tracks[*at].goes_on(packet.time_ns)) {
            let was_proven = self.tracks[at].is_proven();
            self.tracks[at].put_iax2(packet.time_ns, speech);
            if !was_proven {
                self.pending_rows += 1;
                self.check(at);
            }
        } else {
            let track = Track::new_iax2(key, self.counts.packets, 0, packet.time_ns, speech);
            self.begin(track);
        }
        self.forget();
    }

    /// A new candidate, or a stream.
    fn begin(&mut self, mut track: Track) {
        if track.is_proven() && track.media.is_none() {
            track.media = self.session_of(&track.key);
        }
        let at = self.free.pop().unwrap_or(self.tracks.len());
        self.index.insert(track.key, at);
        if !track.is_proven() {
            self.candidates.push_back((at, track.birth));
            self.pending_rows += track.rows.len() as u64;
        }
        if at == self.tracks.len() { self.tracks.push(track) } else { self.tracks[at] = track }
    }

    /// Has the candidate become a stream?
    fn check(&mut self, at: usize) {
        let rows = self.tracks[at].rows.len() as u64;
        if !self.tracks[at].is_proven() {
            if self.tracks[at].is_proven_if_announced() {
                let media = self.session_of(&self.tracks[at].key);
                self.tracks[at].announce(media);
            }
        } else if self.tracks[at].media.is_none() {
            self.tracks[at].media = self.session_of(&self.tracks[at].key);
        }
        if self.tracks[at].is_proven() {
            self.pending_rows = self.pending_rows.saturating_sub(rows);
        }
    }

    /// Gives up the oldest candidates where there are too many.
    fn forget(&mut self) {
        while self.candidates.len() > MAX_CANDIDATES || self.pending_rows > MAX_PENDING_ROWS {
            let Some((at, birth)) = self.candidates.pop_front() else { return };
            let track = &mut self.tracks[at];
            // The place may have another candidate by now.
            if track.is_proven() || track.birth != birth || track.rows.is_empty() {
                continue;
            }
            let rows = std::mem::take(&mut track.rows).len() as u64;
            if self.index.get(&track.key) == Some(&at) {
                self.index.remove(&track.key);
            }
            self.free.push(at);
            self.counts.other_udp += rows;
            self.pending_rows = self.pending_rows.saturating_sub(rows);
        }
    }

    fn session_of(&self, key: &Key) -> Option<Rc<sdp::Media>> {
        match key.protocol {
            Protocol::Rtp => self.sessions.find((key.src, key.src_port), (key.dst, key.dst_port)),
            Protocol::Iax2 => None,
        }
    }
}

fn key_of(packet: &Packet<'_>, datagram: &Datagram<'_>, source: u32, protocol: Protocol) -> Key {
    Key {
        src: datagram.src,
        dst: datagram.dst,
        src_port: datagram.src_port,
        dst_port: datagram.dst_port,
        source,
        protocol,
        tags: datagram.tags,
        interface: (packet.interface, datagram.point),
    }
}
