//! The existing descriptors.
//!
//! A descriptor of a parallel socket is one of the kernel's, which shows when to call, so that poll(2) and epoll(7)
//! take it and fcntl(2) sets `O_NONBLOCK`. What belongs to it is found by its number, as long as the kernel has the
//! same socket behind it: a program that calls close(2) instead of `psclose` gets `EBADF` afterwards, never
//! another socket. After fork(2), a child has no sockets: the threads that carry them are its parent's. A process that
//! exits aborts its sessions, so that the other ends know at once.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use libc::c_int;

use crate::descriptor::Descriptor;
use crate::failure::{Failure, Outcome};

/// Longest time that the end of a process takes to tell the other ends.
const FAREWELL: Duration = Duration::from_millis(300);

/// Identifies a socket of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity(libc::dev_t, libc::ino_t);

impl Identity {
    fn of(fd: RawFd) -> Outcome<Self> {
        let mut found = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: the kernel writes one `struct stat`.
        if unsafe { libc::fstat(fd, found.as_mut_ptr()) } != 0 {
            return Err(Failure::last());
        }
        // SAFETY: it did.
        let found = unsafe { found.assume_init() };
        Ok(Self(found.st_dev, found.st_ino))
    }
}

type Table = HashMap<RawFd, (Identity, Arc<Descriptor>)>;

/// The descriptors of one process.
struct Store {
    table: Mutex<Table>,
    /// That of the parent, whose threads this process does not have.
    _parent: *mut Store,
}

static STORE: AtomicPtr<Store> = AtomicPtr::new(ptr::null_mut());

extern "C" fn forked() {
    // A thread that does not exist here may hold a lock of the old one: it is kept, and never looked at again.
    let parent = STORE.load(SeqCst);
    STORE.store(Box::into_raw(Box::new(Store { table: Mutex::default(), _parent: parent })), SeqCst);
}

extern "C" fn exiting() {
    let all: Vec<_> = lock().drain().map(|(_, (_, descriptor))| descriptor).collect();
    let aborted: Vec<_> = all.iter().filter_map(|descriptor| descriptor.abort()).collect();
    let due = Instant::now() + FAREWELL;
    for socket in aborted {
        let _ = socket.ended(Some(due.saturating_duration_since(Instant::now())));
    }
}

fn lock() -> MutexGuard<'static, Table> {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        forked();
        // SAFETY: both functions exist as long as the library, whose code is never unloaded by then.
        unsafe {
            libc::pthread_atfork(None, None, Some(forked));
            libc::atexit(exiting);
        }
    });
    // SAFETY: it was made above, and is never freed.
    let store: &'static Store = unsafe { &*STORE.load(SeqCst) };
    store.table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a descriptor for the application out of `shown`, which stays open as long as the socket.
///
/// # Errors
/// `EMFILE`, `ENFILE`.
pub fn add(shown: RawFd, descriptor: Descriptor, closes_on_exec: bool) -> Outcome<c_int> {
    let identity = Identity::of(shown)?;
    let how = if closes_on_exec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
    // SAFETY: plain system call.
    let fd = unsafe { libc::fcntl(shown, how, 0) };
    if fd < 0 {
        return Err(Failure::last());
    }
    let old = lock().insert(fd, (identity, Arc::new(descriptor)));
    // Of a program that used close(2); dropped without the lock, since that may take a moment.
    drop(old);
    Ok(fd)
}

/// What is behind a descriptor.
///
/// # Errors
/// `EBADF`: not a parallel socket.
pub fn get(fd: c_int) -> Outcome<Arc<Descriptor>> {
    let bad = || Failure::new(libc::EBADF);
    let mut table = lock();
    let (identity, descriptor) = table.get(&fd).ok_or_else(bad)?;
    if Identity::of(fd).is_ok_and(|found| found == *identity) {
        return Ok(Arc::clone(descriptor));
    }
    let stale = table.remove(&fd);
    drop(table);
    drop(stale);
    Err(bad())
}

/// Takes a descriptor out of the table and closes it; its socket remains.
///
/// # Errors
/// `EBADF`: not a parallel socket.
pub fn remove(fd: c_int) -> Outcome<Arc<Descriptor>> {
    let found = get(fd)?;
    // Only one of two threads that close it at once does so; by then the number may be another socket's.
    let mut table = lock();
    if !table.get(&fd).is_some_and(|(_, now)| Arc::ptr_eq(now, &found)) {
        return Err(Failure::new(libc::EBADF));
    }
    table.remove(&fd);
    drop(table);
    // SAFETY: the descriptor was made here, and is still the same.
    unsafe { libc::close(fd) };
    Ok(found)
}

/// Whether the application has set `O_NONBLOCK`.
#[must_use]
pub fn is_non_blocking(fd: c_int) -> bool {
    // SAFETY: plain system call.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_NONBLOCK != 0
}

/// Sets `O_NONBLOCK`.
pub fn set_non_blocking(fd: c_int) {
    // SAFETY: plain system calls.
    unsafe { libc::fcntl(fd, libc::F_SETFL, libc::fcntl(fd, libc::F_GETFL) | libc::O_NONBLOCK) };
}
