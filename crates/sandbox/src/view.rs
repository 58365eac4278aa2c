//! A root file system of its own: mounts of what the process may use, and nothing else.
//!
//! Files of root stay root's on the disk, but belong to the process's user as it sees them (idmapped mounts, Linux 5.12).
//! So the user reaches files below folders that are closed to it, and what it writes belongs to the owner of the folder.
//! Devices have nodes of their own, as their file system cannot do that.

use std::collections::{BTreeMap, btree_map};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, symlink};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, Uid, chownat, mknodat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount, open_tree,
    unmount,
};
use rustix::process::{Pid, Signal, WaitOptions, chdir, kill_process, pivot_root, waitpid};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::{ConfinementError, when};

/// Where the new root is put together, over something that every system has.
const STAGE: &str = "/proc";
const MOST_LINKS: usize = 40;
/// For small files that replace mount points, and nothing else.
const ROOT_SIZE: &str = "1m";
/// Where nodes of devices are made.
const NODES: &str = "/.nodes";
const NO_DEVICES: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

/// What the process may do with a path; the greater one includes the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Read what the user may read.
    #[default]
    Read,
    /// Read what the owner may read.
    ReadAsOwner,
    /// Do what the owner may do.
    Write,
}

/// A file, a folder or a device of the view, by its real path.
struct Exposed {
    path: PathBuf,
    what: What,
}

enum What {
    Folder(OwnedFd),
    File(OwnedFd),
    /// The number of a character device of which the user gets a node of its own.
    Device(u64),
}

/// What is in the view: paths without links, and the links on the way to them.
#[derive(Default)]
struct Plan {
    paths: BTreeMap<PathBuf, Access>,
    links: BTreeMap<PathBuf, PathBuf>,
}

/// Moves this process into a view for `user`; or why there can be none, with nothing changed.
pub fn enter(user: u32, paths: &[(Access, &[PathBuf])]) -> Result<Option<String>, ConfinementError> {
    let exposed = match prepared(user, paths) {
        Ok(found) => found,
        Err(error) => return Ok(Some(error.to_string())),
    };
    if let Err(error) = staged(user, &exposed) {
        // There may be nothing to unmount.
        let _ = unmount(STAGE, UnmountFlags::DETACH);
        return Ok(Some(format!("a root file system cannot be put together: {error}")));
    }
    chdir(STAGE).map_err(when("enter its root file system"))?;
    // Both at one place: the old root then covers the new one (pivot_root(2), NOTES).
    pivot_root(".", ".").map_err(when("make it the root file system"))?;
    unmount(".", UnmountFlags::DETACH).map_err(when("leave the old root file system"))?;
    chdir("/").map_err(when("enter its root file system"))?;
    Ok(None)
}

/// Everything that the view consists of, before anything visible has changed.
fn prepared(
    user: u32,
    wanted: &[(Access, &[PathBuf])],
) -> io::Result<(Vec<Exposed>, BTreeMap<PathBuf, PathBuf>)> {
    let mut plan = Plan::default();
    for &(access, paths) in wanted {
        for path in paths {
            plan.add(path, access)?;
        }
    }
    // SAFETY: there is only one thread, and descriptors are not affected.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.map_err(named("mounts of its own"))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(named("mounts of its own"))?;
    let mut owners = BTreeMap::new();
    let mut exposed = Vec::new();
    for (path, access) in &plan.paths {
        exposed.push(expose(path, *access, user, &mut owners)?);
    }
    Ok((exposed, plan.links))
}

