//! The system calls on files, behind a trait so that tests can make a disk full.

use std::fs;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Most bytes per system call: a kernel that is not preemptible runs nothing else on the CPU meanwhile, not
/// even what forwards frames.
const PIECE_BYTES: usize = 64 << 10;

/// A place for files.
pub trait Storage: Send {
    /// Makes an empty file, in place of any with this name.
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Output>>;

    /// Removes one.
    fn remove(&mut self, path: &Path) -> io::Result<()>;
}

/// A file being written.
pub trait Output: Send {
    /// Appends all of `bytes`; after an error, part of them.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Removes everything after `len` bytes, where writing continues.
    fn truncate(&mut self, len: u64) -> io::Result<()>;

    /// Waits until the disk has all of it.
    fn sync(&mut self) -> io::Result<()>;
}

/// The file system.
pub struct Files;

impl Storage for Files {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Output>> {
        match fresh(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return Ok(Box::new(made?)),
        }
        let kind = fs::symlink_metadata(path)?.file_type();
        if kind.is_symlink() {
            return Err(io::Error::other("a symbolic link is neither followed nor replaced"));
        }
        if !kind.is_file() {
            return Ok(Box::new(fs::File::options().write(true).custom_flags(libc::O_NOFOLLOW).open(path)?));
        }
        // A new file in its place: others may have the old one open, and keep it.
        fs::remove_file(path)?;
        Ok(Box::new(fresh(path)?))
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

/// A file that nobody else had, wherever links may lead; what is recorded is its owner's business.
fn fresh(path: &Path) -> io::Result<fs::File> {
    fs::File::options().write(true).create_new(true).mode(0o600).open(path)
}

impl Output for fs::File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        bytes.chunks(PIECE_BYTES).try_for_each(|piece| self.write_all(piece))
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        if !self.metadata()?.is_file() {
            // A device or a pipe: what went there cannot be undone.
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        self.set_len(len)?;
        self.seek(SeekFrom::Start(len)).map(|_| ())
    }

    fn sync(&mut self) -> io::Result<()> {
        match self.sync_all() {
            // A pipe, or a device without memory.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            result => result,
        }
    }
}
