use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

use super::*;

fn whole<S: Source + ?Sized>(source: &S) -> Result<Extent, ExtentError> {
    extent(source, |_| true)
}

/// Written by the crate `parquet`, with a column of numbers and one of texts.
fn file(rows: usize, number: impl Fn(usize) -> i64, text: &str, encoding: Option<Encoding>) -> Vec<u8> {
    let schema = parse_message_type("message m { required int64 n; required binary t (UTF8); }").unwrap();
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).unwrap()))
        .set_dictionary_enabled(encoding.is_none());
    if let Some(encoding) = encoding {
        properties = properties.set_column_encoding("t".into(), encoding);
    }
    let mut writer =
        SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties.build())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let numbers: Vec<_> = (0..rows).map(number).collect();
    column.typed::<Int64Type>().write_batch(&numbers, None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let texts = vec![ByteArray::from(text); rows];
    column.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.into_inner().unwrap()
}

fn told(bytes: &[u8]) -> String {
    whole(bytes).unwrap_err().to_string()
}

/// Parts of Thrift's compact protocol. `step` is the number of a field minus that of the one before.
mod compact {
    pub fn varint(mut number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while number >= 0x80 {
            bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
            number >>= 7;
        }
        bytes.push(u8::try_from(number).unwrap());
        bytes
    }

    pub fn int(step: u8, number: u64) -> Vec<u8> {
        [vec![step << 4 | 6], varint(number << 1)].concat()
    }

    pub fn structure(step: u8, fields: &[Vec<u8>]) -> Vec<u8> {
        [vec![step << 4 | 12], fields.concat(), vec![0]].concat()
    }

    /// A list of one structure.
    pub fn list(step: u8, fields: &[Vec<u8>]) -> Vec<u8> {
        [vec![step << 4 | 9, 1 << 4 | 12], fields.concat(), vec![0]].concat()
    }
}

/// A file whose footer claims `rows` of one column, and whose page claims `values` in `uncompressed` bytes.
fn claiming(rows: u64, values: u64, uncompressed: u64) -> Vec<u8> {
    use compact::{int, list, structure};
    let page = [
        int(1, 0),
        int(1, uncompressed),
        int(1, 3),
        structure(2, &[int(1, values), int(1, 0), int(1, 3), int(1, 3)]),
        vec![0],
    ]
    .concat();
    let chunk = page.len() as u64 + 3;
    // The name is a list of one text.
    let name = vec![2 << 4 | 9, 1 << 4 | 8, 1, b'n'];
    let about = [int(1, 2), name, int(2, 1), int(1, 8), int(1, chunk), int(2, 4)];
    let group = [list(1, &[int(2, 0), structure(1, &about)]), int(1, 8), int(1, rows)];
    // The schema: its root, which has one child, and that.
    let schema =
        [vec![1 << 4 | 9, 2 << 4 | 12], int(5, 1), vec![0], int(1, 2), vec![3 << 4 | 8, 1, b'n', 0]].concat();
    let footer = [int(1, 1), schema, int(1, 1), list(1, &group), vec![0]].concat();
    let length = u32::try_from(footer.len()).unwrap().to_le_bytes();
    [b"PAR1", page.as_slice(), b"abc", &footer, &length, b"PAR1"].concat()
}

#[test]
fn numbers_take_eight_bytes_each_and_texts_sixteen_and_their_own() {
    let text = "x".repeat(100);
    let found = whole(file(1_000, |n| i64::try_from(n).unwrap(), &text, Some(Encoding::PLAIN)).as_slice());
    let found = found.unwrap();
    assert_eq!(found.rows, 1_000);
    // A text has its length, 4 bytes, before it.
    assert!((8_000 + 16_000 + 104_000..140_000).contains(&found.bytes), "{found:?}");
}

#[test]
fn a_small_file_that_decodes_to_much_says_so() {
    let bomb = file(1_000_000, |_| 7, "", None);
    assert!(bomb.len() < 10_000, "{}", bomb.len());
    let found = whole(bomb.as_slice()).unwrap();
    assert_eq!(found.rows, 1_000_000);
    assert!(found.bytes >= 1_000_000 * (8 + 16), "{found:?}");
}

#[test]
fn what_pages_claim_counts_if_the_footer_claims_less() {
    assert_eq!(whole(claiming(1, 1, 8).as_slice()).unwrap(), Extent { rows: 1, bytes: 8 });
    assert_eq!(whole(claiming(1, 1, 2_000_000_000).as_slice()).unwrap().bytes, 2_000_000_000);
    assert_eq!(whole(claiming(1, 1_000_000_000, 8).as_slice()).unwrap().bytes, 8_000_000_000);
    assert_eq!(whole(claiming(1 << 40, 1, 8).as_slice()).unwrap(), Extent { rows: 1 << 40, bytes: 8 << 40 });
}

#[test]
fn only_columns_that_are_wanted_count() {
    let file = file(1_000, |_| 7, "abc", None);
    // And the only value in the dictionary.
    assert_eq!(extent(file.as_slice(), |name| name == b"n").unwrap().bytes, 8_008);
    assert_eq!(extent(file.as_slice(), |_| false).unwrap(), Extent { rows: 1_000, bytes: 0 });
}

#[test]
fn texts_encoded_by_their_differences_are_refused() {
    let file = file(10, |_| 0, "abc", Some(Encoding::DELTA_BYTE_ARRAY));
    assert!(told(&file).contains("encoded by their differences"));
}

#[test]
fn what_is_no_parquet_file_is_told() {
    assert!(told(b"").contains("too short"));
    assert!(told(&[0; 100]).contains("its end is missing"));
    assert!(told(b"\xff\xff\xff\x7fPAR1").contains("longer than the file"));
    let file = claiming(1, 1, 8);
    assert!(told(&file[..file.len() - 1]).contains("its end is missing"));
}

#[test]
fn a_file_is_read_as_its_bytes_are() {
    let bytes = claiming(3, 3, 24);
    let path = std::env::temp_dir().join(format!("weir-extent-{}", std::process::id()));
    std::fs::write(&path, &bytes).unwrap();
    let found = whole(&File::open(&path).unwrap());
    std::fs::remove_file(&path).unwrap();
    assert_eq!(found.unwrap(), whole(bytes.as_slice()).unwrap());
}

proptest! {
    #[test]
    fn any_bytes_end_in_an_extent_or_an_error(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8)
    ) {
        let mut bytes = file(50, |n| i64::try_from(n).unwrap(), "abc", None);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = whole(bytes.as_slice());
    }

    #[test]
    fn any_description_ends_in_an_extent_or_an_error(footer in prop::collection::vec(any::<u8>(), 0..200)) {
        let length = u32::try_from(footer.len()).unwrap().to_le_bytes();
        let _ = whole([b"PAR1", footer.as_slice(), &length, b"PAR1"].concat().as_slice());
    }
}
