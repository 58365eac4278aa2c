//! The tap's programs: loaded, attached to both interfaces, and to the tracepoints that report what became of
//! the frames.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aya::maps::Map;
use aya::maps::xdp::DevMap;
use aya::programs::xdp::XdpLink;
use aya::programs::{BtfTracePoint, ProgramError, Xdp, XdpMode};
use aya::{Btf, Ebpf, EbpfLoader, include_bytes_aligned};

use super::error::TapError;
use super::port::Port;
use super::{Mode, SIDES};
use crate::layout::Plain;
use crate::mapped::Mapped;
use crate::xdp::{XdpError, attach_aside};

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/tap.o"));
const NAME: &str = "tap";
/// Programs for the two sides: for frames in one page, and for longer ones.
const BRIDGES: [[&str; 2]; 2] = [["weir_tap_a", "weir_tap_b"], ["weir_tap_a_frags", "weir_tap_b_frags"]];
/// Maps of devices, and how many of A, B and the mirror are in them.
const PORTS: [(&str, usize); 2] = [("tap_ports", 3), ("tap_long_ports", 2)];
const SEND: &str = "weir_tap_send";
const TRACEPOINTS: [(&str, &str); 2] =
    [("weir_tap_flushed", "xdp_devmap_xmit"), ("weir_tap_refused", "xdp_redirect_err")];

/// What the programs are made for.
pub struct Setup {
    pub cpus: usize,
    /// Chunks per CPU of the recorder's ring; `None`: none is wanted.
    pub chunks: Option<usize>,
    pub mirror_chunks: Option<usize>,
    pub jobs: usize,
    pub snap: usize,
    pub link_first: bool,
    pub ifindex: [u32; 3],
    pub netns: u32,
}

/// The loaded object.
pub struct Programs {
    bpf: Ebpf,
    /// Keeps the private namespace alive in which the sender is attached.
    _dispatcher: Option<File>,
}

impl Programs {
    /// Loads the maps and verifies what is always needed.
    pub fn load(setup: &Setup) -> Result<Self, TapError> {
        let chunks = setup.chunks.unwrap_or(1) as u32;
        let mirror_chunks = setup.mirror_chunks.unwrap_or(1) as u32;
        let (recording, mirroring) =
            (u32::from(setup.chunks.is_some()), u32::from(setup.mirror_chunks.is_some()));
        let (snap, cpus) = (setup.snap as u32, setup.cpus as u32);
        let link_first = u32::from(setup.link_first);
        let memory = |wanted: Option<usize>| wanted.map_or(1, |chunks| chunks as u32 * cpus);
        let bpf = EbpfLoader::new()
            .override_global("tap_recording", &recording, true)
            .override_global("tap_mirroring", &mirroring, true)
            .override_global("tap_chunks", &chunks, true)
            .override_global("tap_mirror_chunks", &mirror_chunks, true)
            .override_global("tap_snap", &snap, true)
            .override_global("tap_link_first", &link_first, true)
            .override_global("tap_ifindex", &setup.ifindex[..], true)
            .override_global("tap_netns", &setup.netns, true)
            .map_max_entries("tap_counts", cpus)
            .map_max_entries("tap_rings", cpus)
            .map_max_entries("tap_m_rings", cpus)
            .map_max_entries("tap_memory", memory(setup.chunks))
            .map_max_entries("tap_m_memory", memory(setup.mirror_chunks))
            .map_max_entries("tap_jobs", setup.jobs.max(1) as u32)
            .load(OBJECT)
            .map_err(|source| XdpError::Load { program: NAME, source: Box::new(source) })?;
        let mut programs = Self { bpf, _dispatcher: None };
        for name in BRIDGES[0] {
            programs.xdp(name)?.load().map_err(XdpError::program("verify the XDP tap"))?;
        }
        if setup.mirror_chunks.is_some() {
            let sender = programs.xdp(SEND)?;
            sender.load().map_err(XdpError::program("verify the XDP mirror"))?;
            programs._dispatcher = Some(attach_aside(sender)?);
        }
        Ok(programs)
    }

    /// A program of the object.
    pub fn xdp(&mut self, name: &'static str) -> Result<&mut Xdp, XdpError> {
        match self.bpf.program_mut(name).map(<&mut Xdp>::try_from) {
            Some(Ok(program)) => Ok(program),
            _ => Err(XdpError::Missing { program: NAME, name }),
        }
    }

    /// The program that sends the mirror's frames.
    pub fn sender(&self) -> Result<&Xdp, XdpError> {
        match self.bpf.program(SEND).map(<&Xdp>::try_from) {
            Some(Ok(program)) => Ok(program),
            _ => Err(XdpError::Missing { program: NAME, name: SEND }),
        }
    }

