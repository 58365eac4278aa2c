/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* An array that user space maps into its memory; its size is set when it is loaded. */
#ifndef WEIR_MAP_H
#define WEIR_MAP_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define SHARED_ARRAY(name, value_t, entries)          \
	struct {                                      \
		__uint(type, BPF_MAP_TYPE_ARRAY);     \
		__uint(map_flags, BPF_F_MMAPABLE);    \
		__uint(max_entries, entries);         \
		__type(key, __u32);                   \
		__type(value, value_t);               \
	} name SEC(".maps")

#endif
