//! Joining the partition that owns the measuring CPUs, if there is one.
//!
//! `weirlab.lab.isolation.unified` makes it: this process is in the control group `weir-IDENTIFIER`, which
//! cannot use these CPUs, and the threads of its group `measuring` can.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What the names of our control groups begin with.
const OURS: &str = "/weir-";
const MEASURING: &str = "measuring/cgroup.threads";

/// Makes the calling thread join.
///
/// The kernel may take some 10 ms for that (it waits until no process is being forked).
///
/// # Errors
/// `NotFound` if no partition belongs to this process; otherwise the kernel's error.
pub fn join() -> io::Result<()> {
    let group = fs::read_to_string("/proc/self/cgroup")?;
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let door = door(&group, &mounts).ok_or(io::ErrorKind::NotFound)?;
    // 0 stands for the writing thread.
    File::options().write(true).open(door)?.write_all(b"0\n")
}

/// The file that accepts members, found from the contents of /proc/self/cgroup and /proc/self/mounts.
fn door(groups: &str, mounts: &str) -> Option<PathBuf> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let ours = own.starts_with(OURS).then(|| own[1..].split('/').next()).flatten()?;
    let mount = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .find_map(|fields| (fields.get(2) == Some(&"cgroup2")).then(|| fields[1].to_owned()))?;
    Some(Path::new(&mount).join(ours).join(MEASURING))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";

    #[test]
    fn the_way_in_is_found_from_the_group_beside_and_from_inside() {
        let expected = PathBuf::from("/sys/fs/cgroup/weir-0123abcd/measuring/cgroup.threads");
        assert_eq!(door("0::/weir-0123abcd\n", MOUNTS), Some(expected.clone()));
        assert_eq!(door("3:name=x:/\n0::/weir-0123abcd/measuring\n", MOUNTS), Some(expected));
    }

    #[test]
    fn without_a_partition_there_is_nothing_to_join() {
        assert_eq!(door("0::/user.slice/user-0.slice\n", MOUNTS), None);
        assert_eq!(door("0::/\n", MOUNTS), None);
        assert_eq!(door("4:cpuset:/weir-0123abcd\n", MOUNTS), None);
        assert_eq!(door("0::/weir-0123abcd\n", "proc /proc proc rw 0 0\n"), None);
    }
}
