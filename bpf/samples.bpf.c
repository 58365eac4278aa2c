// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * TCP connections sampled at their own events: a segment comes, the program reads, a segment is sent again, the state
 * changes. In between, the kernel's numbers of a connection do not change, except for what the program writes. So
 * no timer is needed: the first event at or after the time at which a sample is due shows what tcp_get_info()
 * and its like would have shown just before. Any other event costs a look at the clock; one of a connection that
 * is not sampled, less.
 *
 * The kernel has the socket locked wherever these programs run: they wait for no lock, and the numbers of one sample
 * belong together.
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "kernel.h"
#include "map.h"
#include "samples.h"

char LICENSE[] SEC("license") = "GPL";

/* Set before loading. */
const volatile __u64 samples_period_ns = 1;
const volatile __u32 samples_netns = 0; /* its inode */

/* Connections that have begun in that network namespace. */
SHARED_ARRAY(samples_begun, __u64, 1);

#define NEVER (~0ULL)

/* By cookie, which a connection gets when it is first listed, and which is never reused. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WEIR_SAMPLED);
	__type(key, __u64);
	__type(value, struct weir_sampled);
} samples_watched SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 23);
} samples_ring SEC(".maps");

/* tcpi_options */
#define TIMESTAMPS 1
#define SACK 2
#define WSCALE 4
#define ECN 8
#define ECN_SEEN 16
#define SYN_DATA 32
#define USEC_TS 64
#define TFO_CHILD 128
/* ecn_flags: TCP_ECN_OK or TCP_ECN_MODE_RFC3168, TCP_ECN_MODE_ACCECN; TCP_ECN_SEEN */
#define ECN_ANY_MODE 0x11
#define ECN_WAS_SEEN 0x08
#define BITS(p, field) BPF_CORE_READ_BITFIELD(p, field)

static __always_inline __u8 options_of(struct tcp_sock *tp)
{
	__u8 options = 0;
	__u8 ecn = BITS(tp, ecn_flags);

	if (BITS(tp, rx_opt.tstamp_ok))
		options |= TIMESTAMPS;
	if (BITS(tp, rx_opt.sack_ok))
		options |= SACK;
	if (BITS(tp, rx_opt.wscale_ok))
		options |= WSCALE;
	if (ecn & ECN_ANY_MODE)
		options |= ECN;
	if (ecn & ECN_WAS_SEEN)
		options |= ECN_SEEN;
	if (BITS(tp, syn_data_acked))
		options |= SYN_DATA;
	if (bpf_core_field_exists(tp->tcp_usec_ts) && BITS(tp, tcp_usec_ts))
		options |= USEC_TS;
	if (bpf_core_field_exists(tp->syn_fastopen_child) && BITS(tp, syn_fastopen_child))
		options |= TFO_CHILD;
	return options;
}

