//! Packets in, streams out: which are candidates, which are streams, which are forgotten.

mod calls;
mod parts;

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;

use super::changes::Fate;
use super::messages::Messages;
use super::track::{Keep, Put, Raw, Track};
use super::{Key, Options, Protocol, iax2, rtcp, rtp, rtsp, sdp, sip};
use crate::capture::Packet;
use crate::packet::{Datagram, Decoded, Tags};

/// Most candidates at a time, and their packets: the limit for a flood of nonsense.
pub const MAX_CANDIDATES: usize = 1 << 16;
const MAX_PENDING_ROWS: u64 = 1 << 20;
/// Streams to one port that are remembered, the latest.
const MAX_SOURCES: usize = 8;
/// Most pairs of ports of WebRTC that are remembered.
const MAX_WEBRTC: usize = 1 << 14;

/// Where streams are heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ear {
    dst: IpAddr,
    port: u16,
    tags: Tags,
    interface: (u32, u32),
}

impl Ear {
    const fn of(key: &Key) -> Self {
        Self { dst: key.dst, port: key.dst_port, tags: key.tags, interface: key.interface }
    }
}

/// Datagrams and SIP messages that belong to no stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// RTCP.
    pub rtcp: u64,
    /// SIP, over UDP or TCP.
    pub sip: u64,
    /// RTCP that is encrypted or damaged.
    pub rtcp_unreadable: u64,
    /// Streams that RTSP set up within its own TCP connection.
    pub interleaved: u64,
    /// IAX2's signalling.
    pub iax2: u64,
    /// Of faxes (T.38).
    pub fax: u64,
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
    calls: sip::Calls,
    rtsp: rtsp::Rtsp,
    messages: Messages,
    reports: rtcp::Store,
    /// Pairs of ports between which there was STUN or DTLS: WebRTC.
    webrtc: HashSet<(sip::End, sip::End)>,
    tracks: Vec<Track<K>>,
    index: HashMap<Key, usize>,
    /// Streams by their destination: one may be heard while another is silent.
    heard: HashMap<Ear, Vec<usize>>,
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
            calls: sip::Calls::default(),
            rtsp: rtsp::Rtsp::default(),
            messages: Messages::default(),
            reports: rtcp::Store::default(),
            webrtc: HashSet::new(),
            tracks: Vec::new(),
            index: HashMap::new(),
            heard: HashMap::new(),
            candidates: VecDeque::new(),
            free: Vec::new(),
            pending_rows: 0,
            streams: 0,
        }
    }

    /// What belonged to no stream.
    pub const fn others(&self) -> Others {
        Others { rtcp_unreadable: self.reports.unreadable, interleaved: self.rtsp.interleaved, ..self.others }
    }

    /// Calls by SIP.
    pub fn calls(&self) -> &[sip::Call] {
        self.calls.all()
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
            Decoded::Tcp(segment) if self.messages.concern(segment) => {
                let messages = self.messages.put(segment);
                for message in &messages {
                    self.message(message, packet.time_ns, segment);
                }
                !messages.is_empty()
            }
            _ => false,
        }
    }

    /// Removes what `is_over`: streams go to `sink`, with what their receivers reported; candidates are counted.
    pub fn end(
        &mut self,
        is_over: impl Fn(&Track<K>) -> bool,
        mut sink: impl FnMut(Track<K>, Option<rtcp::Reports>),
    ) {
        for at in 0..self.tracks.len() {
            // A place without packets is free.
            if self.tracks[at].kept.packets() == 0 || !is_over(&self.tracks[at]) {
                continue;
            }
            let was_proven = self.tracks[at].is_proven();
            let mut track = self.vacate(at);
            if track.media.is_none() {
                let known =
                    if was_proven { self.session_of(&track.key) } else { self.sessions.find(&track.key) };
                track.announce(known);
            }
            track.end();
            if !was_proven {
                self.pending_rows = self.pending_rows.saturating_sub(track.kept.packets());
            }
            if track.is_proven() {
                let reports = self.reports.of(track.key.source, track.key.src, track.key.dst);
                sink(track, reports);
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
        if track.is_proven() {
            self.streams -= 1;
            let ear = Ear::of(&track.key);
            if let Some(heard) = self.heard.get_mut(&ear) {
                heard.retain(|each| *each != at);
                if heard.is_empty() {
                    self.heard.remove(&ear);
                }
            }
        }
        self.free.push(at);
        track
    }

    /// Takes a message of SIP or RTSP.
    #[inline(never)]
    fn message(&mut self, message: &[u8], now_ns: i64, datagram: &Datagram<'_>) {
        let (src, dst) = ends(datagram);
        if !sip::is_sip(message) {
            if let Some(media) = self.rtsp.learn(message, src.0, dst.0) {
                self.sessions.learn(media, now_ns);
            }
            return;
        }
        self.others.sip += 1;
        let (media, on_hold) = self.calls.learn(message, now_ns, src, dst);
        for each in media {
            self.sessions.learn(each, now_ns);
        }
        for end in on_hold {
            self.sessions.hold(end, sdp::Direction { sends: true, receives: false }, now_ns);
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
            rtp::Look::Rtcp => {
                self.others.rtcp += 1;
                let (payload, len) = (datagram.payload, datagram.payload_len);
                self.reports.put(payload, len, packet.time_ns, datagram.src, datagram.dst);
            }
            rtp::Look::Other if sip::is_sip(datagram.payload) => {
                self.message(datagram.payload, packet.time_ns, datagram);
            }
            rtp::Look::Other if self.sessions.is_fax(ends(datagram)) => self.others.fax += 1,
            rtp::Look::Other => {
                self.others.udp += 1;
                if rtp::is_webrtc(datagram.payload) && self.webrtc.len() < MAX_WEBRTC {
                    self.webrtc.insert(pair(ends(datagram)));
                }
            }
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
        self.tracks[at].holes.put(raw.header.sequence, raw.arrival_ns, order);
        if !self.tracks[at].is_proven() {
            match self.tracks[at].put(raw, order) {
                Put::Refuted(dropped) => {
                    self.others.udp += dropped;
                    self.pending_rows = (self.pending_rows + 1).saturating_sub(dropped);
                }
                Put::Kept | Put::Restart(..) => {
                    self.pending_rows += 1;
                    self.check(at);
                }
            }
            return self.forget();
        }
        let (released, fate) = self.tracks[at].changes.put(&raw);
        let is_as_before = released.is_empty();
        for each in released {
            self.place_again(&key, each);
        }
        match fate {
            Fate::Stays if is_as_before => self.place(at, raw),
            Fate::Stays => self.place_again(&key, raw),
            Fate::Waits => {}
            Fate::Changes(before, held) => self.change(&key, before, held),
        }
        self.forget();
    }

    /// Remembers a stream by its destination.
    fn hear(&mut self, at: usize) {
        self.streams += 1;
        if self.tracks[at].key.protocol == Protocol::Rtp {
            let heard = self.heard.entry(Ear::of(&self.tracks[at].key)).or_default();
            if heard.len() == MAX_SOURCES {
                heard.remove(0);
            }
            heard.push(at);
        }
    }

    /// A new candidate, or a stream.
    fn begin(&mut self, mut track: Track<K>) {
        if track.is_proven() && track.media.is_none() {
            track.media = self.session_of(&track.key);
        }
        if !self.options.share.has(|| track.key.hash()) {
            track.kept.sum_up();
        }
        let at = self.free.pop().unwrap_or(self.tracks.len());
        self.index.insert(track.key, at);
        let is_proven = track.is_proven();
        if !is_proven {
            self.candidates.push_back((at, track.birth));
            self.pending_rows += track.kept.packets();
        }
        if at == self.tracks.len() {
            self.tracks.push(track)
        } else {
            self.tracks[at] = track
        }
        if is_proven {
            self.hear(at);
        }
    }

    /// Whether the candidate has become a stream.
    fn check(&mut self, at: usize) {
        let rows = self.tracks[at].kept.packets();
        if !self.tracks[at].is_proven() {
            if self.tracks[at].is_proven_if_announced() {
                let media = self.sessions.find(&self.tracks[at].key);
                self.tracks[at].announce(media);
            }
        } else if self.tracks[at].media.is_none() {
            self.tracks[at].media = self.session_of(&self.tracks[at].key);
        }
        if self.tracks[at].is_proven() {
            self.hear(at);
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

    /// What is known about a stream that is proven.
    fn session_of(&self, key: &Key) -> Option<Rc<sdp::Media>> {
        self.sessions.find(key).or_else(|| {
            let ends = ((key.src, key.src_port), (key.dst, key.dst_port));
            self.webrtc.contains(&pair(ends)).then(|| Rc::new(sdp::usual_in_webrtc(key.dst, key.dst_port)))
        })
    }
}

const fn ends(datagram: &Datagram<'_>) -> (sip::End, sip::End) {
    ((datagram.src, datagram.src_port), (datagram.dst, datagram.dst_port))
}

/// The same for both directions.
fn pair((one, other): (sip::End, sip::End)) -> (sip::End, sip::End) {
    (one.min(other), one.max(other))
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
