//! A transfer between two servers: one of them is asked to be the client, and tells what happens.

use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use super::connect::reach;
use super::error::{ClientError, system};
use super::{ANSWER_TIMEOUT, ClientEvent, ClientOptions, Prover, SILENCE_NS, Via};
use crate::bulk::end::{Input, listen};
use crate::bulk::line::{Line, LineError};
use crate::clock::now_ns;
use crate::control::{Errand, Event, MOST_ANSWER_BYTES, Message, Preamble, Request, prove_errand};

/// Beyond this it waits for nothing: it has connected, been proven to, and been joined.
const BEGINNING_NS: u64 = 60_000_000_000;

/// Asks `via` to be the client of the server that `options` name, and tells what it tells.
pub fn run(
    options: &ClientOptions,
    via: &Via,
    prover: Prover,
    events: &Sender<ClientEvent>,
    inputs: &Sender<Input>,
    incoming: &Receiver<Input>,
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
        request: Request { host: [0; 32], ..options.request.clone() },
    };
    let proof = prove_errand(&via.token, &nonce, &errand);
    let asked = Message::Errand { proof, errand: Box::new(errand.clone()) };
    let mut writer = line.writer().map_err(system("a connection cannot be shared"))?;
    writer.send(&asked).map_err(|e| not_weir(e.into()))?;
    listen(line, inputs.clone()).map_err(system("no thread can be made"))?;

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
            Input::Ended => {}
            Input::Message(message) => {
                heard_ns = now_ns();
                match message {
                    Message::Prove { nonce, needs_token, request } => {
                        // Nobody gets a proof for anything else than what was asked for, and none gets two.
                        let same = Request { host: request.host, ..errand.request.clone() } == *request;
                        let Some(prover) = prover.take().filter(|_| same) else {
                            return Err(refused("it wants a proof for something else".to_owned()));
                        };
                        let proof = prover(&nonce, needs_token, &request)?;
                        writer.send(&Message::Proven { proof }).map_err(|e| lost(e.to_string()))?;
                    }
                    Message::Event(event) if event.is_of(connections) => {
                        if matches!(event, Event::Started { .. }) {
                            started = Some(now_ns());
                        }
                        let is_last = matches!(event, Event::Done { .. });
                        let _ = events.send(ClientEvent::Transfer(event));
                        if is_last {
                            return Ok(());
                        }
                    }
                    Message::Refuse { why } => return Err(refused(why)),
                    _ => return Err(lost("it said what makes no sense here".to_owned())),
                }
            }
        }
    }
}
