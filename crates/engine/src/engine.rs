//! One trial at a time between two interfaces, over whichever back end works there.

use std::ffi::CString;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use thiserror::Error;
use weir_wire::Header;

use crate::clock::now_ns;
use crate::layout::RxConfig;
use crate::outcome::{Backend, Outcome, Received, Sent};
use crate::packet;
use crate::plan::{Macs, Plan, PlanError};
use crate::thread::{self, Awake};
use crate::xdp::{self, Window, XdpError};

/// Time between the decision to start and the first departure.
const SETTLE_NS: u64 = 5_000_000;
/// How often a running trial looks for an interruption and for stragglers.
const POLL: Duration = Duration::from_millis(10);

/// An interface in a network namespace.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Path of the namespace; `None`: the caller's.
    pub netns: Option<PathBuf>,
    /// Name of the interface in there.
    pub interface: String,
}

/// Which back end to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendChoice {
    /// XDP, and packet sockets where that fails.
    Auto,
    /// XDP or an error.
    Xdp,
    /// Packet sockets.
    AfPacket,
}

/// How to set up an engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to send.
    pub tx: Endpoint,
    /// Where to receive.
    pub rx: Endpoint,
    /// CPU of the sending thread.
    pub tx_cpu: Option<usize>,
    /// CPU to keep awake during a trial: the device's.
    pub spin_cpu: Option<usize>,
    /// Back end.
    pub backend: BackendChoice,
}

