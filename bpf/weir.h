/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What the XDP programs and user space share, byte for byte. User space maps these
 * arrays into its memory; crates/engine/src/layout.rs mirrors every struct and checks
 * the sizes asserted below.
 *
 * All times are CLOCK_MONOTONIC nanoseconds (bpf_ktime_get_ns).
 */
#ifndef WEIR_H
#define WEIR_H

#include <linux/types.h>

/* The probe: 18 bytes, so that it fits behind IPv4/UDP in the shortest frame (64 with FCS). */
#define WEIR_PROBE_LEN 18

#define WEIR_HEADER_MAX 80
/* A sender that fell behind shortens its gaps by 1/16 until it has made up for it. */
#define WEIR_RECOVERY_SHIFT 4

#define WEIR_MAX_PHASES 256
/* Most tasks of the device that are watched. */
#define WEIR_WATCHED 4
#define WEIR_NEXT_FLOW 0xffffffffU

/* What a packet of a call carries between UDP and the probe lies in slots of this size. */
#define WEIR_SLOT_LEN 256
#define WEIR_BODY_SLOTS 8

/* What is written into the application header: RTP (RFC 3550), IAX2 (RFC 5456) mini frame,
 * IAX2 meta trunk frame; raw packets have no header. */
#define WEIR_RTP 1
#define WEIR_IAX2_MINI 2
#define WEIR_IAX2_META 3
#define WEIR_RAW 4

/* Impairment: numbered and counted, but not sent. Smaller values: sent again, this many numbers back. */
#define WEIR_LOSE 0xff

/* Delay histogram: exact below 128 ns, then 128 buckets an octave (at most 0.79 % wide) up to 17 s. */
#define WEIR_HIST_SUB 128
#define WEIR_HIST_OCTAVES 27
#define WEIR_HIST_BUCKETS (WEIR_HIST_SUB * (WEIR_HIST_OCTAVES + 1))

/* How many sequence numbers behind the newest a flow remembers, to tell late from duplicated. */
#define WEIR_WINDOW_BITS 256
#define WEIR_WINDOW_WORDS (WEIR_WINDOW_BITS / 64)

struct weir_gen_config {
	__u64 start_ns;
	__u64 record_start_ns;
	__u64 record_end_ns;
	__u64 catch_up_ns;   /* lateness up to this is made up for at once; beyond it, bit by bit */
	__u32 n_phases;
	__u32 n_flows;
	__u32 tx_ifindex;
	__u32 header_len;    /* Ethernet to the end of UDP or TCP */
	__u32 input_len;     /* frame length without FCS that user space passes in */
	__u32 bin_ns;
	__u32 n_bins;
	__u16 magic;
	__u8 paced;
	__u8 ip;             /* 4 or 6 */
	__u8 l4;             /* 17 or 6 */
	__u8 skip;           /* bytes between the L4 header and the probe */
	__u8 media;          /* packets of calls: gen_media counts, the probe is what comes last */
	__u8 watched;        /* tasks in gen_tasks; 0: none is watched */
	__u32 slip_most_ns;  /* a sender further behind than this moves its schedule */
	__u32 new_flow;      /* each packet of this one is the first of a new flow; WEIR_NEXT_FLOW: there is none */
	__u32 new_hosts;     /* new flows come from this many addresses, ... */
	__u32 new_host;      /* ... counted down from this one (its last 32 bits), ... */
	__u16 new_ports;     /* ... and then from this many ports, ... */
	__u16 new_port;      /* ... counted down from this one */
	__u8 answered;       /* flows are answered: those of TCP begin with SYN */
	__u8 pad[3];
	__u32 first_flow;    /* in probes, the first flow here has this number: other senders have others */
};

struct weir_phase {
	__u64 end_ns;
	__u32 first_entry;
	__u32 n_entries;
};

/* One packet of the cyclic departure schedule. */
struct weir_entry {
	__u32 gap_ns;        /* from this packet to the next ... */
	__u16 gap_frac;      /* ... plus this many 2^-16 ns */
	__u16 length;        /* frame length without FCS */
	__u32 flow;          /* WEIR_NEXT_FLOW: the next one in turn */
	__u32 body;          /* media only: what lies between the headers and the probe */
};

/* Further data of an entry that is a packet of a call. */
struct weir_media {
	__u32 stamp;         /* added to the time stamp in the flow's application header */
	__u8 kind;           /* WEIR_RTP ... WEIR_RAW */
	__u8 marker;         /* of RTP */
	__u8 impair;         /* 0: nothing; see WEIR_LOSE */
	__u8 pad;
};

/* Bytes between headers and probe: consecutive slots. */
struct weir_body {
	__u32 first_slot;
	__u16 length;
	__u16 sum;           /* one's complement sum of the bytes */
};

struct weir_slot {
	__u8 bytes[WEIR_SLOT_LEN];
};

struct weir_gen_flow {
	__u8 header[WEIR_HEADER_MAX]; /* lengths and checksums zero; the application header follows */
	__u32 l4_sum;        /* one's complement sum of pseudo header and L4 header */
	__u32 ip_sum;        /* the same for the IPv4 header */
	__u32 seq;
	__u32 first_seq;     /* media only: of the first recorded packet */
	__u64 sent;          /* recorded packets only */
	__u32 app_sum;       /* the sum of the application header */
	__u8 app_len;
	__u8 port;           /* index into gen_ports: 0 forward, 1 back */
	__u8 pad[2];
};

