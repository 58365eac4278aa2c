//! One trial at a time between two interfaces, over whichever back end works there.

mod error;
mod play;

use std::ffi::CString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::outcome::{Backend, Outcome};
use crate::packet;
use crate::plan::{Bodies, Macs, Plan, PlanError, Side};
use crate::priority::{self, Raised};
use crate::thread::{self, Awake};
use crate::xdp;
use weir_clock::now_ns;

pub use error::EngineError;
pub use play::Caller;
use play::Steady;

/// An interface in a network namespace.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Path of the namespace; `None`: the caller's.
    pub netns: Option<PathBuf>,
    /// Name of the interface in that namespace.
    pub interface: String,
}

/// Which back end to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendChoice {
    /// XDP, or packet sockets if XDP fails.
    Auto,
    /// XDP only; an error if it fails.
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
    /// CPU of each sending thread; empty: one thread, on any CPU. Packet sockets use the first.
    pub tx_cpus: Vec<usize>,
    /// CPU to keep awake during a trial: the device's.
    pub spin_cpu: Option<usize>,
    /// Threads that do the device's work, made real-time during a trial.
    pub device_threads: Vec<libc::pid_t>,
    /// Back end.
    pub backend: BackendChoice,
    /// Whether the sender's interface is a port of the user's, with any driver. It gets a program even if nothing
    /// arrives there: drivers of hardware set up the queues that XDP sends by only when one is attached. They may
    /// also move frames within their pages.
    pub program_at_sender: bool,
}

/// Sender and receiver, ready for trials.
pub struct Engine {
    options: Options,
    tx_ifindex: u32,
    rx_ifindex: u32,
    machinery: Machinery,
    fallback: Option<String>,
    refused: Option<String>,
    next_magic: u16,
    witness: Option<xdp::Witness>,
}

enum Machinery {
    /// Nothing is loaded yet.
    Xdp(Option<Box<Programs>>),
    AfPacket(Sockets),
}

struct Programs {
    /// One per sender.
    generators: Vec<xdp::Generator>,
    /// Where forward packets arrive.
    receiver: xdp::Receiver,
    /// Set when calls are answered: both interfaces send, and the sender's interface has a receiver.
    back: Option<xdp::Receiver>,
    /// Takes the place of `back` when nothing arrives there; it is never armed.
    idle: Option<xdp::Receiver>,
}

struct Sockets {
    forward: (packet::Sender, packet::Receiver),
    back: Option<(packet::Sender, packet::Receiver)>,
}

/// What a plan asks of the XDP programs beyond its own size.
#[derive(Default)]
struct Needs {
    bodies: Bodies,
    /// Arrivals to log in each direction.
    log_room: [usize; 2],
    goes_back: bool,
}

impl Needs {
    fn of(plan: &Plan, header_len: usize) -> Result<Self, PlanError> {
        let goes_back = plan.goes_back();
        if plan.media.is_none() {
            return Ok(Self { goes_back, ..Self::default() });
        }
        let log_room = plan.packets_per_side().map(xdp::log_room);
        Ok(Self { bodies: Bodies::of(plan, header_len)?, log_room, goes_back })
    }
}

