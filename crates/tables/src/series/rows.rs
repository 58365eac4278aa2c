//! Rows of packets, round trips and SACK blocks, a column each.

use std::io::{self, Write};

use weir_trace::tcp::{RttRow, SackRow, SegmentRow};

use super::Columns;
use crate::{Column, Kind, Spec, Table, TableError};

/// A table that is filled row by row.
pub struct Rows<C, W: Write + Send> {
    columns: C,
    table: Table<W>,
}

impl<C: Columns, W: Write + Send> Rows<C, W> {
    pub fn new(
        make: &mut impl FnMut(&str) -> io::Result<W>,
        facts: &[(&str, String)],
    ) -> Result<Self, TableError> {
        let name = format!("{}.parquet", C::NAME);
        let out = make(&name).map_err(|source| TableError::Make { name, source })?;
        Ok(Self { columns: C::default(), table: Table::new(out, C::SPECS, facts)? })
    }

    /// Adds what `push` adds; writes a row group when there is enough for one.
    #[inline]
    pub fn put(&mut self, push: impl FnOnce(&mut C)) -> Result<(), TableError> {
        push(&mut self.columns);
        if self.columns.len() < C::GROUP_ROWS { Ok(()) } else { self.write() }
    }

    #[cold]
    fn write(&mut self) -> Result<(), TableError> {
        self.table.write(&self.columns.columns())?;
        self.columns.clear();
        Ok(())
    }

    pub fn finish(mut self) -> Result<(), TableError> {
        if self.columns.len() > 0 {
            self.write()?;
        }
        self.table.finish()?.flush().map_err(|error| TableError::Write(error.into()))
    }
}

/// Makes the columns of a row type: their names, their storage, their source.
macro_rules! columns {
    ($(#[$doc:meta])* $name:ident = $table:literal of $row:ty {
        $($column:ident: $kind:ident as $variant:ident($store:ty) $(.$how:ident())* = |$r:ident| $value:expr;)*
    }) => {
        $(#[$doc])*
        #[derive(Default)]
        pub struct $name {
            $($column: Vec<$store>,)*
        }

        impl $name {
            #[inline]
            pub fn push(&mut self, row: &$row) {
                $(let $r = row; self.$column.push($value);)*
            }
        }

        impl Columns for $name {
            const NAME: &'static str = $table;
            const SPECS: &'static [Spec] =
                &[$(Spec::new(stringify!($column), Kind::$kind)$(.$how())*,)*];

            #[inline]
            fn len(&self) -> usize {
                columns!(@first self $($column)*)
            }

            fn columns(&self) -> Vec<Column<'_>> {
                vec![$(Column::$variant(&self.$column),)*]
            }

            fn clear(&mut self) {
                $(self.$column.clear();)*
            }
        }
    };
    (@first $self:ident $first:ident $($rest:ident)*) => { $self.$first.len() };
}

pub(super) use columns;

columns! {
    /// Of [`SegmentRow`].
    SegmentColumns = "segments" of SegmentRow {
        connection: U32 as Small(i32).repeats() = |r| r.connection.cast_signed();
        from_side: U8 as Small(i32).repeats() = |r| r.from as i32;
        time_ns: I64 as I64(i64).rising() = |r| r.time_ns;
        seq: I64 as I64(i64).rising() = |r| r.seq;
        payload_bytes: U32 as Small(i32) = |r| r.payload_bytes.cast_signed();
        new_bytes: U32 as Small(i32) = |r| r.new_bytes.cast_signed();
        ack: I64 as I64(i64).rising() = |r| r.ack;
        window_bytes: U32 as Small(i32) = |r| r.window_bytes.cast_signed();
        flags: U8 as Small(i32).repeats() = |r| r.flags.into();
        meaning: U8 as Small(i32).repeats() = |r| r.meaning as i32;
        flight_bytes: U32 as Small(i32) = |r| r.flight_bytes.cast_signed();
        sack_blocks: U8 as Small(i32).repeats() = |r| r.sack_blocks.into();
        tsval: I64 as MaybeI64(Option<i64>).optional() = |r| r.tsval.map(i64::from);
    }
}

columns! {
    /// Of [`RttRow`].
    RttColumns = "rtt" of RttRow {
        connection: U32 as Small(i32).repeats() = |r| r.connection.cast_signed();
        from_side: U8 as Small(i32).repeats() = |r| r.from as i32;
        time_ns: I64 as I64(i64).rising() = |r| r.time_ns;
        rtt_ns: I64 as I64(i64) = |r| r.rtt_ns.cast_signed();
        seq: I64 as I64(i64).rising() = |r| r.seq;
        method: U8 as Small(i32).repeats() = |r| r.method as i32;
    }
}

columns! {
    /// Of [`SackRow`].
    SackColumns = "sack" of SackRow {
        connection: U32 as Small(i32).repeats() = |r| r.connection.cast_signed();
        from_side: U8 as Small(i32).repeats() = |r| r.from as i32;
        time_ns: I64 as I64(i64).rising() = |r| r.time_ns;
        left: I64 as I64(i64).rising() = |r| r.left;
        right: I64 as I64(i64).rising() = |r| r.right;
        duplicate: U8 as Small(i32).repeats() = |r| r.duplicate.into();
    }
}
