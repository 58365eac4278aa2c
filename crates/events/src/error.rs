//! Why nothing can be watched by BPF.

use std::io;

use thiserror::Error;
use weir_tcp::diag::DiagError;

/// Why nothing can be watched by BPF.
#[derive(Debug, Error)]
pub enum EventsError {
    /// The user may not load BPF programs.
    #[error("the kernel lets only root (CAP_BPF and CAP_PERFMON) watch by BPF")]
    NotAllowed(#[source] io::Error),
    /// The kernel does not describe its own types.
    #[error("this kernel has no BTF (/sys/kernel/btf/vmlinux), which watching by BPF needs")]
    NoBtf(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The kernel does not do what is needed.
    #[error("this kernel refuses to {action} (Linux 5.12 with BPF_EVENTS is needed)")]
    Refused {
        /// What was tried.
        action: String,
        /// The kernel's reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Connections that exist already cannot be found.
    #[error(transparent)]
    Diag(#[from] DiagError),
    /// A system call failed.
    #[error("cannot {action}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
}

impl EventsError {
    /// The kernel refused to do something: for lack of rights, or of the feature.
    pub(crate) fn refused(
        action: impl Into<String>,
    ) -> impl FnOnce(Box<dyn std::error::Error + Send + Sync>) -> Self {
        let action = action.into();
        |source| match os_error(source.as_ref()) {
            Some(number @ (EPERM | EACCES)) => Self::NotAllowed(io::Error::from_raw_os_error(number)),
            _ => Self::Refused { action, source },
        }
    }
}

/// The object file lacks something.
pub fn missing(name: &str) -> EventsError {
    let why = format!("the object file lacks {name}; rebuild Weir");
    EventsError::Refused { action: "load a program".to_owned(), source: why.into() }
}

const EPERM: i32 = 1;
const EACCES: i32 = 13;

/// The number behind an error of aya.
fn os_error(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(number) = error.downcast_ref().and_then(io::Error::raw_os_error) {
            return Some(number);
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_rights_are_told_from_missing_features() {
        let refused = |number| EventsError::refused("run")(io::Error::from_raw_os_error(number).into());
        for number in [EPERM, EACCES] {
            assert!(matches!(refused(number), EventsError::NotAllowed(_)));
        }
        let feature = refused(22).to_string();
        assert!(feature.starts_with("this kernel refuses to run"), "{feature}");
    }

    #[test]
    fn the_kernels_number_is_found_behind_other_errors() {
        #[derive(Debug, Error)]
        #[error("a map cannot be made")]
        struct Outer(#[source] io::Error);
        assert_eq!(os_error(&Outer(io::Error::from_raw_os_error(EPERM))), Some(EPERM));
    }
}
