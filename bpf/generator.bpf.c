// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * The generator. User space runs this program with BPF_PROG_TEST_RUN on live frames
 * (Linux 5.18); each run turns one page of the kernel's pool into the next packet of the
 * schedule and redirects it to the sending interface.
 *
 * Pages are recycled without being written again, and devices on the packet's way may have
 * changed them (TTL, MACs, NAT): every header byte is rewritten each time. Bytes after
 * the probe stay zero.
 *
 * Packets of calls (cfg->media) carry an application header and a body in front of the probe,
 * which is their last 18 bytes; body and probe are at a different place in each, so both are
 * rewritten as well. They leave by one of two devices, possibly in different network namespaces.
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "map.h"
#include "weir.h"
#include "write.h"
#ifdef WEIR_BLIND
static __always_inline void look(__u32 watched, __u32 slot)
{
}
static __always_inline int glance(__u32 watched)
{
	return -1;
}
#else
#include "look.h"
#endif

char LICENSE[] SEC("license") = "GPL";

SHARED_ARRAY(gen_config, struct weir_gen_config, 1);
SHARED_ARRAY(gen_state, struct weir_gen_state, 1);
SHARED_ARRAY(gen_phases, struct weir_phase, WEIR_MAX_PHASES);
SHARED_ARRAY(gen_entries, struct weir_entry, 1);
SHARED_ARRAY(gen_flows, struct weir_gen_flow, 1);
SHARED_ARRAY(gen_bins, struct weir_gen_bin, 1);
SHARED_ARRAY(gen_media, struct weir_media, 1); /* parallel to gen_entries */

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct bpf_devmap_val);
} gen_ports SEC(".maps");

#define ETH_LEN 14
#define IPV4_LEN 20
#define IPV6_LEN 40
#define IPPROTO_UDP 17
#define UDP_LEN 8
#define TCP_LEN 20
/* Data offset and flags. */
#define TCP_SYN 0x5002
#define TCP_ACK_PSH 0x5018

struct wait {
	__u64 due_ns;
	__u64 now_ns;
};

static long until_due(__u32 index, void *data)
{
	struct wait *wait = data;

	wait->now_ns = bpf_ktime_get_ns();
	return wait->now_ns >= wait->due_ns;
}

struct probe {
	__u16 magic;
	__u32 flow;
	__u32 seq;
	__u64 time_ns;
} __attribute__((packed));

_Static_assert(sizeof(struct probe) == WEIR_PROBE_LEN, "probe");

