// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * TCP connections of the programs in a control group, redirected to a relay on loopback. connect() is given the
 * relay's address instead of the destination, which is kept with the socket; getpeername() is given the destination
 * again. The SYN is dropped at the relay's listener and reported to the relay, which answers it when the destination
 * has answered.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "connect.h"

char LICENSE[] SEC("license") = "GPL";

/* Set before loading. */
const volatile __u64 connect_netns = 0; /* cookie of the network namespace in which the relay listens */
const volatile __u32 connect_port4 = 0; /* of the relay at 127.0.0.1 */
const volatile __u32 connect_port6 = 0; /* at ::1; 0: there is none */
const volatile __u32 connect_rules_len = 0;
const volatile struct weir_connect_rule connect_rules[WEIR_CONNECT_RULES] = {};

#define AF_INET 2
#define SOCK_STREAM 1
#define IPPROTO_TCP 6
#define MAPPED bpf_htonl(0xffff)
#define LOOPBACK bpf_htonl(0x7f000001)

/* The intended destination of a socket's connection; it is freed with the socket. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct weir_end);
} connect_sockets SEC(".maps");

/* The same by the connection's own end, until its first SYN arrives. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 14);
	__type(key, struct weir_end);
	__type(value, struct weir_end);
} connect_pending SEC(".maps");

/* struct weir_held, for the relay. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} connect_held SEC(".maps");

static __always_inline int is_redirected(const struct weir_end *to)
{
	__u32 port = bpf_ntohs(to->port);

	for (int i = 0; i < WEIR_CONNECT_RULES; i++) {
		const volatile struct weir_connect_rule *rule = &connect_rules[i];

		if (i >= connect_rules_len)
			return 0;
		if ((to->address[0] & rule->mask[0]) == rule->address[0] &&
		    (to->address[1] & rule->mask[1]) == rule->address[1] &&
		    (to->address[2] & rule->mask[2]) == rule->address[2] &&
		    (to->address[3] & rule->mask[3]) == rule->address[3] &&
		    port >= rule->first_port && port <= rule->last_port)
			return rule->redirects;
	}
	return 0;
}

/*
 * Whether the connection goes to the relay at relay_port (0: there is none): 1, 0, or -1 if that cannot be
 * recorded.
 */
static __always_inline int redirect(struct bpf_sock_addr *ctx, const struct weir_end *to, __u32 relay_port)
{
	struct weir_end *kept;

	if (ctx->type != SOCK_STREAM || ctx->protocol != IPPROTO_TCP)
		return 0;
	/* In another namespace, nothing listens at this port. */
	if (!relay_port || bpf_get_netns_cookie(ctx) != connect_netns || !is_redirected(to)) {
		/* It may have been redirected before: after a failure or AF_UNSPEC, connect() can be called again. */
		bpf_sk_storage_delete(&connect_sockets, ctx->sk);
		return 0;
	}
	kept = bpf_sk_storage_get(&connect_sockets, ctx->sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!kept)
		return -1;
	*kept = *to;
	return 1;
}

SEC("cgroup/connect4")
int weir_connect4(struct bpf_sock_addr *ctx)
{
	struct weir_end to = {.address = {0, 0, MAPPED, ctx->user_ip4}, .port = ctx->user_port & 0xffff};
	int redirected = redirect(ctx, &to, connect_port4);

	if (redirected > 0) {
		ctx->user_ip4 = LOOPBACK;
		ctx->user_port = bpf_htons(connect_port4);
	}
	return redirected >= 0;
}

SEC("cgroup/connect6")
int weir_connect6(struct bpf_sock_addr *ctx)
{
	struct weir_end to = {
		.address = {ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3]},
		.port = ctx->user_port & 0xffff,
	};
	int is_mapped = !to.address[0] && !to.address[1] && to.address[2] == MAPPED;
	__u32 relay_port = is_mapped ? connect_port4 : connect_port6;
	int redirected = redirect(ctx, &to, relay_port);

	if (redirected > 0) {
		ctx->user_ip6[0] = 0;
		ctx->user_ip6[1] = 0;
		ctx->user_ip6[2] = is_mapped ? MAPPED : 0;
		ctx->user_ip6[3] = is_mapped ? LOOPBACK : bpf_htonl(1);
		ctx->user_port = bpf_htons(relay_port);
	}
	return redirected >= 0;
}

/* The connection's own end is known now, and its first segment is not sent yet. */
SEC("sockops")
int weir_connecting(struct bpf_sock_ops *ctx)
{
	struct weir_end from = {};
	struct weir_end *to;
	struct bpf_sock *sk;

	if (ctx->op != BPF_SOCK_OPS_TCP_CONNECT_CB)
		return 1;
	sk = ctx->sk;
	if (!sk)
		return 1;
	to = bpf_sk_storage_get(&connect_sockets, sk, 0, 0);
	if (!to)
		return 1;
	if (ctx->family == AF_INET) {
		from.address[2] = MAPPED;
		from.address[3] = ctx->local_ip4;
		/* One load by a pointer for both branches would be refused: the context is read at fixed offsets. */
		asm volatile("" ::: "memory");
	} else {
		from.address[0] = ctx->local_ip6[0];
		from.address[1] = ctx->local_ip6[1];
		from.address[2] = ctx->local_ip6[2];
		from.address[3] = ctx->local_ip6[3];
	}
	from.port = bpf_htons(ctx->local_port);
	bpf_map_update_elem(&connect_pending, &from, to, BPF_ANY);
	return 1;
}

/* At the listeners of the relay: no segment gets further. */
SEC("socket")
int weir_hold(struct __sk_buff *skb)
{
	struct weir_end from = {};
	struct weir_held *held;
	struct weir_end *to;
	struct tcphdr tcp;

	if (bpf_skb_load_bytes(skb, 0, &tcp, sizeof(tcp)) || !tcp.syn || tcp.ack)
		return 0;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		from.address[2] = MAPPED;
		if (bpf_skb_load_bytes_relative(skb, offsetof(struct iphdr, saddr), &from.address[3], 4,
						BPF_HDR_START_NET))
			return 0;
	} else if (bpf_skb_load_bytes_relative(skb, offsetof(struct ipv6hdr, saddr), from.address, 16,
					       BPF_HDR_START_NET)) {
		return 0;
	}
	from.port = tcp.source;
	to = bpf_map_lookup_elem(&connect_pending, &from);
	if (!to)
		return 0;
	held = bpf_ringbuf_reserve(&connect_held, sizeof(*held), 0);
	/* Then the next attempt of the SYN finds room. */
	if (!held)
		return 0;
	held->from = from;
	held->to = *to;
	held->sequence = bpf_ntohl(tcp.seq);
	bpf_ringbuf_submit(held, 0);
	bpf_map_delete_elem(&connect_pending, &from);
	return 0;
}

SEC("cgroup/getpeername4")
int weir_peer4(struct bpf_sock_addr *ctx)
{
	struct weir_end *to = bpf_sk_storage_get(&connect_sockets, ctx->sk, 0, 0);

	if (to) {
		ctx->user_ip4 = to->address[3];
		ctx->user_port = to->port;
	}
	return 1;
}

SEC("cgroup/getpeername6")
int weir_peer6(struct bpf_sock_addr *ctx)
{
	struct weir_end *to = bpf_sk_storage_get(&connect_sockets, ctx->sk, 0, 0);

	if (to) {
		ctx->user_ip6[0] = to->address[0];
		ctx->user_ip6[1] = to->address[1];
		ctx->user_ip6[2] = to->address[2];
		ctx->user_ip6[3] = to->address[3];
		ctx->user_port = to->port;
	}
	return 1;
}
