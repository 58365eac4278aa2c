//! A gateway of a tunnel in user space: IP packets that the kernel routes to its TUN interface leave by another
//! interface with ESP (RFC 4303), and the other way round.
//!
//! One thread does both directions. On the side with ESP packets pass through packet sockets, and the gateway
//! has its own Ethernet address there: the kernel, which sees the same frames, takes them for another host's.

mod counts;
mod tun;
mod ways;

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use thiserror::Error;
use weir_esp::{Association, AssociationError, Mode, RekeyingInbound, RekeyingOutbound, SECRET_LEN};

pub use counts::COUNTERS;

use crate::engine::Endpoint;
use crate::mapped::Mapped;
use crate::packet::port::{BATCH, Port, PortError, Sent};
use counts::Counts;
use tun::Tun;
use ways::{Inward, Outward};

/// Half a thousand frames may wait, as in the ring of a network card; further ones are dropped.
const RING_MIB: usize = 1;
/// Time between checks of what the kernel dropped and of the owner's wish, while packets pass.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The counters are complete this soon after the last frame.
const CALM_MS: i32 = 10;
const IDLE_MS: i32 = 500;

/// The side on which packets have ESP.
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

/// When a gateway begins to send with another SPI and other keys, besides on request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lifetime {
    /// After this many packets.
    pub packets: Option<NonZeroU64>,
    /// After this long, by a monotonic clock; not while there is nothing to send.
    pub time: Option<Duration>,
}

/// What the owner of a gateway wants it to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Continue.
    Nothing,
    /// Send with another SPI and other keys from now on.
    Rekey,
    /// Stop.
    End,
}

/// What a gateway does, and where.
pub struct Options<'a> {
    /// Name of the TUN interface to make, on the side where packets are in the clear.
    pub inside: String,
    /// The other side, where they have ESP.
    pub outside: Outside,
    /// For packets that leave; in tunnel mode.
    pub sending: Association<'a>,
    /// For packets that arrive.
    pub receiving: Association<'a>,
    /// Secrets from which the associations after these two are derived, see [`RekeyingOutbound::new`].
    pub secrets: [&'a [u8; SECRET_LEN]; 2],
    /// When this gateway rekeys. The other gateway follows.
    pub lifetime: Lifetime,
    /// Random bytes for initialization vectors, see [`weir_esp::Outbound::new`].
    pub iv_key: [u8; 16],
    /// Width of the replay window in packets.
    pub window: usize,
    /// File for the counters, which is created: [`COUNTERS`] of 8 bytes each, in the host's byte order.
    pub counters: PathBuf,
}

/// Why a gateway cannot be made, or has ended.
#[derive(Debug, Error)]
pub enum GatewayError {
    /// An interface cannot be used.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A security association is invalid.
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
    rekey_every: Option<Duration>,
    rekeyed: Instant,
}

impl Gateway {
    /// Makes the gateway and its TUN interface, which is down; arriving frames are kept from now on.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub fn open(options: &Options<'_>) -> Result<Self, GatewayError> {
        if options.sending.mode == Mode::Transport || options.receiving.mode == Mode::Transport {
            return Err(GatewayError::Transport);
        }
        let [sending, receiving] = options.secrets;
        let lifetime = options.lifetime;
        let sender = RekeyingOutbound::new(&options.sending, &options.iv_key, sending, lifetime.packets)?;
        let receiver = RekeyingInbound::new(&options.receiving, options.window, receiving)?;
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
            rekey_every: lifetime.time,
            rekeyed: Instant::now(),
        })
    }

    /// Carries packets until `wish` says to stop; it is called several times a second.
    ///
    /// # Errors
    /// [`GatewayError::Gone`].
    pub fn run(&mut self, wish: &mut dyn FnMut() -> Wish) -> Result<(), GatewayError> {
        let (mut looked, mut wait_ms) = (Instant::now(), CALM_MS);
        loop {
            let carried = [self.carry_out(), self.carry_in()];
            let mut is_calm = false;
            if carried == [false, false] {
                self.tell();
                is_calm = !self.wait(wait_ms);
                wait_ms = if is_calm { IDLE_MS } else { CALM_MS };
            }
            if !is_calm && looked.elapsed() < LOOK_EVERY {
                continue;
            }
            looked = Instant::now();
            self.look()?;
            match wish() {
                Wish::Nothing => {}
                Wish::Rekey => self.rekey(),
                Wish::End => return Ok(()),
            }
        }
    }

    fn rekey(&mut self) {
        self.outward.rekey(&mut self.counts);
        self.rekeyed = Instant::now();
        self.tell();
    }

    /// Moves a batch into the tunnel; returns whether there were packets.
    fn carry_out(&mut self) -> bool {
        let Self { inside, outside, outward, counts, rekey_every, rekeyed, .. } = self;
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
        if rekey_every.is_some_and(|every| rekeyed.elapsed() >= every) {
            outward.rekey(counts);
            *rekeyed = Instant::now();
        }
        outward.seal(counts);
        send(outside, outward.frames(), &mut counts.out_not_sent);
        outward.clear();
        true
    }

    /// Moves a batch out of the tunnel; returns whether there were frames.
    fn carry_in(&mut self) -> bool {
        let Self { inside, outside, inward, counts, .. } = self;
        let taken = take(outside, |frame, len| inward.add(frame, len, counts));
        for packet in inward.packets() {
            counts.in_not_sent += u64::from(!inside.write(packet));
        }
        inward.clear();
        taken
    }

    /// Waits for frames; returns whether there are some.
    fn wait(&self, most_ms: i32) -> bool {
        let descriptors = [self.inside.descriptor(), self.outside.descriptor()];
        let mut polled = descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        // SAFETY: two valid descriptors, in an array of two.
        let ready = unsafe { libc::poll(polled.as_mut_ptr(), 2, most_ms) };
        ready > 0 && polled.iter().any(|polled| polled.revents & libc::POLLIN != 0)
    }

    /// Checks what only a system call can report.
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

/// Hands up to [`BATCH`] frames to `each`, with their full lengths; returns whether there were any.
fn take(port: &mut Port, mut each: impl FnMut(&[u8], usize)) -> bool {
    for number in 0..BATCH {
        let taken = port.take(|packet| {
            // The kernel keeps a VLAN tag apart from its frame: no interface here has any.
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
