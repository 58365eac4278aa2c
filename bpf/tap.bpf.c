// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * The tap. A program on either interface of a link redirects every frame to the other one and
 * copies it into a ring of the CPU that it runs on: one for a recorder, one for the mirror. Nothing
 * here waits: if a ring is full, the frame goes on without a copy, and the next copy reports it.
 *
 * What became of a redirected frame is known only when the queue to the other interface is
 * flushed; the kernel's tracepoints report it, once per flush.
 *
 * XDP runs with bottom halves off, so a CPU's ring has one writer.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "map.h"
#include "tap.h"

char LICENSE[] SEC("license") = "GPL";

/* Set before loading: the verifier leaves out what is not used. */
const volatile __u32 tap_recording = 0;
const volatile __u32 tap_mirroring = 0;
const volatile __u32 tap_chunks = 1; /* per CPU, a power of two */
const volatile __u32 tap_mirror_chunks = 1;
const volatile __u32 tap_snap = 0; /* 1 to WEIR_TAP_MAX_BYTES */
const volatile __u32 tap_link_first = 1; /* copy less if the link has no time left */
const volatile __u32 tap_ifindex[3] = {}; /* A, B, mirror; in the namespace of this inode: */
const volatile __u32 tap_netns = 0;

SHARED_ARRAY(tap_info, struct weir_tap_info, 1);
SHARED_ARRAY(tap_counts, struct weir_tap_counts, 1); /* one per CPU */
SHARED_ARRAY(tap_rings, struct weir_tap_ring, 1); /* one per CPU */
SHARED_ARRAY(tap_memory, struct weir_tap_chunk, 1);
SHARED_ARRAY(tap_m_rings, struct weir_tap_ring, 1);
SHARED_ARRAY(tap_m_memory, struct weir_tap_chunk, 1);
SHARED_ARRAY(tap_mirror, struct weir_tap_mirror, 1);
SHARED_ARRAY(tap_jobs, struct weir_tap_job, 1);

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 3);
	__type(key, __u32);
	__type(value, struct bpf_devmap_val);
} tap_ports SEC(".maps");

/* The same: the kernel lets programs with and without fragments share no map of devices. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct bpf_devmap_val);
} tap_long_ports SEC(".maps");

#define MIRROR 2

/* A reader that sees the new value also sees everything written before. */
static __always_inline void publish(__u64 *at, __u64 value)
{
#ifdef WEIR_TOTAL_STORE_ORDER
	asm volatile("" ::: "memory");
	*(volatile __u64 *)at = value;
#else
	__sync_lock_test_and_set(at, value); /* a full barrier, which BPF has had longer than a release store */
#endif
}

/*
 * When this frame came. Reading the clock waits for all that the CPU has begun, which costs more than
 * copying a short frame. So frames that wait for the same flush (at most 16) share the time of the first.
 */
static __always_inline __u64 stamp(struct weir_tap_counts *counts)
{
	__u32 zero = 0;
	struct weir_tap_info *info = bpf_map_lookup_elem(&tap_info, &zero);
	__u64 now = counts->stamp_ns;

	if (!now || !info || !info->share_stamp) {
		now = bpf_ktime_get_ns();
		counts->stamp_ns = now;
		if ((__s64)(now - counts->flushed_ns) > WEIR_TAP_PAUSE_NS)
			counts->pressed[0] = counts->pressed[1] = 0;
	}
	return now;
}

