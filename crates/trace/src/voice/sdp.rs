//! Session descriptions (SDP, RFC 8866): where media go, what payload types stand for, who sends.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::rc::Rc;

use super::codecs::{Encoding, Kind};
use super::facts::KnownBy;
use super::{Key, Protocol};

const MAX_MEDIA: usize = 32;
const MAX_FORMATS: usize = 64;
const MAX_NAME: usize = 32;
const MAX_CONTROL: usize = 256;
/// The usual authentication tag of SRTP (RFC 3711 section 4.2).
pub(super) const USUAL_TAG_BYTES: u8 = 10;
/// Most sessions remembered; some 20 MB.
const MAX_ENDPOINTS: usize = 1 << 16;

/// Whether a host sends, and whether it wants to receive (RFC 8866 section 6.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direction {
    /// It may send.
    pub sends: bool,
    /// It wants to receive.
    pub receives: bool,
}

impl Direction {
    /// Both, as without any attribute.
    pub const BOTH: Self = Self { sends: true, receives: true };

    fn of(attribute: &str) -> Option<Self> {
        let (sends, receives) = match attribute {
            "sendrecv" => (true, true),
            "sendonly" => (true, false),
            "recvonly" => (false, true),
            "inactive" => (false, false),
            _ => return None,
        };
        Some(Self { sends, receives })
    }
}

/// A receiver of media, and the payload types it expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// Where the stream is sent.
    pub address: IpAddr,
    /// To this port.
    pub port: u16,
    /// Sound or pictures.
    pub kind: Kind,
    /// Payload types with their meanings.
    pub formats: Vec<(u8, Encoding)>,
    /// Payload types that the user explained, a bit each.
    pub told: u128,
    /// Where the rest is known from.
    pub by: KnownBy,
    /// Who sends.
    pub direction: Direction,
    /// Whether payloads are encrypted (SRTP, RFC 3711).
    pub is_secure: bool,
    /// The tag behind each of them, by the first cipher suite that is named.
    pub tag_bytes: Option<u8>,
    /// Whether this is a fax over UDP (UDPTL, ITU-T T.38 annex D), which is no stream of RTP.
    pub is_fax: bool,
    /// The name of the stream in RTSP; empty elsewhere.
    pub control: String,
}

impl Media {
    /// A stream about which nothing is known but where it goes.
    #[must_use]
    pub const fn unknown(address: IpAddr, port: u16) -> Self {
        Self {
            address,
            port,
            kind: Kind::Unknown,
            formats: Vec::new(),
            told: 0,
            by: KnownBy::Sdp,
            direction: Direction::BOTH,
            is_secure: false,
            tag_bytes: None,
            is_fax: false,
            control: String::new(),
        }
    }

    /// The meaning of a payload type.
    #[must_use]
    pub fn encoding(&self, payload_type: u8) -> Option<&Encoding> {
        self.formats.iter().find(|(number, _)| *number == payload_type).map(|(_, encoding)| encoding)
    }

    /// Where the meaning of a payload type is known from.
    #[must_use]
    pub const fn source(&self, payload_type: u8) -> KnownBy {
        if self.told >> payload_type & 1 == 0 { self.by } else { KnownBy::Option }
    }

    /// The same, with payload types that only an earlier description named.
    #[must_use]
    pub fn with(&self, earlier: Option<&Self>) -> Self {
        let mut all = self.clone();
        let unknown = earlier.iter().flat_map(|earlier| &earlier.formats);
        all.formats.extend(unknown.filter(|(number, _)| self.encoding(*number).is_none()).cloned());
        all
    }
}

/// The usual payload types of browsers, for media in WebRTC, whose descriptions are encrypted: Chrome's and Safari's
/// Opus is 111, Firefox's 109.
#[must_use]
pub fn usual_in_webrtc(address: IpAddr, port: u16) -> Media {
    let format = |number, name: &str, clock_hz| {
        (number, Encoding { name: name.to_owned(), clock_hz, kind: Kind::Audio })
    };
    Media {
        formats: vec![
            format(111, "opus", 48_000),
            format(109, "opus", 48_000),
            format(110, "telephone-event", 48_000),
            format(126, "telephone-event", 8_000),
        ],
        by: KnownBy::WebRtc,
        is_secure: true,
        ..Media::unknown(address, port)
    }
}

