//! Which process has a socket, from `/proc`; only what this user may see.

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The name of its program, as in `/proc/PID/comm`.
    pub name: String,
}

/// The process that owns each socket, by the socket's inode; the lowest number if several share one.
#[must_use]
pub fn owners() -> HashMap<u32, Process> {
    let mut pids: Vec<u32> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    let mut owners = HashMap::new();
    for pid in pids {
        let mut inodes = sockets_of(pid).peekable();
        if inodes.peek().is_none() {
            continue;
        }
        let name = name(pid);
        for inode in inodes {
            owners.entry(inode).or_insert_with(|| Process { pid, name: name.clone() });
        }
    }
    owners
}

/// The name of a process's program; empty if it is gone.
#[must_use]
pub fn name(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned()
}

/// Inodes of the sockets that a process owns; none if they may not be seen.
pub fn sockets_of(pid: u32) -> impl Iterator<Item = u32> {
    fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| inode(&fs::read_link(entry.path()).ok()?))
}

/// 4711 of `socket:[4711]`.
fn inode(link: &Path) -> Option<u32> {
    let text = std::str::from_utf8(link.as_os_str().as_bytes()).ok()?;
    text.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_socket_of_ours_is_ours() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let link = fs::read_link(format!("/proc/self/fd/{}", listener.as_raw_fd())).unwrap();
        let owner = owners().remove(&inode(&link).unwrap()).unwrap();
        assert_eq!((owner.pid, owner.name), (std::process::id(), name(std::process::id())));
    }

    #[test]
    fn other_links_are_no_sockets() {
        for text in ["socket:[]", "socket:[x]", "pipe:[1]", "/tmp/socket:[1]", "socket:[1]x"] {
            assert_eq!(inode(Path::new(text)), None, "{text}");
        }
    }
}
