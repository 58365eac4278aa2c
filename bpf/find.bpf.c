// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Where the kernel keeps the tasks with the given process numbers. Runs once over all existing tasks
 * (a BPF iterator, Linux 5.8).
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "map.h"
#include "weir.h"

char LICENSE[] SEC("license") = "GPL";

SHARED_ARRAY(find_pids, __u64, WEIR_WATCHED);
SHARED_ARRAY(find_tasks, __u64, WEIR_WATCHED);

struct task_struct {
	int pid;
} __attribute__((preserve_access_index));

struct bpf_iter__task {
	struct task_struct *task;
} __attribute__((preserve_access_index));

SEC("iter/task")
int weir_find(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (!task)
		return 0;
	for (__u32 i = 0; i < WEIR_WATCHED; i++) {
		__u32 index = i;
		__u64 *pid = bpf_map_lookup_elem(&find_pids, &index);
		__u64 *at = bpf_map_lookup_elem(&find_tasks, &index);

		if (pid && at && *pid == task->pid)
			*at = (__u64)task;
	}
	return 0;
}
