//! Landlock: files, signals, connections.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

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
    for (paths, access) in [(read, reading), (write, writing())] {
        for path in paths {
            // What is missing cannot be opened either.
            if let Ok(fd) = PathFd::new(path) {
                created = created.add_rule(PathBeneath::new(fd, of_kind(path, access)))?;
            }
        }
    }
    created.restrict_self()
}

/// Reading and writing, but neither starting programs nor making devices.
fn writing() -> BitFlags<AccessFs> {
    let never = AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock;
    AccessFs::from_all(TRIED) & !never
}

/// The rights among `access` that a file can have, if `path` is one.
fn of_kind(path: &Path, access: BitFlags<AccessFs>) -> BitFlags<AccessFs> {
    if path.is_dir() { access } else { access & AccessFs::from_file(TRIED) }
}