/* Copies a frame; returns 0, or -1 if there is no room. */
static __always_inline int copy(struct xdp_md *ctx, struct weir_tap_counts *counts,
				struct weir_tap_ring *ring, void *memory, __u32 chunks, __u32 cpu,
				__u32 side, __u32 length, __u32 snap, __u64 time_ns)
{
	__u64 head = ring->head;
	__u32 n = length < snap ? length : snap;
	__u64 next = head + ((sizeof(struct weir_tap_record) + n + 7) & ~7U);

	if ((head ^ next) & ~(__u64)(WEIR_TAP_CHUNK - 1))
		next &= ~(__u64)(WEIR_TAP_CHUNK - 1);
	if (next - ring->tail_seen > (__u64)chunks * WEIR_TAP_CHUNK) {
		ring->tail_seen = *(volatile __u64 *)&ring->tail;
		if (next - ring->tail_seen > (__u64)chunks * WEIR_TAP_CHUNK)
			goto lost;
	}

	__u32 index = cpu * chunks + ((head / WEIR_TAP_CHUNK) & (chunks - 1));
	struct weir_tap_chunk *chunk = bpf_map_lookup_elem(memory, &index);

	if (!chunk)
		goto lost;

	struct weir_tap_record *record = (void *)(chunk->bytes + (head & (WEIR_TAP_CHUNK - 8)));

	record->time_ns = time_ns;
	record->length = length;
	record->captured = n;
	record->lost = ring->lost[side];
	record->side = side;
	if (n > WEIR_TAP_MAX_BYTES)
		n = WEIR_TAP_MAX_BYTES;
	/* Verifiers before Linux 6.8 do not learn that it is not 0; the compiler must not know. */
	barrier_var(n);
	if (n < 1 || n > WEIR_TAP_MAX_BYTES || bpf_xdp_load_bytes(ctx, 0, record + 1, n))
		goto lost;
	ring->lost[side] = 0;
	publish(&ring->head, next);
	return 0;
lost:
	if (ring->lost[side] != ~0U)
		ring->lost[side]++;
	return -1;
}

static __always_inline int bridge(struct xdp_md *ctx, void *ports, __u32 side, __u32 length)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct weir_tap_counts *counts = bpf_map_lookup_elem(&tap_counts, &cpu);

	if (!counts)
		return XDP_ABORTED; /* cannot happen: there is one for each possible CPU */

	struct weir_tap_count *count = &counts->side[side];

	count->received++;
	count->bytes += length;

	__u32 snap = tap_snap, is_pressed = 0, is_cut = 0;
	__u64 now = tap_recording || tap_mirroring ? stamp(counts) : 0;

	/*
	 * The CPU has been forwarding without a pause. Copying whole frames would now cost frames of the link,
	 * so the recorder's are cut to their headers, which cost next to nothing, until it has time again. The
	 * mirror's leave as frames: they are whole, or there are none.
	 */
	if (tap_link_first && counts->pressed[side] >= WEIR_TAP_PRESSED && length > WEIR_TAP_PRESSED_BYTES) {
		is_pressed = 1;
		if (snap > WEIR_TAP_PRESSED_BYTES) {
			snap = WEIR_TAP_PRESSED_BYTES;
			is_cut = 1;
		}
	}
	if (tap_recording) {
		struct weir_tap_ring *ring = bpf_map_lookup_elem(&tap_rings, &cpu);

		if (ring && !copy(ctx, counts, ring, &tap_memory, tap_chunks, cpu, side, length, snap,
				  now)) {
			count->copied++;
			count->cut += is_cut;
		} else {
			count->not_copied++;
		}
	}
	if (tap_mirroring) {
		struct weir_tap_ring *ring = bpf_map_lookup_elem(&tap_m_rings, &cpu);

		if (is_pressed) {
			count->not_mirrored++;
			count->spared++;
		} else if (ring && !copy(ctx, counts, ring, &tap_m_memory, tap_mirror_chunks, cpu, side, length,
					 WEIR_TAP_MAX_BYTES, now)) {
			count->mirrored++;
		} else {
			count->not_mirrored++;
		}
	}

	int action = bpf_redirect_map(ports, !side, XDP_ABORTED);

	if (action != XDP_REDIRECT) { /* the other interface is gone */
		count->refused++;
		counts->stamp_ns = 0;
	}
	return action;
}

static __always_inline __u32 linear(struct xdp_md *ctx)
{
	return (void *)(long)ctx->data_end - (void *)(long)ctx->data;
}

SEC("xdp")
int weir_tap_a(struct xdp_md *ctx)
{
	return bridge(ctx, &tap_ports, 0, linear(ctx));
}

SEC("xdp")
int weir_tap_b(struct xdp_md *ctx)
{
	return bridge(ctx, &tap_ports, 1, linear(ctx));
}

