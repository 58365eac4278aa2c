//! The user, and the network namespace.

use std::fs;

use rustix::fs::{Gid, Uid};
use rustix::process::{getegid, geteuid};
use rustix::thread::{
    UnshareFlags, set_thread_groups, set_thread_res_gid, set_thread_res_uid, unshare_unsafe,
};

use crate::{ConfinementError, when};

/// How many threads this process has; `None` if /proc does not say.
pub fn threads() -> Option<usize> {
    fs::read_dir("/proc/self/task").ok().map(Iterator::count)
}

/// Becomes the user and the group of this number, without further groups; or why it cannot.
pub fn become_user(id: u32) -> Result<Option<String>, ConfinementError> {
    if geteuid().as_raw() == id {
        return Ok(None);
    }
    if !geteuid().is_root() {
        return Ok(Some("only root can become another user".into()));
    }
    // Only this thread: it is the only one.
    if let Err(errno) = set_thread_groups(&[]) {
        return Ok(Some(format!("{errno}: root has no right to it here")));
    }
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    set_thread_res_gid(gid, gid, gid).map_err(when("become another group"))?;
    set_thread_res_uid(uid, uid, uid).map_err(when("become another user"))?;
    Ok(None)
}

/// Enters a network namespace without interfaces that are up; or why it cannot.
pub fn leave_network() -> Option<String> {
    // SAFETY: neither flag affects descriptors or the threads' shared state; there is only one thread.
    let unshare = |flags| unsafe { unshare_unsafe(flags) };
    if unshare(UnshareFlags::NEWNET).is_ok() {
        return None;
    }
    let (uid, gid) = (geteuid(), getegid());
    if let Err(errno) = unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNET) {
        return Some(format!("{errno}: neither root nor user namespaces"));
    }
    // Otherwise its files would belong to somebody else, as it sees them.
    let _ = fs::write("/proc/self/setgroups", "deny");
    let _ = fs::write("/proc/self/uid_map", format!("{0} {0} 1", uid.as_raw()));
    let _ = fs::write("/proc/self/gid_map", format!("{0} {0} 1", gid.as_raw()));
    None
}
