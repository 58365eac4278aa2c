//! Packets in, streams out: which are candidates, which are streams, which are forgotten.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use super::track::{Keep, Put, Raw, Track};
use super::{Key, Options, Protocol, iax2, rtp, sdp};
use crate::capture::Packet;
use crate::packet::{Datagram, Decoded};

/// Most candidates at a time, and their packets: the limit for a flood of nonsense.
pub const MAX_CANDIDATES: usize = 1 << 16;
const MAX_PENDING_ROWS: u64 = 1 << 20;

/// Datagrams and SIP messages that belong to no stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// RTCP.
    pub rtcp: u64,
    /// SIP, over UDP or TCP.
    pub sip: u64,
    /// IAX2's signalling.
    pub iax2: u64,
    /// Datagrams that are none of these and not voice.
    pub udp: u64,
}

/// Finds streams, packet by packet.
#[derive(Debug)]
pub struct Finder<K> {
    options: Options,
    others: Others,
    packets: u64,
    sessions: sdp::Sessions,
    tracks: Vec<Track<K>>,
    index: HashMap<Key, usize>,
    /// Candidates in the order of their beginning, and places of `tracks` that are free.
    candidates: VecDeque<(usize, u64)>,
    free: Vec<usize>,
    pending_rows: u64,
    /// Places of `tracks` that hold a stream.
    streams: usize,
}

impl<K: Keep> Finder<K> {
    /// Nothing seen yet.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            others: Others::default(),
            packets: 0,
            sessions: sdp::Sessions::default(),
            tracks: Vec::new(),
            index: HashMap::new(),
            candidates: VecDeque::new(),
            free: Vec::new(),
            pending_rows: 0,
            streams: 0,
        }
    }

    /// What belonged to no stream.
    pub const fn others(&self) -> Others {
        self.others
    }

    /// Number of streams and candidates.
    pub const fn open(&self) -> usize {
        self.tracks.len() - self.free.len()
    }

    /// Number of streams.
    pub const fn streams(&self) -> usize {
        self.streams
    }

    /// The next packet; true if it may have to do with voice, as every datagram may.
    #[inline]
    pub fn put(&mut self, packet: &Packet<'_>, decoded: &Decoded<'_>) -> bool {
        self.packets += 1;
        match decoded {
            Decoded::Udp(datagram) => {
                self.datagram(packet, datagram);
                true
            }
            // A message that begins with its segment; one spread over several is not reassembled.
            Decoded::Tcp(segment) if segment.payload.first().is_some_and(u8::is_ascii_uppercase) => {
                self.message(segment.payload)
            }
            _ => false,
        }
    }

    /// Removes what `is_over`: streams go to `sink`, candidates are counted.
    pub fn end(&mut self, is_over: impl Fn(&Track<K>) -> bool, mut sink: impl FnMut(Track<K>)) {
        for at in 0..self.tracks.len() {
            // A place without packets is free.
            if self.tracks[at].kept.packets() == 0 || !is_over(&self.tracks[at]) {
                continue;
            }
            let media = self.tracks[at].media.take().or_else(|| self.session_of(&self.tracks[at].key));
            let was_proven = self.tracks[at].is_proven();
            let mut track = self.vacate(at);
            track.announce(media);
            track.end();
            if !was_proven {
                self.pending_rows = self.pending_rows.saturating_sub(track.kept.packets());
            }
            if track.is_proven() {
                sink(track);
            } else {
                self.others.udp += track.kept.packets();
            }
        }
    }

    /// When the newest packets of the streams came, in no order.
    pub fn newest_ns(&self) -> impl Iterator<Item = i64> + '_ {
        self.tracks.iter().filter(|track| track.kept.packets() > 0 && track.is_proven()).map(Track::newest_ns)
    }

    /// Frees a place.
    fn vacate(&mut self, at: usize) -> Track<K> {
        let track = self.tracks[at].vacate();
        if self.index.get(&track.key) == Some(&at) {
            self.index.remove(&track.key);
        }
        self.streams -= usize::from(track.is_proven());
        self.free.push(at);
        track
    }

    /// Takes what may be a SIP message; true if it is one.
    #[inline(never)]
    fn message(&mut self, payload: &[u8]) -> bool {
        let is_sip = sdp::is_sip(payload);
        if is_sip {
            self.others.sip += 1;
            self.sessions.learn(payload);
        }
        is_sip
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
            rtp::Look::Rtcp => self.others.rtcp += 1,
            rtp::Look::Other if sdp::is_sip(datagram.payload) => {
                self.others.sip += 1;
                self.sessions.learn(datagram.payload);
            }
            rtp::Look::Other => self.others.udp += 1,
        }
    }

    fn rtp(&mut self, key: Key, raw: Raw, trusted: bool) {
        let order = self.packets;
        let known = self.index.get(&key).copied();
        let Some(at) = known.filter(|at| self.tracks[*at].goes_on(raw.arrival_ns)) else {
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
                self.others.udp += dropped;
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
                self.others.iax2 += 1;
                // The number is used again: what follows is another call.
                self.index.remove(&key_of(packet, datagram, call.into(), Protocol::Iax2));
            }
            iax2::Look::Other => self.others.iax2 += 1,
            iax2::Look::Foreign => self.others.udp += 1,
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
            let track = Track::new_iax2(key, self.packets, 0, packet.time_ns, speech);
            self.begin(track);
        }
        self.forget();
    }

    /// A new candidate, or a stream.
    fn begin(&mut self, mut track: Track<K>) {
        if track.is_proven() && track.media.is_none() {
            track.media = self.session_of(&track.key);
        }
        let at = self.free.pop().unwrap_or(self.tracks.len());
        self.index.insert(track.key, at);
        if track.is_proven() {
            self.streams += 1;
        } else {
            self.candidates.push_back((at, track.birth));
            self.pending_rows += track.kept.packets();
        }
        if at == self.tracks.len() { self.tracks.push(track) } else { self.tracks[at] = track }
    }

    /// Whether the candidate has become a stream.
    fn check(&mut self, at: usize) {
        let rows = self.tracks[at].kept.packets();
        if !self.tracks[at].is_proven() {
            if self.tracks[at].is_proven_if_announced() {
                let media = self.session_of(&self.tracks[at].key);
                self.tracks[at].announce(media);
            }
        } else if self.tracks[at].media.is_none() {
            self.tracks[at].media = self.session_of(&self.tracks[at].key);
        }
        if self.tracks[at].is_proven() {
            self.streams += 1;
            self.pending_rows = self.pending_rows.saturating_sub(rows);
        }
    }

    /// Gives up the oldest candidates if there are too many.
    fn forget(&mut self) {
        while self.candidates.len() > MAX_CANDIDATES || self.pending_rows > MAX_PENDING_ROWS {
            let Some((at, birth)) = self.candidates.pop_front() else { return };
            let track = &self.tracks[at];
            // The place may have another candidate by now.
            if track.is_proven() || track.birth != birth || track.kept.packets() == 0 {
                continue;
            }
            let rows = self.vacate(at).kept.packets();
            self.others.udp += rows;
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
