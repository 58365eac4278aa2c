//! Who has connected: a client, one of its data connections, or a stranger.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::errand::{self, NOT_PASSED_ON, Principal};
use super::session::{self, Client};
use super::{House, ServerEvent, lock};
use crate::bulk::line::{Line, LineError, read_by};
use crate::bulk::random;
use crate::control::{
    Errand, MAGIC, MOST_REQUEST_BYTES, Message, PREAMBLE_BYTES, Preamble, ProtocolError, Request, Wish,
    verify, verify_errand,
};
use crate::option::Setting;
use crate::strangers::Stranger as Counted;

/// Longest time until a stranger has identified itself.
const GREETING: Duration = Duration::from_secs(5);

/// Reads from a new connection, and does what it is for; in a new thread.
pub fn greet(stream: Arc<TcpStream>, stranger: Counted, peer: SocketAddr, house: &Arc<House>) {
    let address = peer.ip().to_canonical();
    match recognise(stream, stranger, house) {
        Ok(Known::Client(line, request)) => session::serve(Client { line, request, peer }, house),
        Ok(Known::Principal(line, errand)) => errand::serve(Principal { line, errand, peer }, house),
        Ok(Known::Data) => {}
        Err(Stranger::Refused(why)) => house.tell(ServerEvent::Refused { peer, why }),
        Err(Stranger::Unproven(why)) => {
            house.tell_once(address, why.clone(), ServerEvent::Refused { peer, why });
        }
        // A peer that sends nothing at all is a port scanner, or a check whether the server lives.
        Err(Stranger::Garbage(LineError::Closed | LineError::Io(_))) => {}
        Err(Stranger::Garbage(why)) => {
            let event = ServerEvent::Garbage { peer: address, why: why.to_string() };
            house.tell_once(address, String::new(), event);
        }
    }
}

enum Known {
    Client(Line, Box<Request>),
    /// It wants this server to be the client of another one.
    Principal(Line, Box<Errand>),
    Data,
}

enum Stranger {
    Garbage(LineError),
    /// A client that has not proved that it knows the token.
    Unproven(String),
    Refused(String),
}

impl From<LineError> for Stranger {
    fn from(error: LineError) -> Self {
        Self::Garbage(error)
    }
}

impl From<io::Error> for Stranger {
    fn from(error: io::Error) -> Self {
        Self::Garbage(error.into())
    }
}

fn recognise(stream: Arc<TcpStream>, stranger: Counted, house: &House) -> Result<Known, Stranger> {
    let due = Instant::now() + GREETING;
    let mut preamble = [0; PREAMBLE_BYTES];
    let mut have = 0;
    while have < PREAMBLE_BYTES {
        have += match read_by(&stream, &mut preamble[have..], Some(due)) {
            Err(LineError::Closed) if have > 0 => {
                return Err(LineError::Protocol(ProtocolError::Body("it is too short")).into());
            }
            read => read?,
        };
        // A peer with another protocol may wait for an answer before it sends 32 bytes.
        let known = have.min(MAGIC.len() - 1);
        if preamble[..known] != MAGIC[..known] {
            return Err(LineError::Protocol(ProtocolError::Magic).into());
        }
    }
    match Preamble::parse(&preamble).map_err(LineError::from)? {
        Preamble::Data { session, index } => {
            stream.set_read_timeout(None)?;
            // An unknown session: the connection is closed, and the client will notice.
            if let Some(join) = lock(&house.sessions).get(&session)
                && stranger.identify()
            {
                let _ = join.send((index, stream));
            }
            Ok(Known::Data)
        }
        Preamble::Control => {
            let mut line = Line::new(stream, MOST_REQUEST_BYTES)?;
            let nonce = random()?;
            let token = &house.options.token;
            line.send(&Message::Challenge { nonce, needs_token: !token.is_empty() })?;
            let left = due.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let (is_proven, wanted) = match line.receive(Some(left)) {
                Ok(Message::Request { proof, request }) => {
                    (verify(token, &nonce, &request, &proof), Wanted::Request(Box::new(request)))
                }
                Ok(Message::Errand { proof, errand }) => {
                    (verify_errand(token, &nonce, &errand, &proof), Wanted::Errand(errand))
                }
                // Without a token it went away.
                Err(LineError::Closed) => return Err(Stranger::Unproven("it sent no request".to_owned())),
                other => {
                    other?;
                    return Err(Stranger::Unproven("it said what makes no sense here".to_owned()));
                }
            };
            let mut refuse = |why: String| {
                line.send(&Message::Refuse { why: why.clone() })?;
                Ok::<_, io::Error>(why)
            };
            if !is_proven {
                return Err(Stranger::Unproven(refuse("the token is wrong".to_owned())?));
            }
            if !stranger.identify() {
                return Err(LineError::Closed.into());
            }
            let why = match &wanted {
                Wanted::Request(request) => refusal(request, house),
                Wanted::Errand(_) if !house.options.errands => Some(
                    "it is the client of no other server; that needs weir tcp serve --allow-client"
                        .to_owned(),
                ),
                Wanted::Errand(errand)
                    if errand.request.capture == Wish::Must && house.options.capture.is_none() =>
                {
                    Some(NOT_PASSED_ON.to_owned())
                }
                Wanted::Errand(errand) => refusal(&errand.request, house),
            };
            match (why, wanted) {
                (Some(why), _) => Err(Stranger::Refused(refuse(why)?)),
                (None, Wanted::Request(request)) => Ok(Known::Client(line, request)),
                (None, Wanted::Errand(errand)) => Ok(Known::Principal(line, errand)),
            }
        }
    }
}

enum Wanted {
    Request(Box<Request>),
    Errand(Box<Errand>),
}

/// Why this server refuses the request, if it does.
fn refusal(request: &Request, house: &House) -> Option<String> {
    let options = &house.options;
    let most_s = options.most_ns.map(|most| format!("{} s", most as f64 / 1e9));
    if let (Some(most_ns), Some(most)) = (options.most_ns, most_s) {
        match request.lasts_ns {
            Some(lasts) if lasts > most_ns => return Some(format!("a transfer may last {most} here")),
            None if request.bytes.is_none() => {
                return Some(format!(
                    "a transfer may last {most} here; one without end needs weir tcp serve --max-time 0"
                ));
            }
            _ => {}
        }
    }
    let directions = u64::from(request.up > 0) + u64::from(request.down > 0);
    let bytes = request.bytes.map(|bytes| bytes.saturating_mul(directions));
    if let (Some(bytes), Some(most)) = (bytes, options.most_bytes)
        && bytes > most
    {
        return Some(format!("a transfer may have {most} bytes here"));
    }
    if request.congestion.is_empty() {
        return None;
    }
    Setting::congestion(&request.congestion).available().err().map(|error| error.to_string())
}
