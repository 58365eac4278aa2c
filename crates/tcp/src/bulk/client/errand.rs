//! A transfer between two servers: one of them is asked to be the client, and tells what happens.

use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use super::{
    ANSWER_TIMEOUT, ClientError, ClientEvent, ClientOptions, Joined, Prover, SILENCE_NS, Via, reach,
};
use crate::bulk::end::{Input, listen};
use crate::bulk::line::{Line, LineError};
use crate::clock::now_ns;
use crate::control::{
    Errand, MOST_ANSWER_BYTES, Made, Message, Preamble, Request, Told, Total, prove_errand,
};
use crate::option::Value;

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
    let mut writer = line.writer().map_err(super::system("a connection cannot be shared"))?;
    writer.send(&asked).map_err(|e| not_weir(e.into()))?;
    listen(line, inputs.clone()).map_err(super::system("no thread can be made"))?;

    let (mut prover, mut started, mut both) = (Some(prover), None, Both::default());
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
                    Message::Told(told) => {
                        if matches!(told, Told::Started { .. }) {
                            started = Some(now_ns());
                        }
                        let wanted = usize::from(errand.request.up + errand.request.down);
                        let Ok(event) = both.event(told, wanted) else {
                            return Err(lost("it said what makes no sense here".to_owned()));
                        };
                        let is_last = matches!(event, Some(ClientEvent::Done { .. }));
                        event.into_iter().for_each(|event| drop(events.send(event)));
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

/// What was told of both ends at last.
#[derive(Default)]
struct Both {
    client: Option<Vec<Total>>,
    server: Option<Vec<Total>>,
}

/// It is not about as many connections as there are.
struct Nonsense;

impl Both {
    /// What was told as an event of a client; None while more belongs to it.
    fn event(&mut self, told: Told, wanted: usize) -> Result<Option<ClientEvent>, Nonsense> {
        let fits = |number: usize| if number == wanted { Ok(()) } else { Err(Nonsense) };
        Ok(Some(match told {
            Told::Started { connections, same_clock, since_1970_ns } => {
                fits(connections.len())?;
                let connections = connections.into_iter().map(joined).collect();
                ClientEvent::Started { connections, same_clock, since_1970_ns }
            }
            Told::Clock { sent_ns, at_ns, heard_ns } => ClientEvent::Clock { sent_ns, at_ns, heard_ns },
            Told::Begun { server_ns, client_ns } => ClientEvent::Begun { server_ns, client_ns },
            Told::Interval { of_server, at_ns, flows } => {
                fits(flows.len())?;
                ClientEvent::Interval { of_server, at_ns, flows }
            }
            Told::Totals { of_server, totals } => {
                fits(totals.len())?;
                *(if of_server { &mut self.server } else { &mut self.client }) = Some(totals);
                return Ok(None);
            }
            Told::Done { stopped } => match (self.client.take(), self.server.take()) {
                (Some(client), Some(server)) => ClientEvent::Done { client, server, stopped },
                _ => return Err(Nonsense),
            },
        }))
    }
}

fn joined(made: Made) -> Joined {
    let congestion = Some(made.congestion).filter(|name| !name.is_empty()).map(Value::Name);
    Joined { local: made.local, remote: made.remote, up: made.up, congestion, settings: Vec::new() }
}
