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
use crate::wire::{HEAD_BYTES, PART_BYTES, Part, REQUEST_BYTES, Request, Status, WireError, check};

/// Default TCP port of a proxy.
pub const PORT: u16 = 29_102;

/// Time within which a session that has begun to name its destination must have named it.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a session keeps its place before its first request while others wait: that may have to wait for requests
/// before it. Less than [`ROOM`].
const FIRM: Duration = Duration::from_secs(2);
/// How long a session may carry nothing: the near end closes it earlier.
const IDLE: Duration = Duration::from_secs(60);
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
        let work =
            move |house: &Arc<House>| accept(&from, house, &allowed, ROOM, Ordering::new(order::PATIENCE));
        let door = Door::open("psock proxy", &House::new(most), work)
            .map_err(|source| OpenError::System { what: "no thread can be made", source })?;
        Ok(Self { listener, door })
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
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

fn accept(
    listener: &Listener,
    house: &Arc<House>,
    allowed: &Arc<Rules>,
    patience: Duration,
    ordering: Ordering,
) {
    let (refusals, ordering) = (House::new(MOST_REFUSALS), Arc::new(ordering));
    let mut waiting = VecDeque::new();
    while !house.is_stopped() {
        let wait = if waiting.is_empty() { LOOK } else { SOON };
        if let Some((session, peer)) = listener.accept(Some(wait)) {
            waiting.push_back((session, peer, Instant::now()));
        }
        house.set_crowded(!waiting.is_empty() && !house.has_room());
        let may_wait = |since: &mut Instant| since.elapsed() < patience;
        let is_due = house.has_room() || waiting.len() > MOST_WAITING;
        let Some((session, peer, _)) = waiting.pop_front_if(|(_, _, since)| is_due || !may_wait(since))
        else {
            continue;
        };
        let is_begun = if house.has_room() {
            let (allowed, ordering) = (Arc::clone(allowed), Arc::clone(&ordering));
            house.apart(move |house| {
                let mut firm = FIRM;
                while serve(house, &session, peer, &allowed, &ordering, firm) {
                    firm = Duration::ZERO;
                }
                None
            })
        } else if refusals.has_room() {
            let (told, ordering) = (Arc::clone(house), Arc::clone(&ordering));
            refusals.apart(move |house| {
                // A session that still asks would not receive the answer; and those behind it do not wait for it.
                let to = house.awaits(&session, FAREWELL, FAREWELL).then(|| {
                    let request = requested(house, &session, FAREWELL)?;
                    ordering.in_turn(request.position, Duration::ZERO, || ());
                    Ok(request.to)
                });
                let why = refuse(house, &session, Status::Full);
                // Without a request, it is a check, or was opened in advance.
                if !matches!(to, None | Some(Err(Failed::Nothing))) {
                    told.tell(Ended::new(peer, to.and_then(Result::ok)).failed(why));
                }
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
    let len = house.fill(session, head, within).map_err(Failed::Session)?;
    match len {
        0 => return Err(Failed::Nothing),
        // It ended a direction of the connection before at the same time as this end ended the other one.
        PART_BYTES if head[..PART_BYTES] == Part::Close.emit() => return Err(Failed::Nothing),
        HEAD_BYTES => check(head).map_err(Failed::Wire)?,
        _ => return Err(Failed::Wire(WireError::NotProxy)),
    }
    if house.fill(session, rest, within).map_err(Failed::Session)? < rest.len() {
        return Err(Failed::Wire(WireError::NotProxy));
    }
    Request::parse(&bytes).map_err(Failed::Wire)
}

/// Does what a session requests next, and tells it; returns whether it may request more. It makes room for others after
/// `firm`.
fn serve(
    house: &House,
    session: &ParallelSocket,
    peer: SocketAddr,
    allowed: &Rules,
    ordering: &Ordering,
    firm: Duration,
) -> bool {
    if !house.awaits(session, firm, IDLE) {
        // It has ended or makes room: the near end opens another one when it needs one.
        session.abort();
        return false;
    }
    let (begun, mut ended) = (Instant::now(), Ended::new(peer, None));
    let is_reusable = match requested(house, session, PATIENCE) {
        Ok(request) => connect(house, session, &request, allowed, ordering, &mut ended),
        Err(Failed::Nothing) => {
            let _ = session.close(Some(FAREWELL));
            return false;
        }
        Err(Failed::Wire(error @ WireError::Version(_))) => {
            refuse(house, session, Status::Version);
            ended.failure = error.to_string();
            false
        }
        // Dropping it aborts the session.
        Err(Failed::Wire(error)) => {
            ended.failure = error.to_string();
            false
        }
        Err(Failed::Session(why)) => {
            ended.failure = why;
            false
        }
    };
    house.tell(Ended { lasted: begun.elapsed(), ..ended });
    is_reusable
}

/// Connects a session with the destination that it requests, and carries the connection to its end.
fn connect(
    house: &House,
    session: &ParallelSocket,
    request: &Request,
    allowed: &Rules,
    ordering: &Ordering,
    ended: &mut Ended,
) -> bool {
    let Request { to, position } = *request;
    ended.to = Some(to);
    // As soon as the near end has the reply, more may arrive.
    let before = session.report();
    // If the kernel does not say whose address it is, it may be this host's.
    let is_allowed = allowed.takes(to) && (allowed.names(to) || !is_own(to.ip()).unwrap_or(true));
    if !is_allowed {
        ordering.in_turn(position, Duration::ZERO, || ());
        ended.failure = refuse(house, session, Status::Forbidden);
        return false;
    }
    let begun = ordering.in_turn(position, ordering.patience, || begin(to));
    let lasts = || match session.failure() {
        Some(failure) => Err(io::Error::other(failure)),
        None if house.is_stopped() => Err(io::Error::other("it was stopped")),
        None => Ok(()),
    };
    let stream = match begun.and_then(|socket| connected(socket, lasts)) {
        Ok(stream) => stream,
        Err(error) => {
            ended.failure = refuse(house, session, status(&error));
            return false;
        }
    };
    let ready = prepare(&stream).map_err(|e| e.to_string());
    if let Err(why) =
        ready.and_then(|()| session.write_all(&Status::Connected.emit()).map_err(|e| e.to_string()))
    {
        ended.failure = why;
        return false;
    }
    house.carry(session, stream, &Arc::default(), false, &before, ended)
}

/// Reports why not, and waits until that has arrived; returns it.
fn refuse(house: &House, session: &ParallelSocket, why: Status) -> String {
    if session.write(&why.emit(), Some(Duration::ZERO)).is_ok() {
        session.finish();
        let mut waited = Duration::ZERO;
        while waited < FAREWELL && !house.is_stopped() {
            match session.delivered(Some(LOOK)) {
                Err(SocketError::TimedOut) => waited += LOOK,
                _ => break,
            }
        }
    }
    why.to_string()
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
    use std::io::Read;
    use std::net::TcpListener;
    use std::thread::{self, JoinHandle};

    use weir_psock::io::Route;

    use super::*;
    use crate::wire::{Part, Position, REPLY_BYTES};

    /// What accepts sessions into a house, with a route to it.
    fn accepting(house: &Arc<House>, patience: Duration, ordering: Ordering) -> (Route, JoinHandle<()>) {
        let listener = Listener::bind(&["127.0.0.1:0".parse().unwrap()], Options::default()).unwrap();
        let route = Route { local: None, remote: listener.addresses()[0] };
        let (house, any) = (Arc::clone(house), Arc::new(Rules::parse(&["any", "127.0.0.1"]).unwrap()));
        (route, thread::spawn(move || accept(&listener, &house, &any, patience, ordering)))
    }

    #[test]
    fn a_session_for_which_there_is_no_room_in_time_is_told_so() {
        let house = House::new(0);
        let (route, accepting) = accepting(&house, Duration::ZERO, Ordering::new(order::PATIENCE));
        let session = ParallelSocket::connect(&[route], &Options::default()).unwrap();
        let position = Position { sequence: 1, number: 0 };
        let request = Request { to: "192.0.2.1:80".parse().unwrap(), position };
        session.write_all(&request.emit()).unwrap();
        let mut reply = [0; REPLY_BYTES];
        house.fill(&session, &mut reply, ROOM).unwrap();
        assert_eq!(Status::parse(&reply), Ok(Status::Full));
        drop(session);
        // One that was opened in advance gets the same answer, and is no failure.
        let spare = ParallelSocket::connect(&[route], &Options::default()).unwrap();
        house.fill(&spare, &mut reply, 4 * FAREWELL).unwrap();
        assert_eq!(Status::parse(&reply), Ok(Status::Full));
        drop(spare);
        house.stop();
        accepting.join().unwrap();
        let told: Vec<_> = house.ended().into_iter().map(|ended| (ended.to, ended.failure)).collect();
        assert_eq!(told, [(Some(request.to), Status::Full.to_string())]);
    }

    #[test]
    fn a_session_for_which_there_is_no_thread_is_broken_off_and_told() {
        // No system has room for such a stack.
        let house = House::with_stacks(10, 1 << 60);
        let (route, accepting) = accepting(&house, ROOM, Ordering::new(order::PATIENCE));
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

    #[test]
    fn sessions_are_connected_in_the_order_of_their_numbers() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let house = House::new(10);
        // None is so late that it is not waited for.
        let (route, accepting) = accepting(&house, ROOM, Ordering::new(Duration::from_secs(600)));
        let opened = |_| ParallelSocket::connect(&[route], &Options::default()).unwrap();
        let sessions: Vec<_> = (0..4_u64).map(opened).collect();
        for (number, session) in sessions.iter().enumerate().rev() {
            let position = Position { sequence: 7, number: number as u64 };
            session.write_all(&Request { to, position }.emit()).unwrap();
            session.write_all(&Part::Data(1).emit()).unwrap();
            session.write_all(&[number as u8]).unwrap();
        }
        let mut numbers = [0_u8; 4];
        for number in &mut numbers {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(std::slice::from_mut(number)).unwrap();
        }
        assert_eq!(numbers, [0, 1, 2, 3]);
        house.stop();
        accepting.join().unwrap();
    }
}
