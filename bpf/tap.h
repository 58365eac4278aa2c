/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What the tap's programs, the process that owns it and the readers of its rings share, byte for
 * byte; crates/engine/src/tap/layout.rs mirrors every struct.
 *
 * A ring belongs to one CPU and is a row of chunks. Positions in it count bytes without end: chunk
 * (position / WEIR_TAP_CHUNK) modulo the number of chunks, byte position % WEIR_TAP_CHUNK in it. A
 * record lies in one piece; it may reach into the slack behind its chunk, and the next one then
 * begins the next chunk.
 */
#ifndef WEIR_TAP_H
#define WEIR_TAP_H

#include <linux/types.h>

#define WEIR_TAP_MAGIC 0x32504154U /* "TAP2": changes with the layout */
#define WEIR_TAP_CHUNK (256 << 10)
#define WEIR_TAP_SLACK (16 << 10)

/* In front of the bytes of each frame; records begin at multiples of eight. */
struct weir_tap_record {
	__u64 time_ns;       /* CLOCK_MONOTONIC, at the bridge */
	__u32 length;        /* of the frame */
	__u32 captured;      /* bytes that follow */
	__u32 lost;          /* of this side, without room on this CPU, since the last record; at most 2^32 - 1 */
	__u32 side;          /* side where it came in: 0 A, 1 B */
};

/*
 * This many full flushes in a row, without a pause of so many ns between them, mean that frames come faster
 * than they leave: each flush is of 16 frames
 * (DEV_MAP_BULK_SIZE in the kernel), and 32 of them are twice what the queue of a veth holds.
 */
#define WEIR_TAP_FLUSH 16
#define WEIR_TAP_PRESSED 32
#define WEIR_TAP_PAUSE_NS 40000
#define WEIR_TAP_PRESSED_BYTES 128

#define WEIR_TAP_MAX_BYTES (WEIR_TAP_SLACK - (int)sizeof(struct weir_tap_record))

struct weir_tap_chunk {
	__u8 bytes[WEIR_TAP_CHUNK + WEIR_TAP_SLACK];
};

/* Each side of a ring writes into its own cache lines. */
struct weir_tap_ring {
	__u64 head;          /* everything before it can be read */
	__u64 pad0[7];
	__u64 tail;          /* everything before it has been read */
	__u64 told[2];       /* losses per side that frames before the tail reported */
	__u64 pad1[5];
	__u64 tail_seen;     /* the producer's copy */
	__u32 lost[2];       /* to be reported in the next record */
	__u64 pad2[6];
};

struct weir_tap_count {
	__u64 received;
	__u64 bytes;
	__u64 forwarded;
	__u64 refused;       /* by the other interface: not forwarded */
	__u64 copied;        /* into the ring of the recorder */
	__u64 not_copied;
	__u64 mirrored;      /* into the ring of the mirror */
	__u64 not_mirrored;
	__u64 cut;           /* of those copied: to WEIR_TAP_PRESSED_BYTES, to spare the link */
	__u64 spared;        /* of those not mirrored: to spare the link */
};

/* One per CPU. */
struct weir_tap_counts {
	struct weir_tap_count side[2];
	__u64 mirror_sent;
	__u64 stamp_ns;      /* of the frames that leave together, 0: none yet */
	__s32 error[3];      /* why A, B and the mirror last refused frames */
	__u32 pressed[2];    /* full flushes in a row of what came in at A, B */
	__u32 pad0;
	__u64 flushed_ns;    /* end of the last full flush */
	__u64 pad1[6];
};

/* For the programs, and for readers, who have nothing but the maps. */
struct weir_tap_info {
	__u32 magic;
	__u32 cpus;
	__u32 chunks;        /* per CPU, a power of two */
	__u32 share_stamp;   /* frames that leave together have one time stamp */
	char name[2][16];
	__u8 mac[2][6];
	__u32 pad;
	__u32 ports[2];      /* the kernel's ids of tap_ports and tap_long_ports */
};

/* The mirror's next frames, in order. */
struct weir_tap_job {
	__u32 chunk;
	__u32 at;
};

struct weir_tap_mirror {
	__u32 next;
	__u32 jobs;
	__u32 input_len;     /* length of the frames that user space passes in */
	__u32 misfits;
	__u8 mac[6];
	__u8 pad[2];
};

_Static_assert(sizeof(struct weir_tap_record) == 24, "record");
_Static_assert(sizeof(struct weir_tap_ring) == 192, "ring");
_Static_assert(sizeof(struct weir_tap_count) == 80, "count");
_Static_assert(sizeof(struct weir_tap_counts) == 256, "counts");
_Static_assert(sizeof(struct weir_tap_info) == 72, "info");
_Static_assert(sizeof(struct weir_tap_mirror) == 24, "mirror");

#endif
