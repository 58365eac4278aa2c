//! Messages of SIP and RTSP: where they end, and what is in their headers.

/// Longest first line of a message that is examined.
pub const MAX_LINE: usize = 1024;
/// Longest header that is examined.
const MAX_HEADERS: usize = 16 << 10;

/// The first line, without its end; what was captured of it.
#[must_use]
pub fn first_line(message: &[u8]) -> &[u8] {
    &message[..message.iter().take(MAX_LINE).take_while(|b| !b"\r\n".contains(b)).count()]
}

/// Length of the first message in these bytes (RFC 3261 section 18.3); `None` if its header is not complete. Without
/// a length there is no body.
#[must_use]
pub fn message_len(bytes: &[u8]) -> Option<usize> {
    let head = &bytes[..bytes.len().min(MAX_HEADERS)];
    let end = head.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    let body: usize = match header(&bytes[..end], "Content-Length", "l") {
        Some(value) => value.parse().ok()?,
        None => 0,
    };
    end.checked_add(body)
}

/// The value of a header by its name, or by its compact form; the first, if there are several.
#[must_use]
pub fn header<'a>(message: &'a [u8], name: &str, compact: &str) -> Option<&'a str> {
    let head = &message[..message.len().min(MAX_HEADERS)];
    for line in head.split(|b| *b == b'\n').skip(1) {
        let line = line.trim_ascii_end();
        if line.is_empty() {
            return None;
        }
        let Some(colon) = line.iter().position(|b| *b == b':') else { continue };
        let (found, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
        if found.eq_ignore_ascii_case(name.as_bytes())
            || (!compact.is_empty() && found.eq_ignore_ascii_case(compact.as_bytes()))
        {
            return std::str::from_utf8(value).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] =
        b"SIP/2.0 200 OK\r\ni: a1@b\r\nCSeq: 1 INVITE\r\nContent-length : 4\r\n\r\nbody and more";

    #[test]
    fn headers_are_found_by_either_name() {
        assert_eq!(first_line(MESSAGE), b"SIP/2.0 200 OK");
        assert_eq!(header(MESSAGE, "Call-ID", "i"), Some("a1@b"));
        assert_eq!(header(MESSAGE, "cseq", ""), Some("1 INVITE"));
        assert_eq!(header(MESSAGE, "body and more", ""), None);
    }

    #[test]
    fn a_message_ends_behind_its_body() {
        let head = MESSAGE.len() - b"body and more".len();
        assert_eq!(message_len(MESSAGE), Some(head + 4));
        assert_eq!(message_len(&MESSAGE[..head - 1]), None);
        assert_eq!(message_len(b"OPTIONS sip:a SIP/2.0\r\n\r\n"), Some(25));
        assert_eq!(message_len(b"A sip:a SIP/2.0\r\nl: 99999999999999999999\r\n\r\n"), None);
    }
}
