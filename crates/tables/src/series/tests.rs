use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use weir_trace::tcp::{
    Begin, End, Endpoint, From, Meaning, Method, Place, Retransmissions, Side, SynOptions,
};

use super::*;

/// Files in memory, by name.
#[derive(Clone, Default)]
struct Files(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

struct File(Files, String);

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.0.lock().unwrap().entry(self.1.clone()).or_default().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Files {
    fn make(&self) -> impl FnMut(&str) -> io::Result<File> {
        let files = self.clone();
        move |name| Ok(File(files.clone(), name.to_owned()))
    }

    /// Rows of a file, values by column.
    fn rows(&self, name: &str) -> Vec<BTreeMap<String, Field>> {
        let bytes = Bytes::from(self.0.lock().unwrap()[name].clone());
        let reader = SerializedFileReader::new(bytes).unwrap();
        let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
        rows.map(|row| row.get_column_iter().map(|(name, f)| (name.clone(), f.clone())).collect()).collect()
    }
}

fn segment(connection: u32, from: From, time_ns: i64, meaning: Meaning) -> SegmentRow {
    let new = SegmentRow {
        connection,
        from,
        time_ns,
        seq: 1,
        payload_bytes: 1_000,
        new_bytes: if matches!(meaning, Meaning::New | Meaning::OutOfOrder) { 1_000 } else { 0 },
        ack: 1,
        window_bytes: 65_535,
        flags: 0x18,
        meaning,
        flight_bytes: 2_000,
        sack_blocks: 0,
        tsval: (from == From::A).then_some(u32::MAX),
    };
    SegmentRow { window_bytes: if meaning == Meaning::Ack { 4_000 } else { 65_535 }, ..new }
}

fn connection(id: u32) -> Connection {
    let end = |port| Endpoint { addr: [192, 0, 2, 1].into(), port };
    let options = SynOptions { mss: Some(1_460), window_scale: None, sack: true, timestamps: false };
    let side = Side {
        packets: 3,
        options: Some(options),
        retransmissions: Retransmissions { total: 2, fast: 2, ..Retransmissions::default() },
        ..Side::default()
    };
    Connection {
        id,
        a: end(40_000),
        b: end(443),
        tags: [Some(weir_trace::packet::Tags::default()); 2],
        interface: (1, 0),
        first_ns: 5,
        last_ns: 9,
        begin: Begin::Handshake,
        end: End::HalfClosed,
        handshake_ns: (Some(7), None),
        idle_max_ns: 3,
        place: Place::AtB,
        sides: [side, Side::default()],
    }
}

fn series(files: &Files) -> Series<File, impl FnMut(Ended)> {
    Series::new(files.make(), 100, |_| {}).unwrap()
}

#[test]
fn periods_add_up_what_each_side_did_in_them() {
    let files = Files::default();
    let mut series = series(&files);
    for (from, time_ns, meaning) in [
        (From::A, 1_010, Meaning::New),
        (From::B, 1_050, Meaning::Ack),
        (From::A, 1_099, Meaning::Timeout),
        (From::A, 1_100, Meaning::OutOfOrder),
        (From::A, 1_090, Meaning::New),
    ] {
        series.segment(&segment(4, from, time_ns, meaning));
    }
    for (method, rtt_ns) in [(Method::Ack, 40), (Method::Ack, 60), (Method::Timestamp, 900)] {
        let row = RttRow { connection: 4, from: From::A, time_ns: 1_120, rtt_ns, seq: 1, method };
        series.rtt(&row);
    }
    series.finish().unwrap();
    let mut rows: Vec<_> = files
        .rows("periods.parquet")
        .iter()
        .map(|row| {
            let value = |name: &str| match row[name] {
                Field::Long(value) => value,
                Field::UInt(value) => value.into(),
                Field::UByte(value) => value.into(),
                ref other => panic!("{name}: {other:?}"),
            };
            let names = ["from_side", "start_ns", "packets", "payload_bytes", "unique_bytes"];
            let more = ["retransmissions", "rtt_count", "rtt_sum_ns", "rtt_max_ns", "window_min_bytes"];
            names.iter().chain(&more).map(|name| value(name)).collect::<Vec<_>>()
        })
        .collect();
    rows.sort();
    assert_eq!(
        rows,
        [
            vec![0, 1_000, 2, 2_000, 1_000, 1, 0, 0, 0, 65_535],
            // A time that goes back stays in the later period.
            vec![0, 1_100, 2, 2_000, 2_000, 0, 2, 100, 60, 65_535],
            vec![1, 1_000, 1, 1_000, 0, 0, 0, 0, 0, 4_000],
        ]
    );
}

#[test]
fn connections_are_written_flat_and_handed_on() {
    let files = Files::default();
    let mut given = Vec::new();
    let give = |ended| match ended {
        Ended::Connection(connection) => given.push(connection.id),
        Ended::Stream(stream) => panic!("{stream:?}"),
    };
    let mut series = Series::new(files.make(), 100, give).unwrap();
    series.connection(connection(0));
    series.connection(connection(1));
    series.finish().unwrap();
    assert_eq!(given, [0, 1]);
    let row = &files.rows("connections.parquet")[1];
    let text = |text: &str| Field::Str(text.to_owned());
    for (name, value) in [
        ("connection", Field::UInt(1)),
        ("b_port", Field::UShort(443)),
        ("end", text("half_closed")),
        ("place", text("at_b")),
        ("interface", text("1")),
        ("handshake_a_ns", Field::Long(7)),
        ("handshake_b_ns", Field::Null),
        ("a_retransmissions_fast", Field::Long(2)),
        ("a_mss_bytes", Field::Long(1_460)),
        ("a_sack_permitted", Field::Bool(true)),
        ("b_sack_permitted", Field::Null),
        ("a_rtt_mean_ns", Field::Null),
        ("b_packets", Field::Long(0)),
    ] {
        assert_eq!(row[name], value, "{name}");
    }
}

#[test]
fn more_rows_than_a_group_holds_are_all_there_in_order() {
    let files = Files::default();
    let mut series = series(&files);
    let total = 2 * SegmentColumns::GROUP_ROWS as i64 + 5;
    for time_ns in 0..total {
        series.segment(&segment(0, From::A, time_ns, Meaning::New));
    }
    series.finish().unwrap();
    let rows = files.rows("segments.parquet");
    assert_eq!(rows.len() as i64, total);
    assert!(rows.iter().zip(0..).all(|(row, time)| row["time_ns"] == Field::Long(time)));
}

#[test]
fn the_first_failure_is_kept_and_ends_the_writing() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let made = Series::new(|_: &str| Ok(Full), 100, |_| {});
    match made {
        Ok(mut series) => {
            for time_ns in 0..=SegmentColumns::GROUP_ROWS as i64 {
                series.segment(&segment(0, From::A, time_ns, Meaning::New));
            }
            assert!(matches!(series.failure(), Some(TableError::Write(_))));
            assert!(series.finish().is_err());
        }
        Err(error) => assert!(matches!(error, TableError::Write(_))),
    }
    let refused = Series::<Full, _>::new(|_| Err(io::ErrorKind::PermissionDenied.into()), 100, |_| {});
    assert_eq!(refused.err().map(|e| e.to_string()), Some("segments.parquet cannot be made".to_owned()));
}

#[test]
fn a_time_stamp_is_there_where_one_was_sent() {
    let files = Files::default();
    let mut series = series(&files);
    for from in [From::A, From::B] {
        series.segment(&segment(0, from, 7, Meaning::New));
    }
    series.finish().unwrap();
    let found: Vec<_> = files.rows("segments.parquet").iter().map(|row| row["tsval"].clone()).collect();
    assert_eq!(found, [Field::Long(u32::MAX.into()), Field::Null]);
}
