//! A row per voice stream.

use weir_trace::voice::{Measured, Protocol};

use super::Columns;
use super::rows::columns;
use crate::{Column, Kind, Spec};

columns! {
    /// Of [`Measured`].
    Streams = "streams" of Measured {
        src_addr: Text as Text(String).repeats() = |s| s.key.src.to_string();
        src_port: U16 as Small(i32) = |s| s.key.src_port.into();
        dst_addr: Text as Text(String).repeats() = |s| s.key.dst.to_string();
        dst_port: U16 as Small(i32) = |s| s.key.dst_port.into();
        protocol: Text as Text(String).repeats() = |s| match s.key.protocol {
            Protocol::Rtp => "rtp".to_owned(),
            Protocol::Iax2 => "iax2".to_owned(),
        };
        ssrc: U32 as Small(i32) = |s| s.key.source.cast_signed();
        vlan: Text as Text(String).repeats() = |s| s.key.tags.to_string();
        codec: Text as Text(String).repeats() = |s| s.facts.codec.clone();
        clock_hz: U32 as Small(i32).repeats() = |s| s.facts.clock_hz.cast_signed();
        first_ns: I64 as I64(i64) = |s| s.first_ns;
        last_ns: I64 as I64(i64) = |s| s.last_ns;
        packets: I64 as I64(i64) = |s| signed(s.packets);
        payload_bytes: I64 as I64(i64) = |s| signed(s.payload_bytes);
        expected: I64 as I64(i64) = |s| signed(s.expected);
        lost: I64 as MaybeI64(Option<i64>).optional() =
            |s| s.loss.is_known().then_some(signed(s.lost));
        loss_runs: I64 as I64(i64) = |s| signed(s.loss_runs);
        longest_run: I64 as I64(i64) = |s| signed(s.longest_run);
        copies: I64 as I64(i64) = |s| signed(s.copies);
        reordered: I64 as I64(i64) = |s| signed(s.reordered);
        gap_max_ns: I64 as MaybeI64(Option<i64>).optional() = |s| s.gap_max_ns;
        jitter_mean_ns: F64 as MaybeF64(Option<f64>).optional() = |s| s.jitter.map(|j| j.mean_ns);
        jitter_max_ns: F64 as MaybeF64(Option<f64>).optional() = |s| s.jitter.map(|j| j.max_ns);
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
