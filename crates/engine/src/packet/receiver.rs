//! Receives batches with the kernel's time stamps and counts their probes.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_wire::{find_last_probe, find_probe};

use super::socket;
use crate::account::Account;
use crate::outcome::Received;
use crate::plan::{Plan, Side};
use crate::window::Window;
use weir_clock::{now_ns, realtime_to_monotonic_ns};

const BATCH: usize = 64;
const SNAP: usize = 256; // headers and probe; the rest of a frame does not matter
const WHOLE: usize = 2048; // the probe comes last
const CONTROL: usize = 128;
const BUFFER_BYTES: i32 = 64 << 20;
const TIMEOUT_US: i64 = 20_000;

/// A socket that receives.
pub struct Receiver {
    socket: OwnedFd,
}

/// How far a running receiver has got.
#[derive(Default)]
pub struct Progress {
    probes: AtomicU64,
    last_probe_ns: AtomicU64,
}

impl Progress {
    /// Probes so far, and when the last one came.
    pub fn read(&self) -> (u64, u64) {
        (self.probes.load(Ordering::Relaxed), self.last_probe_ns.load(Ordering::Relaxed))
    }
}

impl Receiver {
    /// Opens the socket; the calling thread must be in the receiver's namespace.
    pub fn open(ifindex: u32) -> io::Result<Self> {
        let socket = socket::open(ifindex, true)?;
        socket::set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        // The answering side sends by this interface too (Linux 4.20 leaves its frames out; before, they
        // count as strange).
        let _ = socket::set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1);
        // Beyond net.core.rmem_max with CAP_NET_ADMIN, otherwise as much as is allowed.
        if socket::set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER_BYTES).is_err() {
            socket::set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, BUFFER_BYTES)?;
        }
        let timeout = libc::timeval { tv_sec: 0, tv_usec: TIMEOUT_US };
        // SAFETY: the option value is a timeval that lives through the call.
        crate::thread::check(unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVTIMEO,
                (&raw const timeout).cast(),
                size_of::<libc::timeval>() as libc::socklen_t,
            )
        })?;
        Ok(Self { socket })
    }

    /// Counts what arrives at one side until `stop` is set.
    pub fn count(
        &self,
        plan: &Plan,
        side: Side,
        window: Window,
        progress: &Progress,
        stop: &AtomicBool,
    ) -> io::Result<Received> {
        let mut account = Account::new(window.rx_config(plan, side));
        account.expect_elsewhere(|flow| plan.side(flow) != side);
        let is_media = plan.media.is_some();
        let mut batch = Batch::new(if is_media { WHOLE } else { SNAP });
        let offset_ns = realtime_to_monotonic_ns();
        let _ = socket::drops(&self.socket); // forget what was dropped before
        while !stop.load(Ordering::Relaxed) {
            for (frame, stamp_ns) in batch.receive(&self.socket)? {
                let at_ns = match stamp_ns {
                    Some(real) => real.wrapping_add_signed(offset_ns),
                    None => now_ns(),
                };
                let probe =
                    if is_media { find_last_probe(frame) } else { find_probe(frame, plan.skip.into()) };
                match probe {
                    // A stamp a few ns before the departure is the clocks' error, not a foreign probe.
                    Some(probe) => account.arrive(&probe, at_ns.max(probe.time_ns.min(now_ns()))),
                    None => account.stray(),
                }
            }
            progress.probes.store(account.totals.probes, Ordering::Relaxed);
            progress.last_probe_ns.store(account.totals.last_probe_ns, Ordering::Relaxed);
        }
        Ok(account.received(socket::drops(&self.socket)?))
    }
}

/// Buffers for recvmmsg.
struct Batch {
    snap: usize,
    frames: Vec<u8>,
    control: Vec<[u64; CONTROL / 8]>,
}

impl Batch {
    /// For the first `snap` bytes of each frame.
    fn new(snap: usize) -> Self {
        Self { snap, frames: vec![0; snap * BATCH], control: vec![[0; CONTROL / 8]; BATCH] }
    }

    /// Waits for frames, at most [`TIMEOUT_US`]; each with its kernel time stamp (CLOCK_REALTIME).
    fn receive(&mut self, socket: &OwnedFd) -> io::Result<Vec<(&[u8], Option<u64>)>> {
        // SAFETY: all zeros is a valid mmsghdr; every pointer set below outlives the call, as
        // `frames`, `control` and `vectors` do.
        unsafe {
            let mut vectors: Vec<libc::iovec> = self
                .frames
                .chunks_exact_mut(self.snap)
                .map(|f| libc::iovec { iov_base: f.as_mut_ptr().cast(), iov_len: f.len() })
                .collect();
            let mut messages: Vec<libc::mmsghdr> = vec![std::mem::zeroed(); BATCH];
            for ((message, vector), control) in messages.iter_mut().zip(&mut vectors).zip(&mut self.control) {
                message.msg_hdr.msg_iov = vector;
                message.msg_hdr.msg_iovlen = 1;
                message.msg_hdr.msg_control = control.as_mut_ptr().cast();
                message.msg_hdr.msg_controllen = CONTROL;
            }
            let n = libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_WAITFORONE,
                std::ptr::null_mut(),
            );
            if n < 0 {
                let error = io::Error::last_os_error();
                return match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(Vec::new()),
                    _ => Err(error),
                };
            }
            let received = messages.iter().zip(self.frames.chunks_exact(self.snap)).take(n as usize);
            Ok(received
                .map(|(message, frame)| {
                    let length = frame.len().min(message.msg_len as usize);
                    (&frame[..length], time_stamp(&message.msg_hdr))
                })
                .collect())
        }
    }
}

/// The time stamp among the control messages.
///
/// # Safety
/// `message` must have been filled by a successful receive call.
unsafe fn time_stamp(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: the CMSG functions walk what the kernel wrote, within msg_controllen.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(message);
        while !control.is_null() {
            if (*control).cmsg_level == libc::SOL_SOCKET && (*control).cmsg_type == libc::SCM_TIMESTAMPNS {
                let time = libc::CMSG_DATA(control).cast::<libc::timespec>().read_unaligned();
                return Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
            }
            control = libc::CMSG_NXTHDR(message, control);
        }
        None
    }
}
