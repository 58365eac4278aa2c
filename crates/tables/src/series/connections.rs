//! A row per connection: its own facts, then those of each side, prefixed `a_` and `b_`.

use weir_trace::tcp::{Connection, Side, Summary};

use super::Columns;
use super::rows::columns;
use crate::{Column, Kind, Spec};

columns! {
    /// Of [`Connection`], without the sides.
    Whole = "connections" of Connection {
        connection: U32 as Small(i32).rising() = |c| c.id.cast_signed();
        a_addr: Text as Text(String).repeats() = |c| c.a.addr.to_string();
        a_port: U16 as Small(i32) = |c| c.a.port.into();
        b_addr: Text as Text(String).repeats() = |c| c.b.addr.to_string();
        b_port: U16 as Small(i32) = |c| c.b.port.into();
        vlan: Text as Text(String).repeats() = |c| c.vlan();
        interface: Text as Text(String).repeats() = |c| c.interface_name();
        first_ns: I64 as I64(i64).rising() = |c| c.first_ns;
        last_ns: I64 as I64(i64).rising() = |c| c.last_ns;
        begin: Text as Text(String).repeats() = |c| c.begin.name().to_owned();
        end: Text as Text(String).repeats() = |c| c.end.name().to_owned();
        place: Text as Text(String).repeats() = |c| c.place.name().to_owned();
        handshake_a_ns: I64 as MaybeI64(Option<i64>).optional() = |c| c.handshake_ns.0.map(signed);
        handshake_b_ns: I64 as MaybeI64(Option<i64>).optional() = |c| c.handshake_ns.1.map(signed);
        idle_max_ns: I64 as I64(i64) = |c| signed(c.idle_max_ns);
    }
}

/// The columns of a side; the names of all of them, once for `a` and once for `b`.
macro_rules! side {
    ($($column:ident: $kind:ident as $variant:ident($store:ty) $(.$how:ident())* = |$s:ident| $value:expr;)*) => {
        #[derive(Default)]
        struct OfSide {
            $($column: Vec<$store>,)*
        }

        const OF_A: &[Spec] = &[$(Spec::new(concat!("a_", stringify!($column)), Kind::$kind)$(.$how())*,)*];
        const OF_B: &[Spec] = &[$(Spec::new(concat!("b_", stringify!($column)), Kind::$kind)$(.$how())*,)*];

        impl OfSide {
            fn push(&mut self, side: &Side) {
                $(let $s = side; self.$column.push($value);)*
            }

            fn columns(&self) -> impl Iterator<Item = Column<'_>> {
                [$(Column::$variant(&self.$column),)*].into_iter()
            }

            fn clear(&mut self) {
                $(self.$column.clear();)*
            }
        }
    };
}

