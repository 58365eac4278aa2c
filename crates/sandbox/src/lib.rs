//! Takes rights away from the calling process, before it reads what strangers sent or serves them.
//!
//! ```text
//! as root:    a root file system of its own ── no network ── another user ──┐
//! otherwise:                                   no network ──────────────────┴── no capabilities ── Landlock ── seccomp
//! ```
//!
//! - [`Confinement`]: what the process keeps. [`Confinement::enter`] takes everything else away, for good.
//! - [`Report`]: which measures are in force, and why others are not: an old kernel lacks some, a container forbids
//!   others. What can be had is had.
//!
//! The calling thread must be the only one: threads that exist already would keep their rights.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod calls;
mod files;
mod rights;
mod user;
mod view;

use std::io;
use std::path::PathBuf;

use thiserror::Error;

pub use calls::Calls;
use view::Access;

/// What a process keeps.
#[derive(Clone, Debug, Default)]
pub struct Confinement {
    /// The user, and the group of the same number, to become. Only root can; others keep theirs.
    pub user: Option<u32>,
    /// Give it a root file system with nothing but its files, in which those that belong to others belong to `user`.
    /// Without this, `user` must be able to use the files as they are. If it cannot be had, the user stays, too.
    pub view: bool,
    /// Files and folders that it may read and execute.
    pub read: Vec<PathBuf>,
    /// Files and folders that it may read as their owner does, if it has a view; otherwise as those in `read`.
    pub read_as_owner: Vec<PathBuf>,
    /// Folders, and devices, that it may also write to.
    pub write: Vec<PathBuf>,
    /// It keeps the network of its parent.
    pub network: bool,
    /// The system calls that it may use.
    pub calls: Calls,
}

/// A measure that takes rights away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measure {
    /// A root file system with nothing but its own files.
    View,
    /// A user of its own, who is not root.
    User,
    /// A network namespace without interfaces.
    Network,
    /// No capabilities, and none to be had by starting a program.
    Capabilities,
    /// No files but its own, no signals to others (Landlock).
    Files,
    /// No system calls but those that its work needs (seccomp).
    Calls,
}

impl Measure {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::User => "user",
            Self::Network => "network",
            Self::Capabilities => "capabilities",
            Self::Files => "files",
            Self::Calls => "calls",
        }
    }
}

/// The measures that were wanted, each with the reason why it is not in force; `None`: it is.
pub type Report = Vec<(Measure, Option<String>)>;

/// The process is neither as free as before nor confined: it must end.
#[derive(Debug, Error)]
#[error("cannot confine this process: {doing}")]
pub struct ConfinementError {
    doing: &'static str,
    source: io::Error,
}

/// Names what failed.
fn when(doing: &'static str) -> impl FnOnce(rustix::io::Errno) -> ConfinementError {
    move |errno| ConfinementError { doing, source: errno.into() }
}

impl Confinement {
    /// Takes all other rights away from the calling process, for good.
    ///
    /// # Errors
    /// Part of it could not be done, and what was done before cannot be undone.
    pub fn enter(&self) -> Result<Report, ConfinementError> {
        if user::threads() != Some(1) {
            let source = io::Error::other("it has several threads");
            return Err(ConfinementError { doing: "its threads would keep their rights", source });
        }
        let mut report = Report::new();
        let mut user = self.user;
        if let (Some(id), true) = (user, self.view) {
            let refusal = view::enter(id, &self.paths())?;
            if refusal.is_some() {
                user = None;
            }
            report.push((Measure::View, refusal));
        }
        if !self.network {
            report.push((Measure::Network, user::leave_network()));
        }
        // Root has the right to do this, its successor has not.
        rights::bound()?;
        if let Some(wanted) = self.user {
            let refusal = match user {
                Some(id) => user::become_user(id)?,
                None => Some(format!("user {wanted} could not use the files as they are")),
            };
            report.push((Measure::User, refusal));
        }
        rights::drop_all()?;
        report.push((Measure::Capabilities, None));
        let read: Vec<_> = self.read.iter().chain(&self.read_as_owner).cloned().collect();
        report.push((Measure::Files, files::restrict(&read, &self.write, self.network)));
        if self.calls != Calls::All {
            report.push((Measure::Calls, calls::restrict(self.calls)));
        }
        Ok(report)
    }

    fn paths(&self) -> [(Access, &[PathBuf]); 3] {
        [(Access::Read, &self.read), (Access::ReadAsOwner, &self.read_as_owner), (Access::Write, &self.write)]
    }
}
