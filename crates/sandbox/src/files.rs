//! Landlock: files, signals, connections.

use std::fs::File;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

/// The newest version of Landlock that these rules were tried with. Older kernels enforce what they know of it.
const TRIED: ABI = ABI::V7;

/// Restricts this process to these files; without `network`, also from connecting and listening. Or why it cannot.
pub fn restrict(read: &[PathBuf], write: &[PathBuf], network: bool) -> Option<String> {
    match restricted(read, write, network) {
        Ok(status) if status.ruleset != RulesetStatus::NotEnforced => None,
        Ok(status) => Some(match status.landlock {
            LandlockStatus::NotImplemented => "this kernel has no Landlock (Linux 5.13)".into(),
            _ => "Landlock is not enabled on this machine (boot option lsm=)".into(),
        }),
        Err(error) => Some(format!("Landlock: {error}")),
    }
}

fn restricted(
    read: &[PathBuf],
    write: &[PathBuf],
    network: bool,
) -> Result<landlock::RestrictionStatus, RulesetError> {
    let reading = AccessFs::from_read(TRIED);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(TRIED))?
        .scope(Scope::from_all(TRIED))?;
    if !network {
        ruleset = ruleset.handle_access(AccessNet::from_all(TRIED))?;
    }
    let mut created = ruleset.create()?;
    // What is missing cannot be opened either.
    for fd in read.iter().filter_map(|path| opened(path, ResolveFlags::empty())) {
        let access = of_kind(&fd, reading);
        created = created.add_rule(PathBeneath::new(fd, access))?;
    }
    // Without links: whoever can replace a folder on the way would have others written to.
    for fd in write.iter().filter_map(|path| opened(path, ResolveFlags::NO_SYMLINKS)) {
        let access = of_kind(&fd, writing());
        created = created.add_rule(PathBeneath::new(fd, access))?;
    }
    created.restrict_self()
}

fn opened(path: &Path, resolve: ResolveFlags) -> Option<File> {
    openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve).ok().map(File::from)
}

/// Reading and writing, but neither starting programs nor making devices.
fn writing() -> BitFlags<AccessFs> {
    let never = AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock;
    AccessFs::from_all(TRIED) & !never
}

/// The rights among `access` that a file can have, if this is one.
fn of_kind(file: &File, access: BitFlags<AccessFs>) -> BitFlags<AccessFs> {
    let is_folder = file.metadata().is_ok_and(|about| about.is_dir());
    if is_folder { access } else { access & AccessFs::from_file(TRIED) }
}
