//! A gateway of a tunnel in user space: IP packets that the kernel routes to its TUN interface leave by another
//! interface with ESP (RFC 4303), and the other way round.
//!
//! One thread does both directions. Where packets have ESP they pass packet sockets, and the gateway has an
//! Ethernet address of its own: the kernel, which sees the same frames, takes them for another host's.

mod counts;
mod tun;
mod ways;

use std::fs::File;
use std::io;
use std::path::PathBuf;

use thiserror::Error;
use weir_esp::{Association, AssociationError, Inbound, Mode, Outbound};

pub use counts::COUNTERS;

use crate::engine::Endpoint;
use crate::mapped::Mapped;
use crate::packet::port::{BATCH, Port, PortError, Sent};
use counts::Counts;
use tun::Tun;
use ways::{Inward, Outward};

/// Half a thousand frames wait, as in the ring of a network card, and more are dropped.
const RING_MIB: usize = 1;
/// Batches between two looks at what the kernel dropped and whether to stop.
const LOOK_EVERY: u32 = 1024;
/// So soon after the last frame the counters are complete.
const CALM_MS: i32 = 10;
const IDLE_MS: i32 = 500;

/// Where packets have ESP.
#[derive(Clone, Debug)]
pub struct Outside {
    /// Name of the interface, in the namespace of this process.
    pub interface: String,
    /// The gateway's Ethernet address there, which is not the interface's.
    pub address: [u8; 6],
    /// Ethernet address of the other gateway.
    pub neighbour: [u8; 6],
    /// Longest IP packet that leaves by it.
    pub mtu_bytes: usize,
}

/// What a gateway does, and where.
pub struct Options<'a> {
    /// Name of the TUN interface to make, where packets are in the clear.
    pub inside: String,
    /// Where they have ESP.
    pub outside: Outside,
    /// For what leaves; in tunnel mode.
    pub sending: Association<'a>,
    /// For what comes.
    pub receiving: Association<'a>,
    /// Random bytes for initialization vectors, see [`Outbound::new`].
    pub iv_key: [u8; 16],
    /// Width of the replay window in packets.
    pub window: usize,
    /// A file for the counters, which is made: [`COUNTERS`] of 8 bytes each, in the host's byte order.
    pub counters: PathBuf,
}

/// Why there is no gateway, or no more.
#[derive(Debug, Error)]
pub enum GatewayError {
    /// An interface cannot be used.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A security association that cannot be.
    #[error(transparent)]
    Association(#[from] AssociationError),
    /// The TUN interface cannot be made.
    #[error("cannot make the interface {interface} (needs CAP_NET_ADMIN and /dev/net/tun): {source}")]
    Tun {
        /// Its name.
        interface: String,
        /// The kernel's reason.
        source: io::Error,
    },
    /// Only whole packets are carried between gateways.
    #[error("a gateway needs tunnel mode")]
    Transport,
    /// The file for the counters cannot be made.
    #[error("cannot keep counters in {path}: {source}")]
    Counters {
        /// Its path.
        path: String,
        /// The kernel's reason.
        source: io::Error,
    },
    /// An interface has gone.
    #[error("interface {interface} is gone")]
    Gone {
        /// Its name.
        interface: String,
    },
}

/// A gateway that carries packets while [`run`](Self::run) does.
pub struct Gateway {
    inside: Tun,
    outside: Port,
    outward: Outward,
    inward: Inward,
    counts: Counts,
    board: Mapped<Counts>,
}

impl Gateway {
    /// Makes it, with its TUN interface, which is down; frames that arrive are kept from here on.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub fn open(options: &Options<'_>) -> Result<Self, GatewayError> {
        if options.sending.mode == Mode::Transport || options.receiving.mode == Mode::Transport {
            return Err(GatewayError::Transport);
        }
        let sender = Outbound::new(&options.sending, &options.iv_key)?;
        let receiver = Inbound::new(&options.receiving, options.window)?;
        let path = &options.counters;
        let refuse = |source| GatewayError::Counters { path: path.display().to_string(), source };
        let file = File::options().read(true).write(true).create_new(true).open(path).map_err(refuse)?;
        file.set_len(size_of::<Counts>() as u64).map_err(refuse)?;
        let outside = Endpoint { netns: None, interface: options.outside.interface.clone() };
        let inside = &options.inside;
        Ok(Self {
            outside: Port::open(&outside, RING_MIB)?,
            inside: Tun::create(inside)
                .map_err(|source| GatewayError::Tun { interface: inside.clone(), source })?,
            outward: Outward::new(sender, options.sending.suite, &options.outside),
            inward: Inward::new(receiver, &options.outside),
            counts: Counts::default(),
            board: Mapped::new(&file, 1).map_err(refuse)?,
        })
    }