    /// Adds interfaces of the calling thread's namespace as those to redirect to.
    pub fn connect(&mut self, ifindex: [u32; 3]) -> Result<(), XdpError> {
        for (name, places) in PORTS {
            let missing = XdpError::Missing { program: NAME, name };
            let mut ports = self.bpf.map_mut(name).ok_or(missing).and_then(|found| {
                DevMap::try_from(found).map_err(|e| XdpError::map("open the map of devices")(e.into()))
            })?;
            let ifindex = ifindex.into_iter().take(places).enumerate();
            for (index, ifindex) in ifindex.filter(|&(_, ifindex)| ifindex != 0) {
                ports
                    .set(index as u32, ifindex, None, 0)
                    .map_err(XdpError::map("add an interface to the map of devices"))?;
            }
        }
        Ok(())
    }

    /// Attaches the bridge to both sides, which are in the calling thread's namespace, and returns the mode.
    /// It stays until the links are dropped.
    pub fn attach(
        &mut self,
        ports: [&Port; 2],
        mode: Mode,
    ) -> Result<(&'static str, Vec<XdpLink>), TapError> {
        let mut reasons = Vec::new();
        let mut interface = ports[0].name.clone();
        for (name, wanted, xdp_mode, bridges) in [
            ("native", mode != Mode::Generic, XdpMode::Driver, BRIDGES[0]),
            ("native", mode != Mode::Generic, XdpMode::Driver, BRIDGES[1]),
            ("generic", mode != Mode::Native, XdpMode::Skb, BRIDGES[0]),
        ] {
            if !wanted {
                continue;
            }
            match self.attach_both(ports, bridges, xdp_mode) {
                Ok(links) => return Ok((name, links)),
                Err((side, error)) => {
                    if matches!(os_error(&error), Some(libc::EBUSY | libc::EEXIST)) {
                        return Err(TapError::Taken { interface: ports[side].name.clone() });
                    }
                    interface.clone_from(&ports[side].name);
                    reasons.push(format!("{name}: {}", innermost(&error)));
                }
            }
        }
        reasons.dedup();
        Err(TapError::Refused { interface, reasons: reasons.join("; ") })
    }

    fn attach_both(
        &mut self,
        ports: [&Port; 2],
        bridges: [&'static str; 2],
        mode: XdpMode,
    ) -> Result<Vec<XdpLink>, (usize, ProgramError)> {
        let mut links = Vec::new();
        for side in SIDES {
            let program = self.xdp(bridges[side]).map_err(|_| (side, ProgramError::NotLoaded))?;
            let loaded = if program.fd().is_ok() { Ok(()) } else { program.load() };
            let link = loaded
                .and_then(|()| program.attach_to_if_index(ports[side].ifindex, mode))
                .and_then(|id| program.take_link(id))
                .map_err(|error| (side, error))?;
            links.push(link);
        }
        Ok(links)
    }

    /// Counts what becomes of redirected frames.
    ///
    /// # Minimum kernel version
    /// 5.5, with BTF and CONFIG_BPF_EVENTS.
    pub fn trace(&mut self) -> Result<(), ProgramError> {
        let btf = Btf::from_sys_fs()?;
        for (name, tracepoint) in TRACEPOINTS {
            let program = self.bpf.program_mut(name).ok_or(ProgramError::NotLoaded)?;
            let program: &mut BtfTracePoint = program.try_into()?;
            program.load(tracepoint, &btf)?;
            program.attach()?;
        }
        Ok(())
    }

    /// The numbers by which the kernel knows the maps of interfaces to redirect to.
    pub fn port_maps(&self) -> Result<[u32; 2], XdpError> {
        let id = |(name, _)| match self.bpf.map(name) {
            Some(Map::DevMap(data)) => match data.info() {
                Ok(info) => Ok(info.id()),
                Err(e) => Err(XdpError::map("ask about the map of devices")(e.into())),
            },
            _ => Err(XdpError::Missing { program: NAME, name }),
        };
        Ok([id(PORTS[0])?, id(PORTS[1])?])
    }

    /// Maps an array into memory.
    pub fn array<T: Plain>(&self, map: &'static str, len: usize) -> Result<Mapped<T>, XdpError> {
        let mapped = Mapped::new(self.array_fd(map)?, len);
        mapped.map_err(XdpError::system("map a BPF array into memory"))
    }

    /// A descriptor of an array for others.
    pub fn share(&self, map: &'static str) -> Result<OwnedFd, XdpError> {
        self.array_fd(map)?.try_clone_to_owned().map_err(XdpError::system("share a BPF map"))
    }

    fn array_fd(&self, map: &'static str) -> Result<BorrowedFd<'_>, XdpError> {
        match self.bpf.map(map) {
            Some(Map::Array(data)) => Ok(data.fd().as_fd()),
            _ => Err(XdpError::Missing { program: NAME, name: map }),
        }
    }
}

/// The number behind an error of aya.
pub fn os_error(error: &ProgramError) -> Option<i32> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(e) = error.downcast_ref::<std::io::Error>() {
            return e.raw_os_error();
        }
        cause = error.source();
    }
    None
}

pub fn innermost(error: &ProgramError) -> String {
    let mut error: &dyn std::error::Error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
