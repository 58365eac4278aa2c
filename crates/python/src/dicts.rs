//! Fields of structs as items of Python's dicts, under their own names.

/// Sets an item for each of these fields.
macro_rules! fields {
    ($dict:expr, $of:expr; $($name:ident),* $(,)?) => {
        $($dict.set_item(pyo3::intern!($dict.py(), stringify!($name)), &$of.$name)?;)*
    };
}

/// Sets a `NumPy` array for each of these fields of what an iterator yields.
macro_rules! columns {
    ($dict:expr, $rows:expr; $($name:ident),* $(,)?) => {
        $($dict.set_item(
            pyo3::intern!($dict.py(), stringify!($name)),
            numpy::PyArray1::from_iter($dict.py(), $rows.map(|row| row.$name)),
        )?;)*
    };
}
