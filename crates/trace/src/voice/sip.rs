//! SIP (RFC 3261): who called whom, where both said that media go, and whether they were to go both ways.

use std::collections::HashMap;
use std::net::IpAddr;

use super::sdp::{Direction, Media, media_in};
use super::text::{MAX_LINE, first_line, header};

/// Most calls remembered, with a text each for the Call-ID and both parties.
const MAX_CALLS: usize = 1 << 13;
const MAX_TEXT: usize = 128;
/// Most ports of a party.
const MAX_PORTS: usize = 8;

/// An address and a port.
pub type End = (IpAddr, u16);

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
    first_line(rest).split(|b| *b == b' ').nth(1) == Some(b"SIP/2.0")
}

/// One of the two hosts between which messages of a call go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    /// Where its messages come from.
    pub signals: End,
    /// Where it said that media are to be sent, each once.
    pub media: Vec<End>,
    /// What it said last.
    pub direction: Direction,
}

/// A call between two hosts; one that passes a proxy is a call in front of it and another behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Call-ID.
    pub id: String,
    /// Address in `From`.
    pub from: String,
    /// Address in `To`.
    pub to: String,
    /// First message, ns since 1970.
    pub first_ns: i64,
    /// The answer 2xx to INVITE.
    pub answered_ns: Option<i64>,
    /// BYE, or a final answer to INVITE that is none.
    pub ended_ns: Option<i64>,
    /// The host that sent the first message, and the other.
    pub parties: [Party; 2],
    /// Whether both always were to send and to receive.
    pub both_ways: bool,
}

/// Calls, within bounds.
#[derive(Debug, Default)]
pub struct Calls {
    index: HashMap<(String, IpAddr, IpAddr), usize>,
    calls: Vec<Call>,
}

impl Calls {
    /// Takes a message that went from one host to another. Returns the media that it describes, and which ports are
    /// on hold although the message does not name them.
    pub fn learn(&mut self, message: &[u8], now_ns: i64, src: End, dst: End) -> (Vec<Media>, Vec<End>) {
        let media = media_in(message);
        let Some(id) = header(message, "Call-ID", "i") else { return (media, Vec::new()) };
        let line = first_line(message);
        let status = line.strip_prefix(b"SIP/2.0 ").and_then(|rest| std::str::from_utf8(rest.get(..3)?).ok());
        let method = header(message, "CSeq", "").and_then(|cseq| cseq.split_ascii_whitespace().nth(1));
        let Some(at) = self.find(id, message, now_ns, src, dst, method == Some("INVITE")) else {
            return (media, Vec::new());
        };
        let call = &mut self.calls[at];
        match (method, status.and_then(|status| status.parse::<u16>().ok())) {
            (Some("INVITE"), Some(200..=299)) => call.answered_ns = call.answered_ns.or(Some(now_ns)),
            (Some("INVITE"), Some(300..)) if call.answered_ns.is_none() => call.ended_ns = Some(now_ns),
            (Some("BYE"), None) => call.ended_ns = call.ended_ns.or(Some(now_ns)),
            _ => {}
        }
        let mut on_hold = Vec::new();
        let [one, other] = call.parties.each_ref().map(|party| party.signals);
        let is_other = if one.0 == other.0 { one != src } else { one.0 != src.0 };
        let party = &mut call.parties[usize::from(is_other)];
        if let Some(of_speech) = media.iter().find(|media| media.port != 0 && !media.is_fax) {
            party.direction = of_speech.direction;
            call.both_ways &= of_speech.direction == Direction::BOTH;
            if of_speech.address.is_unspecified() {
                on_hold.clone_from(&party.media);
            }
        }
        let heard = |each: &&Media| each.port != 0 && !each.is_fax && !each.address.is_unspecified();
        for each in media.iter().filter(heard) {
            let end = (each.address, each.port);
            if !party.media.contains(&end) && party.media.len() < MAX_PORTS {
                party.media.push(end);
            }
        }
        (media, on_hold)
    }

    /// All calls in the order of their first messages.
    #[must_use]
    pub fn all(&self) -> &[Call] {
        &self.calls
    }

