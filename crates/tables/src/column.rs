//! A column: its description, its values.

use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedColumnWriter;
use parquet::schema::types::Type;

/// Type of a column as readers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 8 bits, unsigned.
    U8,
    /// 16 bits, unsigned.
    U16,
    /// 32 bits, unsigned.
    U32,
    /// 64 bits, signed.
    I64,
    /// 64 bits, floating point.
    F64,
    /// True or false.
    Bool,
    /// UTF-8.
    Text,
}

/// Description of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Name, with its unit.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// Whether values may be missing.
    pub optional: bool,
    /// Whether values mostly grow from row to row, as times do.
    pub rising: bool,
    /// Whether there are few different values.
    pub repeats: bool,
}

impl Spec {
    /// A column that has a value in every row.
    #[must_use]
    pub const fn new(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, optional: false, rising: false, repeats: false }
    }

    /// The same, rising.
    #[must_use]
    pub const fn rising(self) -> Self {
        Self { rising: true, ..self }
    }

    /// The same, with few different values.
    #[must_use]
    pub const fn repeats(self) -> Self {
        Self { repeats: true, ..self }
    }

    /// The same, but values may be missing.
    #[must_use]
    pub const fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    pub(crate) fn field(&self) -> Result<Type, ParquetError> {
        let unsigned = |bit_width| Some(LogicalType::integer(bit_width, false));
        let (physical, logical) = match self.kind {
            Kind::U8 => (Physical::INT32, unsigned(8)),
            Kind::U16 => (Physical::INT32, unsigned(16)),
            Kind::U32 => (Physical::INT32, unsigned(32)),
            Kind::I64 => (Physical::INT64, None),
            Kind::F64 => (Physical::DOUBLE, None),
            Kind::Bool => (Physical::BOOLEAN, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let repetition = if self.optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        Type::primitive_type_builder(self.name, physical)
            .with_logical_type(logical)
            .with_converted_type(ConvertedType::NONE)
            .with_repetition(repetition)
            .build()
    }
}

/// Values of a column.
#[derive(Clone, Copy, Debug)]
pub enum Column<'a> {
    /// Of U8, U16 and U32, the latter bit by bit.
    Small(&'a [i32]),
    /// Of I64.
    I64(&'a [i64]),
    /// Of I64, some missing.
    MaybeI64(&'a [Option<i64>]),
    /// Of F64.
    F64(&'a [f64]),
    /// Of F64, some missing.
    MaybeF64(&'a [Option<f64>]),
    /// Of Bool, some missing.
    MaybeBool(&'a [Option<bool>]),
    /// Of Text.
    Text(&'a [String]),
}

impl Column<'_> {
    /// Rows.
    pub(crate) const fn len(&self) -> usize {
        match self {
            Self::Small(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::MaybeI64(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::MaybeF64(values) => values.len(),
            Self::MaybeBool(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }

    /// Writes the values; false if they are of another kind than that of `spec`.
    pub(crate) fn write(
        &self,
        spec: &Spec,
        writer: &mut SerializedColumnWriter<'_>,
    ) -> Result<bool, ParquetError> {
        let maybe = matches!(self, Self::MaybeI64(_) | Self::MaybeF64(_) | Self::MaybeBool(_));
        if maybe != spec.optional {
            return Ok(false);
        }
        match (self, writer.untyped()) {
            (Self::Small(values), ColumnWriter::Int32ColumnWriter(out)) => {
                out.write_batch(values, None, None)?;
            }
            (Self::I64(values), ColumnWriter::Int64ColumnWriter(out)) => {
                out.write_batch(values, None, None)?;
            }
            (Self::F64(values), ColumnWriter::DoubleColumnWriter(out)) => {
                out.write_batch(values, None, None)?;
            }
            (Self::MaybeI64(values), ColumnWriter::Int64ColumnWriter(out)) => {
                let (there, levels) = split(values);
                out.write_batch(&there, Some(&levels), None)?;
            }
            (Self::MaybeF64(values), ColumnWriter::DoubleColumnWriter(out)) => {
                let (there, levels) = split(values);
                out.write_batch(&there, Some(&levels), None)?;
            }
            (Self::MaybeBool(values), ColumnWriter::BoolColumnWriter(out)) => {
                let (there, levels) = split(values);
                out.write_batch(&there, Some(&levels), None)?;
            }
            (Self::Text(values), ColumnWriter::ByteArrayColumnWriter(out)) => {
                let values: Vec<_> = values.iter().map(|text| ByteArray::from(text.as_str())).collect();
                out.write_batch(&values, None, None)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The values that are present, and for every row whether it has one.
fn split<T: Copy>(values: &[Option<T>]) -> (Vec<T>, Vec<i16>) {
    (values.iter().copied().flatten().collect(), values.iter().map(|v| i16::from(v.is_some())).collect())
}
