//! Which connection an event belongs to, and which connections are selected.

use std::collections::HashMap;
use std::mem;

use weir_tcp::diag::{Connection, Id, State};
use weir_tcp::process::Process;
use weir_tcp::watch::{Filter, MOST_CONNECTIONS, MOST_SAMPLES, Progress, Watched};

use crate::event::{Event, Kind};

/// Most events that are kept of a connection whose process is not known yet.
const MOST_WAITING: usize = 1024;

/// The same for all those connections together: anyone may open many of them.
const MOST_WAITING_IN_ALL: usize = 1 << 16;

/// An event of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its number among those watched.
    pub connection: u32,
    /// What happened.
    pub event: Event,
}

/// What is known about a socket.
#[derive(Debug)]
enum Known {
    /// It is watched: its number.
    Watched(u32),
    /// It is not selected.
    Other,
    /// No process has it yet, so it is not known whether it is selected: what happened so far.
    Waiting(Vec<Event>),
}

/// The connections, by the kernel's cookies.
#[derive(Debug)]
pub struct Table {
    filter: Filter,
    takes_later: bool,
    known: HashMap<u64, Known>,
    /// Events of connections that are not yet classified.
    waiting: usize,
    was_connected: bool,
}

/// Finds the process that owns the socket with this inode, if it can be selected.
pub type Owners<'a> = dyn FnMut(u32) -> Option<Process> + 'a;

impl Table {
    /// For connections that match; with `takes_later`, also for those that begin later.
    #[must_use]
    pub fn new(filter: Filter, takes_later: bool) -> Self {
        Self { filter, takes_later, known: HashMap::new(), waiting: 0, was_connected: false }
    }

    /// Adds a connection that exists already.
    pub fn enter(
        &mut self,
        found: &Connection,
        owners: &HashMap<u32, Process>,
        progress: &mut Progress,
        now_ns: u64,
    ) {
        let owner = owners.get(&found.inode);
        if self.filter.fits_owner(owner) {
            let fresh = Watched::found(&found.id, found.inode, found.congestion.clone(), owner, now_ns);
            self.was_connected = true;
            self.watch(found.id.cookie, fresh, progress);
        } else if found.inode != 0 || !self.takes_later {
            self.known.insert(found.id.cookie, Known::Other);
        }
    }

    /// Takes events in order, and adds rows.
    pub fn take(
        &mut self,
        events: Vec<Event>,
        owners: &mut Owners<'_>,
        progress: &mut Progress,
        rows: &mut Vec<Row>,
    ) {
        for event in events {
            self.take_one(event, owners, progress, rows);
        }
    }

    fn take_one(
        &mut self,
        event: Event,
        owners: &mut Owners<'_>,
        progress: &mut Progress,
        rows: &mut Vec<Row>,
    ) {
        let is_last = event.kind == Kind::State && event.state() == State::CLOSE;
        match self.known.get_mut(&event.cookie) {
            Some(Known::Watched(number)) => {
                let number = *number;
                self.was_connected |= is_connected(&event);
                add(number, event, progress, rows);
            }
            Some(Known::Other) => {}
            None if !self.takes_later => {}
            found => {
                let mut events = match found {
                    Some(Known::Waiting(events)) => {
                        self.waiting -= events.len();
                        mem::take(events)
                    }
                    _ => Vec::new(),
                };
                events.push(event);
                self.judge(events, owners, progress, rows);
            }
        }
        // The socket may connect again, as another connection.
        if is_last && let Some(Known::Waiting(events)) = self.known.remove(&event.cookie) {
            self.waiting -= events.len();
        }
    }

