//! What the kernel returned about one connection at one time, as it came.

use std::os::fd::AsRawFd;
use std::{io, ptr};

use crate::fields::{Field, Source};

/// Bytes of `struct tcp_info` that are kept; later kernels may return more.
pub const INFO_BYTES: usize = 280;

/// `struct inet_diag_msg`.
pub const MESSAGE_BYTES: usize = 72;

/// `idiag_rqueue` and `idiag_wqueue` in it.
const RQUEUE: usize = 56;
const WQUEUE: usize = 60;

/// `SK_MEMINFO_VARS` numbers of 32 bits.
pub const MEMORY_BYTES: usize = 36;

/// `union tcp_cc_info`.
pub const CONGESTION_BYTES: usize = 20;

/// `TCP_CA_NAME_MAX`.
const NAME_BYTES: usize = 16;

/// The first `N` bytes of a structure of the kernel, and how many of them it has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Raw<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Raw<N> {
    pub(crate) fn new(from: &[u8]) -> Self {
        let len = from.len().min(N);
        let mut bytes = [0; N];
        bytes[..len].copy_from_slice(&from[..len]);
        Self { bytes, len }
    }

    /// An option of a socket; fails as getsockopt(2) does.
    pub(crate) fn option(fd: libc::c_int, level: libc::c_int, name: libc::c_int) -> io::Result<Self> {
        let mut bytes = [0_u8; N];
        let mut len = N as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes, which `bytes` has.
        let failed =
            unsafe { libc::getsockopt(fd, level, name, ptr::from_mut(&mut bytes).cast(), &raw mut len) };
        if failed != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self::new(&bytes[..(len as usize).min(N)]))
    }

    pub(crate) fn get(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl<const N: usize> Default for Raw<N> {
    fn default() -> Self {
        Self { bytes: [0; N], len: 0 }
    }
}

impl<const N: usize> std::fmt::Debug for Raw<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {N} bytes", self.len)
    }
}

/// `struct tcp_info`, as long as this kernel has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info(Raw<INFO_BYTES>);

impl Info {
    /// What the kernel returned; beyond 280 bytes nothing is known.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(Raw::new(bytes))
    }

    /// Queries the kernel about a socket of this process.
    ///
    /// # Errors
    /// Those of getsockopt(2).
    pub fn of(socket: &impl AsRawFd) -> io::Result<Self> {
        Raw::option(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO).map(Self)
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.0.get()
    }

    /// The value of a field; `None` if this kernel lacks it, or another structure holds it.
    #[must_use]
    pub fn get(&self, field: &Field) -> Option<u64> {
        if field.source == Source::Info { field.read(self.bytes()) } else { None }
    }
}

/// What the congestion control reports about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Congestion {
    pub(crate) source: Option<Source>,
    pub(crate) raw: Raw<CONGESTION_BYTES>,
}

impl Congestion {
    /// Queries the kernel about a socket of this process; empty if its congestion control reports nothing.
    #[must_use]
    pub fn of(socket: &impl AsRawFd) -> Self {
        let fd = socket.as_raw_fd();
        let name = Raw::<NAME_BYTES>::option(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION).unwrap_or_default();
        let source = match name.get().split(|byte| *byte == 0).next() {
            Some(b"bbr") => Source::Bbr,
            Some(b"dctcp") => Source::Dctcp,
            Some(b"vegas" | b"veno" | b"westwood" | b"illinois") => Source::Vegas,
            _ => return Self::default(),
        };
        let raw = Raw::option(fd, libc::IPPROTO_TCP, libc::TCP_CC_INFO).unwrap_or_default();
        Self { source: Some(source), raw }
    }

    /// The value of a field; `None` if this congestion control does not report it.
    #[must_use]
    pub fn get(&self, field: &Field) -> Option<u64> {
        if self.source == Some(field.source) { field.read(self.raw.get()) } else { None }
    }
}

/// Everything that the kernel reported about a connection at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// `struct tcp_info`.
    pub info: Info,
    /// What the congestion control added.
    pub congestion: Congestion,
    pub(crate) memory: Raw<MEMORY_BYTES>,
    pub(crate) message: Raw<MESSAGE_BYTES>,
    pub(crate) is_by_bpf: bool,
}

impl Sample {
    /// What BPF programs read, laid out as the kernel does: `struct tcp_info` with the fields that are
    /// [`Field::is_by_bpf`], `SK_MEMINFO_*`, bytes in the receive queue and in the send queue.
    #[must_use]
    pub fn by_bpf(info: &[u8], memory: &[u8; MEMORY_BYTES], rqueue: u32, wqueue: u32) -> Self {
        let mut message = [0; MESSAGE_BYTES];
        message[RQUEUE..WQUEUE].copy_from_slice(&rqueue.to_le_bytes());
        message[WQUEUE..WQUEUE + 4].copy_from_slice(&wqueue.to_le_bytes());
        Self {
            info: Info::new(info),
            congestion: Congestion::default(),
            memory: Raw::new(memory),
            message: Raw::new(&message),
            is_by_bpf: true,
        }
    }

