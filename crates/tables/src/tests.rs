use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

use super::*;

const SPECS: &[Spec] = &[
    Spec::new("connection", Kind::U32).repeats(),
    Spec::new("time_ns", Kind::I64).rising(),
    Spec::new("rtt_ns", Kind::I64).optional(),
    Spec::new("mean", Kind::F64),
    Spec::new("sack", Kind::Bool).optional(),
    Spec::new("addr", Kind::Text).repeats(),
];

fn two_groups() -> Vec<u8> {
    let mut table = Table::new(Vec::new(), SPECS, &[("weir", "series".to_owned())]).unwrap();
    for first in [0, 1_000] {
        let columns = [
            Column::Small(&[7, -1]),
            Column::I64(&[first, first + 1]),
            Column::MaybeI64(&[None, Some(5)]),
            Column::F64(&[0.5, -1.5]),
            Column::MaybeBool(&[Some(true), None]),
            Column::Text(&["192.0.2.1".to_owned(), "2001:db8::1".to_owned()]),
        ];
        table.write(&columns).unwrap();
    }
    table.finish().unwrap()
}

#[test]
fn what_is_written_is_read_again() {
    let reader = SerializedFileReader::new(parquet_bytes(two_groups())).unwrap();
    assert_eq!(reader.metadata().num_row_groups(), 2);
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    let fields = |row: usize| rows[row].get_column_iter().map(|(_, f)| f.clone()).collect::<Vec<_>>();
    assert_eq!(
        fields(3),
        [
            Field::UInt(u32::MAX),
            Field::Long(1_001),
            Field::Long(5),
            Field::Double(-1.5),
            Field::Null,
            Field::Str("2001:db8::1".to_owned()),
        ]
    );
    assert_eq!(fields(0)[2], Field::Null);
    let facts = reader.metadata().file_metadata().key_value_metadata().unwrap();
    assert_eq!((facts[0].key.as_str(), facts[0].value.as_deref()), ("weir", Some("series")));
}

#[test]
fn columns_that_do_not_fit_are_named() {
    let message = |columns: &[Column<'_>]| {
        let mut table = Table::new(Vec::new(), &SPECS[..2], &[]).unwrap();
        table.write(columns).unwrap_err().to_string()
    };
    assert_eq!(message(&[Column::Small(&[1])]), "column time_ns: is missing");
    let uneven = [Column::Small(&[1]), Column::I64(&[1, 2])];
    assert_eq!(message(&uneven), "column time_ns: has another length than the first");
    let other = [Column::Small(&[1]), Column::F64(&[1.0])];
    assert_eq!(message(&other), "column time_ns: is of another kind than described");
}

#[test]
fn an_output_that_fails_is_an_error() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let written = Table::new(Full, SPECS, &[]).and_then(Table::finish);
    assert!(matches!(written, Err(TableError::Write(_))));
}

fn parquet_bytes(bytes: Vec<u8>) -> bytes::Bytes {
    bytes.into()
}