    /// Decides whether the connection of these events is selected.
    fn judge(
        &mut self,
        events: Vec<Event>,
        owners: &mut Owners<'_>,
        progress: &mut Progress,
        rows: &mut Vec<Row>,
    ) {
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return };
        let cookie = first.cookie;
        let mut owner = None;
        if self.filter.has_process() {
            if last.inode == 0 {
                if events.len() < MOST_WAITING && self.waiting + events.len() <= MOST_WAITING_IN_ALL {
                    self.waiting += events.len();
                    self.known.insert(cookie, Known::Waiting(events));
                } else {
                    progress.lost += events.len() as u64;
                    self.known.insert(cookie, Known::Other);
                }
                return;
            }
            owner = owners(last.inode);
            if !self.filter.fits_owner(owner.as_ref()) {
                self.known.insert(cookie, Known::Other);
                return;
            }
        }
        let id = Id { local: last.local, remote: last.remote, interface: 0, cookie };
        let fresh = Watched::found(&id, last.inode, String::new(), owner.as_ref(), first.at_ns);
        if let Some(number) = self.watch(cookie, fresh, progress) {
            for event in events {
                self.was_connected |= is_connected(&event);
                add(number, event, progress, rows);
            }
        }
    }

    fn watch(&mut self, cookie: u64, fresh: Watched, progress: &mut Progress) -> Option<u32> {
        if progress.connections.len() >= MOST_CONNECTIONS {
            progress.left_out += 1;
            self.known.insert(cookie, Known::Other);
            return None;
        }
        let number = progress.connections.len() as u32;
        self.known.insert(cookie, Known::Watched(number));
        progress.connections.push(fresh);
        Some(number)
    }

    /// There has been more than attempts to connect.
    #[must_use]
    pub const fn was_connected(&self) -> bool {
        self.was_connected
    }

    /// The connections that are watched and have not ended, by their cookies.
    pub fn alive(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.known.iter().filter_map(|(cookie, known)| match known {
            Known::Watched(number) => Some((*cookie, *number)),
            _ => None,
        })
    }

    /// Notes that a connection no longer exists, although no event reported it.
    pub fn is_gone(&mut self, cookie: u64, progress: &mut Progress, now_ns: u64) {
        if let Some(Known::Watched(number)) = self.known.remove(&cookie)
            && let Some(each) = progress.connections.get_mut(number as usize)
        {
            each.ended_ns.get_or_insert(now_ns);
        }
    }
}

fn is_connected(event: &Event) -> bool {
    event.kind == Kind::Received || event.state() == State::ESTABLISHED
}

