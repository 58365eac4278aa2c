//! A transfer between two servers: one of them is asked to be the client, and tells what happens.

use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::time::Duration;

use super::connect::reach;
use super::error::{ClientError, system};
use super::fetch::{FetchOptions, fetch};
use super::{ANSWER_TIMEOUT, ClientEvent, ClientOptions, Prover, SILENCE_NS, Via};
use crate::bulk::capture::Here;
use crate::bulk::end::{Incoming, Input, flooded, listen};
use crate::bulk::line::{Line, LineError, Writer};
use crate::clock::now_ns;
use crate::control::{Errand, Event, MOST_ANSWER_BYTES, Message, Preamble, Request, Wish, prove_errand};

/// Beyond this it waits for nothing: it has connected, been proven to, and been joined.
const BEGINNING_NS: u64 = 60_000_000_000;

/// Asks `via` to be the client of the server that `options` name, and tells what it tells.
pub fn run(
    options: &ClientOptions,
    via: &Via,
    prover: Prover,
    events: &Sender<ClientEvent>,
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
    let mut writer = line.writer().map_err(system("a connection cannot be shared"))?;
    writer.send(&asked).map_err(|e| not_weir(e.into()))?;
    let ends = line.ends().map_err(system("a connection has no address"))?;
    listen(line, inputs.clone(), incoming.room(usize::MAX)).map_err(system("no thread can be made"))?;

    let (mut prover, mut started) = (Some(prover), None);
    let connections = usize::from(errand.request.up + errand.request.down);
    let mut heard_ns = now_ns();
    loop {
        let after_ns = started.map_or(0, |start| now_ns().saturating_sub(start));
        let lost = |why: String| ClientError::Lost { why, after_ns };
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
            Input::Stop => writer.send(&Message::Stop).map_err(|e| lost(e.to_string()))?,
            Input::Gone(why) => return Err(lost(why)),
            Input::Flooded => return Err(lost(flooded())),
            Input::Ended => {}
            Input::Message(message) => {
                heard_ns = now_ns();
                match message {
                    Message::Prove { nonce, needs_token, request } => {
                        // Nobody gets a proof for anything else than what was asked for, and none gets two.
                        let Some(prover) = prover.take().filter(|_| is_of(&request, &errand.request)) else {
                            return Err(refused("it wants a proof for something else".to_owned()));
                        };
                        let proof = prover(&nonce, needs_token, &request, ends)?;
                        writer.send(&Message::Proven { proof }).map_err(|e| lost(e.to_string()))?;
                    }
                    Message::Event(event) if event.is_of(connections) => {
                        if matches!(event, Event::Started { .. }) {
                            started = Some(now_ns());
                        }
                        let is_last = matches!(event, Event::Done { .. });
                        if is_last {
                            fetch_both(options, events, &mut writer, incoming);
                        }
                        let _ = events.send(ClientEvent::Transfer(event));
                        if is_last {
                            return Ok(());
                        }
                    }
                    // It is still at it.
                    Message::Ready => {}
                    Message::Refuse { why } => return Err(refused(why)),
                    _ => return Err(lost("it said what makes no sense here".to_owned())),
                }
            }
        }
    }
}

/// Whether `request` is what was `wanted`. Who passes no captures on, or smaller ones only, wants less of them.
fn is_of(request: &Request, wanted: &Request) -> bool {
    let Request { host, capture, capture_bytes, .. } = *request;
    (capture == wanted.capture || capture == Wish::None)
        && capture_bytes <= wanted.capture_bytes
        && Request { host, capture, capture_bytes, ..wanted.clone() } == *request
}

/// Fetches what is wanted: the client's capture, then the server's.
fn fetch_both(
    options: &ClientOptions,
    events: &Sender<ClientEvent>,
    writer: &mut Writer,
    incoming: &Incoming,
) {
    let mut failed = None;
    for (of, wanted) in [(Here::Client, &options.fetch_via), (Here::Server, &options.fetch)] {
        let Some(wanted) = wanted else { continue };
        let found = match failed.clone() {
            None => fetch(wanted, None, writer, incoming),
            Some(why) => Err(why),
        };
        // What was left in the middle is still on its way: nothing else can be told from it.
        failed = found.as_ref().err().filter(|_| wanted.file.exists()).cloned();
        let _ = events.send(ClientEvent::Recorded { of, found: found.map(Box::new) });
    }
}
