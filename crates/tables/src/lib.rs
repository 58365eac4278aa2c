//! Tables as Parquet files: columns in, bytes out, a row group at a time, so that memory does not grow with
//! the table.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod column;
pub mod extent;
pub mod series;

use std::io::Write;
use std::sync::Arc;

pub use column::{Column, Kind, Spec};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};
use thiserror::Error;

/// Why a table could not be written.
#[derive(Debug, Error)]
pub enum TableError {
    /// Columns that do not fit the table's description.
    #[error("column {name}: {what}")]
    Shape {
        /// The column.
        name: &'static str,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The bytes could not be written.
    #[error(transparent)]
    Write(#[from] ParquetError),
    /// The file could not be made.
    #[error("{name} cannot be made")]
    Make {
        /// Its name.
        name: String,
        /// Why.
        source: std::io::Error,
    },
}

/// A table being written.
pub struct Table<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    specs: &'static [Spec],
}

impl<W: Write + Send> Table<W> {
    /// Begins a table on `out`; `facts` are kept in the file's metadata.
    ///
    /// # Errors
    /// [`TableError::Write`] when `out` cannot be written.
    pub fn new(out: W, specs: &'static [Spec], facts: &[(&str, String)]) -> Result<Self, TableError> {
        let fields = specs.iter().map(|spec| spec.field().map(Arc::new)).collect::<Result<_, _>>()?;
        let schema = Type::group_type_builder("schema").with_fields(fields).build()?;
        let mut properties = WriterProperties::builder()
            .set_created_by(concat!("weir ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_dictionary_enabled(false)
            .set_statistics_enabled(EnabledStatistics::None)
            // Level 1: the data is mostly small numbers next to each other.
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?));
        if !facts.is_empty() {
            let pairs = facts.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone()));
            properties = properties.set_key_value_metadata(Some(pairs.collect()));
        }
        for spec in specs {
            let path = ColumnPath::new(vec![spec.name.to_owned()]);
            if spec.rising {
                properties = properties
                    .set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED)
                    .set_column_statistics_enabled(path.clone(), EnabledStatistics::Chunk)
                    .set_column_compression(path, Compression::UNCOMPRESSED);
            } else if spec.repeats {
                properties = properties.set_column_dictionary_enabled(path, true);
            }
        }
        let writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties.build()))?;
        Ok(Self { writer, specs })
    }

    /// Writes one row group: `columns` as described, all of one length.
    ///
    /// # Errors
    /// [`TableError`]; the table cannot be continued then.
    pub fn write(&mut self, columns: &[Column<'_>]) -> Result<(), TableError> {
        let rows = columns.first().map_or(0, Column::len);
        let mut group = self.writer.next_row_group()?;
        for (at, spec) in self.specs.iter().enumerate() {
            let shape = |what| TableError::Shape { name: spec.name, what };
            let column = columns.get(at).ok_or_else(|| shape("is missing"))?;
            if column.len() != rows {
                return Err(shape("has another length than the first"));
            }
            let mut writer = group.next_column()?.ok_or_else(|| shape("is not in the file"))?;
            if !column.write(spec, &mut writer)? {
                return Err(shape("is of another kind than described"));
            }
            writer.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Ends the table, which cannot be read before that.
    ///
    /// # Errors
    /// [`TableError::Write`] when `out` cannot be written.
    pub fn finish(self) -> Result<W, TableError> {
        Ok(self.writer.into_inner()?)
    }
}

#[cfg(test)]
mod tests;