/* As tcp_get_info() does: what needs this kernel's HZ is left to user space. */
static __always_inline void fill_info(struct sock *sk, struct tcp_sock *tp, struct weir_sample *sample)
{
	struct inet_connection_sock *icsk = &tp->inet_conn;
	struct weir_sample_info *info = &sample->info;
	__u32 now = bpf_jiffies64();
	__s32 waits = tp->write_seq - tp->snd_nxt;
	__u32 running = BITS(tp, chrono_type);

	info->state = sk->__sk_common.skc_state;
	info->ca_state = BITS(icsk, icsk_ca_state);
	info->retransmits = BITS(icsk, icsk_retransmits);
	info->probes = BITS(icsk, icsk_probes_out);
	info->backoff = BITS(icsk, icsk_backoff);
	info->options = options_of(tp);
	if (info->options & WSCALE)
		info->wscale = BITS(tp, rx_opt.snd_wscale) | BITS(tp, rx_opt.rcv_wscale) << 4;
	info->flags = BITS(tp, rate_app_limited) | BITS(tp, fastopen_client_fail) << 1;
	info->rto = BITS(icsk, icsk_rto);
	info->snd_mss = tp->mss_cache;
	info->rcv_mss = BITS(icsk, icsk_ack.rcv_mss);
	info->unacked = tp->packets_out;
	info->sacked = tp->sacked_out;
	info->lost = tp->lost_out;
	info->retrans = tp->retrans_out;
	info->last_data_sent = now - tp->lsndtime;
	info->last_data_recv = now - icsk->icsk_ack.lrcvtime;
	info->last_ack_recv = now - tp->rcv_tstamp;
	info->pmtu = icsk->icsk_pmtu_cookie;
	info->rcv_ssthresh = tp->rcv_ssthresh;
	info->rtt = tp->srtt_us >> 3;
	info->rttvar = tp->mdev_us >> 2;
	info->snd_ssthresh = tp->snd_ssthresh;
	info->snd_cwnd = tp->snd_cwnd;
	info->advmss = BITS(tp, advmss);
	info->reordering = tp->reordering;
	info->rcv_rtt = tp->rcv_rtt_est.rtt_us >> 3;
	info->rcv_space = tp->rcvq_space.space;
	info->total_retrans = tp->total_retrans;
	info->pacing_rate = sk->sk_pacing_rate;
	info->max_pacing_rate = sk->sk_max_pacing_rate;
	info->bytes_acked = tp->bytes_acked;
	info->bytes_received = tp->bytes_received;
	info->segs_out = tp->segs_out;
	info->segs_in = tp->segs_in;
	info->notsent_bytes = waits < 0 ? 0 : waits;
	info->min_rtt = tp->rtt_min.s[0].v;
	info->data_segs_in = tp->data_segs_in;
	info->data_segs_out = tp->data_segs_out;
	info->chrono[0] = tp->chrono_stat[0] + (running == 1 ? now - tp->chrono_start : 0);
	info->chrono[1] = tp->chrono_stat[1] + (running == 2 ? now - tp->chrono_start : 0);
	info->chrono[2] = tp->chrono_stat[2] + (running == 3 ? now - tp->chrono_start : 0);
	info->delivered = tp->delivered;
	info->delivered_ce = tp->delivered_ce;
	info->bytes_sent = tp->bytes_sent;
	info->bytes_retrans = tp->bytes_retrans;
	info->dsack_dups = tp->dsack_dups;
	info->reord_seen = tp->reord_seen;
	info->rcv_ooopack = tp->rcv_ooopack;
	info->snd_wnd = tp->snd_wnd;
	info->rcv_wnd = tp->rcv_wnd;
	if (bpf_core_field_exists(tp->plb_rehash))
		info->rehash = tp->plb_rehash + BITS(tp, timeout_rehash);
	if (bpf_core_field_exists(tp->total_rto_time)) {
		info->total_rto = BITS(tp, total_rto);
		info->total_rto_recoveries = BITS(tp, total_rto_recoveries);
		info->total_rto_time = tp->total_rto_time;
		if (tp->rto_stamp) {
			/* It may have been set after the time was taken. */
			__s32 lasts_ms = (__u32)(sample->at_ns / 1000000) - tp->rto_stamp;

			if (lasts_ms > 0)
				info->total_rto_time += lasts_ms;
		}
	}
	if (bpf_core_field_exists(tp->received_ecn_bytes)) {
		info->received_ce = tp->received_ce;
		info->delivered_ecn_bytes[0] = tp->delivered_ecn_bytes[0];
		info->delivered_ecn_bytes[1] = tp->delivered_ecn_bytes[1];
		info->delivered_ecn_bytes[2] = tp->delivered_ecn_bytes[2];
		info->received_ecn_bytes[0] = tp->received_ecn_bytes[0];
		info->received_ecn_bytes[1] = tp->received_ecn_bytes[1];
		info->received_ecn_bytes[2] = tp->received_ecn_bytes[2];
	}
	sample->rate_delivered = tp->rate_delivered;
	sample->rate_interval_us = tp->rate_interval_us;
	sample->info_bytes = bpf_core_type_size(struct tcp_info);
}

