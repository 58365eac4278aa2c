//! One transfer, from the request to its end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use super::tape::{Order, STOPPED, Tape, Then, hand_over};
use super::{Broken, House, Numbered, Place, ServerEvent, lock};
use crate::bulk::capture::Here;
use crate::bulk::end::{Excess, Incoming, Input, Intervals, channel, flooded, listen};
use crate::bulk::line::{Line, Writer};
use crate::bulk::random;
use crate::bulk::transfer::{Given, Transfer};
use crate::control::{Flow, Message, Request, Total};
use crate::option::Setting;
use weir_clock::{now_ns, realtime_to_monotonic_ns};

/// Longest time until all data connections exist, and until the client begins.
const JOINING: Duration = Duration::from_secs(10);
/// Allowance beyond a limit of time, for what is still in transit.
const GRACE_NS: u64 = 5_000_000_000;
const LOOK: Duration = Duration::from_millis(500);
/// Longest time until a client has seen the end and closes its connection.
const CLOSING: Duration = Duration::from_secs(5);

/// A client that may have its transfer.
pub struct Client {
    /// Its control connection.
    pub line: Line,
    /// Its request.
    pub request: Box<Request>,
    /// Its address.
    pub peer: SocketAddr,
}

/// Carries a transfer out.
pub fn serve(client: Client, house: &Arc<House>) {
    let Client { mut line, request, peer } = client;
    let place = match Place::take(house) {
        Ok(place) => place,
        Err(why) => {
            let _ = line.send(&Message::Refuse { why: why.clone() });
            house.tell(ServerEvent::Refused { peer, why });
            return;
        }
    };
    let mut moved = Moved::default();
    let done = transfer(line, &request, house, place, peer, &mut moved);
    let failure = match done {
        Ok(()) => String::new(),
        Err(Broken::Refused(why) | Broken::Gone(why)) => why,
    };
    let Moved { number, received, sent, lasted_ns } = moved;
    house.tell(if let Some(number) = number {
        ServerEvent::Ended { number, peer, received, sent, lasted_ns, failure }
    } else {
        ServerEvent::Refused { peer, why: failure }
    });
}

#[derive(Default)]
struct Moved {
    /// Of the transfer, once it has begun.
    number: Option<u64>,
    received: u64,
    sent: u64,
    lasted_ns: u64,
}

impl Moved {
    fn take(&mut self, flows: &[Flow], up: u16, lasted_ns: u64) {
        let (from_client, to_client) = flows.split_at(usize::from(up).min(flows.len()));
        self.received = from_client.iter().map(|flow| flow.bytes).sum();
        self.sent = to_client.iter().map(|flow| flow.bytes).sum();
        self.lasted_ns = lasted_ns;
    }
}

fn transfer(
    mut line: Line,
    request: &Request,
    house: &Arc<House>,
    place: Place<'_>,
    peer: SocketAddr,
    moved: &mut Moved,
) -> Result<(), Broken> {
    let order = Order { wish: request.capture, most_bytes: request.capture_bytes, here: Here::Server };
    let mut tape = match Tape::begin(order, house, line.ends()) {
        Ok(tape) => tape,
        Err(why) => {
            let _ = line.send(&Message::Refuse { why: why.clone() });
            return Err(Broken::Refused(why));
        }
    };
    let session = random()?;
    let (join, joined) = mpsc::channel();
    lock(&house.sessions).insert(session, join);
    let given = line
        .send(&Message::Accept { session, host: house.host })
        .map_err(Broken::from)
        .and_then(|()| gather(request, &joined));
    lock(&house.sessions).remove(&session);
    let given = match given {
        Ok(given) => given,
        Err(broken) => {
            if let Broken::Refused(why) = &broken {
                let _ = line.send(&Message::Refuse { why: why.clone() });
            }
            return Err(broken);
        }
    };
    if let Some(tape) = &mut tape {
        // Of a connection that is gone already, nothing follows.
        let ends = given
            .iter()
            .filter_map(|one| Some((one.stream.local_addr().ok()?, one.stream.peer_addr().ok()?)));
        tape.name(&ends.collect::<Vec<_>>());
    }
    let mut writer = line.writer();
    let (inputs, incoming) = channel();
    listen(line, inputs.clone(), incoming.room(Excess::Floods))?;
    writer.send(&Message::Ready)?;
    if let Err(broken) = await_go(&mut writer, &incoming) {
        if let Broken::Refused(why) = &broken {
            let _ = writer.send(&Message::Refuse { why: why.clone() });
        }
        return Err(broken);
    }
    let number = house.transfers.fetch_add(1, SeqCst) + 1;
    moved.number = Some(number);
    house.tell(ServerEvent::Began { number, peer, request: Box::new(request.clone()), with: None });
    lock(&house.stopping).insert(number, inputs.clone());
    // A server that was stopped before this insertion has not told this transfer.
    if house.stop.load(SeqCst) {
        let _ = inputs.send(Input::Stop);
    }
    let totals = carry(given, request, house, &mut writer, (&inputs, &incoming), moved, tape.as_mut());
    let done = totals.and_then(|totals| {
        // A client that sees the end of this one may begin another one at once, if no capture is in transit.
        let place = tape.is_some().then_some(place);
        writer.send(&Message::Done { totals })?;
        let Some(tape) = tape else {
            // The data connections of a client that died ended like those of one that finished.
            let is_taken = writer.is_taken(CLOSING);
            return if is_taken { Ok(()) } else { Err(Broken::Gone("the client died".to_owned())) };
        };
        let found = hand_over(tape.taken(), Then::Free(place), &mut writer, &incoming)?;
        house.tell(ServerEvent::Recorded { number, peer, found: found.map(Box::new) });
        Ok(())
    });
    lock(&house.stopping).remove(&number);
    if let Err(Broken::Refused(why)) = &done {
        let _ = writer.send(&Message::Refuse { why: why.clone() });
    }
    done
}

