/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The fields of the kernel's TCP structs that the programs read; their offsets are found at load time
 * (CO-RE).
 */
#ifndef WEIR_KERNEL_H
#define WEIR_KERNEL_H

#include <linux/types.h>

#define IPV4 2
#define IPV6 10
#define ESTABLISHED 1
#define SYN_SENT 2
#define CLOSE 7
#define LISTEN 10

#define KERNEL __attribute__((preserve_access_index))

struct ns_common {
	unsigned int inum;
} KERNEL;

struct net {
	struct ns_common ns;
} KERNEL;

typedef struct {
	struct net *net;
} possible_net_t;

typedef struct {
	int counter;
} KERNEL atomic_t;

typedef struct {
	__s64 counter;
} KERNEL atomic64_t;

typedef struct refcount_struct {
	atomic_t refs;
} KERNEL refcount_t;

struct in6_addr {
	__u8 bytes[16];
};

struct sock_common {
	__u32 skc_daddr;
	__u32 skc_rcv_saddr;
	__u16 skc_dport;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
} KERNEL;

struct inode {
	unsigned long i_ino;
} KERNEL;

struct file {
	struct inode *f_inode;
} KERNEL;

struct socket {
	struct file *file;
} KERNEL;

struct sock {
	struct sock_common __sk_common;
	struct socket *sk_socket;
	struct {
		atomic_t rmem_alloc;
		int len;
	} sk_backlog;
	int sk_rcvbuf;
	refcount_t sk_wmem_alloc;
	int sk_sndbuf;
	int sk_forward_alloc;
	int sk_wmem_queued;
	atomic_t sk_omem_alloc;
	atomic_t sk_drops;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
} KERNEL;

struct inet_sock {
	__u16 inet_sport;
} KERNEL;

struct tcp_congestion_ops {
	char name[16];
} KERNEL;

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	__u32 icsk_rto;
	__u32 icsk_pmtu_cookie;
	__u8 icsk_ca_state : 5;
	__u8 icsk_retransmits;
	__u8 icsk_backoff;
	__u8 icsk_probes_out;
	struct {
		__u32 lrcvtime;
		__u16 rcv_mss;
	} icsk_ack;
} KERNEL;

struct minmax_sample {
	__u32 t;
	__u32 v;
} KERNEL;

struct minmax {
	struct minmax_sample s[3];
} KERNEL;

struct tcp_options_received {
	__u16 tstamp_ok : 1;
	__u16 wscale_ok : 1;
	__u16 sack_ok : 3;
	__u16 snd_wscale : 4;
	__u16 rcv_wscale : 4;
} KERNEL;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	struct tcp_options_received rx_opt;
	struct minmax rtt_min;
	struct {
		__u32 rtt_us;
	} rcv_rtt_est;
	struct {
		__u32 space;
	} rcvq_space;
	__u64 bytes_acked;
	__u64 bytes_received;
	__u64 bytes_sent;
	__u64 bytes_retrans;
	__u32 srtt_us;
	__u32 mdev_us;
	__u32 mss_cache;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 total_retrans;
	__u32 snd_ssthresh;
	__u32 snd_cwnd;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 write_seq;
	__u32 rcv_nxt;
	__u32 copied_seq;
	__u32 snd_wnd;
	__u32 rcv_wnd;
	__u32 rcv_ssthresh;
	__u32 segs_out;
	__u32 segs_in;
	__u32 data_segs_out;
	__u32 data_segs_in;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 lsndtime;
	__u32 rcv_tstamp;
	__u32 reordering;
	__u32 reord_seen;
	__u32 dsack_dups;
	__u32 rcv_ooopack;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	__u32 chrono_start;
	__u32 chrono_stat[3];
	__u8 chrono_type;
	__u16 advmss;
	__u8 rate_app_limited;
	__u8 fastopen_client_fail;
	__u8 syn_data_acked;
	__u8 ecn_flags;
	__u8 tcp_usec_ts;         /* Linux 6.7 */
	__u8 syn_fastopen_child;  /* 6.16 */
	__u32 plb_rehash;         /* 6.2 */
	__u16 timeout_rehash;
	__u16 total_rto;          /* 6.7, with the three that follow */
	__u16 total_rto_recoveries;
	__u32 total_rto_time;
	__u32 rto_stamp;
	__u32 received_ce;        /* 6.18, with the two that follow */
	__u32 delivered_ecn_bytes[3];
	__u32 received_ecn_bytes[3];
} KERNEL;

struct tcp_info {
	__u8 tcpi_state;
} KERNEL;

struct sk_buff {
	char cb[48];
} KERNEL;

struct tcp_skb_cb {
	__u32 seq;
	__u32 end_seq;
	__u32 ack_seq;
} KERNEL;

#endif
