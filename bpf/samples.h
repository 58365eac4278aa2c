/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Samples of TCP connections, as the programs report them to user space;
 * crates/events/src/sampling/record.rs mirrors them byte for byte, and programs.rs what user space tells
 * the programs.
 */
#ifndef WEIR_SAMPLES_H
#define WEIR_SAMPLES_H

#include <linux/types.h>

#define WEIR_SAMPLE_DUE 0  /* at the first event at or after its time */
#define WEIR_SAMPLE_LAST 1 /* the connection ends */

/* Most connections that are sampled. */
#define WEIR_SAMPLED 1024

/* A connection that is sampled. User space adds it, the programs update it. */
struct weir_sampled {
	__u64 due_ns; /* when its next sample is due, CLOCK_MONOTONIC */
	__u64 missed; /* samples that found no room in the ring */
	__u32 number;
	__u32 pad;
};

/* struct tcp_info. What user space converts is in jiffies; what is not reported is 0. */
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
	__u32 ato;            /* not reported */
	__u32 snd_mss;
	__u32 rcv_mss;
	__u32 unacked;
	__u32 sacked;
	__u32 lost;
	__u32 retrans;
	__u32 fackets;        /* 0, as in the kernel */
	__u32 last_data_sent; /* jiffies */
	__u32 last_ack_sent;  /* 0, as in the kernel */
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
	__u32 accecn;         /* not reported */
};

struct weir_sample {
	__u64 due_ns;           /* when it was due; 0: it was not due, but is the last one */
	__u64 at_ns;            /* when it was taken; both by CLOCK_MONOTONIC */
	__u64 missed;           /* as in struct weir_sampled */
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

_Static_assert(sizeof(struct weir_sampled) == 24, "sampled");
_Static_assert(sizeof(struct weir_sample_info) == 280, "info");
_Static_assert(sizeof(struct weir_sample) == 368, "sample");

#endif