SEC("xdp")
int weir_generate(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct weir_gen_config *cfg = bpf_map_lookup_elem(&gen_config, &zero);
	struct weir_gen_state *st = bpf_map_lookup_elem(&gen_state, &zero);

	if (!cfg || !st || st->done)
		return XDP_DROP;

	__u32 phase_index = st->phase;
	struct weir_phase *phase = bpf_map_lookup_elem(&gen_phases, &phase_index);

	if (!phase || phase_index >= cfg->n_phases) {
		st->done = 1;
		return XDP_DROP;
	}

	__u64 now = bpf_ktime_get_ns();
	__u64 due = cfg->paced ? st->next_ns : now;

	if (due >= phase->end_ns) {
		/* The next run starts the next phase, exactly where this one ends. */
		st->next_ns = phase->end_ns;
		st->next_frac = 0;
		st->entry = 0;
		st->phase = phase_index + 1;
		if (st->phase >= cfg->n_phases) {
			st->done = 1;
			if (cfg->watched)
				look(cfg->watched, cfg->n_bins + 1);
		}
		return XDP_DROP;
	}

	if (cfg->watched && due >= st->next_look_ns) {
		__u32 slot = 0;

		if (due >= cfg->record_start_ns)
			slot = 1 + (due - cfg->record_start_ns) / cfg->bin_ns;
		st->next_look_ns = cfg->record_start_ns + (__u64)slot * cfg->bin_ns;
		look(cfg->watched, slot);
	}

	__u64 late = 0;
	int other = -1;

	if (cfg->watched && due >= st->next_glance_ns) {
		st->next_glance_ns = due + WEIR_GLANCE_NS;
		other = glance(cfg->watched);
	}
	if (now < due) {
		struct wait wait = { .due_ns = due, .now_ns = now };

		bpf_loop(1 << 17, until_due, &wait, 0);
		now = wait.now_ns;
		if (now < due) {
			/* A long gap: give the CPU back, continue in the next run, which glances again. */
			st->next_glance_ns = 0;
			return XDP_DROP;
		}
	}
	late = now - due;
	if (late > cfg->catch_up_ns) {
		/* A burst that makes up for a stall at once would be a load that was not requested. */
		st->slipped_ns += late;
		if (st->slipped_ns > cfg->slip_most_ns)
			st->slipped_ns = cfg->slip_most_ns;
		due = now;
		if (due >= phase->end_ns) {
			st->next_ns = due;
			return XDP_DROP;
		}
	}

	__u32 entry_index = phase->first_entry + st->entry;
	struct weir_entry *entry = bpf_map_lookup_elem(&gen_entries, &entry_index);

	if (!entry)
		goto misfit;

	__u32 flow_index = entry->flow;

	if (flow_index == WEIR_NEXT_FLOW) {
		flow_index = st->flow;
		st->flow = flow_index + 1 < cfg->n_flows ? flow_index + 1 : 0;
	}

	struct weir_gen_flow *flow = bpf_map_lookup_elem(&gen_flows, &flow_index);

	if (!flow)
		goto misfit;

	__u32 length = entry->length;

	if (length != cfg->input_len && bpf_xdp_adjust_tail(ctx, (int)length - (int)cfg->input_len))
		goto misfit;

	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;

	/* Headers, eight bytes at a time; what is behind them belongs to the probe, written below. */
#pragma unroll
	for (int i = 0; i < WEIR_HEADER_MAX / 8; i++) {
		if (data + 8 * i + 8 > end)
			break;
		((__u64 *)data)[i] = ((__u64 *)flow->header)[i];
	}

	__u32 header_len = cfg->header_len & 0x7f;
	__u32 probe_at = header_len + (cfg->skip & 0x3f);
	__u64 sum = flow->l4_sum, ip_sum = flow->ip_sum;
	__u32 seq = flow->seq;
	int is_new = flow_index == cfg->new_flow;
	__u8 impair = 0;
	__u32 l4_at;
	__u16 l4_len;

	if (cfg->media) {
		struct weir_media *media = bpf_map_lookup_elem(&gen_media, &entry_index);
		__u32 body_at = header_len;
		long app_sum = 0, body_sum;

		if (!media)
			goto misfit;
		impair = media->impair;
		if (impair && impair != WEIR_LOSE)
			seq -= impair;
		if (media->kind != WEIR_RAW) {
			app_sum = write_app(ctx, header_len, media, flow, seq);
			body_at += flow->app_len;
		}
		body_sum = write_body(ctx, body_at, entry->body);
		if (app_sum < 0 || body_sum < 0)
			goto misfit;
		sum += app_sum + body_sum;
		probe_at = length - WEIR_PROBE_LEN;
		data = (void *)(long)ctx->data;
		end = (void *)(long)ctx->data_end;
	}

	if (is_new) {
		/* The template's address and port are zero here. */
		__u32 at = cfg->ip == 4 ? ETH_LEN + 12 : ETH_LEN + 20;
		__u32 host = bpf_htonl(cfg->new_host - seq % cfg->new_hosts);
		__u16 port = bpf_htons(cfg->new_port - seq / cfg->new_hosts % cfg->new_ports);

		if (put16(data, end, at, host) || put16(data, end, at + 2, host >> 16) ||
		    put16(data, end, header_len - (cfg->l4 == IPPROTO_UDP ? UDP_LEN : TCP_LEN), port))
			return XDP_DROP;
		ip_sum += host;
		sum += (__u64)host + port;
	}

	if (cfg->ip == 4) {
		__u16 total = bpf_htons(length - ETH_LEN);

		l4_at = ETH_LEN + IPV4_LEN;
		if (put16(data, end, ETH_LEN + 2, total) ||
		    put16(data, end, ETH_LEN + 10, ~fold(ip_sum + total)))
			return XDP_DROP;
	} else {
		l4_at = ETH_LEN + IPV6_LEN;
		if (put16(data, end, ETH_LEN + 4, bpf_htons(length - ETH_LEN - IPV6_LEN)))
			return XDP_DROP;
	}
	l4_len = bpf_htons(length - l4_at);

	if (cfg->answered && cfg->l4 != IPPROTO_UDP && (is_new || !seq)) {
		/* SYN in place of ACK and PSH; both numbers, which are 1, become 0. */
		if (put16(data, end, l4_at + 6, 0) || put16(data, end, l4_at + 10, 0) ||
		    put16(data, end, l4_at + 12, bpf_htons(TCP_SYN)))
			return XDP_DROP;
		sum += 2 * (__u64)(__u16)~bpf_htons(1) + (__u16)~bpf_htons(TCP_ACK_PSH) + bpf_htons(TCP_SYN);
	}

	struct probe probe = {
		.magic = bpf_htons(cfg->magic),
		.flow = bpf_htonl(cfg->first_flow + flow_index),
		.seq = bpf_htonl(seq),
	};

	now = bpf_ktime_get_ns();
	if (now >= cfg->record_end_ns && !cfg->media) {
		/* Held up since it was due, until after the end: it would not be counted. */
		st->next_ns = now;
		return XDP_DROP;
	}
	probe.time_ns = bpf_cpu_to_be64(now);

	__u64 probe_sum = (__u64)probe.magic + probe.flow + probe.seq +
			  (probe.time_ns & 0xffffffff) + (probe.time_ns >> 32);

	/* At an odd place every byte is the other half of its word (RFC 1071, section 2 (B)). */
	if (probe_at & 1)
		probe_sum = __builtin_bswap16(fold(probe_sum));
	sum += l4_len + probe_sum;

	if (cfg->l4 == IPPROTO_UDP) {
		__u16 check;

		if (put16(data, end, l4_at + 4, l4_len))
			return XDP_DROP;
		check = ~fold(sum + l4_len);
		if (put16(data, end, l4_at + 6, check ? check : 0xffff))
			return XDP_DROP;
	} else if (put16(data, end, l4_at + 16, ~fold(sum))) {
		return XDP_DROP;
	}

	struct probe *at = data + (probe_at & 0x7ff);

	if ((void *)(at + 1) > end)
		goto misfit;
	*at = probe;

	if (impair) {
		st->surplus += impair == WEIR_LOSE ? -1 : 1;
		if (impair != WEIR_LOSE)
			goto next; /* it was counted when first sent */
	}
	st->sent++;
	flow->seq++;
	if (now >= cfg->record_start_ns && now < cfg->record_end_ns) {
		__u32 bin = (now - cfg->record_start_ns) / cfg->bin_ns;
		struct weir_gen_bin *counted = bpf_map_lookup_elem(&gen_bins, &bin);

		if (counted && bin < cfg->n_bins) {
			counted->sent++;
			if (late > counted->late_max_ns)
				counted->late_max_ns = late;
			counted->glances += other >= 0;
			counted->others += other > 0;
		}
		if (!st->sent_recorded) {
			st->first_ns = now;
			st->slipped_ns = 0;
		}
		st->last_ns = now;
		st->sent_recorded++;
		st->late_sum_ns += late;
		if (late > st->late_max_ns)
			st->late_max_ns = late;
		if (cfg->media && !flow->sent)
			flow->first_seq = seq;
		flow->sent++;
	}

next:;
	__u32 frac = st->next_frac + entry->gap_frac;
	__u64 recovered = entry->gap_ns >> WEIR_RECOVERY_SHIFT;

	if (recovered > st->slipped_ns)
		recovered = st->slipped_ns;
	st->slipped_ns -= recovered;
	st->next_ns = due + entry->gap_ns + (frac >> 16) - recovered;
	st->next_frac = frac & 0xffff;
	st->entry = st->entry + 1 < phase->n_entries ? st->entry + 1 : 0;

	if (cfg->media)
		return impair == WEIR_LOSE ? XDP_DROP : bpf_redirect_map(&gen_ports, flow->port & 1, 0);
	return bpf_redirect(cfg->tx_ifindex, 0);

misfit:
	st->errors++;
	st->done = 1;
	return XDP_DROP;
}