fn add(number: u32, event: Event, progress: &mut Progress, rows: &mut Vec<Row>) {
    let Some(each) = progress.connections.get_mut(number as usize) else { return };
    // When a connection ends, no process owns it any more.
    each.inode = if each.inode == 0 { event.inode } else { each.inode };
    // Before it connects, the kernel may not have chosen a port.
    if each.local.port() == 0 {
        each.local = event.local;
    }
    if event.kind == Kind::State {
        let congestion = event.congestion();
        if !congestion.is_empty() {
            each.congestion = congestion.into_owned();
        }
        if event.state() == State::CLOSE {
            each.ended_ns = Some(event.at_ns);
        }
    }
    if rows.len() < MOST_SAMPLES {
        each.samples += 1;
        rows.push(Row { connection: number, event });
    } else {
        progress.lost += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::tests::bytes;
    use weir_tcp::Sample;

    const SYN_SENT: u8 = 2;
    const ESTABLISHED: u8 = 1;
    const CLOSE: u8 = 7;

    fn event(cookie: u64, at_ns: u64, kind: Kind, state: u8, port: u16, inode: u64) -> Event {
        Event::parse(&bytes(cookie, at_ns, kind, state, port, inode)).unwrap()
    }

    /// A connection from its first state to its last.
    fn whole(cookie: u64) -> Vec<Event> {
        vec![
            event(cookie, 1, Kind::State, SYN_SENT, 0, 0),
            event(cookie, 2, Kind::State, ESTABLISHED, 4_000, 7),
            event(cookie, 3, Kind::Received, ESTABLISHED, 4_000, 7),
            event(cookie, 4, Kind::State, CLOSE, 4_000, 0),
        ]
    }

    fn taken(table: &mut Table, events: Vec<Event>, progress: &mut Progress) -> Vec<(u32, u64)> {
        let mut rows = Vec::new();
        let mut owners = |inode| (inode == 7).then(|| Process { pid: 70, name: "curl".into() });
        table.take(events, &mut owners, progress, &mut rows);
        rows.iter().map(|row| (row.connection, row.event.at_ns)).collect()
    }

    #[test]
    fn a_connection_that_begins_later_is_watched_from_its_first_event_to_its_last() {
        let mut progress = Progress::default();
        let mut table = Table::new(Filter::default(), true);
        assert_eq!(taken(&mut table, whole(1), &mut progress), [(0, 1), (0, 2), (0, 3), (0, 4)]);
        let [one] = &progress.connections[..] else { panic!("{progress:?}") };
        assert_eq!((one.local.port(), one.inode, one.samples), (4_000, 7, 4));
        assert_eq!(one.congestion, "cubic");
        assert_eq!((one.found_ns, one.ended_ns), (1, Some(4)));
        assert_eq!(table.alive().count(), 0);
    }

    #[test]
    fn an_attempt_that_is_refused_is_no_connection() {
        let mut progress = Progress::default();
        let mut table = Table::new(Filter::default(), true);
        let refused = [whole(1)[0], event(1, 2, Kind::State, CLOSE, 4_000, 7)];
        assert_eq!(taken(&mut table, refused.to_vec(), &mut progress), [(0, 1), (0, 2)]);
        assert!(!table.was_connected());
        taken(&mut table, whole(2), &mut progress);
        assert!(table.was_connected());
    }

    #[test]
    fn a_socket_that_connects_again_is_another_connection() {
        let mut progress = Progress::default();
        let mut table = Table::new(Filter::default(), true);
        taken(&mut table, whole(1), &mut progress);
        assert_eq!(taken(&mut table, whole(1), &mut progress)[0], (1, 1));
    }

    #[test]
    fn without_waiting_only_what_exists_is_watched() {
        let mut progress = Progress::default();
        let mut table = Table::new(Filter::default(), false);
        let id = whole(1)[1];
        let existing = Connection {
            id: Id { local: id.local, remote: id.remote, interface: 0, cookie: 1 },
            state: State(ESTABLISHED),
            uid: 0,
            inode: 7,
            congestion: "cubic".into(),
            sample: Sample::default(),
        };
        table.enter(&existing, &HashMap::new(), &mut progress, 0);
        let events = [whole(2), whole(1)[2..].to_vec()].concat();
        assert_eq!(taken(&mut table, events, &mut progress), [(0, 3), (0, 4)]);
        assert_eq!(progress.connections[0].congestion, "cubic");
    }

    #[test]
    fn events_wait_until_the_process_is_known() {
        for (program, expected) in [("curl", vec![(0, 1), (0, 2), (0, 3), (0, 4)]), ("sshd", vec![])] {
            let filter = Filter { program: Some(program.into()), ..Filter::default() };
            let (mut progress, mut table) = (Progress::default(), Table::new(filter, true));
            assert_eq!(taken(&mut table, whole(1), &mut progress), expected, "{program}");
            assert_eq!(progress.connections.len(), usize::from(!expected.is_empty()));
        }
    }

    #[test]
    fn what_ends_without_an_event_is_noted() {
        let mut progress = Progress::default();
        let mut table = Table::new(Filter::default(), true);
        taken(&mut table, whole(1)[..3].to_vec(), &mut progress);
        assert_eq!(table.alive().collect::<Vec<_>>(), [(1, 0)]);
        table.is_gone(1, &mut progress, 9);
        assert_eq!((progress.connections[0].ended_ns, table.alive().count()), (Some(9), 0));
    }

    #[test]
    fn rows_without_room_are_counted() {
        let mut progress = Progress::default();
        let mut table = Table::new(Filter::default(), true);
        let events = vec![whole(1)[1]; MOST_SAMPLES + 3];
        assert_eq!(taken(&mut table, events, &mut progress).len(), MOST_SAMPLES);
        assert_eq!((progress.lost, progress.connections[0].samples), (3, MOST_SAMPLES as u64));
    }
}
