// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * The receiver. Counts every probe where it arrives and drops it; everything else goes on to the
 * kernel. If calls are sent in both directions, each end has a receiver. State per flow is
 * written by one CPU at a time (a flow's packets meet in one receive queue); what belongs to the whole
 * trial has a block per CPU, and all CPUs share one log.
 *
 * crates/engine/src/account.rs does the same in Rust for the other back ends; a test feeds
 * both the same packets.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "map.h"
#include "sum.h"
#include "weir.h"

char LICENSE[] SEC("license") = "GPL";

SHARED_ARRAY(rx_config, struct weir_rx_config, 1);
SHARED_ARRAY(rx_flows, struct weir_rx_flow, 1);
SHARED_ARRAY(rx_totals, struct weir_rx_totals, 1); /* one per CPU */
SHARED_ARRAY(rx_histogram, __u64, WEIR_HIST_BUCKETS); /* a block per window; all CPUs share it */
SHARED_ARRAY(rx_bins, struct weir_rx_bin, 1); /* a block per CPU */
SHARED_ARRAY(rx_log, struct weir_arrival, 1);
SHARED_ARRAY(rx_logged, __u64, 1); /* arrivals so far; those beyond the end of rx_log were missed */

#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define TCP_SYN 0x02
#define TCP_ACK 0x10

struct probe {
	__u16 magic;
	__u32 flow;
	__u32 seq;
	__u64 time_ns;
} __attribute__((packed));

static __always_inline __u32 bucket(__u64 delay_ns)
{
	__u32 octave = 0;
	__u64 rest = delay_ns >> 7;

	if (!rest)
		return delay_ns;
	if (delay_ns >> 34)
		return WEIR_HIST_BUCKETS - 1;
	if (rest >> 16) { octave += 16; rest >>= 16; }
	if (rest >> 8) { octave += 8; rest >>= 8; }
	if (rest >> 4) { octave += 4; rest >>= 4; }
	if (rest >> 2) { octave += 2; rest >>= 2; }
	octave += rest >> 1;
	return (octave + 1) * WEIR_HIST_SUB + ((delay_ns >> octave) & (WEIR_HIST_SUB - 1));
}

/* The probe inside the frame, or NULL; with `tail` at the end of the UDP payload. */
static __always_inline struct probe *find_probe(void *data, void *end, __u32 skip, __u8 tail)
{
	__u32 at = sizeof(struct ethhdr);
	struct ethhdr *eth = data;
	__u16 type;
	__u8 l4;

	if ((void *)(eth + 1) > end)
		return 0;
	type = eth->h_proto;

#pragma unroll
	for (int i = 0; i < 2; i++) {
		if (type == bpf_htons(ETH_P_8021Q) || type == bpf_htons(ETH_P_8021AD)) {
			__u16 *tag = data + at;

			if ((void *)(tag + 2) > end)
				return 0;
			type = tag[1];
			at += 4;
		}
	}

	__u8 *ip = data + at;

	if (type == bpf_htons(ETH_P_IP)) {
		if ((void *)(ip + 20) > end)
			return 0;
		l4 = ip[9];
		at += (ip[0] & 0x0f) * 4;
	} else if (type == bpf_htons(ETH_P_IPV6)) {
		if ((void *)(ip + 40) > end)
			return 0;
		l4 = ip[6];
		at += 40;
	} else {
		return 0;
	}

	if (l4 == IPPROTO_UDP && tail) {
		__u16 *length = data + (at & 0xff) + 4;

		if ((void *)(length + 1) > end || bpf_ntohs(*length) < 8 + WEIR_PROBE_LEN)
			return 0;
		at += bpf_ntohs(*length) - WEIR_PROBE_LEN;
		if (at > 0x7ff)
			return 0;

		struct probe *last = data + (at & 0x7ff);

		return (void *)(last + 1) > end ? 0 : last;
	} else if (l4 == IPPROTO_UDP) {
		at += 8;
	} else if (l4 == IPPROTO_TCP) {
		__u8 *tcp = data + (at & 0xff);

		if ((void *)(tcp + 20) > end)
			return 0;
		at += (tcp[12] >> 4) * 4;
	} else {
		return 0;
	}

	struct probe *probe = data + ((at + skip) & 0xff);

	return (void *)(probe + 1) > end ? 0 : probe;
}

enum verdict { NEW, LATE, SEEN };

/* RFC 4737: a packet is reordered if its sequence number is below the next expected one. */
static __always_inline enum verdict place(struct weir_rx_flow *flow, __u32 seq)
{
	__u32 ahead = seq - flow->next_seq;
	__u64 bit = 1ULL << (seq & 63);
	__u64 *word = &flow->window[(seq >> 6) & (WEIR_WINDOW_WORDS - 1)];

	if (ahead < 0x80000000U) {
		if (ahead >= WEIR_WINDOW_BITS) {
			for (int i = 0; i < WEIR_WINDOW_WORDS; i++)
				flow->window[i] = 0;
		} else {
			__u32 missing = flow->next_seq;

			for (int i = 0; i < WEIR_WINDOW_BITS && missing != seq; i++, missing++)
				flow->window[(missing >> 6) & (WEIR_WINDOW_WORDS - 1)] &=
					~(1ULL << (missing & 63));
		}
		*word |= bit;
		flow->next_seq = seq + 1;
		return NEW;
	}
	/* Older than the window, so it cannot be told from a duplicate; that it is reordered is certain. */
	if (-ahead > WEIR_WINDOW_BITS)
		return LATE;
	if (*word & bit)
		return SEEN;
	*word |= bit;
	return LATE;
}

static __always_inline void log_arrival(__u32 flow, __u32 seq, __u64 sent_ns, __u64 now)
{
	__u32 zero = 0;
	__u64 *logged = bpf_map_lookup_elem(&rx_logged, &zero);

	if (!logged)
		return;

	/* Rarely more than one CPU receives: the counter stays in its cache. */
	__u32 index = __sync_fetch_and_add(logged, 1);
	struct weir_arrival *arrival = bpf_map_lookup_elem(&rx_log, &index);

	if (arrival)
		*arrival = (struct weir_arrival){ flow, seq, sent_ns, now };
}

/*
 * Turns a probe into its answer, with a time stamp of its own, and sends it back. Sums do not change with
 * what is exchanged.
 */
static __always_inline int answer(struct xdp_md *ctx, struct weir_rx_config *cfg, struct weir_rx_totals *totals)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct probe *probe;
	__u16 *check, *ports, port;
	__u8 *l4, protocol, mac[ETH_ALEN];
	__u64 sum = 0;

	if ((void *)(eth + 1) > end)
		return XDP_DROP;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = (void *)(eth + 1);
		__be32 source;

		if ((void *)(ip + 1) > end || ip->ihl != 5)
			return XDP_DROP;
		source = ip->saddr;
		ip->saddr = ip->daddr;
		ip->daddr = source;
		protocol = ip->protocol;
		l4 = (void *)(ip + 1);
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = (void *)(eth + 1);
		struct in6_addr source;

		if ((void *)(ip + 1) > end)
			return XDP_DROP;
		source = ip->saddr;
		ip->saddr = ip->daddr;
		ip->daddr = source;
		protocol = ip->nexthdr;
		l4 = (void *)(ip + 1);
	} else {
		return XDP_DROP;
	}

	if (protocol == IPPROTO_UDP) {
		probe = (void *)(l4 + 8);
		check = (void *)(l4 + 6);
	} else {
		probe = (void *)(l4 + 20);
		check = (void *)(l4 + 16);
	}
	if ((void *)(probe + 1) > end || (void *)(l4 + 20) > end)
		return XDP_DROP;
	if (protocol != IPPROTO_UDP && l4[13] & TCP_SYN) {
		sum += replace32(l4 + 8, bpf_htonl(1));
		sum += replace16(l4 + 12, bpf_htons(0x5000 | TCP_SYN | TCP_ACK));
	}
	ports = (void *)l4;
	port = ports[0];
	ports[0] = ports[1];
	ports[1] = port;
	__builtin_memcpy(mac, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, mac, ETH_ALEN);

	__u64 now = bpf_ktime_get_ns(), time_ns = bpf_cpu_to_be64(now), old_ns = probe->time_ns;

	probe->time_ns = time_ns;
	sum += (time_ns & 0xffffffff) + (time_ns >> 32) + (~old_ns & 0xffffffff) + (~old_ns >> 32);
	sum = (__u16)~fold(sum + (__u16)~*check);
	*check = sum ? sum : 0xffff;

	totals->answers++;
	if (now >= cfg->record_start_ns && now < cfg->record_end_ns)
		totals->answers_recorded++;
	/* Of XDP_TX, a veth only tells a peer that has an XDP program (veth_xdp_flush of the kernel). */
	return bpf_redirect(ctx->ingress_ifindex, 0);
}

