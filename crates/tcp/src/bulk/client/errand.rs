//! A transfer between two servers: one of them is asked to be the client, and reports what happens.

use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, SyncSender};
use std::time::Duration;

use super::connect::reach;
use super::error::{ClientError, system};
use super::fetch::{FetchOptions, Unfetched, fetch};
use super::quota::Quota;
use super::{ANSWER_TIMEOUT, ClientEvent, ClientOptions, Prover, SILENCE_NS, Via};
use crate::bulk::capture::Here;
use crate::bulk::end::{Excess, Incoming, Input, flooded, listen};
use crate::bulk::line::{Line, LineError, Writer};
use crate::control::{Errand, Event, MOST_ANSWER_BYTES, Message, Preamble, Request, Wish, prove_errand};
use weir_clock::now_ns;

/// Longest wait: it has connected, been authenticated, and been joined.
const BEGINNING_NS: u64 = 60_000_000_000;

/// Asks `via` to be the client of the server that `options` name, and passes its reports on.
pub fn run(
    options: &ClientOptions,
    via: &Via,
    prover: Prover,
    events: &SyncSender<ClientEvent>,
    inputs: &Sender<Input>,
    incoming: &Incoming,
) -> Result<(), ClientError> {
    let refused = |why: String| ClientError::ViaRefused { host: via.host.clone(), why };
    let (mut control, to) = reach(&via.host, via.port, None)?;
    let not_weir = |source| ClientError::NotWeir { to, source };
    control.write_all(&Preamble::Control.emit()).map_err(|e| not_weir(e.into()))?;
    let mut line = Line::new(control, MOST_ANSWER_BYTES).map_err(|e| not_weir(e.into()))?;
    let nonce = match line.receive(Some(ANSWER_TIMEOUT)).map_err(not_weir)? {
        Message::Challenge { needs_token: true, .. } if via.token.is_empty() => {
            return Err(ClientError::ViaTokenNeeded { host: via.host.clone() });
        }
        Message::Challenge { nonce, .. } => nonce,
        Message::Refuse { why } => return Err(refused(why)),
        _ => return Err(not_weir(LineError::Closed)),
    };
    let errand = Errand {
        host: options.host.clone(),
        port: options.port,
        clocks: options.clocks,
        capture: FetchOptions::wish(options.fetch_via.as_ref()),
        capture_bytes: options.fetch_via.as_ref().map_or(0, |fetch| fetch.most_bytes),
        request: Request {
            host: [0; 32],
            capture: FetchOptions::wish(options.fetch.as_ref()),
            capture_bytes: options.fetch.as_ref().map_or(0, |fetch| fetch.most_bytes),
            ..options.request.clone()
        },
    };
    let proof = prove_errand(&via.token, &nonce, &errand);
    let asked = Message::Errand { proof, errand: Box::new(errand.clone()) };
    let mut writer = line.writer();
    writer.send(&asked).map_err(|e| not_weir(e.into()))?;
    let ends = line.ends().map_err(system("a connection has no address"))?;
    listen(line, inputs.clone(), incoming.room(Excess::Waits)).map_err(system("no thread can be made"))?;

    let (mut prover, mut started) = (Some(prover), None);
    let connections = usize::from(errand.request.up + errand.request.down);
    let (mut quota, begun_ns) = (Quota::new(errand.request.interval_ns), now_ns());
    let mut heard_ns = begun_ns;
    loop {
        let after_ns = started.map_or(0, |start| now_ns().saturating_sub(start));
        let lost = |why: String| ClientError::Lost { why, after_ns };
        let elapsed_ns = now_ns().saturating_sub(begun_ns);
        quota.check_end(elapsed_ns).map_err(lost)?;
        let input = match incoming.recv_timeout(Duration::from_millis(500)) {
            Ok(input) => input,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                let most_ns = match started {
                    None => BEGINNING_NS,
                    Some(_) => errand.request.interval_ns.saturating_add(SILENCE_NS),
                };
                if now_ns().saturating_sub(heard_ns) > most_ns {
                    return Err(lost(format!("nothing was heard of {} in time", via.host)));
                }
                continue;
            }
        };
        match input {
            Input::Abort => return Ok(()),
            Input::Stop => {
                quota.stop(elapsed_ns);
                writer.send(&Message::Stop).map_err(|e| lost(e.to_string()))?;
            }
            Input::Gone(why) => return Err(lost(why)),
            Input::Flooded => return Err(lost(flooded())),
            Input::Ended => {}
            Input::Message(message) => {
                heard_ns = now_ns();
                match message {
                    Message::Prove { nonce, needs_token, request } => {
                        // A proof is given only for what was requested, and only once.
                        let Some(prover) = prover.take().filter(|_| is_of(&request, &errand.request)) else {
                            return Err(refused("it wants a proof for something else".to_owned()));
                        };
                        let proof = prover(&nonce, needs_token, &request, ends)?;
                        writer.send(&Message::Proven { proof }).map_err(|e| lost(e.to_string()))?;
                    }
                    Message::Event(event) if event.is_of(connections) => {
                        within(&mut quota, &event, now_ns().saturating_sub(begun_ns))
                            .map_err(ClientError::Protocol)?;
                        if matches!(event, Event::Started { .. }) {
                            started = Some(now_ns());
                        }
                        let is_last = matches!(event, Event::Done { .. });
                        if is_last {
                            let wanted = [(Here::Client, &options.fetch_via), (Here::Server, &options.fetch)];
                            fetch_both(wanted, events, &mut writer, incoming);
                        }
                        let _ = events.send(ClientEvent::Transfer(event));
                        if is_last {
                            return Ok(());
                        }
                    }
                    // It is still busy.
                    Message::Ready => {}
                    Message::Refuse { why } => return Err(refused(why)),
                    other => return Err(ClientError::Protocol(other.unexpected())),
                }
            }
        }
    }
}