side! {
    packets: I64 as I64(i64) = |s| signed(s.packets);
    link_bytes: I64 as I64(i64) = |s| signed(s.link_bytes);
    data_packets: I64 as I64(i64) = |s| signed(s.data_packets);
    data_bytes: I64 as I64(i64) = |s| signed(s.data_bytes);
    unique_bytes: I64 as I64(i64) = |s| signed(s.unique_bytes);
    pure_acks: I64 as I64(i64) = |s| signed(s.pure_acks);
    data_first_ns: I64 as MaybeI64(Option<i64>).optional() = |s| s.data_ns.map(|(first, _)| first);
    data_last_ns: I64 as MaybeI64(Option<i64>).optional() = |s| s.data_ns.map(|(_, last)| last);
    payload_max_bytes: I64 as I64(i64) = |s| s.payload_max.into();
    syns: I64 as I64(i64) = |s| signed(s.syns);
    fins: I64 as I64(i64) = |s| signed(s.fins);
    resets: I64 as I64(i64) = |s| signed(s.resets);
    mss_bytes: I64 as MaybeI64(Option<i64>).optional() = |s| s.options.and_then(|o| o.mss).map(i64::from);
    window_scale: I64 as MaybeI64(Option<i64>).optional() =
        |s| s.options.and_then(|o| o.window_scale).map(i64::from);
    sack_permitted: Bool as MaybeBool(Option<bool>).optional() = |s| s.options.map(|o| o.sack);
    timestamps: Bool as MaybeBool(Option<bool>).optional() = |s| s.options.map(|o| o.timestamps);
    retransmissions: I64 as I64(i64) = |s| signed(s.retransmissions.total);
    retransmissions_bytes: I64 as I64(i64) = |s| signed(s.retransmissions.bytes);
    retransmissions_timeout: I64 as I64(i64) = |s| signed(s.retransmissions.timeout);
    retransmissions_fast: I64 as I64(i64) = |s| signed(s.retransmissions.fast);
    retransmissions_tail_probe: I64 as I64(i64) = |s| signed(s.retransmissions.tail_probe);
    retransmissions_handshake: I64 as I64(i64) = |s| signed(s.retransmissions.handshake);
    retransmissions_unexplained: I64 as I64(i64) = |s| signed(s.retransmissions.unexplained);
    retransmissions_fins: I64 as I64(i64) = |s| signed(s.retransmissions.fins);
    retransmissions_spurious: I64 as I64(i64) = |s| signed(s.retransmissions.spurious);
    out_of_order: I64 as I64(i64) = |s| signed(s.out_of_order);
    copies: I64 as I64(i64) = |s| signed(s.copies);
    unseen_bytes: I64 as I64(i64) = |s| signed(s.unseen_bytes);
    keep_alives: I64 as I64(i64) = |s| signed(s.keep_alives);
    window_probes: I64 as I64(i64) = |s| signed(s.window_probes);
    duplicate_acks: I64 as I64(i64) = |s| signed(s.duplicate_acks);
    sack_blocks: I64 as I64(i64) = |s| signed(s.sack_blocks);
    dsacks: I64 as I64(i64) = |s| signed(s.dsacks);
    window_min_bytes: I64 as MaybeI64(Option<i64>).optional() = |s| s.window.map(|(min, _)| min.into());
    window_max_bytes: I64 as MaybeI64(Option<i64>).optional() = |s| s.window.map(|(_, max)| max.into());
    zero_windows: I64 as I64(i64) = |s| signed(s.zero_windows);
    zero_window_ns: I64 as I64(i64) = |s| signed(s.zero_window_ns);
    window_full: I64 as I64(i64) = |s| signed(s.window_full);
    rtt_count: I64 as I64(i64) = |s| signed(s.rtt.count);
    rtt_min_ns: I64 as MaybeI64(Option<i64>).optional() = |s| there(&s.rtt, |r| signed(r.min_ns));
    rtt_mean_ns: F64 as MaybeF64(Option<f64>).optional() = |s| there(&s.rtt, |r| r.mean_ns);
    rtt_max_ns: I64 as MaybeI64(Option<i64>).optional() = |s| there(&s.rtt, |r| signed(r.max_ns));
    rtt_sd_ns: F64 as MaybeF64(Option<f64>).optional() = |s| there(&s.rtt, |r| r.sd_ns);
    rtt_timestamp_count: I64 as I64(i64) = |s| signed(s.rtt_timestamp.count);
    rtt_timestamp_min_ns: I64 as MaybeI64(Option<i64>).optional() =
        |s| there(&s.rtt_timestamp, |r| signed(r.min_ns));
    rtt_timestamp_mean_ns: F64 as MaybeF64(Option<f64>).optional() =
        |s| there(&s.rtt_timestamp, |r| r.mean_ns);
    rtt_timestamp_max_ns: I64 as MaybeI64(Option<i64>).optional() =
        |s| there(&s.rtt_timestamp, |r| signed(r.max_ns));
    rtt_timestamp_sd_ns: F64 as MaybeF64(Option<f64>).optional() =
        |s| there(&s.rtt_timestamp, |r| r.sd_ns);
    flight_max_bytes: I64 as I64(i64) = |s| signed(s.flight_max);
    flight_mean_bytes: F64 as F64(f64) = |s| s.flight_mean;
    idle_max_ns: I64 as I64(i64) = |s| signed(s.idle_max_ns);
    congestion_marks: I64 as I64(i64) = |s| signed(s.congestion_marks);
    renumbered: I64 as I64(i64) = |s| signed(s.renumbered);
    unanswered: I64 as I64(i64) = |s| signed(s.unanswered);
    unanswered_ns: I64 as I64(i64) = |s| signed(s.unanswered_ns);
    unanswered_after_ns: I64 as I64(i64) = |s| signed(s.unanswered_after_ns);
    shut_ns: I64 as I64(i64) = |s| signed(s.shut_ns);
    answers: I64 as I64(i64) = |s| signed(s.answers);
    answers_ns: I64 as I64(i64) = |s| signed(s.answers_ns);
    answer_max_ns: I64 as I64(i64) = |s| signed(s.answer_max_ns);
}

/// All the facts about a connection.
#[derive(Default)]
pub struct Connections {
    whole: Whole,
    sides: [OfSide; 2],
}

impl Connections {
    pub fn push(&mut self, connection: &Connection) {
        self.whole.push(connection);
        for (columns, side) in self.sides.iter_mut().zip(&connection.sides) {
            columns.push(side);
        }
    }
}

const WIDTH: usize = Whole::SPECS.len() + OF_A.len() + OF_B.len();
static ALL: [Spec; WIDTH] = joined();

const fn joined() -> [Spec; WIDTH] {
    let mut all = [Spec::new("", Kind::U8); WIDTH];
    let parts = [Whole::SPECS, OF_A, OF_B];
    let (mut part, mut at) = (0, 0);
    while part < parts.len() {
        let mut i = 0;
        while i < parts[part].len() {
            all[at] = parts[part][i];
            at += 1;
            i += 1;
        }
        part += 1;
    }
    all
}

impl Columns for Connections {
    const NAME: &'static str = Whole::NAME;
    const SPECS: &'static [Spec] = &ALL;
    // A row has more than a hundred columns.
    const GROUP_ROWS: usize = 1 << 12;

    fn len(&self) -> usize {
        self.whole.len()
    }

    fn columns(&self) -> Vec<Column<'_>> {
        let whole = self.whole.columns().into_iter();
        whole.chain(self.sides.iter().flat_map(OfSide::columns)).collect()
    }

    fn clear(&mut self) {
        self.whole.clear();
        self.sides.iter_mut().for_each(OfSide::clear);
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// An empty summary has no values.
fn there<T>(summary: &Summary, value: impl FnOnce(&Summary) -> T) -> Option<T> {
    (summary.count > 0).then(|| value(summary))
}
