/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The two ends of a connection. */
#ifndef WEIR_ENDS_H
#define WEIR_ENDS_H

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "events.h"
#include "kernel.h"

static __always_inline int read_ends(struct sock *sk, struct tcp_sock *tp, struct weir_event_ends *ends)
{
	unsigned short family = sk->__sk_common.skc_family;

	/* Not skc_num: that is reset before the connection closes. */
	ends->port[0] = bpf_ntohs(tp->inet_conn.icsk_inet.inet_sport);
	ends->port[1] = bpf_ntohs(sk->__sk_common.skc_dport);
	if (family == IPV4) {
		ends->address[0][2] = ends->address[1][2] = bpf_htonl(0xffff);
		ends->address[0][3] = sk->__sk_common.skc_rcv_saddr;
		ends->address[1][3] = sk->__sk_common.skc_daddr;
		return 1;
	}
	if (family != IPV6 || !bpf_core_field_exists(sk->__sk_common.skc_v6_daddr))
		return 0;
	bpf_core_read(ends->address[0], 16, &sk->__sk_common.skc_v6_rcv_saddr);
	bpf_core_read(ends->address[1], 16, &sk->__sk_common.skc_v6_daddr);
	return 1;
}

#endif
