//! Socket options, by name or by number.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;

use thiserror::Error;

/// Options that a data connection can be given; they take a number, or (`TCP_CONGESTION`) a name.
pub const OPTIONS: &[(&str, i32, i32)] = &[
    ("SO_BUSY_POLL", libc::SOL_SOCKET, libc::SO_BUSY_POLL),
    ("SO_INCOMING_CPU", libc::SOL_SOCKET, libc::SO_INCOMING_CPU),
    ("SO_KEEPALIVE", libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    ("SO_MARK", libc::SOL_SOCKET, libc::SO_MARK),
    ("SO_MAX_PACING_RATE", libc::SOL_SOCKET, 47),
    ("SO_PRIORITY", libc::SOL_SOCKET, libc::SO_PRIORITY),
    ("SO_RCVBUF", libc::SOL_SOCKET, libc::SO_RCVBUF),
    ("SO_RCVBUFFORCE", libc::SOL_SOCKET, libc::SO_RCVBUFFORCE),
    ("SO_SNDBUF", libc::SOL_SOCKET, libc::SO_SNDBUF),
    ("SO_SNDBUFFORCE", libc::SOL_SOCKET, libc::SO_SNDBUFFORCE),
    ("IP_MTU_DISCOVER", libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
    ("IP_TOS", libc::IPPROTO_IP, libc::IP_TOS),
    ("IP_TTL", libc::IPPROTO_IP, libc::IP_TTL),
    ("IPV6_MTU_DISCOVER", libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
    ("IPV6_TCLASS", libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    ("IPV6_UNICAST_HOPS", libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
    ("TCP_CONGESTION", libc::IPPROTO_TCP, libc::TCP_CONGESTION),
    ("TCP_CORK", libc::IPPROTO_TCP, libc::TCP_CORK),
    ("TCP_KEEPCNT", libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    ("TCP_KEEPIDLE", libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    ("TCP_KEEPINTVL", libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    ("TCP_LINGER2", libc::IPPROTO_TCP, libc::TCP_LINGER2),
    ("TCP_MAXSEG", libc::IPPROTO_TCP, libc::TCP_MAXSEG),
    ("TCP_NODELAY", libc::IPPROTO_TCP, libc::TCP_NODELAY),
    ("TCP_NOTSENT_LOWAT", libc::IPPROTO_TCP, 25),
    ("TCP_QUICKACK", libc::IPPROTO_TCP, libc::TCP_QUICKACK),
    ("TCP_SYNCNT", libc::IPPROTO_TCP, libc::TCP_SYNCNT),
    ("TCP_THIN_DUPACK", libc::IPPROTO_TCP, 17),
    ("TCP_THIN_LINEAR_TIMEOUTS", libc::IPPROTO_TCP, 16),
    ("TCP_TX_DELAY", libc::IPPROTO_TCP, 37),
    ("TCP_USER_TIMEOUT", libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
    ("TCP_WINDOW_CLAMP", libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP),
];

/// `TCP_ULP` (Linux 4.13).
const TCP_ULP: i32 = 31;
/// Built into every kernel.
const RENO: &str = "reno";

/// Longest value that is a name: `TCP_CA_NAME_MAX`, including its end.
const NAME_BYTES: usize = 16;

/// What an option is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(i32),
    /// A name, as `cubic`.
    Name(String),
}

/// An option and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// As the user wrote it: a name of [`OPTIONS`], or `LEVEL:NUMBER`.
    pub name: String,
    level: i32,
    number: i32,
    value: Value,
}

/// Why an option was not set.
#[derive(Debug, Error)]
pub enum OptionError {
    /// Neither a known name nor two numbers.
    #[error("there is no socket option {0}; give a name such as TCP_NODELAY, or LEVEL:NUMBER")]
    Unknown(String),
    /// A value that is neither a number of 32 bits nor a short name.
    #[error("{name}: the value {value} is neither a number nor a name")]
    Value {
        /// The option.
        name: String,
        /// The value.
        value: String,
    },
    /// Not in the kernel's list. A privileged process would load a module of that name by setting it, and the name
    /// may be a peer's.
    #[error(
        "{name}={value} is not available on this host, which has {available}; load its module, or choose another"
    )]
    Unavailable {
        /// The option.
        name: String,
        /// The value.
        value: String,
        /// What there is.
        available: String,
    },
    /// The kernel refused.
    #[error("the kernel refuses the socket option {name}={value}")]
    Refused {
        /// The option.
        name: String,
        /// The value.
        value: String,
        /// Why.
        source: io::Error,
    },
}

impl Setting {
    /// `name` is one of [`OPTIONS`], or `LEVEL:NUMBER`; `value` a number, or a name.
    ///
    /// # Errors
    /// [`OptionError::Unknown`], [`OptionError::Value`].
    pub fn new(name: &str, value: &str) -> Result<Self, OptionError> {
        let known = OPTIONS.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name));
        let by_number = || {
            let (level, number) = name.split_once(':')?;
            Some((level.parse().ok()?, number.parse().ok()?))
        };
        let (level, number) = known
            .map(|(_, level, number)| (*level, *number))
            .or_else(by_number)
            .ok_or_else(|| OptionError::Unknown(name.to_owned()))?;
        let is_name = || !value.is_empty() && value.len() < NAME_BYTES && value.is_ascii();
        let value = match value.parse() {
            Ok(number) => Value::Number(number),
            // SO_MARK and SO_MAX_PACING_RATE have no sign.
            Err(_) => match value.parse::<u32>() {
                Ok(number) => Value::Number(number.cast_signed()),
                Err(_) if is_name() && !value.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
                    Value::Name(value.to_owned())
                }
                Err(_) => return Err(OptionError::Value { name: name.to_owned(), value: value.to_owned() }),
            },
        };
        Ok(Self { name: name.to_owned(), level, number, value })
    }

    /// The congestion control `name`.
    #[must_use]
    pub fn congestion(name: &str) -> Self {
        Self {
            name: "TCP_CONGESTION".to_owned(),
            level: libc::IPPROTO_TCP,
            number: libc::TCP_CONGESTION,
            value: Value::Name(name.to_owned()),
        }
    }

    /// Sets it.
    ///
    /// # Errors
    /// [`OptionError::Unavailable`], [`OptionError::Refused`].
    pub fn set(&self, socket: &impl AsRawFd) -> Result<(), OptionError> {
        self.available()?;
        let bytes = self.bytes();
        // SAFETY: `bytes` has the length given, and lives through the call.
        let failed = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                self.level,
                self.number,
                bytes.as_ptr().cast(),
                bytes.len() as libc::socklen_t,
            )
        };
        if failed != 0 {
            let value = match &self.value {
                Value::Number(number) => number.to_string(),
                Value::Name(name) => name.clone(),
            };
            let source = io::Error::last_os_error();
            return Err(OptionError::Refused { name: self.name.clone(), value, source });
        }
        Ok(())
    }

    fn bytes(&self) -> Cow<'_, [u8]> {
        match &self.value {
            Value::Number(number) => Cow::Owned(number.to_ne_bytes().to_vec()),
            Value::Name(name) => Cow::Borrowed(name.as_bytes()),
        }
    }

    /// Whether the kernel has what the value names, if it names something, without loading a module.
    ///
    /// # Errors
    /// [`OptionError::Unavailable`].
    pub fn available(&self) -> Result<(), OptionError> {
        let list = match (self.level, self.number) {
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => "tcp_available_congestion_control",
            (libc::IPPROTO_TCP, TCP_ULP) => "tcp_available_ulp",
            _ => return Ok(()),
        };
        let bytes = self.bytes();
        let value = String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default());
        let known = fs::read_to_string(format!("/proc/sys/net/ipv4/{list}")).unwrap_or_default();
        let mut available: Vec<_> = known.split_whitespace().collect();
        if available.is_empty() && self.number == libc::TCP_CONGESTION {
            available.push(RENO);
        }
        if available.contains(&&*value) {
            return Ok(());
        }
        Err(OptionError::Unavailable {
            name: self.name.clone(),
            value: value.escape_debug().to_string(),
            available: if available.is_empty() { "none".to_owned() } else { available.join(", ") },
        })
    }

    /// The effective value: the kernel doubles buffer sizes, for instance. `None` if it does not say.
    #[must_use]
    pub fn effective(&self, socket: &impl AsRawFd) -> Option<Value> {
        let mut bytes = [0_u8; NAME_BYTES];
        let mut len = match self.value {
            Value::Number(_) => 4,
            Value::Name(_) => NAME_BYTES as libc::socklen_t,
        };
        // SAFETY: the kernel writes at most `len` bytes, which `bytes` has.
        let failed = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                self.level,
                self.number,
                bytes.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        if failed != 0 {
            return None;
        }
        Some(match self.value {
            Value::Number(_) => Value::Number(i32::from_ne_bytes(bytes[..4].try_into().ok()?)),
            Value::Name(_) => {
                let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
                Value::Name(String::from_utf8_lossy(name).into_owned())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn socket() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").unwrap()
    }

    #[test]
    fn an_option_is_set_by_name_and_by_number_and_read_back() {
        for name in ["TCP_NODELAY", "tcp_nodelay", "6:1"] {
            let (socket, setting) = (socket(), Setting::new(name, "1").unwrap());
            assert_eq!(setting.effective(&socket), Some(Value::Number(0)));
            setting.set(&socket).unwrap();
            assert_eq!(setting.effective(&socket), Some(Value::Number(1)));
        }
    }

    #[test]
    fn a_congestion_control_is_a_name() {
        let (socket, setting) = (socket(), Setting::new("TCP_CONGESTION", "reno").unwrap());
        setting.set(&socket).unwrap();
        assert_eq!(setting.effective(&socket), Some(Value::Name("reno".into())));
    }

    #[test]
    fn nothing_makes_the_kernel_load_a_module() {
        let veno = i32::from_ne_bytes(*b"veno").to_string();
        for (name, value) in [
            ("TCP_CONGESTION", "nosuchthing"),
            ("tcp_congestion", "RENO"),
            ("6:13", "nosuchthing"),
            ("6:13", "0"),
            ("6:13", &veno),
            ("6:31", "nosuchthing"),
        ] {
            let refused = Setting::new(name, value).unwrap().set(&socket());
            assert!(matches!(refused, Err(OptionError::Unavailable { .. })), "{name}={value}: {refused:?}");
        }
        let refused = Setting::congestion("nosuchthing").set(&socket()).unwrap_err().to_string();
        assert!(refused.starts_with("TCP_CONGESTION=nosuchthing is not available on this host, which has "));
        assert!(refused.contains("reno"), "{refused}");
    }

    #[test]
    fn what_is_no_option_or_no_value_is_refused() {
        for name in ["", "NODELAY", "6", "6:", ":1", "a:b"] {
            assert!(matches!(Setting::new(name, "1"), Err(OptionError::Unknown(_))), "{name}");
        }
        for value in ["", "99999999999", "-99999999999", "1.5", "a-name-that-is-too-long"] {
            assert!(matches!(Setting::new("TCP_NODELAY", value), Err(OptionError::Value { .. })), "{value}");
        }
        assert!(Setting::new("SO_MAX_PACING_RATE", "4294967295").is_ok());
        // TCP_INFO can be read only.
        assert!(Setting::new("6:11", "1").unwrap().set(&socket()).is_err());
    }
}
