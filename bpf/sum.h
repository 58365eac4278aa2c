/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * One's complement sums of the Internet checksum (RFC 1071), and how they change with the packet.
 */
#ifndef WEIR_SUM_H
#define WEIR_SUM_H

#include <linux/types.h>
#include <bpf/bpf_helpers.h>

static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)sum;
}

/* Replaces a word; returns what that adds to a one's complement sum (RFC 1624). */
static __always_inline __u64 replace16(void *at, __u16 value)
{
	__u16 old = *(__u16 *)at;

	*(__u16 *)at = value;
	return (__u64)value + (__u16)~old;
}

static __always_inline __u64 replace32(void *at, __u32 value)
{
	__u32 old = *(__u32 *)at;

	*(__u32 *)at = value;
	return (__u64)value + (__u32)~old;
}

#endif
