/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The page allocator's free lists, replaced by a lock-free allocator per zone
 * (CONFIG_WOODLOT_PAGE_ALLOC). A zone's free pages are known to that allocator
 * alone: there are no buddies, no per-CPU lists, and zone->lock guards nothing
 * here. NR_FREE_PAGES is kept beside it, as everybody else expects.
 */
#ifndef _MM_WOODLOT_H
#define _MM_WOODLOT_H

#include <linux/mmzone.h>
#include <linux/prefetch.h>
#include <linux/smp.h>
#include <linux/vmstat.h>

#include "page_reporting.h"
#include "woodlot_rs.h"

struct page_reporting_dev_info;

/*
 * Blocks that a zone keeps for high-order allocations that cannot wait, and
 * their order.
 */
#define WOODLOT_RESERVE		16
#define WOODLOT_RESERVE_ORDER	PAGE_ALLOC_COSTLY_ORDER

/**
 * struct woodlot_zone - what a zone has in the place of free lists
 * @reported: a bit for each huge frame that the hypervisor knows to be free;
 *	set while it is held, cleared when some page of it is allocated
 * @reserve: the first PFNs of blocks kept for %ALLOC_HIGHATOMIC, or
 *	%WOODLOT_RS_NONE; each is put and taken by an exchange
 * @rs: the allocator
 */
struct woodlot_zone {
	unsigned long *reported;
	unsigned long reserve[WOODLOT_RESERVE];
	u8 rs[] ____cacheline_aligned;
};

void woodlot_init(void);
unsigned long woodlot_alloc_slow(struct zone *zone, unsigned int order, u8 class,
				 unsigned int alloc_flags);
unsigned int woodlot_alloc_pages(struct zone *zone, int migratetype,
				 unsigned long *pfns, unsigned int nr);
void woodlot_free_pages(struct zone *zone, const unsigned long *pfns, unsigned int nr);
void woodlot_bad_free(struct zone *zone, unsigned long pfn, unsigned int order, u32 cause);
bool woodlot_has_order(struct zone *zone, unsigned int order, unsigned int alloc_flags);
bool woodlot_is_free(const struct page *page, unsigned int order);
bool woodlot_alloc_at(struct page *page, unsigned int order);
void woodlot_fill_reserve(struct zone *zone);
bool woodlot_drain_reserve(struct zone *zone);
void woodlot_count_blocks(struct zone *zone);
void woodlot_notify_free(struct zone *zone, unsigned long pfn);
void woodlot_set_reported(struct page *page, unsigned int order, bool reported);
int woodlot_report_zone(struct page_reporting_dev_info *prdev, struct scatterlist *sgl,
			struct zone *zone);

static inline void *woodlot_rs(struct zone *zone)
{
#ifdef CONFIG_WOODLOT_PAGE_ALLOC
	return zone->woodlot->rs;
#else
	return NULL;
#endif
}

/* Keeps pages apart by mobility, and away from those that are asked for huge. */
static __always_inline u8 woodlot_class(unsigned int order, int migratetype)
{
	if (order >= WOODLOT_RS_HUGE_ORDER)
		return WOODLOT_RS_HUGE;
	switch (migratetype) {
	case MIGRATE_MOVABLE:
		return WOODLOT_RS_MOVABLE;
	case MIGRATE_RECLAIMABLE:
		return WOODLOT_RS_RECLAIMABLE;
	default:
		return WOODLOT_RS_UNMOVABLE;
	}
}

static inline bool woodlot_reporting(void)
{
#ifdef CONFIG_PAGE_REPORTING
	return static_branch_unlikely(&page_reporting_enabled);
#else
	return false;
#endif
}

/* Allocates a block from this zone. The caller has checked the watermarks. */
static __always_inline struct page *woodlot_alloc(struct zone *zone, unsigned int order,
						  int migratetype, unsigned int alloc_flags)
{
	u8 class = woodlot_class(order, migratetype);
	unsigned long pfn;

	if (likely(!order))
		pfn = woodlot_rs_alloc_page(woodlot_rs(zone), class, raw_smp_processor_id());
	else
		pfn = woodlot_rs_alloc(woodlot_rs(zone), order, class, raw_smp_processor_id());
	if (unlikely(pfn == WOODLOT_RS_NONE)) {
		pfn = woodlot_alloc_slow(zone, order, class, alloc_flags);
		if (pfn == WOODLOT_RS_NONE)
			return NULL;
	}
	/* The next one is likely its neighbour, too far away for the processor's own prefetch. */
	if (order >= WOODLOT_RS_HUGE_ORDER)
		prefetchw(pfn_to_page(pfn) + (1UL << order));
	mod_zone_page_state(zone, NR_FREE_PAGES, -(1L << order));
	if (woodlot_reporting())
		woodlot_set_reported(pfn_to_page(pfn), order, false);
	return pfn_to_page(pfn);
}

/* Frees a block of allocated pages, whatever blocks they were allocated in. */
static __always_inline void woodlot_free(struct zone *zone, unsigned long pfn,
					 unsigned int order)
{
	u32 cause;

	if (likely(!order))
		cause = woodlot_rs_free_page(woodlot_rs(zone), pfn, raw_smp_processor_id());
	else
		cause = woodlot_rs_free(woodlot_rs(zone), pfn, order, raw_smp_processor_id());
	if (unlikely(cause)) {
		woodlot_bad_free(zone, pfn, order, cause);
		return;
	}
	mod_zone_page_state(zone, NR_FREE_PAGES, 1L << order);
	if (woodlot_reporting())
		woodlot_notify_free(zone, pfn);
}

#endif /* _MM_WOODLOT_H */
