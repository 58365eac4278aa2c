//! Errors as `errno`, and panics stopped.

use std::error::Error;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use libc::c_int;
use weir_psock::io::{OpenError, SocketError};
use weir_psock::session::SessionError;
use weir_psock::wire::{GreetingError, Reason};
use weir_tcp::option::OptionError;

/// Why a call failed: a number of errno(3), and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Of errno(3).
    pub errno: c_int,
    /// For people to read.
    pub text: String,
}

/// The result of a call.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// With the system's own words.
    #[must_use]
    pub fn new(errno: c_int) -> Self {
        Self { errno, text: io::Error::from_raw_os_error(errno).to_string() }
    }

    /// The system's last error.
    #[must_use]
    pub fn last() -> Self {
        Self::of_io(&io::Error::last_os_error())
    }

    fn of(errno: c_int, error: &dyn Error) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Self { errno, text }
    }

    fn of_io(error: &io::Error) -> Self {
        Self::of(errno_of(error), error)
    }
}

fn errno_of(error: &io::Error) -> c_int {
    error.raw_os_error().unwrap_or(match error.kind() {
        io::ErrorKind::TimedOut => libc::ETIMEDOUT,
        _ => libc::EIO,
    })
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let errno = match &error {
            OpenError::Connect { source, .. }
            | OpenError::Listen { source, .. }
            | OpenError::Local { source, .. }
            | OpenError::System { source, .. }
            | OpenError::Option(OptionError::Refused { source, .. }) => errno_of(source),
            OpenError::Greeting { source, .. } => match source {
                GreetingError::NotPsock | GreetingError::Version(_) => libc::EPROTONOSUPPORT,
                GreetingError::Secret => libc::EACCES,
                GreetingError::Unknown | GreetingError::Full => libc::ECONNREFUSED,
                GreetingError::Malformed => libc::EPROTO,
            },
            OpenError::Option(OptionError::Unavailable { .. }) => libc::ENOENT,
            OpenError::Silent { .. } => libc::EPROTONOSUPPORT,
            OpenError::TokenNeeded(_) => libc::EACCES,
            _ => libc::EINVAL,
        };
        Self::of(errno, &error)
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        let errno = match &error {
            SessionError::Lost(_) | SessionError::Aborted(Reason::Lost) => libc::ETIMEDOUT,
            SessionError::Violation(_) | SessionError::Aborted(Reason::Violation) => libc::EPROTO,
            SessionError::Aborted(Reason::Closed)
            | SessionError::Forgotten
            | SessionError::Gone
            | SessionError::Broken => libc::ECONNRESET,
            SessionError::Closed => libc::ECONNABORTED,
            SessionError::Finished => libc::EPIPE,
        };
        Self::of(errno, &error)
    }
}

impl From<SocketError> for Failure {
    fn from(error: SocketError) -> Self {
        match &error {
            SocketError::Session(session) => (*session).into(),
            SocketError::TimedOut => Self::new(libc::EAGAIN),
            SocketError::System { source, .. } => Self::of(errno_of(source), &error),
        }
    }
}

impl From<OptionError> for Failure {
    fn from(error: OptionError) -> Self {
        let errno = match &error {
            OptionError::Refused { source, .. } => errno_of(source),
            OptionError::Unavailable { .. } => libc::ENOENT,
            _ => libc::EINVAL,
        };
        Self::of(errno, &error)
    }
}

/// What `call` returns to C: its result, or -1 and `errno`. A panic is `EIO`.
pub fn told<T: From<i8>>(call: impl FnOnce() -> Outcome<T>) -> T {
    // A panic leaves at most one session behind that fails; nothing here relies on more.
    let outcome = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(Failure::new(libc::EIO)));
    outcome.unwrap_or_else(|failure| {
        // SAFETY: the address is that of this thread's errno.
        unsafe { *libc::__errno_location() = failure.errno };
        T::from(-1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errno() -> c_int {
        io::Error::last_os_error().raw_os_error().unwrap()
    }

    #[test]
    fn a_failure_is_minus_one_and_errno_and_so_is_a_panic() {
        assert_eq!(told(|| Ok(7)), 7);
        assert_eq!(told::<c_int>(|| Err(Failure::new(libc::EBADF))), -1);
        assert_eq!(errno(), libc::EBADF);
        assert_eq!(told::<isize>(|| panic!("a mistake of this library")), -1);
        assert_eq!(errno(), libc::EIO);
    }

    #[test]
    fn errors_have_the_number_that_a_bsd_call_would_give_and_all_their_causes_as_text() {
        let to = "127.0.0.1:7".parse().unwrap();
        let refused = io::Error::from_raw_os_error(libc::ECONNREFUSED);
        let failure = Failure::from(OpenError::Connect { to, source: refused });
        assert_eq!(failure.errno, libc::ECONNREFUSED);
        assert!(failure.text.contains("127.0.0.1:7: Connection refused"), "{}", failure.text);
        let late = io::Error::from(io::ErrorKind::TimedOut);
        assert_eq!(Failure::from(OpenError::Connect { to, source: late }).errno, libc::ETIMEDOUT);
        for (source, errno) in [
            (GreetingError::Version(2), libc::EPROTONOSUPPORT),
            (GreetingError::Secret, libc::EACCES),
            (GreetingError::Full, libc::ECONNREFUSED),
        ] {
            assert_eq!(Failure::from(OpenError::Greeting { to, source }).errno, errno);
        }
        for (error, errno) in [
            (SessionError::Lost(1), libc::ETIMEDOUT),
            (SessionError::Aborted(Reason::Closed), libc::ECONNRESET),
            (SessionError::Finished, libc::EPIPE),
        ] {
            assert_eq!(Failure::from(SocketError::Session(error)).errno, errno);
        }
        assert_eq!(Failure::from(SocketError::TimedOut).errno, libc::EAGAIN);
    }
}
