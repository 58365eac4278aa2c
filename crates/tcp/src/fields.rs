//! Every quantity that the kernel reports about a TCP connection, in one table.
//!
//! The names in Rust, Python, Parquet files and documents come from here. Sources: `struct tcp_info`
//! (`include/uapi/linux/tcp.h`, up to Linux 6.18's 280 bytes), `struct inet_diag_msg`, `SK_MEMINFO_*`,
//! `union tcp_cc_info` (`include/uapi/linux/inet_diag.h`, `sock_diag.h`).

use Unit::{Bytes, BytesPerS, Ms, None, Segments, Us};

/// What a value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number, a state, or bits.
    None,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerS,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Segments.
    Segments,
}

impl Unit {
    /// As documents write it; empty for none.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            None => "",
            Bytes => "bytes",
            BytesPerS => "bytes/s",
            Us => "us",
            Ms => "ms",
            Segments => "segments",
        }
    }
}

/// Which structure of the kernel holds a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `struct tcp_info`, by getsockopt(2) or `INET_DIAG_INFO`.
    Info,
    /// `INET_DIAG_SKMEMINFO`.
    Memory,
    /// `INET_DIAG_BBRINFO`.
    Bbr,
    /// `INET_DIAG_VEGASINFO`.
    Vegas,
    /// `INET_DIAG_DCTCPINFO`.
    Dctcp,
    /// `struct inet_diag_msg`.
    Message,
}

impl Source {
    /// As the kernel calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "tcp_info",
            Self::Memory => "skmeminfo",
            Self::Bbr => "bbrinfo",
            Self::Vegas => "vegasinfo",
            Self::Dctcp => "dctcpinfo",
            Self::Message => "inet_diag_msg",
        }
    }
}

/// One quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, with the unit if the name alone does not show it.
    pub name: &'static str,
    /// The kernel's name, that of `tcp_info` without `tcpi_`.
    pub kernel_name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Where it is.
    pub source: Source,
    /// The first kernel that has it.
    pub since: &'static str,
    /// What it is.
    pub about: &'static str,
    /// First byte.
    pub offset: usize,
    /// Bytes that are read.
    pub width: usize,
    shift: u32,
    bits: u32,
    needs: usize,
    locked: bool,
}

impl Field {
    /// The least length of a structure that contains the field.
    ///
    /// This is more than the field's own end if older kernels have padding in its place, which they set to 0.
    #[must_use]
    pub const fn needs(&self) -> usize {
        self.needs
    }

    /// The value in `bytes`, which are what the kernel returned; `None` if it returned too few.
    #[must_use]
    pub fn read(&self, bytes: &[u8]) -> Option<u64> {
        if bytes.len() < self.needs {
            return Option::None;
        }
        let mut word = [0; 8];
        word[..self.width].copy_from_slice(bytes.get(self.offset..self.offset + self.width)?);
        let value = u64::from_le_bytes(word) >> self.shift;
        Some(if self.bits == 0 { value } else { value & ((1 << self.bits) - 1) })
    }

    const fn bits(self, bits: u32, shift: u32) -> Self {
        Self { bits, shift, ..self }
    }

    const fn needing(self, needs: usize) -> Self {
        Self { needs, ..self }
    }

    /// Marks a field that only `INET_DIAG` reports.
    const fn locked(self) -> Self {
        Self { locked: true, ..self }
    }

    /// Whether BPF programs report it.
    #[must_use]
    pub const fn is_by_bpf(&self) -> bool {
        !self.locked && matches!(self.source, Source::Info | Source::Memory | Source::Message)
    }
}

/// The field with this name, or with this kernel name.
#[must_use]
pub fn field(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.name == name || field.kernel_name == name)
}

macro_rules! sources {
    ($($function:ident: $source:ident),*) => {
        $(const fn $function(
            name: &'static str,
            kernel_name: &'static str,
            unit: Unit,
            offset: usize,
            width: usize,
            since: &'static str,
            about: &'static str,
        ) -> Field {
            let source = Source::$source;
            let needs = offset + width;
            let (shift, bits, locked) = (0, 0, false);
            Field { name, kernel_name, unit, source, since, about, offset, width, shift, bits, needs, locked }
        })*
    };
}

sources!(info: Info, memory: Memory, bbr: Bbr, vegas: Vegas, dctcp: Dctcp, message: Message);

