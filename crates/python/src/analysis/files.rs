//! The files of the series: under other names until they are complete, and removed if they never are.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use weir_tables::TableError;

/// A file that is not complete yet.
pub type Partial = File;

/// The folder, and the files begun in it.
pub struct Folder {
    path: PathBuf,
    begun: Vec<(PathBuf, PathBuf)>,
}

impl Folder {
    /// Makes the folder if it is not there.
    pub fn new(path: &Path) -> Result<Self, TableError> {
        fs::create_dir_all(path).map_err(|e| failed(path, e))?;
        Ok(Self { path: path.to_owned(), begun: Vec::new() })
    }

    /// Begins a file, under an unpredictable name.
    pub fn make(&mut self, name: &str) -> io::Result<Partial> {
        let partial = self.path.join(format!(".{:016x}.tmp", RandomState::new().hash_one(name)));
        let file = loop {
            let file = File::create_new(&partial)?;
            // Locked while this process lives: `weirlab.base.files.sweep` removes unlocked files, and may have
            // been quicker. Some network file systems have no locks; then nothing is swept there either.
            drop(file.lock());
            if file.metadata()?.nlink() > 0 {
                break file;
            }
        };
        self.begun.push((partial, self.path.join(name)));
        Ok(file)
    }

    /// Gives all files their names.
    pub fn keep(mut self) -> Result<(), TableError> {
        while let Some((partial, path)) = self.begun.pop() {
            if let Err(error) = fs::rename(&partial, &path) {
                self.begun.push((partial, path.clone()));
                return Err(failed(&path, error));
            }
        }
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for (partial, _) in &self.begun {
            if let Err(error) = fs::remove_file(partial) {
                // Only the user is left to tell.
                drop(writeln!(io::stderr(), "weir: {} was left behind: {error}", partial.display()));
            }
        }
    }
}

fn failed(path: &Path, source: io::Error) -> TableError {
    TableError::Make { name: path.display().to_string(), source }
}
