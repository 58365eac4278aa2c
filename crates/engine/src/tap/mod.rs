//! A bridge between two interfaces that copies everything that crosses it.
//!
//! XDP programs forward and copy (`bpf/tap.bpf.c`); here they are put in place and their counters are
//! read. The copies lie in rings in memory: one for a recorder ([`RingSource`], in this process or in
//! another), one for the mirror, which a thread sends out of a third interface.

mod counters;
mod error;
mod features;
mod layout;
mod memory;
mod merge;
mod mirror;
mod port;
mod programs;
mod ring;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aya::programs::xdp::XdpLink;
pub use counters::{Counters, MirrorCounters, SideCounters};
pub use error::TapError;
pub use layout::PRESSED_BYTES;
pub use ring::RingSource;

use crate::mapped::Mapped;
use crate::packet::port::PortError;
use crate::thread;
use crate::xdp::{XdpError, possible_cpus};
use layout::{CHUNK, Counts, Info, MAGIC, MAX_BYTES};
use memory::Rings;
use mirror::{JOBS, Parts, Progress, Pump};
use port::Port;
use programs::{Programs, Setup};

/// Places in arrays of two: where frames come in.
const SIDES: [usize; 2] = [0, 1];

/// What a reader of the ring has to map, in the order of [`Tap::ring_fds`].
const RING_MAPS: [&str; 4] = ["tap_info", "tap_counts", "tap_rings", "tap_memory"];

/// The third place in arrays by interface.
const MIRROR: usize = 2;

/// At the end, the mirror has this long to send what waits ...
const EMPTYING: Duration = Duration::from_millis(200);
/// ... and frames in flight have this long to arrive.
const ARRIVING: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Where XDP programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the drivers if they can, else in the kernel's generic hook.
    Auto,
    /// In the drivers.
    Native,
    /// In the generic hook, behind the allocation of socket buffers: slow, but on every interface.
    Generic,
}

/// Where copies are sent.
#[derive(Clone, Debug)]
pub struct MirrorOptions {
    /// The interface that they leave by.
    pub interface: String,
    /// Their destination.
    pub logger_mac: [u8; 6],
    /// CPU of the thread that sends them.
    pub cpu: Option<usize>,
}

/// What to build.
#[derive(Clone, Debug)]
pub struct TapOptions {
    /// Path of the namespace that all interfaces are in; `None`: the caller's.
    pub netns: Option<PathBuf>,
    /// The interfaces of the bridge: A and B.
    pub interfaces: [String; 2],
    /// Whether there is a ring for a recorder.
    pub ring: bool,
    /// Whether and where copies are sent.
    pub mirror: Option<MirrorOptions>,
    /// Size of each ring, of all possible CPUs together. At least 256 KiB per CPU are taken.
    pub ring_bytes: usize,
    /// Bytes of each frame that are copied for the recorder; frames are cut to 16,360 bytes anyway.
    pub snap_bytes: usize,
    /// Whether copies for the recorder are cut to their first [`PRESSED_BYTES`], and longer frames left out of
    /// the mirror, while the forwarding CPU has no time left, so that copying does not cost frames of the link.
    pub link_first: bool,
    /// Where the programs run.
    pub mode: Mode,
}

/// A bridge that exists as long as this value, or until it is closed.
pub struct Tap {
    mode: &'static str,
    warnings: Vec<String>,
    ring_bytes_per_cpu: usize,
    live: Option<Live>,
    /// Final counters, once closed.
    last: Counters,
}

struct Live {
    /// What keeps the programs attached to A and B.
    links: Vec<XdpLink>,
    pump: Option<Pump>,
    /// What the pump reports, also after it has ended.
    mirrored: Option<Arc<Progress>>,
    counts: Mapped<Counts>,
    fds: Vec<OwnedFd>,
    /// Whether the fate of redirected frames is unknown.
    is_assumed: bool,
    _programs: Arc<Programs>,
    ports: [Port; 2],
}

impl Tap {
    /// Builds the bridge; frames cross it when this returns.
    ///
    /// # Minimum kernel version
    /// 5.18 (`bpf_xdp_load_bytes`).
    ///
    /// # Errors
    /// [`TapError`]; nothing is left in place then.
    pub fn open(options: &TapOptions) -> Result<Self, TapError> {
        check(options)?;
        thread::within(options.netns.as_deref(), || Self::open_here(options))
            .map_err(|source| PortError::Netns { place: thread::place(options.netns.as_deref()), source })?
    }

