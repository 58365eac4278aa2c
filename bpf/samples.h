/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Samples of TCP connections, as the programs tell user space; crates/events/src/sampling/record.rs mirrors them
 * byte for byte.
 */
#ifndef WEIR_SAMPLES_H
#define WEIR_SAMPLES_H

#include <linux/types.h>

#define WEIR_SAMPLE_DUE 0   /* at its time */
#define WEIR_SAMPLE_FIRST 1 /* when the connection was entered */
#define WEIR_SAMPLE_ENDED 2 /* the connection is no longer there; nothing behind the kind is filled in */

/* Connections that are sampled. */
#define WEIR_SAMPLED 1024
/* Room for struct tcp_sock, whatever the kernel was built with. */
#define WEIR_COPY_BYTES 4096

#define WEIR_ENTER_GONE 0 /* there is no such connection (any more) */
#define WEIR_ENTER_DONE 1
#define WEIR_ENTER_SOON 2 /* the handshake is not over: ask again */

/* Enters a connection. It is the packet that the program is run with, so that a link-layer header comes first. */
struct weir_wanted {
	__u8 header[16];
	__u64 cookie;
	__u32 number;      /* less than WEIR_SAMPLED */
	__u32 tuple_bytes; /* 12: IPv4, 36: IPv6 */
	__u32 tuple[9];    /* struct bpf_sock_tuple, as of a packet that arrives */
	__u32 pad;
};

/* struct tcp_info. What user space converts is in jiffies; what is not told is 0. */
struct weir_sample_info {
	__u8 state;
	__u8 ca_state;
	__u8 retransmits;
	__u8 probes;
	__u8 backoff;
	__u8 options;
	__u8 wscale;
	__u8 flags;
	__u32 rto;            /* jiffies */
	__u32 ato;            /* not told */
	__u32 snd_mss;
	__u32 rcv_mss;
	__u32 unacked;
	__u32 sacked;
	__u32 lost;
	__u32 retrans;
	__u32 fackets;        /* 0, as the kernel says */
	__u32 last_data_sent; /* jiffies */
	__u32 last_ack_sent;  /* 0, as the kernel says */
	__u32 last_data_recv; /* jiffies */
	__u32 last_ack_recv;  /* jiffies */
	__u32 pmtu;
	__u32 rcv_ssthresh;
	__u32 rtt;
	__u32 rttvar;
	__u32 snd_ssthresh;
	__u32 snd_cwnd;
	__u32 advmss;
	__u32 reordering;
	__u32 rcv_rtt;
	__u32 rcv_space;
	__u32 total_retrans;
	__u64 pacing_rate;
	__u64 max_pacing_rate;
	__u64 bytes_acked;
	__u64 bytes_received;
	__u32 segs_out;
	__u32 segs_in;
	__u32 notsent_bytes;
	__u32 min_rtt;
	__u32 data_segs_in;
	__u32 data_segs_out;
	__u64 delivery_rate;  /* left to user space */
	__u64 chrono[3];      /* jiffies busy with nothing else, limited by the window, by the buffer */
	__u32 delivered;
	__u32 delivered_ce;
	__u64 bytes_sent;
	__u64 bytes_retrans;
	__u32 dsack_dups;
	__u32 reord_seen;
	__u32 rcv_ooopack;
	__u32 snd_wnd;
	__u32 rcv_wnd;
	__u32 rehash;
	__u16 total_rto;
	__u16 total_rto_recoveries;
	__u32 total_rto_time;
	__u32 received_ce;
	__u32 delivered_ecn_bytes[3];
	__u32 received_ecn_bytes[3];
	__u32 accecn;         /* not told */
};

struct weir_sample {
	__u64 tick_ns;          /* when the timer ran, CLOCK_MONOTONIC; 0: between two times */
	__u64 at_ns;            /* just before the connection was read */
	__u32 number;
	__u32 kind;
	struct weir_sample_info info;
	__u32 memory[9];        /* SK_MEMINFO_* */
	__u32 rqueue;
	__u32 wqueue;
	__u32 rate_delivered;   /* segments ... */
	__u32 rate_interval_us; /* ... delivered in this time */
	__u32 info_bytes;       /* of this kernel's struct tcp_info */
};

_Static_assert(sizeof(struct weir_wanted) == 72, "wanted");
_Static_assert(sizeof(struct weir_sample_info) == 280, "info");
_Static_assert(sizeof(struct weir_sample) == 360, "sample");

#endif