    /// Carries packets until `is_over`, which is asked several times a second.
    ///
    /// # Errors
    /// [`GatewayError::Gone`].
    pub fn run(&mut self, is_over: &mut dyn FnMut() -> bool) -> Result<(), GatewayError> {
        let (mut batches, mut wait_ms) = (0, CALM_MS);
        loop {
            let carried = [self.carry_out(), self.carry_in()];
            if carried == [false, false] {
                self.tell();
                let is_calm = !self.wait(wait_ms);
                if is_calm {
                    self.look()?;
                    if is_over() {
                        return Ok(());
                    }
                }
                wait_ms = if is_calm { IDLE_MS } else { CALM_MS };
                continue;
            }
            batches += 1;
            if batches % LOOK_EVERY == 0 {
                self.look()?;
                if is_over() {
                    return Ok(());
                }
            }
        }
    }

    /// A batch into the tunnel; whether there were packets.
    fn carry_out(&mut self) -> bool {
        let Self { inside, outside, outward, counts, .. } = self;
        let mut taken = 0;
        while taken < BATCH
            && let Some(len) = inside.read(outward.room())
        {
            outward.add(len, counts);
            taken += 1;
        }
        if taken == 0 {
            return false;
        }
        outward.seal(counts);
        send(outside, outward.frames(), &mut counts.out_not_sent);
        outward.clear();
        true
    }

    /// A batch out of the tunnel; whether there were frames.
    fn carry_in(&mut self) -> bool {
        let Self { inside, outside, inward, counts, .. } = self;
        let taken = take(outside, |frame, len| inward.add(frame, len, counts));
        for packet in inward.packets() {
            counts.in_not_sent += u64::from(!inside.write(packet));
        }
        inward.clear();
        taken
    }

    /// Waits for frames; whether there are some.
    fn wait(&self, most_ms: i32) -> bool {
        let descriptors = [self.inside.descriptor(), self.outside.descriptor()];
        let mut polled = descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        // SAFETY: two valid descriptors, in an array of two.
        let ready = unsafe { libc::poll(polled.as_mut_ptr(), 2, most_ms) };
        ready > 0 && polled.iter().any(|polled| polled.revents & libc::POLLIN != 0)
    }

    /// What only a system call tells.
    fn look(&mut self) -> Result<(), GatewayError> {
        let gone = |interface: &String| GatewayError::Gone { interface: interface.clone() };
        self.counts.out_queue_full = self.inside.dropped().ok_or_else(|| gone(&self.inside.name))?;
        self.counts.in_queue_full += self.outside.not_received();
        self.tell();
        if self.outside.is_there() { Ok(()) } else { Err(gone(&self.outside.name)) }
    }

    fn tell(&mut self) {
        self.board.set(0, self.counts);
    }
}

/// Hands up to [`BATCH`] frames to `each`, with their whole lengths; whether there were any.
fn take(port: &mut Port, mut each: impl FnMut(&[u8], usize)) -> bool {
    for number in 0..BATCH {
        let taken = port.take(|packet| {
            // Of a frame with a VLAN tag the kernel keeps the tag elsewhere: no interface here has any.
            if !packet.is_outgoing && packet.tag.is_none() {
                each(packet.data, packet.len);
            }
        });
        if taken.is_none() {
            return number > 0;
        }
    }
    true
}

/// Sends frames, at most [`BATCH`]. What the interface does not take is dropped, as by a network card.
fn send<'a>(port: &Port, frames: impl Iterator<Item = &'a [u8]>, not_sent: &mut u64) {
    let mut batch: [&[u8]; BATCH] = [&[]; BATCH];
    let mut len = 0;
    for (place, frame) in batch.iter_mut().zip(frames) {
        *place = frame;
        len += 1;
    }
    let mut left = &batch[..len];
    while !left.is_empty() {
        match port.send(left) {
            Sent::All(n) => left = &left[n..],
            Sent::NoRoom | Sent::Refused(_) => {
                *not_sent += 1;
                left = &left[1..];
            }
        }
    }
}