impl Plan {
    /// Adds what is at `path`, if there is anything. A writable one has no links on the way to it: whoever can replace
    /// a folder there would have others written to.
    fn add(&mut self, path: &Path, access: Access) -> io::Result<()> {
        let mut left: Vec<PathBuf> = Vec::new();
        let mut real = PathBuf::from("/");
        let mut links = 0;
        push(&mut left, path);
        while let Some(part) = left.pop() {
            if part == Path::new("..") {
                real.pop();
                continue;
            }
            let next = real.join(&part);
            match fs::symlink_metadata(&next) {
                Ok(about) if about.is_symlink() => {
                    if access == Access::Write {
                        return Err(named(&next)(io::Error::other("a link on the way to what is writable")));
                    }
                    links += 1;
                    if links > MOST_LINKS {
                        return Err(io::Error::from_raw_os_error(libc::ELOOP));
                    }
                    let target = fs::read_link(&next)?;
                    if target.is_absolute() {
                        real = PathBuf::from("/");
                    }
                    push(&mut left, &target);
                    self.links.insert(next, target);
                }
                Ok(_) => real = next,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        let most = self.paths.entry(real).or_default();
        *most = access.max(*most);
        Ok(())
    }
}

/// Puts the parts of `path` on `left`, the first one on top.
fn push(left: &mut Vec<PathBuf>, path: &Path) {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    left.extend(parts.collect::<Vec<_>>().into_iter().rev());
}

/// What is at `path`: a mount that is not attached anywhere yet, or a device.
fn expose(
    path: &Path,
    access: Access,
    user: u32,
    owners: &mut BTreeMap<(u32, u32), OwnedFd>,
) -> io::Result<Exposed> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let mount = open_tree(CWD, path, flags).map_err(named(path))?;
    let about = File::from(mount.try_clone()?).metadata()?;
    let (is_folder, writable) = (about.is_dir(), access == Access::Write);
    let needed = if is_folder { 0o5 } else { 0o4 } | if writable { 0o2 } else { 0 };
    // What a folder is to others, what is in it need not be.
    let is_open = about.mode() & needed == needed && access != Access::ReadAsOwner;
    let is_own = about.uid() == user || is_open;
    if !is_own && about.file_type().is_char_device() {
        return Ok(Exposed { path: path.to_owned(), what: What::Device(about.rdev()) });
    }
    let mut attributes = libc::MOUNT_ATTR_NOSUID;
    if !writable {
        attributes |= libc::MOUNT_ATTR_RDONLY;
    }
    if is_folder {
        attributes |= libc::MOUNT_ATTR_NODEV | if writable { libc::MOUNT_ATTR_NOEXEC } else { 0 };
    }
    set_attributes(mount.as_fd(), attributes, None, true).map_err(named(path))?;
    if !is_own {
        let owner = (about.uid(), about.gid());
        let mapping = match owners.entry(owner) {
            btree_map::Entry::Occupied(found) => found.into_mut(),
            btree_map::Entry::Vacant(vacant) => vacant.insert(user_namespace(owner, user)?),
        };
        set_attributes(mount.as_fd(), libc::MOUNT_ATTR_IDMAP, Some(mapping.as_fd()), false).map_err(
            |error| {
                io::Error::new(
                    error.kind(),
                    format!("{}: no idmapped mount on this file system: {error}", path.display()),
                )
            },
        )?;
    }
    let what = if is_folder { What::Folder(mount) } else { What::File(mount) };
    Ok(Exposed { path: path.to_owned(), what })
}

/// mount_setattr(2).
fn set_attributes(
    mount: BorrowedFd<'_>,
    attributes: u64,
    user_namespace: Option<BorrowedFd<'_>>,
    recursive: bool,
) -> io::Result<()> {
    let about = libc::mount_attr {
        attr_set: attributes,
        attr_clr: 0,
        propagation: 0,
        userns_fd: user_namespace.map_or(0, |fd| fd.as_raw_fd() as u64),
    };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: an empty path, and a structure of the size given.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const about,
            size_of_val(&about),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A user namespace that maps `owner` on the disk to `user`, for a mount.
fn user_namespace(owner: (u32, u32), user: u32) -> io::Result<OwnedFd> {
    let flags = libc::CLONE_NEWUSER | libc::SIGCHLD;
    // SAFETY: as fork(2). The child only waits for its end, without touching anything.
    let child = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if child == 0 {
        // SAFETY: system calls without memory.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            loop {
                libc::pause();
            }
        }
    }
    let failed = io::Error::last_os_error();
    let Some(pid) = i32::try_from(child).ok().filter(|&child| child > 0).and_then(Pid::from_raw) else {
        return Err(named("a user namespace for its mounts")(failed));
    };
    let process = PathBuf::from(format!("/proc/{child}"));
    let found = fs::write(process.join("uid_map"), format!("{} {user} 1", owner.0))
        .and_then(|()| fs::write(process.join("gid_map"), format!("{} {user} 1", owner.1)))
        .and_then(|()| File::open(process.join("ns/user")));
    let _ = kill_process(pid, Signal::KILL);
    let _ = waitpid(Some(pid), WaitOptions::empty());
    found.map(OwnedFd::from)
}