    /// The call of a message; an INVITE may begin one.
    fn find(
        &mut self,
        id: &str,
        message: &[u8],
        now_ns: i64,
        src: End,
        dst: End,
        begins: bool,
    ) -> Option<usize> {
        let id: String = id.chars().take(MAX_TEXT).collect();
        let key = (id.clone(), src.0.min(dst.0), src.0.max(dst.0));
        if let Some(at) = self.index.get(&key) {
            return Some(*at);
        }
        if !begins || self.calls.len() == MAX_CALLS {
            return None;
        }
        let party = |signals| Party { signals, media: Vec::new(), direction: Direction::BOTH };
        self.calls.push(Call {
            id,
            from: address(header(message, "From", "f").unwrap_or_default()),
            to: address(header(message, "To", "t").unwrap_or_default()),
            first_ns: now_ns,
            answered_ns: None,
            ended_ns: None,
            parties: [party(src), party(dst)],
            both_ways: true,
        });
        self.index.insert(key, self.calls.len() - 1);
        Some(self.calls.len() - 1)
    }
}

/// `alice@example.net` of `"Alice" <sip:alice@example.net>;tag=1`.
fn address(value: &str) -> String {
    let uri = value.split_once('<').map_or(value, |(_, rest)| rest);
    let uri = uri.split(['>', ';']).next().unwrap_or_default().trim();
    let uri = uri.split_once(':').map_or(uri, |(_, rest)| rest);
    uri.chars().filter(char::is_ascii_graphic).take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLER: End = (IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), 5_060);
    const CALLEE: End = (IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2)), 5_060);

    fn message(line: &str, cseq: &str, address: &str, port: u16, attribute: &str) -> Vec<u8> {
        format!(
            "{line}\r\nCall-ID: 7@x\r\nFrom: \"A\" <sip:a@example.net>;tag=1\r\nt: sip:b@example.net\r\n\
             CSeq: {cseq}\r\n\r\nv=0\r\nc=IN IP4 {address}\r\nm=audio {port} RTP/AVP 0\r\na={attribute}\r\n"
        )
        .into_bytes()
    }

    fn answered() -> Calls {
        let mut calls = Calls::default();
        let invite = message("INVITE sip:b@example.net SIP/2.0", "1 INVITE", "10.0.0.1", 4_000, "sendrecv");
        calls.learn(&invite, 5, CALLER, CALLEE);
        calls.learn(
            &message("SIP/2.0 200 OK", "1 INVITE", "192.0.2.2", 6_000, "sendrecv"),
            9,
            CALLEE,
            CALLER,
        );
        calls
    }

    #[test]
    fn a_call_has_the_ports_of_both_parties_and_its_times() {
        let mut calls = answered();
        calls.learn(
            b"BYE sip:b@example.net SIP/2.0\r\nCall-ID: 7@x\r\nCSeq: 2 BYE\r\n\r\n",
            90,
            CALLER,
            CALLEE,
        );
        let [call] = calls.all() else { panic!("one call") };
        assert_eq!((call.from.as_str(), call.to.as_str()), ("a@example.net", "b@example.net"));
        assert_eq!((call.first_ns, call.answered_ns, call.ended_ns), (5, Some(9), Some(90)));
        let media = call.parties.clone().map(|party| party.media[0].to_string_pair());
        assert_eq!(media, [("10.0.0.1".into(), 4_000), ("192.0.2.2".into(), 6_000)]);
        assert!(call.both_ways);
    }

    trait Pair {
        fn to_string_pair(&self) -> (String, u16);
    }

    impl Pair for End {
        fn to_string_pair(&self) -> (String, u16) {
            (self.0.to_string(), self.1)
        }
    }

    #[test]
    fn a_hold_of_rfc_2543_names_the_ports_of_before() {
        let mut calls = answered();
        let hold = message("INVITE sip:b@example.net SIP/2.0", "2 INVITE", "0.0.0.0", 4_000, "sendrecv");
        let (media, on_hold) = calls.learn(&hold, 20, CALLER, CALLEE);
        assert!(!media[0].direction.receives);
        assert_eq!(on_hold, [("10.0.0.1".parse().unwrap(), 4_000)]);
        assert!(!calls.all()[0].both_ways);
    }

    #[test]
    fn a_refused_call_ends_and_other_messages_begin_none() {
        let mut calls = Calls::default();
        calls.learn(b"OPTIONS sip:b SIP/2.0\r\nCall-ID: 1\r\nCSeq: 1 OPTIONS\r\n\r\n", 1, CALLER, CALLEE);
        assert!(calls.all().is_empty());
        calls.learn(b"INVITE sip:b SIP/2.0\r\nCall-ID: 1\r\nCSeq: 1 INVITE\r\n\r\n", 2, CALLER, CALLEE);
        calls.learn(b"SIP/2.0 486 Busy\r\nCall-ID: 1\r\nCSeq: 1 INVITE\r\n\r\n", 3, CALLEE, CALLER);
        assert_eq!((calls.all()[0].answered_ns, calls.all()[0].ended_ns), (None, Some(3)));
    }
}
