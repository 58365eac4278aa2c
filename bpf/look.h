/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What the host did to the device while the sender sent, as the scheduler counts it: how long the
 * tasks that do the device's work had to wait for their CPU, what the hypervisor took from the CPUs of
 * device and sender, and whether other work runs on the device's CPU. The sender looks while it waits
 * for the next departure anyway, so the device pays nothing for it.
 *
 * It reads fields of the kernel's own structs, at the running kernel's offsets (CO-RE).
 */
#ifndef WEIR_LOOK_H
#define WEIR_LOOK_H

#define PF_KTHREAD 0x00200000
#define SCHED_IDLE 5

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "map.h"
#include "weir.h"

SHARED_ARRAY(gen_tasks, __u64, WEIR_WATCHED); /* where the kernel keeps them; see find.bpf.c */
SHARED_ARRAY(gen_looks, struct weir_look, 1);

struct rq {
	__u64 clock;
	__u64 prev_steal_time_rq;
	struct task_struct *curr;
	struct task_struct *idle;
} __attribute__((preserve_access_index));

struct cfs_rq {
	struct rq *rq;
} __attribute__((preserve_access_index));

struct sched_entity {
	__u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
} __attribute__((preserve_access_index));

struct sched_info {
	unsigned long long run_delay;
} __attribute__((preserve_access_index));

struct task_struct {
	unsigned int flags;
	unsigned int policy;
	struct task_struct *group_leader;
	struct sched_entity se;
	struct sched_info sched_info;
} __attribute__((preserve_access_index));

/* The run queue of a task, or NULL if the kernel does not expose it. */
static __always_inline struct rq *queue_of(struct task_struct *task)
{
	struct cfs_rq *cfs_rq = 0;
	struct rq *rq = 0;

	if (bpf_core_field_exists(task->se.cfs_rq) && bpf_core_field_exists(rq->prev_steal_time_rq)) {
		bpf_core_read(&cfs_rq, sizeof(cfs_rq), &task->se.cfs_rq);
		bpf_core_read(&rq, sizeof(rq), &cfs_rq->rq);
	}
	return rq;
}

/*
 * Whether other work runs on the device's CPU just now: the device then takes longer to wake than from idle.
 * Not kernel threads, which may be the device's own, nor threads of class SCHED_IDLE, such as the one that keeps
 * the CPU awake. -1 if that cannot be told.
 */
static __noinline int glance(__u32 watched)
{
	struct task_struct *curr = 0, *idle = 0, *leader = 0;
	unsigned int flags = 0, policy = 0;
	__u32 first = 0;
	__u64 *at = bpf_map_lookup_elem(&gen_tasks, &first);
	struct rq *rq = at ? queue_of((struct task_struct *)*at) : 0;

	if (!rq || bpf_core_read(&curr, sizeof(curr), &rq->curr) || bpf_core_read(&idle, sizeof(idle), &rq->idle))
		return -1;
	if (curr == idle)
		return 0;
	bpf_core_read(&leader, sizeof(leader), &curr->group_leader);
	for (__u32 i = 0; i < WEIR_WATCHED; i++) {
		__u32 index = i;

		at = bpf_map_lookup_elem(&gen_tasks, &index);
		if (!at || i >= watched)
			break;
		if (*at == (__u64)curr || *at == (__u64)leader)
			return 0; /* the device, or another thread of its process */
	}
	if (bpf_core_read(&flags, sizeof(flags), &curr->flags) ||
	    bpf_core_read(&policy, sizeof(policy), &curr->policy))
		return -1;
	return !(flags & PF_KTHREAD) && policy != SCHED_IDLE;
}

static __noinline int look(__u32 watched, __u32 slot)
{
	struct weir_look *seen = bpf_map_lookup_elem(&gen_looks, &slot);
	struct rq *rq = queue_of((struct task_struct *)bpf_get_current_task());

	if (!seen)
		return 0;
	seen->at_ns = bpf_ktime_get_ns();
	if (rq)
		bpf_core_read(&seen->sender_stolen_ns, sizeof(__u64), &rq->prev_steal_time_rq);
	for (__u32 i = 0; i < WEIR_WATCHED; i++) {
		__u32 index = i;
		__u64 *at = bpf_map_lookup_elem(&gen_tasks, &index);

		if (!at || i >= watched)
			break;

		struct task_struct *task = (struct task_struct *)*at;

		bpf_core_read(&seen->tasks[i].ran_ns, sizeof(__u64), &task->se.sum_exec_runtime);
		bpf_core_read(&seen->tasks[i].waited_ns, sizeof(__u64), &task->sched_info.run_delay);
		if (i)
			continue;
		rq = queue_of(task);
		if (!rq)
			continue;
		bpf_core_read(&seen->device_stolen_ns, sizeof(__u64), &rq->prev_steal_time_rq);
		bpf_core_read(&seen->device_clock_ns, sizeof(__u64), &rq->clock);
	}
	return 0;
}

#endif
