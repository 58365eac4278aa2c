// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * TCP connections sampled without their locks. A timer of one CPU runs weir_tick, which copies each connection's
 * struct tcp_sock in one go, and tells what tcp_get_info() and its like would tell.
 *
 * Nothing keeps a connection from ending meanwhile: its memory may belong to another one, or to nobody. It is read
 * by bpf_probe_read_kernel, which survives any address, and nothing of it is told unless it has the connection's
 * cookie before and after, its two ends, and is not closed. A cookie is given once and cleared before a socket's
 * memory is used again.
 *
 * Each number is read by one instruction, so that none is torn. Numbers of one sample may be from before and after
 * the segment that the kernel works on in this moment.
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "ends.h"
#include "kernel.h"
#include "map.h"
#include "samples.h"

char LICENSE[] SEC("license") = "GPL";

/* Set before loading: how long a round may take, in an interrupt. */
const volatile __u64 samples_budget_ns = 0;

/* Connections [first, end) may be there. */
struct range {
	__u32 first;
	__u32 end;
};

SHARED_ARRAY(samples_range, struct range, 1);

struct watched {
	__u64 sk; /* its address; 0: there is none, or none any more */
	__u64 cookie;
	struct weir_event_ends ends;
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_SAMPLED);
	__type(key, __u32);
	__type(value, struct watched);
} samples_watched SEC(".maps");

/* Too large for the stack. weir_tick interrupts weir_enter, so that each has its own. */
struct copy {
	__u64 words[WEIR_COPY_BYTES / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct copy);
} samples_copies SEC(".maps");

/* Where the next round begins, if one had no time for all. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} samples_next SEC(".maps");

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

/* As tcp_get_info() does, the way there: what needs this kernel's HZ is left to user space. */
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

static __always_inline int is_same(const struct weir_event_ends *one, const struct weir_event_ends *other)
{
	const __u32 *a = (const void *)one, *b = (const void *)other;

#pragma unroll
	for (int i = 0; i < sizeof(*one) / sizeof(*a); i++) {
		if (a[i] != b[i])
			return 0;
	}
	return 1;
}

/* Copies the connection; false where it is not that one, or closed. */
static __always_inline int take(const struct watched *watched, __u64 at, struct copy *copy)
{
	struct sock *live = (void *)at, *sk = (void *)copy;
	struct weir_event_ends ends = {};
	__u64 cookie = 0;

	if (bpf_probe_read_kernel(copy, bpf_core_type_size(struct tcp_sock), live))
		return 0;
	if (sk->__sk_common.skc_cookie.counter != watched->cookie || sk->__sk_common.skc_state == CLOSE)
		return 0;
	if (!read_ends(sk, (void *)copy, &ends) || !is_same(&ends, &watched->ends))
		return 0;
	bpf_core_read(&cookie, sizeof(cookie), &live->__sk_common.skc_cookie.counter);
	return cookie == watched->cookie;
}

/* Samples one connection. Global, so that the verifier looks at it once and not for each. */
__attribute__((noinline)) int weir_sample_one(__u32 number, __u64 tick_ns, __u64 at_ns, __u32 kind)
{
	__u32 which = kind == WEIR_SAMPLE_FIRST;
	struct watched *watched = bpf_map_lookup_elem(&samples_watched, &number);
	struct copy *copy = bpf_map_lookup_elem(&samples_copies, &which);
	struct weir_sample *sample;
	__u64 at;

	if (!watched || !copy)
		return 0;
	at = watched->sk;
	if (!at)
		return 0;
	/* Without room it is missed. If it has ended, that is told in the next round. */
	sample = bpf_ringbuf_reserve(&samples_ring, sizeof(*sample), 0);
	if (!sample)
		return 0;
	__builtin_memset(sample, 0, sizeof(*sample));
	sample->tick_ns = tick_ns;
	sample->at_ns = at_ns;
	sample->number = number;
	sample->kind = kind;
	if (take(watched, at, copy)) {
		fill_info((void *)copy, (void *)copy, sample);
		fill_queues((void *)copy, (void *)copy, sample);
	} else {
		sample->kind = WEIR_SAMPLE_ENDED;
		watched->sk = 0;
	}
	/* User space looks at the ring every few milliseconds. */
	bpf_ringbuf_submit(sample, BPF_RB_NO_WAKEUP);
	return 1;
}

SEC("perf_event")
int weir_tick(void *ctx)
{
	__u64 tick_ns = bpf_ktime_get_ns(), now_ns = tick_ns;
	__u32 zero = 0;
	struct range *range = bpf_map_lookup_elem(&samples_range, &zero);
	__u32 *next = bpf_map_lookup_elem(&samples_next, &zero);

	if (!range || !next)
		return 0;

	__u32 first = range->first, end = range->end, number = *next;

	if (number < first || number >= end)
		number = first;
	*next = first;
	for (__u32 i = 0; i < WEIR_SAMPLED; i++) {
		if (i >= end - first)
			break;
		/* Others wait for this CPU: the rest has its turn in the next round, and misses this one. */
		if (now_ns - tick_ns > samples_budget_ns) {
			*next = number;
			break;
		}
		if (weir_sample_one(number, tick_ns, now_ns, WEIR_SAMPLE_DUE))
			now_ns = bpf_ktime_get_ns();
		number = number + 1 < end ? number + 1 : first;
	}
	return 0;
}

static __always_inline int enter(struct bpf_sock *found, const struct weir_wanted *wanted, struct watched *watched)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(found);
	struct sock *sk = (void *)tp;

	if (!tp) {
		struct sock *request = (void *)bpf_skc_to_tcp_request_sock(found);

		if (request && request->__sk_common.skc_cookie.counter == wanted->cookie)
			return WEIR_ENTER_SOON;
		return WEIR_ENTER_GONE;
	}
	if (sk->__sk_common.skc_cookie.counter != wanted->cookie || !read_ends(sk, tp, &watched->ends))
		return WEIR_ENTER_GONE;
	watched->cookie = wanted->cookie;
	/* The last: from then on weir_tick may read it. */
	__sync_lock_test_and_set(&watched->sk, (__u64)tp);
	return WEIR_ENTER_DONE;
}

/* Finds the connection and samples it for the first time. Run by user space, in its network namespace. */
SEC("classifier")
int weir_enter(struct __sk_buff *skb)
{
	struct weir_wanted wanted;
	struct bpf_sock *found;
	struct watched *watched;
	int answer;

	if (bpf_skb_load_bytes(skb, 0, &wanted, sizeof(wanted)))
		return WEIR_ENTER_GONE;
	watched = bpf_map_lookup_elem(&samples_watched, &wanted.number);
	if (!watched)
		return WEIR_ENTER_GONE;
	if (wanted.tuple_bytes == 12)
		found = bpf_skc_lookup_tcp(skb, (void *)wanted.tuple, 12, BPF_F_CURRENT_NETNS, 0);
	else
		found = bpf_skc_lookup_tcp(skb, (void *)wanted.tuple, 36, BPF_F_CURRENT_NETNS, 0);
	if (!found)
		return WEIR_ENTER_GONE;
	answer = enter(found, &wanted, watched);
	bpf_sk_release(found);
	if (answer == WEIR_ENTER_DONE) {
		weir_sample_one(wanted.number, 0, bpf_ktime_get_ns(), WEIR_SAMPLE_FIRST);
	}
	return answer;
}
