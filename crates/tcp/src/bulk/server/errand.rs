//! A transfer with another server, as its client, for a third host.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::time::Duration;

use super::{House, Place, ServerEvent, lock};
use crate::bulk::client::{Client, ClientError, ClientEvent, ClientOptions};
use crate::bulk::end::{Input, listen};
use crate::bulk::line::{Line, Writer};
use crate::clock::now_ns;
use crate::control::{Digest, Errand, Event, Message, Proof, Request};
use crate::option::Setting;

/// How long the third host may take to prove something, and to be noticed at all.
const PROVING: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(20);
/// Beyond a limit of time, for what is still on its way.
const GRACE_NS: u64 = 5_000_000_000;

/// Somebody who may have this done.
pub struct Principal {
    /// Where it is talked to.
    pub line: Line,
    /// What it wants.
    pub errand: Box<Errand>,
    /// Who it is.
    pub peer: SocketAddr,
}

/// The other server's question.
struct Question {
    nonce: Digest,
    needs_token: bool,
    request: Box<Request>,
}

/// Carries a transfer out.
pub fn serve(principal: Principal, house: &Arc<House>) {
    let Principal { mut line, errand, peer } = principal;
    let place = match Place::take(house) {
        Ok(place) => place,
        Err(why) => {
            let _ = line.send(&Message::Refuse { why: why.clone() });
            house.tell(ServerEvent::Refused { peer, why });
            return;
        }
    };
    let number = house.transfers.fetch_add(1, SeqCst) + 1;
    let with = Some(format!("{} port {}", errand.host, errand.port));
    house.tell(ServerEvent::Began { number, peer, request: Box::new(errand.request.clone()), with });
    let mut moved = Moved::default();
    let begun_ns = now_ns();
    let failure = carry(line, &errand, house, number, &mut moved, place).err().unwrap_or_default();
    lock(&house.stopping).remove(&number);
    house.tell(ServerEvent::Ended {
        number,
        peer,
        received: moved.received,
        sent: moved.sent,
        lasted_ns: now_ns().saturating_sub(begun_ns),
        failure,
    });
}

/// Bytes that this host, as the client, has read and written.
#[derive(Default)]
struct Moved {
    received: u64,
    sent: u64,
}

/// Raises why it broke off; the third host is told.
fn carry(
    line: Line,
    errand: &Errand,
    house: &Arc<House>,
    number: u64,
    moved: &mut Moved,
    place: Place<'_>,
) -> Result<(), String> {
    let mut writer = line.writer().map_err(|e| e.to_string())?;
    let (inputs, incoming) = mpsc::channel();
    listen(line, inputs.clone()).map_err(|e| e.to_string())?;
    lock(&house.stopping).insert(number, inputs.clone());
    // Whoever stopped the server before that has not seen this transfer.
    if house.stop.load(SeqCst) {
        let _ = inputs.send(Input::Stop);
    }
    let done = go_between(errand, house, &mut writer, &incoming, moved);
    // Whoever hears that this one is over may begin another one at once.
    drop(place);
    match done {
        Ok(last) => writer.send(&Message::Event(last)).map_err(|e| e.to_string()),
        Err(why) => {
            let _ = writer.send(&Message::Refuse { why: why.clone() });
            Err(why)
        }
    }
}

/// The last event, which the third host is yet to be told.
fn go_between(
    errand: &Errand,
    house: &Arc<House>,
    writer: &mut Writer,
    incoming: &Receiver<Input>,
    moved: &mut Moved,
) -> Result<Event, String> {
    let (questions, asked) = mpsc::channel();
    let (proofs, proven) = mpsc::channel();
    let client = begin(errand, questions, proven)?;
    let mut start_ns = None;
    loop {
        let event = client.next_event(LOOK);
        while let Ok(Question { nonce, needs_token, request }) = asked.try_recv() {
            writer.send(&Message::Prove { nonce, needs_token, request }).map_err(|e| e.to_string())?;
        }
        loop {
            match incoming.try_recv() {
                Ok(Input::Message(Message::Proven { proof })) => drop(proofs.send(proof)),
                Ok(Input::Message(Message::Stop)) => client.stop(),
                Ok(Input::Message(_)) => return Err("that makes no sense here".to_owned()),
                Ok(Input::Stop | Input::Abort) => return Err("the server was stopped".to_owned()),
                Ok(Input::Gone(why)) => return Err(why),
                Ok(Input::Ended) => {}
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        *moved = Moved { received: client.moved().received(), sent: client.moved().sent() };
        let options = &house.options;
        if options.most_bytes.is_some_and(|most| moved.received + moved.sent > most) {
            return Err("the transfer has more bytes than are allowed here".to_owned());
        }
        let elapsed_ns = start_ns.map_or(0, |start| now_ns().saturating_sub(start));
        if options.most_ns.is_some_and(|most| elapsed_ns > most.saturating_add(GRACE_NS)) {
            return Err("the transfer lasts longer than is allowed here".to_owned());
        }
        match event {
            None | Some(ClientEvent::Samples { .. } | ClientEvent::Recorded(_)) => {}
            Some(ClientEvent::Failed(error)) => return Err(said(&error)),
            Some(ClientEvent::Transfer(event)) => {
                if matches!(event, Event::Started { .. }) {
                    start_ns = Some(now_ns());
                }
                if matches!(event, Event::Done { .. }) {
                    return Ok(event);
                }
                writer.send(&Message::Event(event)).map_err(|e| e.to_string())?;
            }
        }
    }
}

fn begin(errand: &Errand, questions: Sender<Question>, proven: Receiver<Proof>) -> Result<Client, String> {
    let options = ClientOptions {
        host: errand.host.clone(),
        port: errand.port,
        token: String::new(),
        request: errand.request.clone(),
        settings: Vec::new(),
        local: None,
        local_port: None,
        every_block: false,
        clocks: errand.clocks,
        via: None,
        fetch: None,
    };
    let prover = move |nonce: &Digest, needs_token: bool, request: &Request| {
        let late = |_| ClientError::Refused("nobody proved to know its token in time".to_owned());
        let question = Question { nonce: *nonce, needs_token, request: Box::new(request.clone()) };
        drop(questions.send(question));
        proven.recv_timeout(PROVING).map_err(late)
    };
    let mut options = options;
    if !options.request.congestion.is_empty() {
        options.settings.push(Setting::congestion(&options.request.congestion));
    }
    Client::start_with(options, Box::new(prover)).map_err(|e| e.to_string())
}

/// An error with what caused it.
fn said(error: &ClientError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}
