//! Where the kernel keeps the threads that do the device's work, so that the sender can look at them.

use std::io::Read;

use aya::programs::{Iter, ProgramError};
use aya::{Btf, Ebpf, include_bytes_aligned};

use crate::layout::WATCHED;
use crate::mapped::Mapped;
use aya::maps::Map;

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/find.o"));
const PROGRAM: &str = "weir_find";

/// Finds threads; loaded once.
pub struct Witness {
    object: Ebpf,
    pids: Mapped<u64>,
    tasks: Mapped<u64>,
}

impl Witness {
    /// Loads the iterator; `None` if the kernel's structs cannot be read (no BTF, no CAP_PERFMON).
    ///
    /// # Minimum kernel version
    /// 5.8 (BPF iterators).
    pub fn load() -> Option<Self> {
        let btf = Btf::from_sys_fs().ok()?;
        let mut object = aya::EbpfLoader::new().btf(Some(&btf)).load(OBJECT).ok()?;
        program(&mut object)?.load("task", &btf).ok()?;
        let (pids, tasks) = (array(&object, "find_pids")?, array(&object, "find_tasks")?);
        Some(Self { object, pids, tasks })
    }

    /// Addresses of the threads with these process numbers; empty unless all exist and there are no more than
    /// can be watched.
    pub fn find(&mut self, threads: &[libc::pid_t]) -> Vec<u64> {
        if threads.len() > WATCHED {
            return Vec::new();
        }
        self.pids.fill(threads.iter().map(|&pid| pid as u64), WATCHED);
        self.tasks.fill([], WATCHED);
        let walked = self.walk();
        let found = self.tasks.read(threads.len());
        if walked.is_none() || found.contains(&0) { Vec::new() } else { found }
    }

    fn walk(&mut self) -> Option<()> {
        let program = program(&mut self.object)?;
        let link = program.attach().and_then(|id| program.take_link(id)).ok()?;
        // The program writes no text: reading to the end makes it see every task.
        let mut nothing = Vec::new();
        link.into_file().ok()?.read_to_end(&mut nothing).ok()?;
        Some(())
    }
}

fn program(object: &mut Ebpf) -> Option<&mut Iter> {
    let found: Result<&mut Iter, ProgramError> = object.program_mut(PROGRAM)?.try_into();
    found.ok()
}

fn array(object: &Ebpf, map: &str) -> Option<Mapped<u64>> {
    match object.map(map) {
        Some(Map::Array(data)) => Mapped::new(data.fd(), WATCHED).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_found_once_each_and_strangers_are_not() {
        // SAFETY: plain system calls.
        let (root, thread) = unsafe { (libc::geteuid() == 0, libc::gettid()) };
        let Some(mut witness) = root.then(Witness::load).flatten() else {
            println!("skipped: reading the kernel's structs needs root and BTF");
            return;
        };
        let ended = std::thread::spawn(|| {
            // SAFETY: a plain system call.
            unsafe { libc::gettid() }
        });
        let ended = ended.join().expect("ends");
        let found = witness.find(&[thread, 2]);
        assert_eq!(found.len(), 2);
        assert_ne!(found[0], found[1]);
        assert_eq!(witness.find(&[thread]), found[..1]);
        assert!(witness.find(&[ended]).is_empty());
        assert!(witness.find(&[thread; WATCHED + 1]).is_empty());
    }
}
