/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Writes what differs from packet to packet: words and checksums, headers of applications, bodies.
 */
#ifndef WEIR_WRITE_H
#define WEIR_WRITE_H

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "map.h"
#include "sum.h"
#include "weir.h"

SHARED_ARRAY(gen_bodies, struct weir_body, 1);
SHARED_ARRAY(gen_slots, struct weir_slot, 1);

/* The frame's bytes are reached through these, each with its own bounds check for the verifier. */
static __always_inline int put16(void *data, void *end, __u32 at, __u16 value)
{
	__u8 *p = data + (at & 0xff);

	if ((void *)(p + 2) > end)
		return -1;
	*(__u16 *)p = value;
	return 0;
}

/* Writes what varies in an application header; returns what it adds to the checksum, or -1. */
static __noinline long write_app(struct xdp_md *ctx, __u32 at, struct weir_media *media,
				 struct weir_gen_flow *flow, __u32 seq)
{
	void *end = (void *)(long)ctx->data_end;
	__u8 *app = (void *)(long)ctx->data + (at & 0x7f);
	__u64 sum = flow->app_sum;

	/* No header is longer than RTP's, and shorter ones have the probe behind them. */
	if ((void *)(app + 12) > end)
		return -1;
	switch (media->kind) {
	case WEIR_RTP:
		if (media->marker)
			sum += replace16(app, *(__u16 *)app | bpf_htons(0x0080));
		sum += replace16(app + 2, bpf_htons(bpf_ntohs(*(__u16 *)(app + 2)) + (__u16)seq));
		sum += replace32(app + 4, bpf_htonl(bpf_ntohl(*(__u32 *)(app + 4)) + media->stamp));
		return sum;
	case WEIR_IAX2_MINI:
		return sum + replace16(app + 2, bpf_htons(bpf_ntohs(*(__u16 *)(app + 2)) +
							 (__u16)media->stamp));
	case WEIR_IAX2_META:
		return sum + replace32(app + 4, bpf_htonl(bpf_ntohl(*(__u32 *)(app + 4)) + media->stamp));
	}
	return -1;
}

/* Writes a body; returns its checksum, or -1. */
static __noinline long write_body(struct xdp_md *ctx, __u32 at, __u32 index)
{
	struct weir_body *body = bpf_map_lookup_elem(&gen_bodies, &index);
	__u32 slot_index, left;

	if (!body)
		return -1;
	slot_index = body->first_slot;
	left = body->length;
	for (int i = 0; i < WEIR_BODY_SLOTS && left; i++) {
		struct weir_slot *slot = bpf_map_lookup_elem(&gen_slots, &slot_index);
		__u32 n = left;

		if (!slot)
			return -1;
		if (n > WEIR_SLOT_LEN)
			n = WEIR_SLOT_LEN;
		/*
		 * It is 1 to 256. Verifiers before Linux 6.8 do not learn from `left` that it is not 0, which
		 * no helper takes as a length; the compiler must not know, or it leaves this out.
		 */
		barrier_var(n);
		n = ((n - 1) & (WEIR_SLOT_LEN - 1)) + 1;
		if (bpf_xdp_store_bytes(ctx, at, slot->bytes, n))
			return -1;
		at += n;
		left -= n;
		slot_index++;
	}
	return body->sum;
}

#endif
