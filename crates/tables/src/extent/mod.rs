//! How much a Parquet file holds, from its footer and the headers of its pages, before any of it is decompressed.
//!
//! A file of 1 MB may decode to many GB, and its footer may say less than its pages hold, so that both are read.
//! Format: <https://github.com/apache/parquet-format>, `parquet.thrift`.

mod thrift;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use thiserror::Error;
use thrift::{Reader, Value};

/// Longest footer: Weir's own have some 10 kB for each row group.
const FOOTER_MAX: u64 = 4 << 20;
/// Longest header of a page: it may contain the least and the greatest text.
const PAGE_HEADER_MAX: u64 = 1 << 20;
/// A header is usually shorter than this.
const PAGE_HEADER_USUAL: u64 = 512;
/// Most pages: those of a capture with 9 million packets are some ten thousand.
const PAGES_MAX: u64 = 1_000_000;
/// Most columns, of which decoders hold several hundred bytes each.
const COLUMNS_MAX: usize = 10_000;
const MAGIC: &[u8; 4] = b"PAR1";
/// A value takes at least this much in memory, with its share of the row.
const VALUE_MIN: u64 = 8;
/// A text takes this much in memory besides its bytes.
const TEXT_VIEW: u64 = 16;

/// How much a Parquet file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Rows of all row groups.
    pub rows: u64,
    /// Memory that all columns take when they are decoded, in bytes; approximate, and never less than a decoder
    /// allocates for them.
    pub bytes: u64,
}

/// Why an [`Extent`] cannot be told.
#[derive(Debug, Error)]
pub enum ExtentError {
    /// It is not a Parquet file, or its structure is invalid.
    #[error("not a valid Parquet file: {0}")]
    Damaged(&'static str),
    /// It is a Parquet file with something that Weir never writes, and that hides its size.
    #[error("a Parquet file with {0}, which Weir never writes")]
    Foreign(&'static str),
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
}

use ExtentError::{Damaged, Foreign};

/// Bytes that can be read anywhere.
pub trait Source {
    /// How many there are.
    ///
    /// # Errors
    /// As the system reports them.
    fn size(&self) -> io::Result<u64>;

    /// Fills `into` with the bytes from `at` on.
    ///
    /// # Errors
    /// As the system reports them; `UnexpectedEof` if there are fewer.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()>;
}

impl Source for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(into, at)
    }
}

impl Source for [u8] {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(at).ok().and_then(|at| self.get(at..)?.get(..into.len()));
        into.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// The extent of the Parquet file `source`, of which only the footer and the headers of pages are read.
///
/// Only columns count that `wanted` accepts by their names, those of the outermost level.
///
/// # Errors
/// [`ExtentError`].
pub fn extent<S: Source + ?Sized>(source: &S, wanted: impl Fn(&[u8]) -> bool) -> Result<Extent, ExtentError> {
    let size = source.size()?;
    let footer = footer(source, size)?;
    let footer = Reader::new(&footer).structure().map_err(Damaged)?;
    let names = names(footer.list(2));
    if names.len() > COLUMNS_MAX {
        return Err(Foreign("more than 10,000 columns"));
    }
    let mut found = Extent::default();
    let mut pages = 0;
    for group in footer.list(4).iter().filter_map(Value::structure) {
        let rows = count(group.int(3))?;
        found.rows = found.rows.saturating_add(rows);
        let columns = group.list(1);
        if columns.len() != names.len() {
            return Err(Damaged("a row group has more or fewer columns than the table"));
        }
        for (column, name) in columns.iter().zip(&names) {
            let column = column.structure().ok_or(Damaged("a column is missing"))?;
            if column.bytes(1).is_some() {
                return Err(Foreign("columns in other files"));
            }
            let about = column.structure(3).ok_or(Damaged("a column without a description"))?;
            // Decoders may go by either.
            if about.list(3).first().and_then(Value::bytes) != Some(*name) {
                return Err(Damaged("a column has two names"));
            }
            if !wanted(name) {
                continue;
            }
            let chunk = Chunk::of(about)?;
            let held = chunk.held(source, size, &mut pages)?;
            found.bytes = found.bytes.saturating_add(chunk.decoded(rows, held));
        }
    }
    found.rows = found.rows.max(count(footer.int(3))?);
    Ok(found)
}

fn footer<S: Source + ?Sized>(source: &S, size: u64) -> Result<Vec<u8>, ExtentError> {
    let mut tail = [0; 8];
    let end = size.checked_sub(8).ok_or(Damaged("it is too short"))?;
    source.read_at(end, &mut tail)?;
    let [a, b, c, d, magic @ ..] = tail;
    if &magic != MAGIC {
        return Err(Damaged("its end is missing"));
    }
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    let begin = end.checked_sub(length).ok_or(Damaged("its footer is longer than the file"))?;
    if length > FOOTER_MAX {
        return Err(Foreign("a footer of more than 4 MiB"));
    }
    read(source, begin, length)
}

/// The outermost name of each column, from the elements of a schema in depth-first order.
fn names<'a>(schema: &[Value<'a>]) -> Vec<&'a [u8]> {
    // How many children are still to come, by level.
    let (mut found, mut open, mut name) = (Vec::new(), Vec::new(), [].as_slice());
    for element in schema.iter().skip(1).filter_map(Value::structure) {
        if open.is_empty() {
            name = element.bytes(4).unwrap_or_default();
        }
        match element.int(5) {
            Some(children) if children > 0 => open.push(children),
            _ => {
                found.push(name);
                while let Some(children) = open.last_mut() {
                    *children -= 1;
                    if *children > 0 {
                        break;
                    }
                    open.pop();
                }
            }
        }
    }
    found
}