/// Waits for the client to begin, and answers its questions for the time meanwhile.
fn await_go(writer: &mut Writer, incoming: &Incoming) -> Result<(), Broken> {
    let due = Instant::now() + JOINING;
    loop {
        match incoming.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(Input::Message(Message::Go)) => return Ok(()),
            Ok(Input::Message(Message::Clock { sent_ns })) => {
                writer.send(&Message::Clocked { sent_ns, at_ns: now_ns() })?;
            }
            Ok(Input::Gone(why)) => return Err(Broken::Gone(why)),
            Ok(Input::Flooded) => return Err(Broken::Refused(flooded())),
            _ => return Err(Broken::Gone("it did not begin".to_owned())),
        }
    }
}

/// Waits for all data connections.
fn gather(request: &Request, joined: &Receiver<Numbered>) -> Result<Vec<Given>, Broken> {
    let wanted = usize::from(request.up + request.down);
    let due = Instant::now() + JOINING;
    let mut streams = BTreeMap::new();
    while streams.len() < wanted {
        let left = due.saturating_duration_since(Instant::now());
        let Ok((index, stream)) = joined.recv_timeout(left) else {
            let have = streams.len();
            return Err(Broken::Refused(format!("{have} of {wanted} data connections came in time")));
        };
        if usize::from(index) >= wanted || streams.insert(index, stream).is_some() {
            return Err(Broken::Refused("a data connection has a wrong number".to_owned()));
        }
    }
    let mut given = Vec::new();
    for (index, stream) in streams {
        if !request.congestion.is_empty() {
            let set = Setting::congestion(&request.congestion).set(&*stream);
            set.map_err(|e| Broken::Refused(e.to_string()))?;
        }
        given.push(Given { stream, sends: index >= request.up });
    }
    Ok(given)
}

fn carry(
    given: Vec<Given>,
    request: &Request,
    house: &House,
    writer: &mut Writer,
    (inputs, incoming): (&Sender<Input>, &Incoming),
    moved: &mut Moved,
    mut tape: Option<&mut Tape>,
) -> Result<Vec<Total>, Broken> {
    let same_clock = request.host == house.host;
    let transfer = Transfer::start(given, request, house.options.reading, same_clock, false, inputs)?;
    writer.send(&Message::Begun { start_ns: transfer.start_ns() })?;
    if let Some(tape) = &mut tape {
        tape.begun(transfer.start_ns().saturating_sub_signed(realtime_to_monotonic_ns()));
    }
    let mut intervals = Intervals::new(transfer.start_ns(), request.interval_ns, request.lasts_ns);
    let mut open = transfer.len();
    let options = &house.options;
    while open > 0 {
        match intervals.wait(incoming, LOOK) {
            Some(Input::Ended) => open -= 1,
            Some(Input::Stop | Input::Abort) => {
                return Err(Broken::Refused(STOPPED.to_owned()));
            }
            Some(Input::Message(Message::Stop)) => transfer.stop(),
            Some(Input::Message(Message::Clock { sent_ns })) => {
                writer.send(&Message::Clocked { sent_ns, at_ns: now_ns() })?;
            }
            Some(Input::Message(_)) => return Err(Broken::Refused("that makes no sense here".to_owned())),
            Some(Input::Gone(why)) => return Err(Broken::Gone(why)),
            Some(Input::Flooded) => return Err(Broken::Refused(flooded())),
            None => {}
        }
        let elapsed_ns = intervals.elapsed_ns();
        if let Some(tape) = &mut tape {
            tape.look(elapsed_ns);
        }
        let is_due = intervals.due();
        // Latency since the last report belongs to the next one, so it is queried only then.
        if let Some(at_ns) = is_due {
            let flows = transfer.flows();
            moved.take(&flows, request.up, elapsed_ns);
            writer.send(&Message::Interval { at_ns, flows })?;
        } else {
            moved.take(&transfer.counts(), request.up, elapsed_ns);
        }
        let has_too_many = options.most_bytes.is_some_and(|most| moved.received + moved.sent > most);
        if has_too_many {
            return Err(Broken::Refused("the transfer has more bytes than are allowed here".to_owned()));
        }
        if options.most_ns.is_some_and(|most| elapsed_ns > most.saturating_add(GRACE_NS)) {
            return Err(Broken::Refused("the transfer lasts longer than is allowed here".to_owned()));
        }
    }
    let at_ns = intervals.elapsed_ns();
    writer.send(&Message::Interval { at_ns, flows: transfer.flows() })?;
    let totals = transfer.totals();
    let flows: Vec<Flow> = totals.iter().map(|total| total.flow.clone()).collect();
    moved.take(&flows, request.up, at_ns);
    Ok(totals)
}