/* For interfaces whose frames do not fit into one page. */
SEC("xdp.frags")
int weir_tap_a_frags(struct xdp_md *ctx)
{
	return bridge(ctx, &tap_long_ports, 0, bpf_xdp_get_buff_len(ctx));
}

SEC("xdp.frags")
int weir_tap_b_frags(struct xdp_md *ctx)
{
	return bridge(ctx, &tap_long_ports, 1, bpf_xdp_get_buff_len(ctx));
}

/*
 * The mirror. Run on live frames like the generator, whose pages keep what they held before: every
 * byte is rewritten.
 */
SEC("xdp")
int weir_tap_send(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct weir_tap_mirror *mirror = bpf_map_lookup_elem(&tap_mirror, &zero);

	if (!mirror || mirror->next >= mirror->jobs)
		return XDP_DROP;

	__u32 index = mirror->next++;
	struct weir_tap_job *job = bpf_map_lookup_elem(&tap_jobs, &index);

	if (!job)
		return XDP_DROP;
	index = job->chunk;

	struct weir_tap_chunk *chunk = bpf_map_lookup_elem(&tap_m_memory, &index);

	if (!chunk)
		return XDP_DROP;

	struct weir_tap_record *record = (void *)(chunk->bytes + (job->at & (WEIR_TAP_CHUNK - 8)));
	__u32 n = record->captured;

	barrier_var(n);
	if (n < 1 || n > WEIR_TAP_MAX_BYTES ||
	    (n != mirror->input_len && bpf_xdp_adjust_tail(ctx, (int)n - (int)mirror->input_len)) ||
	    bpf_xdp_store_bytes(ctx, 0, record + 1, n) || bpf_xdp_store_bytes(ctx, 0, mirror->mac, 6)) {
		mirror->misfits++;
		return XDP_DROP;
	}
	return bpf_redirect_map(&tap_ports, MIRROR, XDP_DROP);
}

/* The fields of the kernel's structs that are read; their offsets are found when the program is loaded. */
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

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} KERNEL;

static __always_inline int is_port(struct net_device *device, __u32 port)
{
	return device->ifindex == tap_ifindex[port] && device->nd_net.net->ns.inum == tap_netns;
}

static __always_inline struct weir_tap_counts *counts_here(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&tap_counts, &cpu);
}

/* (from, to, sent, drops, error): a queue was flushed. */
SEC("tp_btf/xdp_devmap_xmit")
int weir_tap_flushed(__u64 *args)
{
	struct net_device *to = (void *)args[1];
	int sent = args[2], drops = args[3], error = args[4];
	struct weir_tap_counts *counts = counts_here();

	if (!counts)
		return 0;
#pragma unroll
	for (int side = 0; side < 2; side++) {
		if (is_port(to, !side)) {
			counts->side[side].forwarded += sent;
			counts->side[side].refused += drops;
			if (drops)
				counts->error[!side] = error;
			if (sent + drops < WEIR_TAP_FLUSH) {
				counts->pressed[side] = 0;
			} else if (tap_recording || tap_mirroring) {
				counts->pressed[side]++;
				counts->flushed_ns = bpf_ktime_get_ns();
			}
			counts->stamp_ns = 0;
			return 0;
		}
	}
	if (tap_mirroring && is_port(to, MIRROR)) {
		counts->mirror_sent += sent;
		if (drops)
			counts->error[MIRROR] = error;
	}
	return 0;
}

/* (from, program, target, error, map type, map, place in it): a frame did not even get into a queue. */
SEC("tp_btf/xdp_redirect_err")
int weir_tap_refused(__u64 *args)
{
	__u32 zero = 0, map = args[5], port = args[6];
	struct weir_tap_info *info = bpf_map_lookup_elem(&tap_info, &zero);
	struct weir_tap_counts *counts = counts_here();

	if (!info || !counts || (map != info->ports[0] && map != info->ports[1]))
		return 0;
#pragma unroll
	for (int side = 0; side < 2; side++) {
		if (port == !side) {
			counts->side[side].refused++;
			counts->error[!side] = args[3];
			counts->stamp_ns = 0;
		}
	}
	if (port == MIRROR)
		counts->error[MIRROR] = args[3];
	return 0;
}
