//! The far end: makes the connections that sessions request.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_psock::io::{Listener, OpenError, Options, ParallelSocket, SocketError, Stranger};
use weir_tcp::interface::is_own;

use crate::house::{Door, Ended, House, LOOK, NO_THREAD, begin, connected, prepare};
use crate::order::{self, Ordering};
use crate::rules::Rules;
use crate::wire::{HEAD_BYTES, REQUEST_BYTES, Request, Status, WireError, check};

/// Default TCP port of a proxy.
pub const PORT: u16 = 29_102;

/// Time within which a session must have named its destination.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time within which a refusal must have been read.
const FAREWELL: Duration = Duration::from_secs(5);
/// Sessions beyond the limit that are told so, at one time; further ones are aborted.
const MOST_REFUSALS: usize = 64;
/// How long a session beyond the limit waits for room: the near end knows earlier than this one that another has ended.
const ROOM: Duration = Duration::from_secs(5);
/// Longest time until it is noticed that there is room.
const SOON: Duration = Duration::from_millis(10);
/// Sessions that wait for room.
const MOST_WAITING: usize = 256;

/// Listens for sessions, in its own threads.
#[derive(Debug)]
pub struct Proxy {
    listener: Arc<Listener>,
    door: Door,
}

impl Proxy {
    /// Listens on each of these addresses, for at most `most` sessions at one time, each of which may request any
    /// destination that `allowed` matches.
    ///
    /// # Errors
    /// [`OpenError`]; without a token only loopback addresses are allowed.
    pub fn start(
        addresses: &[SocketAddr],
        options: Options,
        allowed: Rules,
        most: usize,
    ) -> Result<Self, OpenError> {
        let listener = Arc::new(Listener::bind(addresses, options)?);
        let (from, allowed) = (Arc::clone(&listener), Arc::new(allowed));
        let work = move |house: &Arc<House>| accept(&from, house, &allowed, ROOM);
        let door = Door::open("psock proxy", &House::new(most), work)
            .map_err(|source| OpenError::System { what: "no thread can be made", source })?;
        Ok(Self { listener, door })
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        self.listener.addresses()
    }

    /// Open sessions.
    #[must_use]
    pub fn active(&self) -> usize {
        self.door.house.active()
    }

    /// Sessions that have ended since the last call, in the order of their ends.
    #[must_use]
    pub fn ended(&self) -> Vec<Ended> {
        self.door.house.ended()
    }

    /// A peer that connected without success since the last call.
    #[must_use]
    pub fn stranger(&self) -> Option<Stranger> {
        self.listener.stranger()
    }

    /// Aborts everything that is open, and takes nothing more.
    pub fn stop(&self) {
        self.door.house.stop();
    }
}

fn accept(listener: &Listener, house: &Arc<House>, allowed: &Arc<Rules>, patience: Duration) {
    let (refusals, ordering) = (House::new(MOST_REFUSALS), Arc::new(Ordering::default()));
    let mut waiting = VecDeque::new();
    while !house.is_stopped() {
        let wait = if waiting.is_empty() { LOOK } else { SOON };
        if let Some((session, peer)) = listener.accept(Some(wait)) {
            waiting.push_back((session, peer, Instant::now()));
        }
        let may_wait = |since: &mut Instant| since.elapsed() < patience;
        let is_due = house.has_room() || waiting.len() > MOST_WAITING;
        let Some((session, peer, _)) = waiting.pop_front_if(|(_, _, since)| is_due || !may_wait(since))
        else {
            continue;
        };
        let is_begun = if house.has_room() {
            let (allowed, ordering) = (Arc::clone(allowed), Arc::clone(&ordering));
            house.apart(move |house| serve(house, session, peer, &allowed, &ordering))
        } else if refusals.has_room() {
            let (told, ordering) = (Arc::clone(house), Arc::clone(&ordering));
            refusals.apart(move |house| {
                // A session that still asks would not receive the answer; and those behind it do not wait for it.
                if let Ok(request) = requested(house, &session, FAREWELL) {
                    ordering.in_turn(request.position, Duration::ZERO, || ());
                }
                told.tell(refuse(house, &session, Ended::new(peer, None), Status::Full));
                None
            })
        } else {
            true
        };
        if !is_begun {
            // Dropped with its work, the session was aborted.
            house.tell(Ended::new(peer, None).failed(NO_THREAD));
        }
    }
    refusals.stop();
}

/// Why there is no request.
enum Failed {
    /// It requested nothing, like a check whether the proxy works.
    Nothing,
    Wire(WireError),
    Session(String),
}

/// What a session requests.
fn requested(house: &House, session: &ParallelSocket, within: Duration) -> Result<Request, Failed> {
    let mut bytes = [0; REQUEST_BYTES];
    let (head, rest) = bytes.split_at_mut(HEAD_BYTES);
    match house.fill(session, head, within).map_err(Failed::Session)? {
        0 => return Err(Failed::Nothing),
        HEAD_BYTES => check(head).map_err(Failed::Wire)?,
        _ => return Err(Failed::Wire(WireError::NotProxy)),
    }
    if house.fill(session, rest, within).map_err(Failed::Session)? < rest.len() {
        return Err(Failed::Wire(WireError::NotProxy));
    }
    Request::parse(&bytes).map_err(Failed::Wire)
}