/// The media of the session description in a message; empty if there is none. Ports may be 0: not used, or, in RTSP,
/// not yet known.
#[must_use]
pub fn media_in(message: &[u8]) -> Vec<Media> {
    let Some(start) = message.windows(5).position(|w| matches!(w, b"\nv=0\r" | b"\nv=0\n")) else {
        return Vec::new();
    };
    let mut session: (Option<IpAddr>, Direction) = (None, Direction::BOTH);
    let mut found: Vec<(Option<IpAddr>, Media)> = Vec::new();
    for line in message[start + 1..].split(|b| *b == b'\n') {
        let Ok(line) = std::str::from_utf8(line.trim_ascii_end()) else { continue };
        let Some((field, value)) = line.split_once('=') else { continue };
        let full = found.len() == MAX_MEDIA;
        match (field, found.last_mut()) {
            ("c", None) => session.0 = connection(value),
            ("c", Some((address, _))) => *address = connection(value).or(*address),
            ("m", _) if !full => {
                if let Some(media) = announced(value, session.1) {
                    found.push((session.0, media));
                }
            }
            ("a", None) => session.1 = Direction::of(value).unwrap_or(session.1),
            ("a", Some((_, media))) => attribute(media, value),
            _ => {}
        }
    }
    let known = found.into_iter().filter_map(|(address, media)| Some(Media { address: address?, ..media }));
    // In the hold of RFC 2543, nobody is to send to 0.0.0.0.
    known
        .map(|media| {
            let receives = media.direction.receives && !media.address.is_unspecified();
            Media { direction: Direction { receives, ..media.direction }, ..media }
        })
        .collect()
}

/// `IN IP4 192.0.2.1`, with what multicast adds behind a slash.
fn connection(value: &str) -> Option<IpAddr> {
    let address = value.split_ascii_whitespace().nth(2)?;
    address.split('/').next()?.parse().ok()
}

/// `audio 49170 RTP/AVP 0 8 97`; the address comes later.
fn announced(value: &str, direction: Direction) -> Option<Media> {
    let mut words = value.split_ascii_whitespace();
    let kind = match words.next()? {
        "audio" => Kind::Audio,
        "video" => Kind::Video,
        _ => Kind::Unknown,
    };
    let port = words.next()?.split('/').next()?.parse().ok()?;
    // RTP/AVP, RTP/SAVP, RTP/AVPF, UDP/TLS/RTP/SAVPF.
    let protocol = words.next()?;
    let nowhere = IpAddr::from([0, 0, 0, 0]);
    let is_secure = protocol.contains("/SAVP");
    let is_fax = protocol.eq_ignore_ascii_case("udptl");
    (is_fax || protocol.contains("RTP/")).then(|| Media {
        kind,
        direction,
        is_secure,
        is_fax,
        ..Media::unknown(nowhere, port)
    })
}

/// An attribute of a stream.
fn attribute(media: &mut Media, value: &str) {
    if let Some(map) = value.strip_prefix("rtpmap:") {
        if media.formats.len() < MAX_FORMATS {
            media.formats.extend(format(map, media.kind));
        }
    } else if let Some(crypto) = value.strip_prefix("crypto:") {
        media.tag_bytes = media.tag_bytes.or_else(|| crypto.split(' ').nth(1).map(tag_bytes));
    } else if let Some(control) = value.strip_prefix("control:") {
        media.control = control.chars().take(MAX_CONTROL).collect();
    } else if let Some(direction) = Direction::of(value) {
        media.direction = direction;
    }
}

/// The tag of a cipher suite (RFC 4568 section 6.2, RFC 7714 section 14.2).
fn tag_bytes(suite: &str) -> u8 {
    if suite.ends_with("_SHA1_32") {
        4
    } else if suite.ends_with("_GCM") {
        16
    } else {
        USUAL_TAG_BYTES
    }
}

