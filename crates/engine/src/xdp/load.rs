//! Loading an object file: map sizes, verification, mapped arrays.

use std::io;
use std::os::fd::BorrowedFd;

use aya::maps::Map;
use aya::maps::xdp::{DevMap, XdpMapError, XskMap};
use aya::programs::{ProgramError, Xdp};
use aya::{Ebpf, EbpfError, EbpfLoader};
use thiserror::Error;

use crate::layout::Plain;
use crate::mapped::Mapped;

/// Why XDP cannot be used.
#[derive(Debug, Error)]
pub enum XdpError {
    /// The kernel refused the program or a map.
    #[error("the kernel refuses the XDP {program} (needs root, and Linux 5.18 with BPF): {source}")]
    Load {
        /// Which program.
        program: &'static str,
        /// The kernel's reason.
        source: Box<EbpfError>,
    },
    /// Verification, attachment or a run failed.
    #[error("cannot {action}: {source}")]
    Program {
        /// What was tried.
        action: String,
        /// The kernel's reason.
        source: Box<ProgramError>,
    },
    /// A map refused an element.
    #[error("cannot {action}: {source}")]
    Map {
        /// What was tried.
        action: &'static str,
        /// The kernel's reason.
        source: XdpMapError,
    },
    /// Something the object file should contain is missing.
    #[error("the object file of the {program} lacks {name}; rebuild Weir")]
    Missing {
        /// Which program.
        program: &'static str,
        /// Which part.
        name: &'static str,
    },
    /// A system call failed.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
}

impl XdpError {
    pub fn program(action: impl Into<String>) -> impl FnOnce(ProgramError) -> Self {
        let action = action.into();
        |source| Self::Program { action, source: Box::new(source) }
    }

    pub fn map(action: &'static str) -> impl FnOnce(XdpMapError) -> Self {
        move |source| Self::Map { action, source }
    }

    pub fn system(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { action, source }
    }
}

/// A loaded object file.
pub struct Object {
    name: &'static str,
    bpf: Ebpf,
}

impl Object {
    /// Loads `bytes` with the given map sizes and verifies its one program.
    pub fn load(
        name: &'static str,
        bytes: &[u8],
        program: &'static str,
        sizes: &[(&'static str, usize)],
    ) -> Result<Self, XdpError> {
        let mut loader = EbpfLoader::new();
        for (map, len) in sizes {
            loader.map_max_entries(map, u32::try_from((*len).max(1)).unwrap_or(u32::MAX));
        }
        let bpf = loader
            .load(bytes)
            .map_err(|source| XdpError::Load { program: name, source: Box::new(source) })?;
        let mut object = Self { name, bpf };
        object.program(program)?.load().map_err(XdpError::program(format!("verify the XDP {name}")))?;
        Ok(object)
    }

    /// The program.
    pub fn program(&mut self, program: &'static str) -> Result<&mut Xdp, XdpError> {
        let missing = XdpError::Missing { program: self.name, name: program };
        match self.bpf.program_mut(program).map(<&mut Xdp>::try_from) {
            Some(Ok(program)) => Ok(program),
            _ => Err(missing),
        }
    }

    /// Puts an interface of the calling thread's namespace into a device map: the kernel keeps
    /// the device, so that redirecting works from any other namespace too.
    pub fn set_device(&mut self, map: &'static str, index: u32, ifindex: u32) -> Result<(), XdpError> {
        let missing = XdpError::Missing { program: self.name, name: map };
        let mut devices = self.bpf.map_mut(map).ok_or(missing).and_then(|found| {
            DevMap::try_from(found).map_err(|source| XdpError::map("open the map of devices")(source.into()))
        })?;
        devices.set(index, ifindex, None, 0).map_err(XdpError::map("add an interface to the map of devices"))
    }

    /// Puts an `AF_XDP` socket into a map of sockets, for the queue that it is bound to.
    pub fn set_socket(
        &mut self,
        map: &'static str,
        queue: u32,
        socket: BorrowedFd<'_>,
    ) -> Result<(), XdpError> {
        let missing = XdpError::Missing { program: self.name, name: map };
        let mut sockets = self.bpf.map_mut(map).ok_or(missing).and_then(|found| {
            XskMap::try_from(found).map_err(|source| XdpError::map("open the map of sockets")(source.into()))
        })?;
        let entered = sockets.set(queue, socket, 0);
        entered.map_err(|source| XdpError::map("add a socket to the map of sockets")(source.into()))
    }

    /// Maps an array into memory.
    pub fn array<T: Plain>(&self, map: &'static str, len: usize) -> Result<Mapped<T>, XdpError> {
        match self.bpf.map(map) {
            Some(Map::Array(data)) => {
                Mapped::new(data.fd(), len.max(1)).map_err(XdpError::system("map a BPF array into memory"))
            }
            _ => Err(XdpError::Missing { program: self.name, name: map }),
        }
    }
}