/// The pages of one column in one row group.
struct Chunk {
    is_text: bool,
    values: u64,
    uncompressed: u64,
    begin: u64,
    length: u64,
}

/// What pages say that they hold.
#[derive(Clone, Copy, Default)]
struct Held {
    values: u64,
    uncompressed: u64,
}

impl Chunk {
    fn of(about: &thrift::Structure<'_>) -> Result<Self, ExtentError> {
        let data = count(about.int(9))?;
        // Decoders differ in where they begin if the dictionary is not the first page.
        let begin = about.int(11).map_or(Ok(data), |dictionary| count(Some(dictionary)))?;
        if begin > data || begin < MAGIC.len() as u64 {
            return Err(Damaged("a column begins at an impossible place"));
        }
        let kind = match about.int(1) {
            Some(kind @ (0..=2 | 4..=6)) => kind,
            Some(3 | 7) => return Err(Foreign("values of a fixed length")),
            _ => return Err(Damaged("a column has an unknown type")),
        };
        let (values, uncompressed) = (count(about.int(5))?, count(about.int(6))?);
        Ok(Self { is_text: kind == 6, values, uncompressed, begin, length: count(about.int(7))? })
    }

    /// What its pages hold, by their headers.
    fn held<S: Source + ?Sized>(&self, source: &S, size: u64, pages: &mut u64) -> Result<Held, ExtentError> {
        let end = self.begin.checked_add(self.length).filter(|end| *end <= size);
        let end = end.ok_or(Damaged("a column ends behind the file"))?;
        let (mut at, mut found) = (self.begin, Held::default());
        while at < end {
            *pages += 1;
            if *pages > PAGES_MAX {
                return Err(Foreign("more than a million pages"));
            }
            let (page, header) = page(source, at, end)?;
            at = (at + header)
                .checked_add(page.compressed)
                .filter(|next| *next <= end)
                .ok_or(Damaged("a page ends behind its column"))?;
            found.values = found.values.saturating_add(page.values);
            found.uncompressed = found.uncompressed.saturating_add(page.uncompressed);
        }
        Ok(found)
    }

    /// Bytes that it takes when it is decoded into `rows` rows or more.
    fn decoded(&self, rows: u64, held: Held) -> u64 {
        let values = self.values.max(held.values).max(rows);
        let uncompressed = self.uncompressed.max(held.uncompressed);
        if self.is_text {
            // Decoded texts keep the bytes of their pages.
            values.saturating_mul(TEXT_VIEW).saturating_add(uncompressed)
        } else {
            values.saturating_mul(VALUE_MIN).max(uncompressed)
        }
    }
}

struct Page {
    values: u64,
    uncompressed: u64,
    compressed: u64,
}

/// The page at `at`, and how long its header is.
fn page<S: Source + ?Sized>(source: &S, at: u64, end: u64) -> Result<(Page, u64), ExtentError> {
    let mut length = PAGE_HEADER_USUAL;
    loop {
        let there = length.min(end - at);
        let bytes = read(source, at, there)?;
        let mut reader = Reader::new(&bytes);
        match reader.structure() {
            Ok(header) => return Ok((Page::of(&header)?, reader.position() as u64)),
            Err(what) if there == end - at || length >= PAGE_HEADER_MAX => return Err(Damaged(what)),
            Err(_) => length *= 16,
        }
    }
}

impl Page {
    fn of(header: &thrift::Structure<'_>) -> Result<Self, ExtentError> {
        let mut values = 0;
        // Data pages of both versions; a dictionary, whose values are not in rows.
        for (field, encoding) in [(5, 2), (8, 4), (7, 2)] {
            let Some(about) = header.structure(field) else { continue };
            // Each value may repeat the one before it, so that texts of any length take no bytes.
            if about.int(encoding) == Some(7) {
                return Err(Foreign("texts that are encoded by their differences"));
            }
            values = values.max(count(about.int(1))?);
        }
        Ok(Self { values, uncompressed: count(header.int(2))?, compressed: count(header.int(3))? })
    }
}

fn read<S: Source + ?Sized>(source: &S, at: u64, length: u64) -> Result<Vec<u8>, ExtentError> {
    let length = usize::try_from(length).map_err(|_| Damaged("a length is impossible"))?;
    let mut bytes = vec![0; length];
    source.read_at(at, &mut bytes)?;
    Ok(bytes)
}

/// A number that may be absent, which is 0, and must not be negative.
fn count(number: Option<i64>) -> Result<u64, ExtentError> {
    u64::try_from(number.unwrap_or(0)).map_err(|_| Damaged("a count is negative"))
}

#[cfg(test)]
mod tests;