    fn open_here(options: &TapOptions) -> Result<Self, TapError> {
        let place = thread::place(options.netns.as_deref());
        let [a, b] = &options.interfaces;
        let mut ports = [Port::find(a, &place)?, Port::find(b, &place)?];
        let cpus = possible_cpus().map_err(XdpError::system("read /sys/devices/system/cpu/possible"))?;
        let chunks = chunks(options.ring_bytes, cpus);
        let mirror = options.mirror.as_ref().map(|m| Port::find(&m.interface, &place)).transpose()?;
        let ifindex = [ports[0].ifindex, ports[1].ifindex, mirror.as_ref().map_or(0, |port| port.ifindex)];
        let setup = Setup {
            cpus,
            chunks: options.ring.then_some(chunks),
            mirror_chunks: mirror.is_some().then_some(chunks),
            jobs: JOBS,
            snap: options.snap_bytes.min(MAX_BYTES),
            link_first: options.link_first,
            ifindex,
            netns: port::netns_inode().map_err(XdpError::system("read /proc/thread-self/ns/net"))?,
        };
        let mut programs = Programs::load(&setup)?;
        programs.connect(ifindex)?;
        let mut warnings = Vec::new();
        let traced = programs.trace();
        if let Err(error) = &traced {
            let needs = match programs::os_error(error) {
                Some(libc::EPERM) => "CAP_PERFMON",
                _ => "BTF and CONFIG_BPF_EVENTS",
            };
            warnings.push(format!(
                "frames that the other interface refuses are counted as forwarded: the tracepoints of XDP cannot be \
                 used (they need {needs}): {}",
                programs::innermost(error)
            ));
        }
        for port in &mut ports {
            port.be_promiscuous()?;
        }
        let mut about = programs.array("tap_info", 1)?;
        let mut info = info(&ports, cpus, chunks);
        info.ports = programs.port_maps()?;
        about.set(0, info);
        let mut fds = Vec::new();
        if options.ring {
            for map in RING_MAPS {
                fds.push(programs.share(map)?);
            }
        }
        let counts = programs.array("tap_counts", cpus)?;
        let (mode, links) =
            programs.attach([&ports[0], &ports[1]], choose(options.mode, &ports, &mut warnings))?;
        if mode == "native" && traced.is_ok() {
            // The flush, which ends the time of a stamp, is seen.
            info.share_stamp = 1;
            about.set(0, info);
        }
        if mode == "generic" {
            warnings.push(
                "XDP runs in its generic mode: slow, and frames that find the other interface's queue full count as \
                 forwarded (ip -s link show shows them)"
                    .into(),
            );
        }
        let is_traced = traced.is_ok();
        let programs = Arc::new(programs);
        let pump = match options.mirror.as_ref().zip(mirror) {
            Some((MirrorOptions { logger_mac, cpu, .. }, port)) => {
                let (rings, memory) = (programs.share("tap_m_rings")?, programs.share("tap_m_memory")?);
                let rings = Rings::new(rings, memory, cpus, chunks)
                    .map_err(XdpError::system("map a BPF array into memory"))?;
                Some(Pump::start(Parts {
                    counts: programs.array("tap_counts", cpus)?,
                    programs: Arc::clone(&programs),
                    rings,
                    port,
                    logger_mac: *logger_mac,
                    cpu: *cpu,
                    is_traced,
                })?)
            }
            None => None,
        };
        let mirrored = pump.as_ref().map(|pump| Arc::clone(&pump.progress));
        let is_assumed = mode == "generic" || !is_traced;
        let live = Live { links, pump, mirrored, counts, fds, is_assumed, _programs: programs, ports };
        let ring_bytes_per_cpu = chunks * CHUNK as usize;
        if options.ring {
            warnings.extend(small_share(options.ring_bytes, ring_bytes_per_cpu, cpus));
        }
        Ok(Self { mode, warnings, ring_bytes_per_cpu, live: Some(live), last: Counters::default() })
    }