/* As sk_get_meminfo() and tcp_diag_get_info() do. */
static __always_inline void fill_queues(struct sock *sk, struct tcp_sock *tp, struct weir_sample *sample)
{
	__s32 unread = tp->rcv_nxt - tp->copied_seq;

	sample->memory[0] = sk->sk_backlog.rmem_alloc.counter;
	sample->memory[1] = sk->sk_rcvbuf;
	sample->memory[2] = sk->sk_wmem_alloc.refs.counter - 1;
	sample->memory[3] = sk->sk_sndbuf;
	sample->memory[4] = sk->sk_forward_alloc;
	sample->memory[5] = sk->sk_wmem_queued;
	sample->memory[6] = sk->sk_omem_alloc.counter;
	sample->memory[7] = sk->sk_backlog.len;
	sample->memory[8] = sk->sk_drops.counter;
	sample->rqueue = unread < 0 ? 0 : unread;
	sample->wqueue = tp->write_seq - tp->snd_una;
}

/* Not inlined, so that an event at which nothing is due costs as little as possible. */
static __noinline int take(struct sock *sk, struct weir_sampled *sampled, __u64 now_ns, __u32 kind)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	__u64 due_ns = sampled->due_ns, period_ns = samples_period_ns;
	struct weir_sample *sample;

	if (!tp || due_ns == NEVER)
		return 0;
	if (now_ns >= due_ns) {
		/* Only the latest: nothing happened at the earlier ones. */
		due_ns += (now_ns - due_ns) / period_ns * period_ns;
		sampled->due_ns = due_ns + period_ns;
	} else {
		due_ns = 0;
	}
	/* The socket may connect once more, as another connection. */
	if (kind == WEIR_SAMPLE_LAST)
		sampled->due_ns = NEVER;
	sample = bpf_ringbuf_reserve(&samples_ring, sizeof(*sample), 0);
	if (!sample) {
		if (due_ns)
			sampled->missed++;
		return 0;
	}
	__builtin_memset(sample, 0, sizeof(*sample));
	sample->due_ns = due_ns;
	sample->at_ns = now_ns;
	sample->missed = sampled->missed;
	sample->number = sampled->number;
	sample->kind = kind;
	fill_info(sk, tp, sample);
	fill_queues(sk, tp, sample);
	/* User space looks at the ring every few milliseconds: waking it would cost more than the sample. */
	bpf_ringbuf_submit(sample, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline int happens(struct sock *sk, __u32 kind)
{
	__u64 cookie = sk->__sk_common.skc_cookie.counter, now_ns;
	struct weir_sampled *sampled;

	if (!cookie)
		return 0;
	sampled = bpf_map_lookup_elem(&samples_watched, &cookie);
	if (!sampled)
		return 0;
	now_ns = bpf_ktime_get_ns();
	if (now_ns < sampled->due_ns && kind == WEIR_SAMPLE_DUE)
		return 0;
	return take(sk, sampled, now_ns, kind);
}

/* (socket, segment): it arrived for an established connection. */
SEC("tp_btf/tcp_probe")
int weir_comes(__u64 *args)
{
	return happens((void *)args[0], WEIR_SAMPLE_DUE);
}

/* (socket): the program has read. */
SEC("tp_btf/tcp_rcv_space_adjust")
int weir_reads(__u64 *args)
{
	return happens((void *)args[0], WEIR_SAMPLE_DUE);
}

/* (socket, segment): it was sent again. */
SEC("tp_btf/tcp_retransmit_skb")
int weir_repeats(__u64 *args)
{
	return happens((void *)args[0], WEIR_SAMPLE_DUE);
}

/* A search for connections finds them from one of these two states on. */
static __always_inline void count_begun(struct sock *sk, int state)
{
	__u32 zero = 0;
	__u64 *begun;

	if (state != SYN_SENT && state != ESTABLISHED)
		return;
	if (sk->__sk_common.skc_net.net->ns.inum != samples_netns)
		return;
	begun = bpf_map_lookup_elem(&samples_begun, &zero);
	if (begun)
		__sync_fetch_and_add(begun, 1);
}

/* (socket, state before, state after), before the socket has the new one. */
SEC("tp_btf/inet_sock_set_state")
int weir_changes(__u64 *args)
{
	struct sock *sk = (void *)args[0];
	int after = args[2];

	count_begun(sk, after);
	return happens(sk, after == CLOSE ? WEIR_SAMPLE_LAST : WEIR_SAMPLE_DUE);
}