/// Whether `event` may come now, which is `elapsed_ns` after the request.
fn within(quota: &mut Quota, event: &Event, elapsed_ns: u64) -> Result<(), String> {
    match *event {
        Event::Started { since_1970_ns, .. } => quota.start(since_1970_ns),
        Event::Clock { sent_ns, at_ns, heard_ns } => quota.exchange([sent_ns, at_ns, heard_ns], elapsed_ns),
        Event::Begun { server_ns, client_ns } => quota.begin(server_ns.max(client_ns)),
        Event::Interval { of_server, at_ns, .. } => quota.report(of_server, at_ns, elapsed_ns),
        Event::Done { .. } => Ok(()),
    }
}

/// Whether `request` is what was `wanted`. A server that passes on no captures, or only smaller ones, wants less.
fn is_of(request: &Request, wanted: &Request) -> bool {
    let Request { host, capture, capture_bytes, .. } = *request;
    (capture == wanted.capture || capture == Wish::None)
        && capture_bytes <= wanted.capture_bytes
        && Request { host, capture, capture_bytes, ..wanted.clone() } == *request
}

/// Fetches what is `wanted`, one after the other.
fn fetch_both(
    wanted: [(Here, &Option<FetchOptions>); 2],
    events: &SyncSender<ClientEvent>,
    writer: &mut Writer,
    incoming: &Incoming,
) {
    let mut broken_off = None;
    for (of, wanted) in wanted {
        let Some(wanted) = wanted else { continue };
        let found = match broken_off.clone() {
            None => fetch(wanted, None, writer, incoming),
            Some(why) => Err(Unfetched::BrokenOff(why)),
        };
        if let Err(Unfetched::BrokenOff(why)) = &found {
            broken_off = Some(why.clone());
        }
        let found = found.map(Box::new).map_err(Unfetched::why);
        let _ = events.send(ClientEvent::Recorded { of, found });
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::path::PathBuf;
    use std::sync::mpsc;

    use super::*;
    use crate::bulk::end::channel;

    /// Why there is neither capture, by end, when these messages come.
    fn told(came: Vec<Input>) -> Vec<(Here, String)> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut writer = Line::new(stream, 100).unwrap().writer();
        let (inputs, incoming) = channel();
        came.into_iter().for_each(|input| inputs.send(input).unwrap());
        let wanted = |name: &str| {
            let file = PathBuf::from("/nowhere").join(name);
            Some(FetchOptions { file, must: false, most_bytes: 1 })
        };
        let (fetch, fetch_via) = (wanted("server"), wanted("client"));
        let (events, happened) = mpsc::sync_channel(2);
        fetch_both([(Here::Client, &fetch_via), (Here::Server, &fetch)], &events, &mut writer, &incoming);
        let reason = |event| match event {
            ClientEvent::Recorded { of, found } => (of, found.unwrap_err()),
            other => panic!("{other:?}"),
        };
        happened.try_iter().map(reason).collect()
    }

    fn without(why: &str) -> Input {
        Input::Message(Message::Recorded { found: Err(why.to_owned()) })
    }

    #[test]
    fn nobody_waits_for_the_second_capture_when_the_first_broke_off() {
        let both = |why: &str| vec![(Here::Client, why.to_owned()), (Here::Server, why.to_owned())];
        assert_eq!(told(vec![Input::Gone("it is gone".to_owned())]), both("it is gone"));
        let stopped = Message::Refuse { why: "the server was stopped".to_owned() };
        assert_eq!(told(vec![Input::Message(stopped)]), both("the server was stopped"));
        assert_eq!(told(vec![Input::Stop]), both("the user ended it"));
    }

    #[test]
    fn the_second_capture_is_asked_for_when_there_is_no_first() {
        let expected = vec![(Here::Client, "none".to_owned()), (Here::Server, "neither".to_owned())];
        assert_eq!(told(vec![without("none"), without("neither")]), expected);
    }
}
