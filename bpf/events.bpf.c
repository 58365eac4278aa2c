// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * What happens to TCP connections, from the kernel's own tracepoints: changes of state, segments that come, and
 * segments that are sent again. Each event carries what the kernel knows of the connection then, laid out as in
 * struct tcp_info. Only connections of one network namespace whose ends fit are told.
 *
 * The tracepoints run with the socket locked, so that numbers of one event belong together.
 */
#include <stddef.h>

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "ends.h"
#include "events.h"
#include "kernel.h"
#include "map.h"

char LICENSE[] SEC("license") = "GPL";

/* Set before loading. The two ends of a connection, in either order; port 0 and no address match any. */
const volatile __u32 events_netns = 0; /* its inode */
const volatile __u32 events_port[2] = {};
const volatile __u32 events_has_address[2] = {};
const volatile __u32 events_address[8] = {}; /* four words for each end */

SHARED_ARRAY(events_lost, __u64, 1); /* events that found no room in the ring */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 25);
} events_ring SEC(".maps");

/* Whether this end of the connection is the wanted one. */
static __always_inline int fits(const struct weir_event_ends *ends, int wanted, int end)
{
	if (events_port[wanted] && events_port[wanted] != ends->port[end])
		return 0;
	if (!events_has_address[wanted])
		return 1;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		if (events_address[4 * wanted + i] != ends->address[end][i])
			return 0;
	}
	return 1;
}

/* As tcp_get_info() does. */
static __always_inline void read_info(struct sock *sk, struct tcp_sock *tp, struct weir_event_info *info)
{
	__s32 waits = tp->write_seq - tp->snd_nxt;

	info->state = sk->__sk_common.skc_state;
	info->ca_state = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
	info->snd_mss = tp->mss_cache;
	info->unacked = tp->packets_out;
	info->sacked = tp->sacked_out;
	info->lost = tp->lost_out;
	info->retrans = tp->retrans_out;
	info->rtt = tp->srtt_us >> 3;
	info->rttvar = tp->mdev_us >> 2;
	info->snd_ssthresh = tp->snd_ssthresh;
	info->snd_cwnd = tp->snd_cwnd;
	info->total_retrans = tp->total_retrans;
	info->bytes_acked = tp->bytes_acked;
	info->bytes_received = tp->bytes_received;
	info->segs_out = tp->segs_out;
	info->segs_in = tp->segs_in;
	info->notsent_bytes = waits < 0 ? 0 : waits;
	info->min_rtt = tp->rtt_min.s[0].v;
	info->data_segs_in = tp->data_segs_in;
	info->data_segs_out = tp->data_segs_out;
	info->delivered = tp->delivered;
	info->bytes_sent = tp->bytes_sent;
	info->bytes_retrans = tp->bytes_retrans;
	info->snd_wnd = tp->snd_wnd;
	info->rcv_wnd = tp->rcv_wnd;
}

static __always_inline void count_lost(void)
{
	__u32 zero = 0;
	__u64 *lost = bpf_map_lookup_elem(&events_lost, &zero);

	if (lost)
		__sync_fetch_and_add(lost, 1);
}

/* An event to fill in and submit, or NULL. */
static __always_inline struct weir_event *begin(struct sock *sk, __u8 kind)
{
	struct weir_event_ends ends = {};
	struct tcp_sock *tp;

	if (sk->__sk_common.skc_net.net->ns.inum != events_netns)
		return NULL;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || !read_ends(sk, tp, &ends))
		return NULL;
	if (!(fits(&ends, 0, 0) && fits(&ends, 1, 1)) && !(fits(&ends, 0, 1) && fits(&ends, 1, 0)))
		return NULL;

	struct weir_event *event = bpf_ringbuf_reserve(&events_ring, sizeof(*event), 0);

	if (!event) {
		count_lost();
		return NULL;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->at_ns = bpf_ktime_get_ns();
	event->cookie = bpf_get_socket_cookie(sk);
	event->inode = sk->sk_socket->file->f_inode->i_ino;
	event->ends = ends;
	event->kind = kind;
	read_info(sk, tp, &event->info);
	if (kind == WEIR_EVENT_STATE)
		bpf_core_read(event->congestion, 16, &tp->inet_conn.icsk_ca_ops->name);
	return event;
}

/* User space looks at the ring every few milliseconds: being woken for each event would cost more. */
static __always_inline int submit(struct weir_event *event)
{
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

/* (socket, state before, state after), before the socket has the new one. */
SEC("tp_btf/inet_sock_set_state")
int weir_state(__u64 *args)
{
	struct sock *sk = (void *)args[0];
	int before = args[1], after = args[2];

	/* Listeners. Also the first state of what a listener accepts: its ends and its cookie are not its own yet. */
	if (before == LISTEN || after == LISTEN)
		return 0;

	struct weir_event *event = begin(sk, WEIR_EVENT_STATE);

	if (!event)
		return 0;
	event->old_state = before;
	event->info.state = after;
	return submit(event);
}

/* (socket, segment): it arrived for an established connection. */
SEC("tp_btf/tcp_probe")
int weir_received(__u64 *args)
{
	struct sock *sk = (void *)args[0];
	struct sk_buff *skb = (void *)args[1];
	struct weir_event *event = begin(sk, WEIR_EVENT_RECEIVED);

	if (!event)
		return 0;

	struct tcp_skb_cb *cb = (void *)&skb->cb;

	bpf_core_read(&event->seq, 4, &cb->seq);
	bpf_core_read(&event->end_seq, 4, &cb->end_seq);
	bpf_core_read(&event->ack_seq, 4, &cb->ack_seq);
	return submit(event);
}

static __always_inline int retransmitted(struct sock *sk, struct sk_buff *skb)
{
	struct weir_event *event = begin(sk, WEIR_EVENT_RETRANSMITTED);

	if (!event)
		return 0;

	struct tcp_skb_cb *cb = (void *)&skb->cb;

	bpf_core_read(&event->seq, 4, &cb->seq);
	bpf_core_read(&event->end_seq, 4, &cb->end_seq);
	return submit(event);
}

/* (socket, segment, error): since Linux 6.15 also if the lower layers refused it. */
SEC("tp_btf/tcp_retransmit_skb")
int weir_again(__u64 *args)
{
	if ((int)args[2])
		return 0;
	return retransmitted((void *)args[0], (void *)args[1]);
}

/* (socket, segment), before. */
SEC("tp_btf/tcp_retransmit_skb")
int weir_again_old(__u64 *args)
{
	return retransmitted((void *)args[0], (void *)args[1]);
}
