/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What happens to TCP connections, as the programs report it to user space; crates/events/src/event.rs mirrors it
 * byte for byte.
 */
#ifndef WEIR_EVENTS_H
#define WEIR_EVENTS_H

#include <linux/types.h>

#define WEIR_EVENT_STATE 0         /* the state changes */
#define WEIR_EVENT_RECEIVED 1      /* a segment arrived: segs_in counts it, all else is from before */
#define WEIR_EVENT_RETRANSMITTED 2 /* a segment was sent again */

/* IPv4 as IPv6 maps it; the local end first. */
struct weir_event_ends {
	__u32 address[2][4]; /* network byte order */
	__u16 port[2];
};

/* The first bytes of struct tcp_info; what is not reported is 0. */
struct weir_event_info {
	__u8 state;
	__u8 ca_state;
	__u8 pad0[6];
	__u32 pad8[2];
	__u32 snd_mss;
	__u32 pad20;
	__u32 unacked;
	__u32 sacked;
	__u32 lost;
	__u32 retrans;
	__u32 pad40[7];
	__u32 rtt;
	__u32 rttvar;
	__u32 snd_ssthresh;
	__u32 snd_cwnd;
	__u32 pad84[4];
	__u32 total_retrans;
	__u64 pad104[2];
	__u64 bytes_acked;
	__u64 bytes_received;
	__u32 segs_out;
	__u32 segs_in;
	__u32 notsent_bytes;
	__u32 min_rtt;
	__u32 data_segs_in;
	__u32 data_segs_out;
	__u64 pad160[4];
	__u32 delivered;
	__u32 pad196;
	__u64 bytes_sent;
	__u64 bytes_retrans;
	__u32 pad216[3];
	__u32 snd_wnd;
	__u32 rcv_wnd;
	__u32 pad236;
};

struct weir_event {
	__u64 at_ns;         /* CLOCK_MONOTONIC */
	__u64 cookie;
	__u64 inode;         /* 0: no process has it yet, or no longer */
	struct weir_event_ends ends;
	__u8 kind;
	__u8 old_state;      /* of a change of state */
	__u16 pad0;
	__u32 seq;           /* of the segment, if there is one */
	__u32 end_seq;       /* after its last byte; SYN and FIN count */
	__u32 ack_seq;       /* of a segment that arrived */
	__u32 pad1;
	struct weir_event_info info;
	char congestion[16]; /* name of the congestion control, of a change of state; empty while there is none */
};

_Static_assert(sizeof(struct weir_event_info) == 240, "info");
_Static_assert(sizeof(struct weir_event) == 336, "event");

#endif
