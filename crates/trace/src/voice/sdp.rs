//! What SIP messages say about streams: SDP (RFC 8866) in their bodies.

use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;

use super::codecs::{Encoding, Kind};

/// Longest first line of a message that is examined.
const MAX_LINE: usize = 1024;
const MAX_MEDIA: usize = 32;
const MAX_FORMATS: usize = 64;
const MAX_NAME: usize = 32;
/// Most sessions remembered; some 20 MB.
const MAX_ENDPOINTS: usize = 1 << 16;

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
}

impl Media {
    /// The meaning of a payload type.
    #[must_use]
    pub fn encoding(&self, payload_type: u8) -> Option<&Encoding> {
        self.formats.iter().find(|(number, _)| *number == payload_type).map(|(_, encoding)| encoding)
    }
}

/// Whether this is the beginning of a SIP message (RFC 3261 section 7).
#[inline]
#[must_use]
pub fn is_sip(payload: &[u8]) -> bool {
    // Most payloads are not, as their first byte shows.
    payload.first().is_some_and(u8::is_ascii_uppercase)
        && (payload.starts_with(b"SIP/2.0 ") || is_request(payload))
}

fn is_request(payload: &[u8]) -> bool {
    let method = payload.iter().take(MAX_LINE).take_while(|b| b.is_ascii_uppercase()).count();
    let Some(rest) = payload[method..].strip_prefix(b" ") else { return false };
    if ![&b"sip:"[..], b"sips:", b"tel:"].iter().any(|scheme| rest.starts_with(scheme)) {
        return false;
    }
    let line = &rest[..rest.iter().take(MAX_LINE).take_while(|b| !b"\r\n".contains(b)).count()];
    line.split(|b| *b == b' ').nth(1) == Some(b"SIP/2.0")
}

/// The media of the session description in a message; empty if there is none.
#[must_use]
pub fn media_in(message: &[u8]) -> Vec<Media> {
    let Some(start) = message.windows(5).position(|w| matches!(w, b"\nv=0\r" | b"\nv=0\n")) else {
        return Vec::new();
    };
    let mut session: Option<IpAddr> = None;
    let mut found: Vec<(Option<IpAddr>, Media)> = Vec::new();
    for line in message[start + 1..].split(|b| *b == b'\n') {
        let Ok(line) = std::str::from_utf8(line.trim_ascii_end()) else { continue };
        let Some((field, value)) = line.split_once('=') else { continue };
        let full = found.len() == MAX_MEDIA;
        match (field, found.last_mut()) {
            ("c", None) => session = connection(value),
            ("c", Some((address, _))) => *address = connection(value).or(*address),
            ("m", _) if !full => {
                if let Some(media) = announced(value) {
                    found.push((session, media));
                }
            }
            ("a", Some((_, media))) if media.formats.len() < MAX_FORMATS => {
                if let Some(map) = value.strip_prefix("rtpmap:").and_then(|map| format(map, media.kind)) {
                    media.formats.push(map);
                }
            }
            _ => {}
        }
    }
    let known = found.into_iter().filter_map(|(address, media)| Some(Media { address: address?, ..media }));
    known.filter(|media| media.port != 0).collect()
}

/// `IN IP4 192.0.2.1`, with what multicast adds behind a slash.
fn connection(value: &str) -> Option<IpAddr> {
    let address = value.split_ascii_whitespace().nth(2)?;
    address.split('/').next()?.parse().ok()
}

/// `audio 49170 RTP/AVP 0 8 97`; the address comes later.
fn announced(value: &str) -> Option<Media> {
    let mut words = value.split_ascii_whitespace();
    let kind = match words.next()? {
        "audio" => Kind::Audio,
        "video" => Kind::Video,
        _ => Kind::Unknown,
    };
    let port = words.next()?.split('/').next()?.parse().ok()?;
    // RTP/AVP, RTP/SAVP, RTP/AVPF, UDP/TLS/RTP/SAVPF.
    let protocol = words.next()?;
    protocol.contains("RTP/").then(|| Media {
        address: IpAddr::from([0, 0, 0, 0]),
        port,
        kind,
        formats: Vec::new(),
    })
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

/// Sessions by where their media go; a later description of the same port replaces an earlier one.
#[derive(Debug, Default)]
pub struct Sessions {
    media: HashMap<(IpAddr, u16), Rc<Media>>,
}

impl Sessions {
    /// Takes the session from a SIP message.
    pub fn learn(&mut self, message: &[u8]) {
        for media in media_in(message) {
            let at = (media.address, media.port);
            if self.media.len() < MAX_ENDPOINTS || self.media.contains_key(&at) {
                self.media.insert(at, Rc::new(media));
            }
        }
    }

    /// The session of a stream: by where it goes (RFC 3264: payload types are the receiver's), else by where
    /// it comes from, for streams that pass through address translation.
    #[must_use]
    pub fn find(&self, src: (IpAddr, u16), dst: (IpAddr, u16)) -> Option<Rc<Media>> {
        self.media.get(&dst).or_else(|| self.media.get(&src)).cloned()
    }
}