    /// Where the programs run: `native` or `generic`.
    #[must_use]
    pub const fn mode(&self) -> &'static str {
        self.mode
    }

    /// Descriptors through which the recorder's ring can be opened; see [`RingSource::open`]. Empty without a
    /// ring, and once closed.
    #[must_use]
    pub fn ring_fds(&self) -> &[OwnedFd] {
        self.live.as_ref().map_or(&[], |live| &live.fds)
    }

    /// Whether the bridge is gone.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.live.is_none()
    }

    /// What does not work as it should, in sentences.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Bytes of each ring that belong to one CPU. A frame goes into the ring of the CPU that forwards it.
    #[must_use]
    pub const fn ring_bytes_per_cpu(&self) -> usize {
        self.ring_bytes_per_cpu
    }

    /// What became of the frames so far, or until the end. Frames that are under way this very moment are
    /// received already, but neither forwarded nor not.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.live.as_ref().map_or_else(|| self.last.clone(), Live::counters)
    }

    /// Removes the bridge and returns what became of all frames. Safe to call again.
    pub fn close(&mut self) -> Counters {
        if let Some(live) = self.live.take() {
            self.last = live.end();
        }
        self.last.clone()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.close();
    }
}

impl Live {
    fn counters(&self) -> Counters {
        let per_cpu: Vec<Counts> = (0..self.counts.len()).map(|cpu| self.counts.get(cpu)).collect();
        counters::sum(&per_cpu, &self.ports, self.mirrored.as_deref(), self.is_assumed)
    }

    /// In this order: nothing comes in any more, what waits for the mirror leaves, and frames under way arrive.
    fn end(mut self) -> Counters {
        self.links.clear();
        if let Some(pump) = self.pump.take() {
            wait_until(EMPTYING, || !pump.is_running() || self.counters().mirror.waiting == 0);
        }
        wait_until(ARRIVING, || self.counters().is_settled());
        self.counters().ended()
    }
}

/// Polls until a condition holds or the time is over.
fn wait_until(at_most: Duration, is_so: impl Fn() -> bool) {
    let end = Instant::now() + at_most;
    while !is_so() && Instant::now() < end {
        std::thread::sleep(LOOK_EVERY);
    }
}

fn check(options: &TapOptions) -> Result<(), TapError> {
    let mirror = options.mirror.as_ref().map(|mirror| &mirror.interface);
    let mut names: Vec<&String> = options.interfaces.iter().chain(mirror).collect();
    names.sort();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(TapError::Same { interface: pair[0].clone() });
    }
    if options.snap_bytes == 0 {
        return Err(TapError::Option("snap_bytes is 0: at least one byte of each frame is copied".into()));
    }
    Ok(())
}

/// Native programs can only forward into interfaces that take XDP frames.
fn choose(mode: Mode, ports: &[Port; 2], warnings: &mut Vec<String>) -> Mode {
    let refusing = |port: &&Port| features::takes_frames(port.ifindex) == Some(false);
    let names: Vec<_> = ports.iter().filter(refusing).map(|port| port.name.as_str()).collect();
    if names.is_empty() || mode == Mode::Generic {
        return mode;
    }
    warnings.push(format!(
        "no XDP frames can be sent out of {}: if it is a veth, switch GRO on at its peer before the tap is started \
         (ethtool -K PEER gro on)",
        names.join(" and ")
    ));
    if mode == Mode::Auto { Mode::Generic } else { mode }
}

/// Chunks of each CPU's ring.
fn chunks(ring_bytes: usize, cpus: usize) -> usize {
    let chunks = ring_bytes / cpus / CHUNK as usize;
    1 << chunks.clamp(1, 1 << 12).ilog2()
}

/// The warning if one CPU, perhaps the only one that forwards, gets little of the ring.
fn small_share(ring_bytes: usize, per_cpu: usize, cpus: usize) -> Option<String> {
    (per_cpu < ring_bytes / 4).then(|| {
        format!(
            "the ring is divided among {cpus} possible CPUs: {} KiB each, and a CPU that forwards fills only \
             its own part; if few CPUs forward, request a larger ring (weir tap --ring SIZE)",
            per_cpu >> 10
        )
    })
}

fn info(ports: &[Port; 2], cpus: usize, chunks: usize) -> Info {
    let mut info = Info { magic: MAGIC, cpus: cpus as u32, chunks: chunks as u32, ..Info::default() };
    for (side, port) in ports.iter().enumerate() {
        let bytes = port.name.as_bytes();
        let n = bytes.len().min(info.name[side].len() - 1);
        info.name[side][..n].copy_from_slice(&bytes[..n]);
        info.mac[side] = port.mac;
    }
    info
}

#[cfg(test)]
mod tests;
