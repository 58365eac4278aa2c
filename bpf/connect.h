/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What the programs that redirect connections share with user space; crates/relay/src/redirect.rs mirrors it
 * byte for byte.
 */
#ifndef WEIR_CONNECT_H
#define WEIR_CONNECT_H

#include <linux/types.h>

#define WEIR_CONNECT_RULES 160

/* One end of a connection: IPv4 as IPv6 maps it. */
struct weir_end {
	__u32 address[4]; /* network byte order */
	__u32 port;       /* network byte order, in the lower 16 bits */
};

/* A connect() that waits for its destination. */
struct weir_held {
	struct weir_end from;
	struct weir_end to;
	__u32 sequence; /* of its SYN, host byte order */
};

/* Which destinations are redirected: the first rule that matches decides. */
struct weir_connect_rule {
	__u32 address[4]; /* network byte order, no bits outside the mask */
	__u32 mask[4];
	__u32 first_port; /* host byte order */
	__u32 last_port;
	__u32 redirects;
};

_Static_assert(sizeof(struct weir_end) == 20, "end");
_Static_assert(sizeof(struct weir_held) == 44, "held");
_Static_assert(sizeof(struct weir_connect_rule) == 44, "rule");

#endif
