//! The thread that reads events.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use weir_clock::now_ns;
use weir_tcp::diag::{Diag, Id, State};
use weir_tcp::watch::{Filter, Shared, Watcher};

use crate::error::EventsError;
use crate::program::Programs;
use crate::table::{Row, Table};

/// How long events stay in the ring, which has room for 100,000 of them.
const READ_EVERY: Duration = Duration::from_millis(10);

/// What is watched.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which connections.
    pub filter: Filter,
    /// Wait for connections that do not exist yet, and also watch those that begin later.
    pub wait: bool,
}

/// Starts watching, in the network namespace of the calling thread. From then on nothing is missed.
///
/// # Errors
/// [`EventsError`]; later errors are in [`weir_tcp::watch::Progress::failure`].
pub fn start(options: Options) -> Result<Watcher<Row>, EventsError> {
    let Options { filter, wait } = options;
    // First the programs, then what exists: what begins in between is in both, and known by its cookie.
    let programs = Programs::attach(filter.ends)?;
    let mut diag = Diag::open()?;
    let found = filter.candidates(&mut diag)?;
    let owners = if filter.has_process() { filter.owners() } else { HashMap::new() };
    let mut table = Table::new(filter.clone(), wait);
    let shared = Shared::default();
    for each in &found {
        table.enter(each, &owners, &mut shared.progress(), now_ns());
    }
    let reader = Reader { programs, diag, filter, wait, table, lost: 0 };
    Watcher::run("events", shared, move |shared| reader.run(shared))
        .map_err(|source| EventsError::System { action: "make a thread", source })
}

struct Reader {
    programs: Programs,
    diag: Diag,
    filter: Filter,
    wait: bool,
    table: Table,
    /// By the programs, as far as it has been recorded.
    lost: u64,
}

impl Reader {
    /// Reads until told to stop, or until all connections have ended.
    fn run(mut self, shared: &Shared<Row>) -> Result<(), EventsError> {
        loop {
            // Checked before: what happened until then is read.
            let is_stopped = shared.is_stopped();
            self.read(shared)?;
            // A client that waits for a server sees attempts that it refuses.
            let is_waiting = self.wait && !self.table.was_connected();
            let is_over =
                !is_waiting && shared.progress().connections.iter().all(|each| each.ended_ns.is_some());
            if is_stopped || is_over {
                return Ok(());
            }
            thread::sleep(READ_EVERY);
        }
    }

    fn read(&mut self, shared: &Shared<Row>) -> Result<(), EventsError> {
        let mut events = Vec::new();
        self.programs.read(|event| events.push(event));
        // Each CPU writes its own in order, and reserves room a moment after it looked at the clock.
        events.sort_by_key(|event| event.at_ns);
        let lost = self.programs.lost()?;
        let mut progress = shared.progress();
        let mut rows = shared.rows();
        // Once for all that are new: their sockets were there before their events were read.
        let mut owners = None;
        let mut owner = |inode| owners.get_or_insert_with(|| self.filter.owners()).get(&inode).cloned();
        self.table.take(events, &mut owner, &mut progress, &mut rows);
        if lost > self.lost {
            progress.lost += lost - self.lost;
            self.lost = lost;
            // The end of a connection may be among them.
            let alive: Vec<_> = self.table.alive().collect();
            for (cookie, number) in alive {
                let Some(each) = progress.connections.get(number as usize) else { continue };
                let id = Id { local: each.local, remote: each.remote, interface: 0, cookie };
                if self.diag.one(&id)?.is_none_or(|found| found.state == State::TIME_WAIT) {
                    self.table.is_gone(cookie, &mut progress, now_ns());
                }
            }
        }
        Ok(())
    }
}