impl Engine {
    /// Finds the interfaces and a back end that works on them.
    ///
    /// # Errors
    /// [`EngineError`] when an interface is missing or no allowed back end works.
    pub fn open(options: Options) -> Result<Self, EngineError> {
        let tx_ifindex = ifindex(&options.tx)?;
        let rx_ifindex = ifindex(&options.rx)?;
        // Stragglers from an earlier engine carry other numbers.
        let next_magic = (now_ns() >> 10) as u16;
        let machinery = Machinery::Xdp(None);
        let mut engine = Self {
            options,
            tx_ifindex,
            rx_ifindex,
            machinery,
            fallback: None,
            refused: None,
            next_magic,
            witness: None,
        };
        match engine.options.backend {
            BackendChoice::AfPacket => engine.fall_back(None)?,
            choice => match engine.load(&smallest_plan(), &Needs::default()) {
                Ok(()) if engine.options.device_threads.is_empty() => {}
                Ok(()) => engine.witness = xdp::Witness::load(),
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
            Machinery::Xdp(loaded) => Backend::Xdp(loaded.as_ref().map_or("native", |l| l.receiver.mode())),
            Machinery::AfPacket(_) => Backend::AfPacket,
        }
    }

    /// Why XDP is not used although it was requested.
    #[must_use]
    pub fn fallback_reason(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// Why the last trial was not real-time although it was short enough.
    #[must_use]
    pub fn real_time_refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Plays a plan and counts; `back` is for flows sent from the receiver's side.
    ///
    /// # Errors
    /// [`EngineError`]; in every case the sender has stopped when this returns.
    pub fn run(
        &mut self,
        plan: &Plan,
        macs: Macs,
        back: Option<Macs>,
        caller: &mut dyn Caller,
    ) -> Result<Outcome, EngineError> {
        let headers = plan.headers(macs, back)?;
        if plan.answers.is_some() && matches!(self.machinery, Machinery::AfPacket(_)) {
            return Err(EngineError::Unanswered);
        }
        let needs = match self.machinery {
            Machinery::Xdp(_) => Needs::of(plan, headers[0].len())?,
            Machinery::AfPacket(_) => Needs::default(),
        };
        self.load(plan, &needs)?;
        self.next_magic = self.next_magic.wrapping_add(1);
        let magic = self.next_magic;
        self.look_at_device(plan);
        let _awake = self.options.spin_cpu.map(Awake::start);
        let raised = self.raise(plan);
        let steady = Steady { real_time: raised.is_some() };
        let (sent, received, answers, window) = match &mut self.machinery {
            Machinery::Xdp(Some(loaded)) => play::xdp(
                loaded,
                plan,
                &headers,
                &needs.bodies,
                magic,
                self.tx_ifindex,
                &self.options,
                steady,
                caller,
            )?,
            Machinery::AfPacket(sockets) => {
                play::packet(sockets, plan, &headers, magic, &self.options, steady, caller)?
            }
            Machinery::Xdp(None) => unreachable!("loaded above"),
        };
        let outcome = Outcome::join(self.backend(), window.bounds(), plan.windowed, &sent, received);
        Ok(Outcome { answers, ..outcome })
    }

    /// Tells the sender which threads to watch; they may differ from last time.
    fn look_at_device(&mut self, plan: &Plan) {
        if let (true, Machinery::Xdp(Some(programs)), Some(witness)) =
            (plan.windowed, &mut self.machinery, &mut self.witness)
        {
            programs.generators[0].watch(&witness.find(&self.options.device_threads));
        }
    }

    /// Makes the device's threads real-time if that helps a trial of this plan; the sender follows.
    ///
    /// It does not help if the trial is longer than the kernel allows, or if packets go both ways: then
    /// two threads share the device's CPU, and a real-time thread gives its equal no turn.
    fn raise(&mut self, plan: &Plan) -> Option<Raised> {
        let lasts = Duration::from_nanos(play::SETTLE_NS + plan.total_ns());
        self.refused = None;
        if plan.goes_back() || lasts > priority::longest() {
            return None;
        }
        priority::allowed()
            .and_then(|()| Raised::new(&self.options.device_threads))
            .map_err(|error| self.refused = Some(error.to_string()))
            .ok()
    }

    /// Makes sure that programs or sockets exist, with room for `plan`.
    fn load(&mut self, plan: &Plan, needs: &Needs) -> Result<(), EngineError> {
        match &mut self.machinery {
            Machinery::Xdp(_) => self.load_programs(plan, needs),
            Machinery::AfPacket(sockets) => {
                let goes_back = plan.goes_back();
                if goes_back && sockets.back.is_none() {
                    let (from, to) = (self.options.rx.clone(), self.options.tx.clone());
                    sockets.back = Some(open_sockets((&from, self.rx_ifindex), (&to, self.tx_ifindex))?);
                } else if !goes_back {
                    sockets.back = None; // its receiver would only fill up
                }
                Ok(())
            }
        }
    }

    fn load_programs(&mut self, plan: &Plan, needs: &Needs) -> Result<(), EngineError> {
        let &Options { ref tx, ref rx, program_at_sender, .. } = &self.options;
        let (tx_ifindex, rx_ifindex) = (self.tx_ifindex, self.rx_ifindex);
        let Machinery::Xdp(kept) = &mut self.machinery else { return Ok(()) };
        let attach = |side: Side, at: &Endpoint, ifindex| {
            let room = needs.log_room[side as usize];
            within(at, || xdp::Receiver::attach(plan, room, ifindex, &at.interface))?
                .map_err(EngineError::from)
        };
        // Detach before attaching again; if anything fails, nothing half loaded is kept.
        let shares = plan.shares(self.options.tx_cpus.len());
        let loaded = kept.take().filter(|programs| {
            programs.generators.len() == shares.len()
                && programs
                    .generators
                    .iter()
                    .zip(&shares)
                    .all(|(generator, share)| generator.fits(&share.plan, &needs.bodies))
                && programs.receiver.fits(plan, needs.log_room[Side::Forward as usize])
        });
        let mut loaded = match loaded {
            Some(loaded) => loaded,
            None => Box::new(Programs {
                receiver: attach(Side::Forward, rx, rx_ifindex)?,
                generators: shares
                    .iter()
                    .map(|share| xdp::Generator::load(&share.plan, &needs.bodies, program_at_sender))
                    .collect::<Result<_, _>>()?,
                back: None,
                idle: None,
            }),
        };
        // Packets of calls have one sender.
        let first = &mut loaded.generators[0];
        if plan.media.is_some() && !first.is_connected() {
            within(tx, || first.connect(Side::Forward, tx_ifindex))??;
            within(rx, || first.connect(Side::Back, rx_ifindex))??;
        }
        let room = needs.log_room[Side::Back as usize];
        loaded.back = loaded.back.take().filter(|back| needs.goes_back && back.fits(plan, room));
        loaded.idle = loaded.idle.take().filter(|_| !needs.goes_back);
        if needs.goes_back && loaded.back.is_none() {
            loaded.back = Some(attach(Side::Back, tx, tx_ifindex)?);
        } else if !needs.goes_back && program_at_sender && loaded.idle.is_none() {
            let smallest = smallest_plan();
            let idle = within(tx, || xdp::Receiver::attach(&smallest, 0, tx_ifindex, &tx.interface))??;
            loaded.idle = Some(idle);
        }
        *kept = Some(loaded);
        Ok(())
    }

    fn fall_back(&mut self, reason: Option<String>) -> Result<(), EngineError> {
        let Options { tx, rx, .. } = &self.options;
        let forward = open_sockets((tx, self.tx_ifindex), (rx, self.rx_ifindex))?;
        self.machinery = Machinery::AfPacket(Sockets { forward, back: None });
        self.fallback = reason;
        Ok(())
    }
}

/// Sockets that send from one place and receive at another.
fn open_sockets(
    (from, from_ifindex): (&Endpoint, u32),
    (to, to_ifindex): (&Endpoint, u32),
) -> Result<(packet::Sender, packet::Receiver), EngineError> {
    let error = |at: &Endpoint| {
        let interface = at.interface.clone();
        |source| EngineError::Socket { interface, source }
    };
    let sender = within(from, || packet::Sender::open(from_ifindex))?.map_err(error(from))?;
    let receiver = within(to, || packet::Receiver::open(to_ifindex))?.map_err(error(to))?;
    Ok((sender, receiver))
}

/// Does `work` in the namespace of an endpoint.
fn within<T: Send>(at: &Endpoint, work: impl FnOnce() -> T + Send) -> Result<T, EngineError> {
    thread::within(at.netns.as_deref(), work).map_err(|e| netns_error(at, e))
}

fn netns_error(at: &Endpoint, source: io::Error) -> EngineError {
    EngineError::Netns { place: thread::place(at.netns.as_deref()), source }
}

fn ifindex(at: &Endpoint) -> Result<u32, EngineError> {
    let missing = || EngineError::Interface {
        interface: at.interface.clone(),
        place: thread::place(at.netns.as_deref()),
    };
    let name = CString::new(at.interface.as_str()).map_err(|_| missing())?;
    // SAFETY: `name` is a valid C string.
    let index = within(at, || unsafe { libc::if_nametoindex(name.as_ptr()) })?;
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
        windowed: true,
        flows: vec![weir_wire::Addresses { src_ip: ip, dst_ip: ip, src_port: 0, dst_port: 0 }; 256],
        l4: weir_wire::L4::Udp,
        skip: 0,
        catch_up_ns: 0,
        quiet_ns: 0,
        straggler_ns: 0,
        media: None,
        answers: None,
    }
}
