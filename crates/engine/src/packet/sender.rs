//! Sends a plan packet by packet.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use weir_wire::{Header, Probe};

use super::socket;
use crate::outcome::Sent;
use crate::plan::{Impairment, Numbers, Plan, Side};
use crate::schedule::Cursor;
use crate::thread::check;
use crate::window::Window;
use weir_clock::{now_ns, wait_until};

/// A socket that sends.
pub struct Sender {
    socket: OwnedFd,
}

impl Sender {
    /// Opens the socket; the calling thread must be in the sender's namespace.
    pub fn open(ifindex: u32) -> io::Result<Self> {
        let socket = socket::open(ifindex, false)?;
        // Straight to the driver. If that is refused, frames pass the queueing discipline first, no more.
        let _ = socket::set(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1);
        Ok(Self { socket })
    }

    /// Plays a plan on the calling thread; `back` sends the flows that go the other way. Ends early
    /// when `stop` is set.
    pub fn play(
        &self,
        back: Option<&Self>,
        plan: &Plan,
        headers: &[Header],
        window: Window,
        stop: &AtomicBool,
    ) -> io::Result<Sent> {
        let mut sent = Sent::of(plan);
        let mut numbers = Numbers::new(plan.flows.len());
        let mut cursor = Cursor::new(plan);
        let mut frame = [0u8; 2048];
        let bounds = window.bounds();
        wait_until(window.start_ns);
        while !stop.load(Ordering::Relaxed) {
            let Some(departure) = cursor.next(now_ns() - window.start_ns) else { break };
            let due_ns = window.start_ns + departure.due_ns;
            if !self.wait(due_ns, stop) {
                break;
            }
            let now = now_ns();
            let late_ns = now - due_ns;
            if plan.paced && late_ns > plan.catch_up_ns {
                cursor.slip(late_ns);
                if now >= window.record_end_ns {
                    break;
                }
            }
            let (flow, impairment) = (departure.flow as usize, plan.impairment(&departure));
            let (seq, counts) = numbers.of(departure.flow, impairment);
            let frame = &mut frame[..departure.length.into()];
            let probe = Probe { magic: window.magic, flow: departure.flow, seq, time_ns: now_ns() };
            if probe.time_ns >= window.record_end_ns && plan.media.is_none() {
                break; // held up since it was due, until after the end: nobody would count it
            }
            let built = plan.write(frame, &headers[flow], &departure, &probe);
            debug_assert!(built, "the plan was checked");
            let socket = back.filter(|_| plan.side(flow) == Side::Back).unwrap_or(self);
            if impairment == Impairment::Lose {
                sent.surplus -= 1;
            } else if !socket.send(frame)? {
                continue;
            }
            if counts {
                numbers.advance(departure.flow);
                if (bounds.0..bounds.1).contains(&probe.time_ns) {
                    if sent.recorded == 0 {
                        cursor.forget_slip();
                    }
                    sent.late_sum_ns += late_ns;
                    sent.late_max_ns = sent.late_max_ns.max(late_ns);
                }
                sent.depart(&probe, late_ns, bounds, plan.bin_ns.into());
            } else {
                sent.surplus += 1;
            }
        }
        sent.slipped_ns = cursor.slipped_ns();
        Ok(sent)
    }

    /// `false` when stopped.
    fn wait(&self, due_ns: u64, stop: &AtomicBool) -> bool {
        while due_ns > now_ns() + 50_000_000 {
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            wait_until(now_ns() + 20_000_000);
        }
        wait_until(due_ns);
        !stop.load(Ordering::Relaxed)
    }

    /// `false` when the interface had no room: the packet never departed.
    fn send(&self, frame: &[u8]) -> io::Result<bool> {
        // SAFETY: the frame is valid memory of the length given.
        let n = unsafe { libc::send(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        match check(i32::try_from(n).unwrap_or(i32::MAX)) {
            Ok(()) => Ok(true),
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => Ok(false),
            Err(e) => Err(e),
        }
    }
}
