/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What woodlot_rs.o exports: one lock-free page-frame allocator per zone. It is written in Rust
 * and linked as an object; see linux/glue of the Woodlot repository.
 *
 * A zone's allocator lives in memory that woodlot_rs_init() is given, and that memory is its
 * handle. All functions can be called from any context, and none takes a lock. A slot is the
 * number of a CPU, as a hint: being preempted or interrupted in between does no harm.
 */
#ifndef _MM_WOODLOT_RS_H
#define _MM_WOODLOT_RS_H

#include <linux/types.h>

/* "No frame": what an allocation returns that failed. */
#define WOODLOT_RS_NONE		(~0UL)

/* Orders that the allocator has, and the order of its huge frames. */
#define WOODLOT_RS_ORDERS	11
#define WOODLOT_RS_HUGE_ORDER	9

/*
 * What a frame is for; frames of one class are kept together. Reclaimable frames, which outlive
 * what asked for them, are in the class that the crate calls long-lived.
 */
enum woodlot_rs_class {
	WOODLOT_RS_MOVABLE,
	WOODLOT_RS_UNMOVABLE,
	WOODLOT_RS_HUGE,
	WOODLOT_RS_RECLAIMABLE,
	WOODLOT_RS_CLASSES
};

struct woodlot_rs_stats {
	unsigned long free_frames;
	unsigned long free_huge;
	struct {
		unsigned long trees;
		unsigned long free_frames;
		unsigned long free_huge;
	} classes[WOODLOT_RS_CLASSES];
};

/* The name of the engine that this is. */
const char *woodlot_rs_engine(void);

/* The bytes that a zone's allocator takes; 0 if there can be none. */
unsigned long woodlot_rs_size(unsigned long start_pfn, unsigned long nr_frames,
			      unsigned long nr_slots);
/* Makes it; every frame is allocated at first. The memory is aligned to a cache line. */
bool woodlot_rs_init(void *zone, unsigned long start_pfn, unsigned long nr_frames,
		     unsigned long nr_slots);

unsigned long woodlot_rs_alloc_page(void *zone, u8 class, unsigned long slot);
unsigned long woodlot_rs_alloc(void *zone, u8 order, u8 class, unsigned long slot);
bool woodlot_rs_alloc_at(void *zone, unsigned long pfn, u8 order, unsigned long slot);
unsigned long woodlot_rs_alloc_pages(void *zone, u8 class, unsigned long slot,
				     unsigned long *pfns, unsigned long count);

/* Frees return 0, or say what was wrong; nothing is freed then. */
u32 woodlot_rs_free_page(void *zone, unsigned long pfn, unsigned long slot);
u32 woodlot_rs_free(void *zone, unsigned long pfn, u8 order, unsigned long slot);
/* Stops at the first frame that is refused, and returns how many were freed. */
unsigned long woodlot_rs_free_pages(void *zone, const unsigned long *pfns, unsigned long count,
				    unsigned long slot);

bool woodlot_rs_is_available(void *zone, u8 order);
bool woodlot_rs_is_free(void *zone, unsigned long pfn, u8 order);
unsigned long woodlot_rs_free_in_huge(void *zone, unsigned long pfn);
void woodlot_rs_stats(void *zone, struct woodlot_rs_stats *stats);
void woodlot_rs_free_blocks(void *zone, unsigned long counts[WOODLOT_RS_ORDERS]);

#endif /* _MM_WOODLOT_RS_H */