struct weir_gen_state {
	__u64 next_ns;
	__u64 sent;
	__u64 sent_recorded;
	__u64 late_sum_ns;
	__u64 late_max_ns;
	__u64 slipped_ns;    /* lateness not made up for yet */
	__u64 first_ns;
	__u64 last_ns;
	__u32 next_frac;
	__u32 phase;
	__u32 entry;
	__u32 flow;
	__u32 done;
	__u32 errors;
	__s64 surplus;       /* packets sent again less packets not sent, by impairment */
	__u64 next_look_ns;
	__u64 next_glance_ns;
};

struct weir_gen_bin {
	__u64 sent;
	__u64 late_max_ns;
	__u32 glances;       /* at what runs on the device's CPU */
	__u32 others;        /* of these, how many found other work there */
};

/* Time between two glances. Each costs the sender some 0.1 us. */
#define WEIR_GLANCE_NS 100000

/* CPU time and waiting time of one of the device's tasks so far. */
struct weir_task_time {
	__u64 ran_ns;
	__u64 waited_ns;
};

/*
 * What the scheduler had counted when the sender looked: at its first packet, at the first one of
 * every bin, and at the end of the last phase.
 */
struct weir_look {
	__u64 at_ns;         /* 0: no packet departed in that bin */
	__u64 sender_stolen_ns;
	__u64 device_stolen_ns;
	__u64 device_clock_ns; /* stolen time is known up to this time of the scheduler's clock */
	struct weir_task_time tasks[WEIR_WATCHED];
};

struct weir_rx_config {
	__u64 record_start_ns;
	__u64 record_end_ns;
	__u32 n_flows;
	__u32 bin_ns;
	__u32 n_bins;
	__u16 magic;
	__u8 skip;
	__u8 armed;
	__u8 tail;           /* the probe ends the UDP payload; skip is not used */
	__u8 log;            /* every recorded arrival goes into rx_log */
	__u8 pad[2];
	__u32 windowed;      /* every bin has its own histogram */
	__u32 answers;       /* so many of each flow's first probes are answered */
	__u32 new_flow;      /* every probe of this one is answered; WEIR_NEXT_FLOW: there is none */
};

/* A recorded probe that arrived; one for each copy, too. */
struct weir_arrival {
	__u32 flow;
	__u32 seq;
	__u64 sent_ns;
	__u64 arrival_ns;
};

struct weir_rx_flow {
	__u64 received;
	__u64 duplicated;
	__u64 reordered;
	__u64 delay_sum_ns;
	__u64 delay_min_ns;
	__u64 delay_max_ns;
	__u64 ipdv_sum_ns;   /* sum of |D| of RFC 3550 6.4.1 */
	__u64 ipdv_count;
	__u64 jitter_q4;     /* RFC 3550 jitter in 1/16 ns */
	__s64 last_transit_ns;
	__u64 last_arrival_ns;
	__u64 longest_gap_ns;
	__u64 window[WEIR_WINDOW_WORDS]; /* bit (seq mod 256): received */
	__u32 next_seq;      /* NextExp of RFC 4737 */
	__u16 elsewhere;     /* arrives at the other receiver: a stray frame here */
	__u16 queue;         /* number of the receive queue of its last packet, from 1 */
};

struct weir_rx_totals {
	__u64 probes;        /* every probe of this trial, warm-up and duplicates included */
	__u64 stray;         /* everything else */
	__u64 first_arrival_ns;
	__u64 last_arrival_ns;
	__u64 longest_gap_ns;
	__u64 last_probe_ns; /* arrival of the last probe of any kind: shows when the line is quiet */
	__u64 answers;       /* sent from here, warm-up included */
	__u64 answers_recorded;
	__u64 moved;         /* packets in another receive queue than the one before them in their flow */
};

struct weir_rx_bin {
	__u64 received;
	__u64 delay_sum_ns;
	__u64 delay_min_ns;
	__u64 delay_max_ns;
	__u64 ipdv_sum_ns;   /* of the packets that departed in the bin, each after its predecessor */
	__u64 ipdv_count;
};

_Static_assert(sizeof(struct weir_gen_config) == 96, "gen_config");
_Static_assert(sizeof(struct weir_phase) == 16, "phase");
_Static_assert(sizeof(struct weir_entry) == 16, "entry");
_Static_assert(sizeof(struct weir_media) == 8, "media");
_Static_assert(sizeof(struct weir_body) == 8, "body");
_Static_assert(sizeof(struct weir_gen_flow) == 112, "gen_flow");
_Static_assert(sizeof(struct weir_gen_state) == 112, "gen_state");
_Static_assert(sizeof(struct weir_gen_bin) == 24, "gen_bin");
_Static_assert(sizeof(struct weir_look) == 96, "look");
_Static_assert(sizeof(struct weir_rx_config) == 48, "rx_config");
_Static_assert(sizeof(struct weir_arrival) == 24, "arrival");
_Static_assert(sizeof(struct weir_rx_flow) == 136, "rx_flow");
_Static_assert(sizeof(struct weir_rx_totals) == 72, "rx_totals");
_Static_assert(sizeof(struct weir_rx_bin) == 48, "rx_bin");

#endif