    /// The part of it that BPF programs would report.
    #[must_use]
    pub const fn as_by_bpf(self) -> Self {
        Self { is_by_bpf: true, ..self }
    }

    /// The value of a field; `None` if this kernel, or the connection's congestion control, lacks it, or if
    /// the sample was taken in a way that does not provide it.
    #[must_use]
    pub fn get(&self, field: &Field) -> Option<u64> {
        if self.is_by_bpf && !field.is_by_bpf() {
            return None;
        }
        match field.source {
            Source::Info => self.info.get(field),
            Source::Memory => field.read(self.memory.get()),
            Source::Message => field.read(self.message.get()),
            Source::Bbr | Source::Vegas | Source::Dctcp => self.congestion.get(field),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::FIELDS;

    /// Bytes of which every value is different from zero, as every field read from them.
    fn filled(len: usize) -> Vec<u8> {
        vec![0xff; len]
    }

    #[test]
    fn whatever_the_length_a_field_is_there_as_a_whole_or_absent() {
        for len in 0..=300 {
            let info = Info::new(&filled(len));
            for field in FIELDS.iter().filter(|field| field.source == Source::Info) {
                let value = info.get(field);
                assert_eq!(value.is_some(), len >= field.needs(), "{} of {len} bytes", field.name);
                assert_ne!(value, Some(0), "{} of {len} bytes", field.name);
            }
        }
    }

    #[test]
    fn every_field_lies_where_the_kernel_has_it() {
        let bytes: Vec<u8> = (0..280).map(|at| (at % 251) as u8).collect();
        let info = Info::new(&bytes);
        let get = |name| crate::fields::field(name).and_then(|field| info.get(field));
        let word = |at: usize| u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()));
        // Offsets as pahole(1) shows them for a kernel.
        assert_eq!(get("rtt_us"), Some(word(68)));
        assert_eq!(get("snd_cwnd"), Some(word(80)));
        assert_eq!(get("total_retrans"), Some(word(100)));
        assert_eq!(get("min_rtt_us"), Some(word(148)));
        assert_eq!(get("snd_wnd_bytes"), Some(word(228)));
        assert_eq!(get("total_rto_time_ms"), Some(word(244)));
        assert_eq!(get("received_ce_bytes"), Some(word(272)));
    }

    #[test]
    fn what_a_later_kernel_adds_changes_nothing() {
        assert_eq!(Info::new(&filled(400)), Info::new(&filled(INFO_BYTES)));
    }

    #[test]
    fn a_sample_by_bpf_tells_what_its_programs_read() {
        let sample = Sample::by_bpf(&filled(INFO_BYTES), &[1; MEMORY_BYTES], 7, 8);
        for field in FIELDS {
            assert_eq!(sample.get(field).is_some(), field.is_by_bpf(), "{}", field.name);
        }
        let get = |name| crate::fields::field(name).and_then(|field| sample.get(field));
        assert_eq!((get("rqueue_bytes"), get("wqueue_bytes")), (Some(7), Some(8)));
        assert_eq!((get("skmem_drops"), get("timer"), get("ato_us")), (Some(0x0101_0101), None, None));
        let locked = Sample { is_by_bpf: false, ..sample };
        assert!(FIELDS.iter().any(|field| sample.get(field).is_none() && locked.get(field).is_some()));
        assert_eq!(locked.as_by_bpf(), sample);
    }

    #[test]
    fn a_socket_has_the_numbers_of_its_own_congestion_control() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let reported = |name| {
            let set = crate::option::Setting::new("TCP_CONGESTION", name).unwrap().set(&socket);
            let found = Congestion::of(&socket);
            set.map(|()| {
                FIELDS.iter().filter(|field| found.get(field).is_some()).map(|field| field.source).collect()
            })
        };
        assert_eq!(reported("reno").ok(), Some(Vec::new()));
        // Not every kernel has it.
        if let Ok(sources) = reported("bbr") {
            assert_eq!(sources, vec![Source::Bbr; sources.len()]);
            assert!(!sources.is_empty());
        }
    }

    #[test]
    fn the_numbers_of_one_congestion_control_are_not_taken_for_those_of_another() {
        let congestion = Congestion { source: Some(Source::Bbr), raw: Raw::new(&filled(CONGESTION_BYTES)) };
        let sample = Sample { congestion, ..Sample::default() };
        for field in FIELDS {
            assert_eq!(sample.get(field).is_some(), field.source == Source::Bbr, "{}", field.name);
        }
    }
}