SEC("xdp")
int weir_receive(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct weir_rx_config *cfg = bpf_map_lookup_elem(&rx_config, &zero);
	__u32 cpu = bpf_get_smp_processor_id();
	struct weir_rx_totals *totals = bpf_map_lookup_elem(&rx_totals, &cpu);

	if (!cfg || !totals)
		return XDP_PASS;

	struct probe *probe = find_probe((void *)(long)ctx->data, (void *)(long)ctx->data_end,
					 cfg->skip & 0x3f, cfg->tail);

	if (!probe || bpf_ntohs(probe->magic) != cfg->magic || !cfg->armed) {
		totals->stray++;
		return XDP_PASS;
	}

	__u32 flow_index = bpf_ntohl(probe->flow);
	struct weir_rx_flow *flow = bpf_map_lookup_elem(&rx_flows, &flow_index);
	__u64 sent_ns = bpf_be64_to_cpu(probe->time_ns);
	__u64 now = bpf_ktime_get_ns();

	if (!flow || flow_index >= cfg->n_flows || sent_ns > now || flow->elsewhere) {
		totals->stray++;
		return XDP_DROP;
	}

	totals->probes++;
	totals->last_probe_ns = now;

	__u32 seq = bpf_ntohl(probe->seq);
	enum verdict verdict = place(flow, seq);
	int action = XDP_DROP;

	if (seq < cfg->answers || flow_index == cfg->new_flow)
		action = answer(ctx, cfg, totals);

	if (sent_ns < cfg->record_start_ns || sent_ns >= cfg->record_end_ns)
		return action;
	if (cfg->log)
		log_arrival(flow_index, seq, sent_ns, now);
	if (verdict == SEEN) {
		flow->duplicated++;
		return action;
	}
	if (verdict == LATE)
		flow->reordered++;

	__u16 queue = ctx->rx_queue_index + 1;

	if (flow->queue && flow->queue != queue)
		totals->moved++;
	flow->queue = queue;

	__u64 delay = now - sent_ns;
	__u64 ipdv = 0;
	int pair = flow->received != 0;

	if (pair) {
		__s64 d = (__s64)delay - flow->last_transit_ns;
		__u64 gap = now - flow->last_arrival_ns;

		if (d < 0)
			d = -d;
		ipdv = d;
		flow->ipdv_sum_ns += d;
		flow->ipdv_count++;
		flow->jitter_q4 += d - ((flow->jitter_q4 + 8) >> 4);
		if (gap > flow->longest_gap_ns)
			flow->longest_gap_ns = gap;
		if (delay < flow->delay_min_ns)
			flow->delay_min_ns = delay;
	} else {
		flow->delay_min_ns = delay;
	}
	flow->received++;
	flow->delay_sum_ns += delay;
	if (delay > flow->delay_max_ns)
		flow->delay_max_ns = delay;
	flow->last_transit_ns = delay;
	flow->last_arrival_ns = now;

	if (!totals->first_arrival_ns) {
		totals->first_arrival_ns = now;
	} else {
		__u64 gap = now - totals->last_arrival_ns;

		if (gap > totals->longest_gap_ns)
			totals->longest_gap_ns = gap;
	}
	totals->last_arrival_ns = now;

	__u32 bin = (sent_ns - cfg->record_start_ns) / (cfg->bin_ns ? cfg->bin_ns : 1);
	__u32 index = (cfg->windowed ? bin * WEIR_HIST_BUCKETS : 0) + bucket(delay);
	__u64 *count = bpf_map_lookup_elem(&rx_histogram, &index);

	if (count)
		__sync_fetch_and_add(count, 1);
	if (bin < cfg->n_bins) {
		index = cpu * cfg->n_bins + bin;

		struct weir_rx_bin *slot = bpf_map_lookup_elem(&rx_bins, &index);

		if (slot) {
			if (!slot->received || delay < slot->delay_min_ns)
				slot->delay_min_ns = delay;
			if (delay > slot->delay_max_ns)
				slot->delay_max_ns = delay;
			slot->received++;
			slot->delay_sum_ns += delay;
			slot->ipdv_sum_ns += ipdv;
			slot->ipdv_count += pair;
		}
	}
	return action;
}