/// `97 opus/48000/2`.
fn format(map: &str, kind: Kind) -> Option<(u8, Encoding)> {
    let (number, rest) = map.split_once(' ')?;
    let mut parts = rest.trim().split('/');
    let name: String = parts.next()?.chars().filter(char::is_ascii_graphic).take(MAX_NAME).collect();
    let clock_hz = parts.next()?.parse().ok().filter(|hz| *hz > 0)?;
    let number = number.trim().parse().ok().filter(|n| *n < 128)?;
    Some((number, Encoding { name, clock_hz, kind }))
}

/// When a host did not send, or was not to be sent to: since when, and the last time before.
#[derive(Clone, Copy, Debug, Default)]
struct Hold {
    since_ns: Option<i64>,
    last_ns: (i64, i64),
}

impl Hold {
    fn set(&mut self, holds: bool, now_ns: i64) {
        match self.since_ns {
            None if holds => self.since_ns = Some(now_ns),
            Some(since_ns) if !holds => (self.since_ns, self.last_ns) = (None, (since_ns, now_ns)),
            _ => {}
        }
    }

    /// For how long of this time it lasted.
    fn within(&self, from_ns: i64, to_ns: i64) -> i64 {
        let both = |(begin, end): (i64, i64)| end.min(to_ns).saturating_sub(begin.max(from_ns)).max(0);
        both(self.last_ns).max(self.since_ns.map_or(0, |since_ns| both((since_ns, to_ns))))
    }
}

/// Sessions by where their media go; a later description of the same port replaces an earlier one.
#[derive(Debug, Default)]
pub struct Sessions {
    media: HashMap<(IpAddr, u16), Rc<Media>>,
    /// Hosts that were on hold: not sending, and not to be sent to.
    holds: HashMap<(IpAddr, u16), (Hold, Hold)>,
    /// Where a fax goes, if what is there is no RTP.
    faxes: HashSet<(IpAddr, u16)>,
}

impl Sessions {
    /// Takes a description.
    pub fn learn(&mut self, media: Media, now_ns: i64) {
        let at = (media.address, media.port);
        if media.is_fax {
            if media.port != 0 && self.faxes.len() < MAX_ENDPOINTS {
                self.faxes.insert(at);
            }
            return;
        }
        if media.port == 0 || (self.media.len() >= MAX_ENDPOINTS && !self.media.contains_key(&at)) {
            return;
        }
        self.hold(at, media.direction, now_ns);
        self.media.insert(at, Rc::new(media));
    }

    /// A host begins or ends to send, or to want to receive.
    pub fn hold(&mut self, at: (IpAddr, u16), direction: Direction, now_ns: i64) {
        if direction != Direction::BOTH || self.holds.contains_key(&at) {
            let (silent, deaf) = self.holds.entry(at).or_default();
            silent.set(!direction.sends, now_ns);
            deaf.set(!direction.receives, now_ns);
        }
    }

    /// For how long of this time a stream was on hold: its sender was not to send, or its receiver not to receive.
    #[must_use]
    pub fn hold_ns(&self, key: &Key, from_ns: i64, to_ns: i64) -> i64 {
        let at = |address, port| self.holds.get(&(address, port));
        let silent = at(key.src, key.src_port).map_or(0, |(silent, _)| silent.within(from_ns, to_ns));
        let deaf = at(key.dst, key.dst_port).map_or(0, |(_, deaf)| deaf.within(from_ns, to_ns));
        silent.max(deaf)
    }

    /// Whether a datagram that is no RTP is of a fax.
    #[must_use]
    pub fn is_fax(&self, (src, dst): ((IpAddr, u16), (IpAddr, u16))) -> bool {
        !self.faxes.is_empty() && (self.faxes.contains(&dst) || self.faxes.contains(&src))
    }

    /// The session of a stream: by where it goes (RFC 3264: payload types are the receiver's), else by where
    /// it comes from, for streams that pass through address translation.
    #[must_use]
    pub fn find(&self, key: &Key) -> Option<Rc<Media>> {
        if key.protocol != Protocol::Rtp {
            return None;
        }
        let at = |address, port| self.media.get(&(address, port));
        at(key.dst, key.dst_port).or_else(|| at(key.src, key.src_port)).cloned()
    }
}