/// Does what a session requests; `None`: it requested nothing.
fn serve(
    house: &House,
    session: ParallelSocket,
    peer: SocketAddr,
    allowed: &Rules,
    ordering: &Ordering,
) -> Option<Ended> {
    let mut ended = Ended::new(peer, None);
    let Request { to, position } = match requested(house, &session, PATIENCE) {
        Ok(request) => request,
        Err(Failed::Nothing) => {
            let _ = session.close(Some(FAREWELL));
            return None;
        }
        Err(Failed::Wire(error @ WireError::Version(_))) => {
            return Some(refuse(house, &session, ended, Status::Version).failed(error));
        }
        // Dropping it aborts the session.
        Err(Failed::Wire(error)) => return Some(ended.failed(error)),
        Err(Failed::Session(why)) => return Some(ended.failed(why)),
    };
    ended.to = Some(to);
    // If the kernel does not say whose address it is, it may be this host's.
    let is_allowed = allowed.takes(to) && (allowed.names(to) || !is_own(to.ip()).unwrap_or(true));
    if !is_allowed {
        ordering.in_turn(position, Duration::ZERO, || ());
        return Some(refuse(house, &session, ended, Status::Forbidden));
    }
    let begun = ordering.in_turn(position, order::PATIENCE, || begin(to));
    let lasts = || match session.failure() {
        Some(failure) => Err(io::Error::other(failure)),
        None if house.is_stopped() => Err(io::Error::other("it was stopped")),
        None => Ok(()),
    };
    let stream = match begun.and_then(|socket| connected(socket, lasts)) {
        Ok(stream) => stream,
        Err(error) => return Some(refuse(house, &session, ended, status(&error))),
    };
    if let Err(error) = prepare(&stream) {
        return Some(ended.failed(error));
    }
    if let Err(error) = session.write_all(&Status::Connected.emit()) {
        return Some(ended.failed(error));
    }
    house.carry(&session, &stream, Some(&session), &mut |_| true, &mut ended);
    ended.report = Some(session.report());
    Some(ended)
}

/// Reports why not, and waits until that has arrived.
fn refuse(house: &House, session: &ParallelSocket, ended: Ended, why: Status) -> Ended {
    let ended = ended.failed(why);
    if session.write(&why.emit(), Some(Duration::ZERO)).is_err() {
        return ended;
    }
    session.finish();
    let mut waited = Duration::ZERO;
    while waited < FAREWELL && !house.is_stopped() {
        match session.delivered(Some(LOOK)) {
            Err(SocketError::TimedOut) => waited += LOOK,
            _ => break,
        }
    }
    ended
}

fn status(error: &io::Error) -> Status {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Status::Refused,
        io::ErrorKind::TimedOut => Status::Late,
        io::ErrorKind::HostUnreachable => Status::Unreachable,
        io::ErrorKind::NetworkUnreachable => Status::NoRoute,
        _ => Status::Failed,
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use weir_psock::io::Route;

    use super::*;
    use crate::wire::{Position, REPLY_BYTES};

    #[test]
    fn a_session_for_which_there_is_no_room_in_time_is_told_so() {
        let listener = Listener::bind(&["127.0.0.1:0".parse().unwrap()], Options::default()).unwrap();
        let route = Route { local: None, remote: listener.addresses()[0] };
        let house = House::new(0);
        let for_thread = Arc::clone(&house);
        let any = Arc::new(Rules::parse(&["any"]).unwrap());
        let accepting = thread::spawn(move || accept(&listener, &for_thread, &any, Duration::ZERO));
        let session = ParallelSocket::connect(&[route], &Options::default()).unwrap();
        let position = Position { sequence: 1, number: 0 };
        let request = Request { to: "192.0.2.1:80".parse().unwrap(), position };
        session.write_all(&request.emit()).unwrap();
        let mut reply = [0; REPLY_BYTES];
        house.fill(&session, &mut reply, ROOM).unwrap();
        assert_eq!(Status::parse(&reply), Ok(Status::Full));
        house.stop();
        accepting.join().unwrap();
    }

    #[test]
    fn a_session_for_which_there_is_no_thread_is_broken_off_and_told() {
        let listener = Listener::bind(&["127.0.0.1:0".parse().unwrap()], Options::default()).unwrap();
        let route = Route { local: None, remote: listener.addresses()[0] };
        // No system has room for such a stack.
        let house = House::with_stacks(10, 1 << 60);
        let for_thread = Arc::clone(&house);
        let any = Arc::new(Rules::parse(&["any"]).unwrap());
        let accepting = thread::spawn(move || accept(&listener, &for_thread, &any, ROOM));
        let session = ParallelSocket::connect(&[route], &Options::default()).unwrap();
        assert!(matches!(session.read(&mut [0], None), Err(SocketError::Session(_))));
        let ended = loop {
            if let Some(ended) = house.ended().pop() {
                break ended;
            }
            thread::yield_now();
        };
        assert_eq!(ended.failure, NO_THREAD);
        house.stop();
        accepting.join().unwrap();
    }
}