/// Why a trial could not be carried out.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The plan cannot be played.
    #[error("this traffic cannot be sent: {0}")]
    Plan(#[from] PlanError),
    /// A namespace cannot be entered.
    #[error("cannot enter network namespace {path}: {source}")]
    Netns {
        /// Its path.
        path: String,
        /// The kernel's reason.
        source: io::Error,
    },
    /// An interface does not exist.
    #[error("there is no interface {interface} in network namespace {netns}")]
    Interface {
        /// Its name.
        interface: String,
        /// Where it was looked for.
        netns: String,
    },
    /// XDP does not work here.
    #[error(transparent)]
    Xdp(#[from] XdpError),
    /// Packet sockets do not work here.
    #[error("cannot use packet sockets on {interface} (needs CAP_NET_RAW): {source}")]
    Socket {
        /// The interface.
        interface: String,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The caller asked for the end.
    #[error("interrupted")]
    Interrupted,
}

/// Sender and receiver, ready for trials.
pub struct Engine {
    options: Options,
    tx_ifindex: u32,
    rx_ifindex: u32,
    machinery: Machinery,
    fallback: Option<String>,
    next_magic: u16,
}

enum Machinery {
    /// Nothing is loaded yet.
    Xdp(Option<Box<(xdp::Generator, xdp::Receiver)>>),
    AfPacket(packet::Sender, packet::Receiver),
}

impl Engine {
    /// Finds the interfaces and a back end that works on them.
    ///
    /// # Errors
    /// [`EngineError`] when an interface is missing or no allowed back end works.
    pub fn open(options: Options) -> Result<Self, EngineError> {
        let tx_ifindex = ifindex(&options.tx)?;
        let rx_ifindex = ifindex(&options.rx)?;
        // Stragglers of an engine that was here before carry other numbers.
        let next_magic = (now_ns() >> 10) as u16;
        let machinery = Machinery::Xdp(None);
        let mut engine = Self { options, tx_ifindex, rx_ifindex, machinery, fallback: None, next_magic };
        match engine.options.backend {
            BackendChoice::AfPacket => engine.fall_back(None)?,
            choice => match engine.load(&smallest_plan()) {
                Ok(()) => {}
                Err(EngineError::Xdp(e)) if choice == BackendChoice::Auto => {
                    engine.fall_back(Some(e.to_string()))?
                }
                Err(e) => return Err(e),
            },
        }
        Ok(engine)
    }

    /// The back end in use.
    #[must_use]
    pub fn backend(&self) -> Backend {
        match &self.machinery {
            Machinery::Xdp(loaded) => Backend::Xdp(loaded.as_ref().map_or("native", |l| l.1.mode())),
            Machinery::AfPacket(..) => Backend::AfPacket,
        }
    }

    /// Why XDP is not used although it was wanted.
    #[must_use]
    pub fn fallback_reason(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// Plays a plan and counts. `interrupted` is asked every few milliseconds.
    ///
    /// # Errors
    /// [`EngineError`]; whatever happens, the sender has stopped when this returns.
    pub fn run(
        &mut self,
        plan: &Plan,
        macs: Macs,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Outcome, EngineError> {
        let headers = plan.headers(macs)?;
        if matches!(self.machinery, Machinery::Xdp(_)) {
            self.load(plan)?;
        }
        self.next_magic = self.next_magic.wrapping_add(1);
        let magic = self.next_magic;
        let _awake = self.options.spin_cpu.map(Awake::start);
        let (sent, received, window) = match &mut self.machinery {
            Machinery::Xdp(Some(loaded)) => {
                let (generator, receiver) = &mut **loaded;
                let window = window(plan, magic);
                generator.prepare(plan, &headers, self.tx_ifindex, window);
                receiver.arm(plan, window);
                let result = play_xdp(generator, receiver, plan, window, &self.options, interrupted);
                receiver.disarm();
                result?;
                (generator.sent(plan), receiver.received(plan), window)
            }
            Machinery::AfPacket(sender, receiver) => {
                play_packet(sender, receiver, plan, &headers, magic, &self.options, interrupted)?
            }
            Machinery::Xdp(None) => unreachable!("loaded above"),
        };
        Ok(Outcome::join(self.backend(), (window.record_start_ns, window.record_end_ns), &sent, &received))
    }

    /// Makes sure that the XDP programs are loaded with room for `plan`.
    fn load(&mut self, plan: &Plan) -> Result<(), EngineError> {
        let Machinery::Xdp(loaded) = &mut self.machinery else { return Ok(()) };
        if loaded.as_ref().is_some_and(|l| l.0.fits(plan) && l.1.fits(plan)) {
            return Ok(());
        }
        *loaded = None; // detach before attaching again
        let (rx, rx_ifindex) = (&self.options.rx, self.rx_ifindex);
        let receiver =
            thread::within(rx.netns.as_deref(), || xdp::Receiver::attach(plan, rx_ifindex, &rx.interface))
                .map_err(|e| netns_error(rx, e))??;
        *loaded = Some(Box::new((xdp::Generator::load(plan)?, receiver)));
        Ok(())
    }

    fn fall_back(&mut self, reason: Option<String>) -> Result<(), EngineError> {
        let Options { tx, rx, .. } = &self.options;
        let socket_error = |at: &Endpoint| {
            let interface = at.interface.clone();
            |source| EngineError::Socket { interface, source }
        };
        let sender = thread::within(tx.netns.as_deref(), || packet::Sender::open(self.tx_ifindex))
            .map_err(|e| netns_error(tx, e))?
            .map_err(socket_error(tx))?;
        let receiver = thread::within(rx.netns.as_deref(), || packet::Receiver::open(self.rx_ifindex))
            .map_err(|e| netns_error(rx, e))?
            .map_err(socket_error(rx))?;
        self.machinery = Machinery::AfPacket(sender, receiver);
        self.fallback = reason;
        Ok(())
    }
}

fn play_xdp(
    generator: &mut xdp::Generator,
    receiver: &xdp::Receiver,
    plan: &Plan,
    window: Window,
    options: &Options,
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<(), EngineError> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            thread::within(options.tx.netns.as_deref(), || {
                steady(options.tx_cpu);
                generator.play(plan, window.start_ns, &stop)
            })
        });
        let stopped = watch(&sender, &stop, interrupted);
        join(sender).map_err(|e| netns_error(&options.tx, e))??;
        stopped
    })?;
    let sent = generator.sent(plan);
    await_stragglers(plan, sent.recorded + sent.warmup, || receiver.progress(), interrupted)
}

