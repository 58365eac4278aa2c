// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * The way into an endpoint that bypasses the system: IPv4 goes to the AF_XDP socket of the queue on which it
 * arrived; everything else goes to the kernel, as does all IPv4 while there is no such socket.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} endpoint_sockets SEC(".maps");

SEC("xdp")
int weir_endpoint(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *head = data;

	if ((void *)(head + 1) > end || head->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	return bpf_redirect_map(&endpoint_sockets, ctx->rx_queue_index, XDP_PASS);
}
