//! RTSP (RFC 2326, RFC 7826): the ports of streams that a client sets up, and what a server's description says of them.

use std::collections::HashMap;
use std::net::IpAddr;

use super::sdp::{Media, media_in};
use super::text::{first_line, header};

/// Most pairs of client and server remembered.
const MAX_PAIRS: usize = 1 << 10;
const MAX_SETUPS: usize = 32;
const MAX_URL: usize = 512;

/// Whether this is the beginning of a message.
#[inline]
#[must_use]
pub fn is_rtsp(payload: &[u8]) -> bool {
    payload.first().is_some_and(u8::is_ascii_uppercase)
        && (payload.starts_with(b"RTSP/") || {
            let line = first_line(payload);
            line.windows(8).any(|w| w == b" rtsp://")
                && (line.ends_with(b" RTSP/1.0") || line.ends_with(b" RTSP/2.0"))
        })
}

/// What a client and a server said to each other.
#[derive(Debug, Default)]
struct Pair {
    media: Vec<Media>,
    /// Streams that the client asked for, by CSeq.
    setups: Vec<(u32, String)>,
    /// How many were set up.
    done: usize,
}

/// Follows the messages of clients and servers.
#[derive(Debug, Default)]
pub struct Rtsp {
    /// By client and server.
    pairs: HashMap<(IpAddr, IpAddr), Pair>,
    /// Streams that were set up within the TCP connection.
    pub interleaved: u64,
}

impl Rtsp {
    /// Takes a message; returns a stream that it sets up.
    pub fn learn(&mut self, message: &[u8], src: IpAddr, dst: IpAddr) -> Option<Media> {
        let line = first_line(message);
        let sequence = header(message, "CSeq", "").and_then(|value| value.parse().ok()).unwrap_or(0);
        if !line.starts_with(b"RTSP/") {
            if let Some(url) = line.strip_prefix(b"SETUP ").and_then(|rest| rest.split(|b| *b == b' ').next())
            {
                let pair = self.pair(src, dst)?;
                if pair.setups.len() == MAX_SETUPS {
                    pair.setups.remove(0);
                }
                let url = String::from_utf8_lossy(&url[..url.len().min(MAX_URL)]).into_owned();
                pair.setups.push((sequence, url));
            }
            return None;
        }
        let described = media_in(message);
        let transport = header(message, "Transport", "");
        let pair = self.pair(dst, src)?;
        if !described.is_empty() {
            (pair.media, pair.done) = (described, 0);
        }
        let transport = transport?;
        let setup = pair.setups.iter().find(|(number, _)| *number == sequence).map(|(_, url)| url.clone());
        let nth = pair.done;
        pair.done += 1;
        let by_name = setup.and_then(|url| {
            pair.media.iter().find(|media| !media.control.is_empty() && url.ends_with(&media.control))
        });
        let media = by_name.or_else(|| pair.media.get(nth)).cloned();
        if transport.contains("interleaved=") {
            self.interleaved += 1;
            return None;
        }
        let port = transport.split(';').find_map(|part| part.trim().strip_prefix("client_port="))?;
        let port = port.split('-').next()?.parse().ok()?;
        let address = transport
            .split(';')
            .find_map(|part| part.trim().strip_prefix("destination=")?.parse().ok())
            .unwrap_or(dst);
        Some(Media { address, port, ..media? })
    }

    fn pair(&mut self, client: IpAddr, server: IpAddr) -> Option<&mut Pair> {
        let key = (client, server);
        (self.pairs.len() < MAX_PAIRS || self.pairs.contains_key(&key))
            .then(|| self.pairs.entry(key).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DESCRIBED: &[u8] = b"RTSP/1.0 200 OK\r\nCSeq: 2\r\n\r\nv=0\r\nc=IN IP4 0.0.0.0\r\n\
        m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:track1\r\n\
        m=audio 0 RTP/AVP 97\r\na=rtpmap:97 MPEG4-GENERIC/48000/2\r\na=control:track2\r\n";

    fn set_up(rtsp: &mut Rtsp, cseq: u32, track: &str, transport: &str) -> Option<Media> {
        let [client, server] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
        let ask = format!("SETUP rtsp://192.0.2.2/cam/{track} RTSP/1.0\r\nCSeq: {cseq}\r\n\r\n");
        assert!(is_rtsp(ask.as_bytes()));
        assert_eq!(rtsp.learn(ask.as_bytes(), client, server), None);
        let answer = format!("RTSP/1.0 200 OK\r\nCSeq: {cseq}\r\nTransport: {transport}\r\n\r\n");
        rtsp.learn(answer.as_bytes(), server, client)
    }

    #[test]
    fn a_stream_that_is_set_up_has_the_description_of_its_name() {
        let mut rtsp = Rtsp::default();
        let [client, server] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
        assert_eq!(rtsp.learn(DESCRIBED, server, client), None);
        let transport = "RTP/AVP;unicast;client_port=5002-5003;server_port=6000-6001";
        let media = set_up(&mut rtsp, 3, "track2", transport).unwrap();
        assert_eq!((media.address, media.port), (client, 5_002));
        assert_eq!(media.encoding(97).unwrap().name, "MPEG4-GENERIC");
    }

    #[test]
    fn streams_within_the_connection_are_counted() {
        let mut rtsp = Rtsp::default();
        assert_eq!(set_up(&mut rtsp, 3, "track1", "RTP/AVP/TCP;interleaved=0-1"), None);
        assert_eq!(rtsp.interleaved, 1);
    }
}
