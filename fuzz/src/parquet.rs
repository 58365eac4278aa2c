//! What the fuzz target `parquet` does with its bytes, and what must hold whatever these are.
//!
//! `crates/tables/tests/corpus.rs` runs the same function over the committed seeds.

use weir_tables::extent::{Extent, extent};

/// The extent of a file, or why it has none.
pub fn parquet(data: &[u8]) -> Result<Extent, String> {
    let whole = extent(data, |_| true).map_err(|error| error.to_string())?;
    let nothing = extent(data, |_| false).map_err(|error| error.to_string())?;
    assert_eq!(nothing.rows, whole.rows);
    assert_eq!(nothing.bytes, 0);
    Ok(whole)
}
