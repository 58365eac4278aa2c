//! Capabilities.

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use crate::{ConfinementError, when};

/// Makes sure that no program that is started has any capability again. As any user but root, `no_new_privs` does.
pub fn bound() -> Result<(), ConfinementError> {
    set_no_new_privs(true).map_err(when("set no_new_privs"))?;
    for number in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        match capability_is_in_bounding_set(one) {
            Ok(true) => match remove_capability_from_bounding_set(one) {
                Ok(()) => {}
                Err(Errno::PERM) => break,
                Err(errno) => return Err(when("drop the bounding set")(errno)),
            },
            Ok(false) => {}
            // The kernel has no capability of this number, and none above.
            Err(_) => break,
        }
    }
    Ok(())
}

/// Drops every capability.
pub fn drop_all() -> Result<(), ConfinementError> {
    // Linux before 4.3 has no ambient set.
    let _ = clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).map_err(when("drop the capabilities"))?;
    // Another user than before: its own files in /proc would belong to root.
    set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(when("keep /proc/self"))
}