/// Puts the new root together at [`STAGE`].
fn staged(user: u32, (exposed, links): &(Vec<Exposed>, BTreeMap<PathBuf, PathBuf>)) -> io::Result<()> {
    let root = file_system("tmpfs", &[("mode", "0755"), ("size", ROOT_SIZE)], NO_DEVICES)?;
    let processes = file_system("proc", &[("hidepid", "invisible")], NO_DEVICES).or_else(|_| {
        let flags =
            OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        open_tree(CWD, "/proc", flags).map_err(named("/proc"))
    })?;
    attach(root.as_fd(), Path::new(STAGE))?;
    // By depth: what is inside another one comes after it. The paths are in order.
    for each in exposed {
        let target = staged_path(&each.path);
        if let What::Folder(mount) = &each.what {
            make_folder(&target)?;
            attach(mount.as_fd(), &target)?;
            continue;
        }
        if !target.exists() {
            make_folder(target.parent().unwrap_or(Path::new(STAGE)))?;
            File::create(&target)?;
        }
        match &each.what {
            What::Folder(mount) | What::File(mount) => attach(mount.as_fd(), &target)?,
            What::Device(number) => attach(node(*number, user)?.as_fd(), &target)?,
        }
    }
    for (link, target) in links {
        let place = staged_path(link);
        if fs::symlink_metadata(&place).is_err() {
            make_folder(place.parent().unwrap_or(Path::new(STAGE)))?;
            symlink(target, &place)?;
        }
    }
    let target = staged_path(Path::new("/proc"));
    make_folder(&target)?;
    attach(processes.as_fd(), &target)
}

/// A mount of a node for the character device `number`, which belongs to `user`.
fn node(number: u64, user: u32) -> io::Result<OwnedFd> {
    let folder = staged_path(Path::new(NODES));
    let path = folder.join("node");
    make_folder(&folder)?;
    let nodes =
        file_system("tmpfs", &[("mode", "0755"), ("size", ROOT_SIZE)], MountAttrFlags::MOUNT_ATTR_NOSUID)?;
    attach(nodes.as_fd(), &folder)?;
    mknodat(CWD, &path, FileType::CharacterDevice, Mode::RUSR | Mode::WUSR, number).map_err(named(&path))?;
    chownat(CWD, &path, Some(Uid::from_raw(user)), None, AtFlags::SYMLINK_NOFOLLOW).map_err(named(&path))?;
    let mount = open_tree(CWD, &path, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)
        .map_err(named(&path))?;
    unmount(&folder, UnmountFlags::DETACH).map_err(named(&folder))?;
    fs::remove_dir(&folder)?;
    Ok(mount)
}

fn staged_path(path: &Path) -> PathBuf {
    Path::new(STAGE).join(path.strip_prefix("/").unwrap_or(path))
}

fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)
}

fn file_system(kind: &str, options: &[(&str, &str)], attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).map_err(named(kind))?;
    for (name, value) in options {
        fsconfig_set_string(context.as_fd(), *name, *value).map_err(named(kind))?;
    }
    fsconfig_create(context.as_fd()).map_err(named(kind))?;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes).map_err(named(kind))
}

fn attach(mount: BorrowedFd<'_>, target: &Path) -> io::Result<()> {
    move_mount(mount, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).map_err(named(target))
}

/// The error with what it is about.
fn named<N: AsRef<OsStr>, E: Into<io::Error>>(name: N) -> impl FnOnce(E) -> io::Error {
    move |error| {
        let error = error.into();
        io::Error::new(error.kind(), format!("{}: {error}", name.as_ref().display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_planned_with_the_links_on_the_way_to_it() {
        let place = std::env::temp_dir().join(format!("weir-view-{}", std::process::id()));
        fs::create_dir_all(place.join("real/inner")).unwrap();
        symlink("real", place.join("link")).unwrap();
        symlink("../link/inner", place.join("real/back")).unwrap();
        let mut plan = Plan::default();
        plan.add(&place.join("link/back"), Access::Read).unwrap();
        plan.add(&place.join("real/../real/inner"), Access::Write).unwrap();
        plan.add(&place.join("missing/one"), Access::Write).unwrap();
        let refused = plan.add(&place.join("link/inner"), Access::Write).unwrap_err();
        assert!(refused.to_string().contains("a link on the way"), "{refused}");
        fs::remove_dir_all(&place).unwrap();
        assert_eq!(plan.paths, BTreeMap::from([(place.join("real/inner"), Access::Write)]));
        let links = [("link", "real"), ("real/back", "../link/inner")];
        assert_eq!(plan.links, links.map(|(link, target)| (place.join(link), PathBuf::from(target))).into());
    }

    #[test]
    fn links_in_a_circle_are_refused() {
        let place = std::env::temp_dir().join(format!("weir-circle-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        symlink("b", place.join("a")).unwrap();
        symlink("a", place.join("b")).unwrap();
        let refused = Plan::default().add(&place.join("a"), Access::Read).unwrap_err();
        fs::remove_dir_all(&place).unwrap();
        assert_eq!(refused.raw_os_error(), Some(libc::ELOOP));
    }
}