/// All fields, in the kernel's order.
#[rustfmt::skip]
pub const FIELDS: &[Field] = &[
    info("state", "state", None, 0, 1, "2.4", "state of the connection, as a number"),
    info("ca_state", "ca_state", None, 1, 1, "2.4", "congestion state: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss"),
    info("retransmits", "retransmits", None, 2, 1, "2.4", "time-outs of the oldest unacknowledged segment"),
    info("probes", "probes", None, 3, 1, "2.4", "unanswered window probes"),
    info("backoff", "backoff", None, 4, 1, "2.4", "doublings of the retransmission time-out"),
    info("options", "options", None, 5, 1, "2.4", "bits: 1 time stamps, 2 SACK, 4 window scaling, 8 ECN, 16 ECN seen, 32 data in SYN, 64 usec time stamps"),
    info("snd_wscale", "snd_wscale", None, 6, 1, "2.4", "window scale of the other end, bits").bits(4, 0),
    info("rcv_wscale", "rcv_wscale", None, 6, 1, "2.4", "window scale of this end, bits").bits(4, 4),
    info("delivery_rate_app_limited", "delivery_rate_app_limited", None, 7, 1, "4.9", "1: the application limited the delivery rate").bits(1, 0).needing(168),
    info("fastopen_client_fail", "fastopen_client_fail", None, 7, 1, "5.5", "why TCP Fast Open failed").bits(2, 1).needing(240),
    info("rto_us", "rto", Us, 8, 4, "2.4", "retransmission time-out"),
    info("ato_us", "ato", Us, 12, 4, "2.4", "delayed-ACK time-out").locked(),
    info("snd_mss_bytes", "snd_mss", Bytes, 16, 4, "2.4", "largest segment that is sent"),
    info("rcv_mss_bytes", "rcv_mss", Bytes, 20, 4, "2.4", "largest segment received, as the kernel estimates"),
    info("unacked", "unacked", Segments, 24, 4, "2.4", "segments in flight"),
    info("sacked", "sacked", Segments, 28, 4, "2.4", "segments in flight that SACK acknowledged"),
    info("lost", "lost", Segments, 32, 4, "2.4", "segments in flight that are presumed lost"),
    info("retrans", "retrans", Segments, 36, 4, "2.4", "segments in flight that were retransmitted"),
    info("fackets", "fackets", Segments, 40, 4, "2.4", "not maintained by the kernel since 4.15"),
    info("last_data_sent_ms", "last_data_sent", Ms, 44, 4, "2.4", "time since data was sent"),
    info("last_ack_sent_ms", "last_ack_sent", Ms, 48, 4, "2.4", "never maintained by the kernel"),
    info("last_data_recv_ms", "last_data_recv", Ms, 52, 4, "2.4", "time since data was received"),
    info("last_ack_recv_ms", "last_ack_recv", Ms, 56, 4, "2.4", "time since an ACK was received"),
    info("pmtu_bytes", "pmtu", Bytes, 60, 4, "2.4", "path MTU"),
    info("rcv_ssthresh_bytes", "rcv_ssthresh", Bytes, 64, 4, "2.4", "largest receive window to offer at present"),
    info("rtt_us", "rtt", Us, 68, 4, "2.4", "smoothed round-trip time"),
    info("rttvar_us", "rttvar", Us, 72, 4, "2.4", "mean deviation of the round-trip time"),
    info("snd_ssthresh", "snd_ssthresh", Segments, 76, 4, "2.4", "slow-start threshold; 2147483647: none yet"),
    info("snd_cwnd", "snd_cwnd", Segments, 80, 4, "2.4", "congestion window"),
    info("advmss_bytes", "advmss", Bytes, 84, 4, "2.4", "segment size that this end advertised"),
    info("reordering", "reordering", Segments, 88, 4, "2.4", "reordering distance that is not treated as loss"),
    info("rcv_rtt_us", "rcv_rtt", Us, 92, 4, "2.6", "round-trip time as the receiver estimates it"),
    info("rcv_space_bytes", "rcv_space", Bytes, 96, 4, "2.6", "bytes that the application read per round trip"),
    info("total_retrans", "total_retrans", Segments, 100, 4, "2.6", "segments retransmitted since the start"),
    info("pacing_rate_bytes_per_s", "pacing_rate", BytesPerS, 104, 8, "3.15", "rate at which segments are paced"),
    info("max_pacing_rate_bytes_per_s", "max_pacing_rate", BytesPerS, 112, 8, "3.15", "limit of the pacing rate; all bits set: none"),
    info("bytes_acked", "bytes_acked", Bytes, 120, 8, "4.1", "bytes that the other end acknowledged; counts the SYN"),
    info("bytes_received", "bytes_received", Bytes, 128, 8, "4.1", "bytes received in order; counts the FIN"),
    info("segs_out", "segs_out", Segments, 136, 4, "4.2", "segments sent, including ACKs and retransmissions"),
    info("segs_in", "segs_in", Segments, 140, 4, "4.2", "segments received, ACKs included"),
    info("notsent_bytes", "notsent_bytes", Bytes, 144, 4, "4.6", "bytes in the send buffer that were never sent"),
    info("min_rtt_us", "min_rtt", Us, 148, 4, "4.6", "smallest round-trip time of the last minutes"),
    info("data_segs_in", "data_segs_in", Segments, 152, 4, "4.6", "segments with data received"),
    info("data_segs_out", "data_segs_out", Segments, 156, 4, "4.6", "segments with data sent, including retransmissions"),
    info("delivery_rate_bytes_per_s", "delivery_rate", BytesPerS, 160, 8, "4.9", "most recent rate of delivery"),
    info("busy_time_us", "busy_time", Us, 168, 8, "4.10", "time with data to send or in flight; counted in jiffies"),
    info("rwnd_limited_us", "rwnd_limited", Us, 176, 8, "4.10", "time limited by the receive window; counted in jiffies"),
    info("sndbuf_limited_us", "sndbuf_limited", Us, 184, 8, "4.10", "time limited by the send buffer; counted in jiffies"),
    info("delivered", "delivered", Segments, 192, 4, "4.18", "segments delivered, including retransmissions"),
    info("delivered_ce", "delivered_ce", Segments, 196, 4, "4.18", "segments delivered with a congestion mark"),
    info("bytes_sent", "bytes_sent", Bytes, 200, 8, "4.19", "bytes sent, including retransmissions"),
    info("bytes_retrans", "bytes_retrans", Bytes, 208, 8, "4.19", "bytes retransmitted"),
    info("dsack_dups", "dsack_dups", Segments, 216, 4, "4.19", "segments that arrived twice, as DSACK reported"),
    info("reord_seen", "reord_seen", None, 220, 4, "4.19", "times that reordering was seen"),
    info("rcv_ooopack", "rcv_ooopack", Segments, 224, 4, "5.4", "segments received out of order"),
    info("snd_wnd_bytes", "snd_wnd", Bytes, 228, 4, "5.4", "receive window of the other end"),
    info("rcv_wnd_bytes", "rcv_wnd", Bytes, 232, 4, "6.2", "receive window of this end"),
    info("rehash", "rehash", None, 236, 4, "6.2", "times that a new hash changed the path"),
    info("total_rto", "total_rto", None, 240, 2, "6.7", "retransmission time-outs since the start"),
    info("total_rto_recoveries", "total_rto_recoveries", None, 242, 2, "6.7", "recoveries from time-outs since the start"),
    info("total_rto_time_ms", "total_rto_time", Ms, 244, 4, "6.7", "time spent in such recoveries"),
    info("received_ce", "received_ce", Segments, 248, 4, "6.18", "segments received with a congestion mark"),
    info("delivered_e1_bytes", "delivered_e1_bytes", Bytes, 252, 4, "6.18", "bytes delivered as ECT(1)"),
    info("delivered_e0_bytes", "delivered_e0_bytes", Bytes, 256, 4, "6.18", "bytes delivered as ECT(0)"),
    info("delivered_ce_bytes", "delivered_ce_bytes", Bytes, 260, 4, "6.18", "bytes delivered with a congestion mark"),
    info("received_e1_bytes", "received_e1_bytes", Bytes, 264, 4, "6.18", "bytes received as ECT(1)"),
    info("received_e0_bytes", "received_e0_bytes", Bytes, 268, 4, "6.18", "bytes received as ECT(0)"),
    info("received_ce_bytes", "received_ce_bytes", Bytes, 272, 4, "6.18", "bytes received with a congestion mark"),
    info("accecn_bits", "accecn_fail_mode", None, 276, 4, "6.18", "state of Accurate ECN, as bits; kernels after 6.18 lay them out differently").locked(),
    memory("skmem_rmem_alloc_bytes", "SK_MEMINFO_RMEM_ALLOC", Bytes, 0, 4, "3.6", "memory of data received but not read"),
    memory("skmem_rcvbuf_bytes", "SK_MEMINFO_RCVBUF", Bytes, 4, 4, "3.6", "receive buffer"),
    memory("skmem_wmem_alloc_bytes", "SK_MEMINFO_WMEM_ALLOC", Bytes, 8, 4, "3.6", "memory of data handed to the lower layers"),
    memory("skmem_sndbuf_bytes", "SK_MEMINFO_SNDBUF", Bytes, 12, 4, "3.6", "send buffer"),
    memory("skmem_fwd_alloc_bytes", "SK_MEMINFO_FWD_ALLOC", Bytes, 16, 4, "3.6", "memory reserved but not used"),
    memory("skmem_wmem_queued_bytes", "SK_MEMINFO_WMEM_QUEUED", Bytes, 20, 4, "3.6", "memory of data in the send queue"),
    memory("skmem_optmem_bytes", "SK_MEMINFO_OPTMEM", Bytes, 24, 4, "3.6", "memory of options and filters"),
    memory("skmem_backlog_bytes", "SK_MEMINFO_BACKLOG", Bytes, 28, 4, "3.6", "memory of packets that wait until the application releases the socket"),
    memory("skmem_drops", "SK_MEMINFO_DROPS", Segments, 32, 4, "4.7", "packets dropped at the socket"),
    bbr("bbr_bandwidth_bytes_per_s", "bbr_bw_lo, bbr_bw_hi", BytesPerS, 0, 8, "4.9", "BBR's estimate of the bandwidth"),
    bbr("bbr_min_rtt_us", "bbr_min_rtt", Us, 8, 4, "4.9", "BBR's smallest round-trip time"),
    bbr("bbr_pacing_gain_256ths", "bbr_pacing_gain", None, 12, 4, "4.9", "BBR's pacing gain times 256"),
    bbr("bbr_cwnd_gain_256ths", "bbr_cwnd_gain", None, 16, 4, "4.9", "BBR's window gain times 256"),
    vegas("vegas_enabled", "tcpv_enabled", None, 0, 4, "2.6", "1: the algorithm is active (Vegas, Veno, Westwood, ...)"),
    vegas("vegas_rttcnt", "tcpv_rttcnt", None, 4, 4, "2.6", "round trips measured"),
    vegas("vegas_rtt_us", "tcpv_rtt", Us, 8, 4, "2.6", "round-trip time as the algorithm sees it"),
    vegas("vegas_minrtt_us", "tcpv_minrtt", Us, 12, 4, "2.6", "smallest round-trip time as the algorithm sees it"),
    dctcp("dctcp_enabled", "dctcp_enabled", None, 0, 2, "4.0", "1: DCTCP is active"),
    dctcp("dctcp_ce_state", "dctcp_ce_state", None, 2, 2, "4.0", "1: the last packet had a congestion mark"),
    dctcp("dctcp_alpha_1024ths", "dctcp_alpha", None, 4, 4, "4.0", "DCTCP's share of marked bytes times 1024"),
    dctcp("dctcp_ab_ecn", "dctcp_ab_ecn", Bytes, 8, 4, "4.0", "bytes acknowledged with a mark in this window"),
    dctcp("dctcp_ab_tot", "dctcp_ab_tot", Bytes, 12, 4, "4.0", "bytes acknowledged in this window"),
    message("rqueue_bytes", "idiag_rqueue", Bytes, 56, 4, "2.6", "bytes received that the application has not read"),
    message("wqueue_bytes", "idiag_wqueue", Bytes, 60, 4, "2.6", "bytes written that the other end has not acknowledged"),
    message("timer", "idiag_timer", None, 2, 1, "2.6", "0 none, 1 retransmission, 2 keep-alive, 3 time-wait, 4 zero window probe").locked(),
    message("timer_expires_ms", "idiag_expires", Ms, 52, 4, "2.6", "time until the timer expires").locked(),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_end_in_their_unit() {
        let names: BTreeSet<_> = FIELDS.iter().map(|field| field.name).collect();
        assert_eq!(names.len(), FIELDS.len());
        for field in FIELDS {
            let suffix = match field.unit {
                Us => "_us",
                Ms => "_ms",
                BytesPerS => "_bytes_per_s",
                _ => "",
            };
            assert!(field.name.ends_with(suffix), "{}", field.name);
        }
    }

    #[test]
    fn tcp_info_is_covered_without_gaps_or_overlaps_to_its_280_bytes() {
        let mut at = 0;
        let mut last = 0;
        for field in FIELDS.iter().filter(|field| field.source == Source::Info) {
            if field.bits == 0 || field.offset != last {
                assert_eq!(field.offset, at, "{}", field.name);
                at += field.width;
            }
            last = field.offset;
        }
        assert_eq!(at, 280);
    }

    #[test]
    fn bit_fields_are_taken_apart() {
        let mut bytes = [0; 280];
        bytes[6] = 0xa7;
        bytes[7] = 0b101;
        let read = |name| field(name).and_then(|field| field.read(&bytes));
        assert_eq!(read("snd_wscale"), Some(7));
        assert_eq!(read("rcv_wscale"), Some(10));
        assert_eq!(read("delivery_rate_app_limited"), Some(1));
        assert_eq!(read("fastopen_client_fail"), Some(2));
    }

    #[test]
    fn a_field_is_found_by_either_name() {
        assert_eq!(field("rtt"), field("rtt_us"));
        assert_eq!(field("rtt_us").map(|field| field.unit), Some(Us));
        assert_eq!(field("nothing"), Option::None);
    }
}