fn play_packet(
    sender: &packet::Sender,
    receiver: &packet::Receiver,
    plan: &Plan,
    headers: &[Header],
    magic: u16,
    options: &Options,
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<(Sent, Received, Window), EngineError> {
    let window = window(plan, magic);
    let config = RxConfig {
        record_start_ns: window.record_start_ns,
        record_end_ns: window.record_end_ns,
        n_flows: plan.flows.len() as u32,
        bin_ns: plan.bin_ns,
        n_bins: plan.n_bins() as u32,
        magic,
        skip: plan.skip,
        armed: 1,
    };
    let (stop_sending, stop_counting) = (AtomicBool::new(false), AtomicBool::new(false));
    let progress = packet::Progress::default();
    std::thread::scope(|scope| {
        let counting = scope.spawn(|| receiver.count(config, &progress, &stop_counting));
        let sending = scope.spawn(|| {
            steady(options.tx_cpu);
            sender.play(plan, headers, window, &stop_sending)
        });
        let stopped = watch(&sending, &stop_sending, interrupted);
        let sent = join(sending);
        let waited = match &sent {
            Ok(sent) if stopped.is_ok() => {
                let arrived = || {
                    (progress.probes.load(Ordering::Relaxed), progress.last_probe_ns.load(Ordering::Relaxed))
                };
                await_stragglers(plan, sent.recorded + sent.warmup, arrived, interrupted)
            }
            _ => Ok(()),
        };
        stop_counting.store(true, Ordering::Relaxed);
        let received = join(counting);
        stopped.and(waited)?;
        let error = |at: &Endpoint, source| EngineError::Socket { interface: at.interface.clone(), source };
        Ok((sent.map_err(|e| error(&options.tx, e))?, received.map_err(|e| error(&options.rx, e))?, window))
    })
}

/// Waits for the sender; passes an interruption on to it.
fn watch<T>(
    sender: &ScopedJoinHandle<'_, T>,
    stop: &AtomicBool,
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<(), EngineError> {
    while !sender.is_finished() {
        if interrupted() {
            stop.store(true, Ordering::Relaxed);
            return Err(EngineError::Interrupted);
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Waits until every packet came, or none has come for a while.
fn await_stragglers(
    plan: &Plan,
    sent: u64,
    progress: impl Fn() -> (u64, u64),
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<(), EngineError> {
    let ended_ns = now_ns();
    loop {
        let (arrived, last_ns) = progress();
        let now = now_ns();
        let quiet = now.saturating_sub(last_ns.max(ended_ns)) >= plan.quiet_ns;
        if arrived >= sent || quiet || now >= ended_ns + plan.straggler_ns {
            return Ok(());
        }
        if interrupted() {
            return Err(EngineError::Interrupted);
        }
        std::thread::sleep(POLL.min(Duration::from_nanos(plan.quiet_ns / 4 + 1)));
    }
}

fn window(plan: &Plan, magic: u16) -> Window {
    let start_ns = now_ns() + SETTLE_NS;
    Window {
        start_ns,
        record_start_ns: start_ns + plan.warmup_ns,
        record_end_ns: start_ns + plan.total_ns(),
        magic,
    }
}

/// Gives the sending thread its CPU and the right of way there, as far as that is allowed;
/// a sender that is late says so in its outcome anyway.
fn steady(cpu: Option<usize>) {
    if let Some(cpu) = cpu {
        let _ = thread::pin(cpu);
    }
    let _ = thread::take_precedence();
}

fn join<T>(handle: ScopedJoinHandle<'_, T>) -> T {
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn netns_error(at: &Endpoint, source: io::Error) -> EngineError {
    let path = at.netns.as_deref().map_or_else(String::new, |p| p.display().to_string());
    EngineError::Netns { path, source }
}

fn ifindex(at: &Endpoint) -> Result<u32, EngineError> {
    let missing = || EngineError::Interface {
        interface: at.interface.clone(),
        netns: at.netns.as_deref().map_or_else(|| "(current)".into(), |p| p.display().to_string()),
    };
    let name = CString::new(at.interface.as_str()).map_err(|_| missing())?;
    // SAFETY: `name` is a valid C string.
    let index = thread::within(at.netns.as_deref(), || unsafe { libc::if_nametoindex(name.as_ptr()) })
        .map_err(|e| netns_error(at, e))?;
    if index == 0 { Err(missing()) } else { Ok(index) }
}

/// What the programs are first loaded for: finds out whether XDP works at all.
fn smallest_plan() -> Plan {
    use std::net::{IpAddr, Ipv4Addr};

    let ip = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    Plan {
        entries: vec![crate::Entry { gap_ns: 1, gap_frac: 0, length: 60, flow: crate::NEXT_FLOW }; 16_384],
        phases: vec![crate::Phase { end_ns: 1, first_entry: 0, n_entries: 1 }],
        paced: true,
        warmup_ns: 0,
        duration_ns: 1_000 * 10_000_000,
        bin_ns: 10_000_000,
        flows: vec![weir_wire::Addresses { src_ip: ip, dst_ip: ip, src_port: 0, dst_port: 0 }; 256],
        l4: weir_wire::L4::Udp,
        skip: 0,
        catch_up_ns: 0,
        quiet_ns: 0,
        straggler_ns: 0,
    }
}
