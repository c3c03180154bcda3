/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The page allocator's free lists, replaced by a lock-free allocator per zone
 * (CONFIG_WOODLOT_PAGE_ALLOC). A zone's free pages are known to that allocator
 * alone: there are no buddies, no per-CPU lists, and zone->lock guards nothing
 * here. NR_FREE_PAGES is kept beside it, as everybody else expects.
 *
 * Calls that change an allocator are made with preemption off. They are right
 * without, but in the middle of one a tree or a huge frame is held, and others
 * do not find what is free in it: for as long as its task did not run, that is.
 * They are short and take no locks, which PREEMPT_RT asks for, and where the
 * kernel cannot be preempted this costs nothing.
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

/* One of a watermark check's alloc_flags: an allocation follows. */
#ifdef CONFIG_WOODLOT_PAGE_ALLOC
#define ALLOC_FOLLOWS		0x10000
#else
#define ALLOC_FOLLOWS		0
#endif

/**
 * struct woodlot_zone - what a zone has in the place of free lists
 * @reported: a bit for each huge frame that the hypervisor knows to be free;
 *	set while it is held, cleared when some page of it is allocated
 * @reserve: the first PFNs of blocks kept for %ALLOC_HIGHATOMIC, or
 *	%WOODLOT_RS_NONE; each is put and taken by an exchange. They count as
 *	free pages, and in the zone's nr_free_highatomic and
 *	nr_reserved_highatomic
 * @scarce: the orders from this on were lately looked for in vain, or have not
 *	been looked for since
 * @scarce_since: when that was, in jiffies
 * @rs: the allocator
 */
struct woodlot_zone {
	unsigned long *reported;
	unsigned long reserve[WOODLOT_RESERVE];
	unsigned int scarce;
	unsigned long scarce_since;
	u8 rs[] ____cacheline_aligned;
};

void woodlot_init(void);
unsigned long woodlot_alloc_slow(struct zone *zone, unsigned int order, u8 class,
				 unsigned int alloc_flags);
unsigned int woodlot_alloc_pages(struct zone *zone, int migratetype,
				 unsigned long *pfns, unsigned int nr);
void woodlot_free_pages(struct zone *zone, const unsigned long *pfns, unsigned int nr);
void woodlot_bad_free(struct zone *zone, unsigned long pfn, unsigned int order, u32 cause);
bool woodlot_find_order(struct zone *zone, unsigned int order, unsigned int alloc_flags);
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

/*
 * Could an allocation with these flags succeed? Where one follows that is taken
 * for granted until one has found nothing; from then on the allocator is asked.
 * The question comes before every high-order allocation, and would take a
 * quarter of its time.
 */
static inline bool woodlot_has_order(struct zone *zone, unsigned int order,
				     unsigned int alloc_flags)
{
#ifdef CONFIG_WOODLOT_PAGE_ALLOC
	if ((alloc_flags & ALLOC_FOLLOWS) && order < READ_ONCE(zone->woodlot->scarce))
		return true;
#endif
	return woodlot_find_order(zone, order, alloc_flags);
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

/* Has the allocator allocate a block, and leaves everything else to the caller. */
static __always_inline unsigned long woodlot_take(struct zone *zone, unsigned int order, u8 class)
{
	unsigned long pfn;
	int cpu = get_cpu();

	if (likely(!order))
		pfn = woodlot_rs_alloc_page(woodlot_rs(zone), class, cpu);
	else
		pfn = woodlot_rs_alloc(woodlot_rs(zone), order, class, cpu);
	put_cpu();
	return pfn;
}

/* Has the allocator free a block; says whether it did. */
static __always_inline bool woodlot_give(struct zone *zone, unsigned long pfn, unsigned int order)
{
	int cpu = get_cpu();
	u32 cause;

	if (likely(!order))
		cause = woodlot_rs_free_page(woodlot_rs(zone), pfn, cpu);
	else
		cause = woodlot_rs_free(woodlot_rs(zone), pfn, order, cpu);
	put_cpu();
	if (likely(!cause))
		return true;
	woodlot_bad_free(zone, pfn, order, cause);
	return false;
}

/* Allocates a block from this zone. The caller has checked the watermarks. */
static __always_inline struct page *woodlot_alloc(struct zone *zone, unsigned int order,
						  int migratetype, unsigned int alloc_flags)
{
	u8 class = woodlot_class(order, migratetype);
	unsigned long pfn = woodlot_take(zone, order, class);

	if (unlikely(pfn == WOODLOT_RS_NONE)) {
		pfn = woodlot_alloc_slow(zone, order, class, alloc_flags);
		if (pfn == WOODLOT_RS_NONE)
			return NULL;
	}
	/* The next one is likely its neighbour, too far away for the processor's own prefetch. */
	if (order > PAGE_ALLOC_COSTLY_ORDER)
		prefetchw(pfn_to_page(pfn) + (1UL << order));
	mod_zone_page_state(zone, NR_FREE_PAGES, -(1L << order));
	if (woodlot_reporting())
		woodlot_set_reported(pfn_to_page(pfn), order, false);
	return pfn_to_page(pfn);
}

/* Puts back what was taken out to be looked at: the hypervisor need not hear of it. */
static __always_inline bool woodlot_put_back(struct zone *zone, unsigned long pfn,
					     unsigned int order)
{
	if (unlikely(!woodlot_give(zone, pfn, order)))
		return false;
	mod_zone_page_state(zone, NR_FREE_PAGES, 1L << order);
	return true;
}

/*
 * The zone of a page. Its struct page says which, but that may be far away, and
 * everything that is done in the zone would wait for it. Most pages are of one
 * zone: a processor that guesses so goes on meanwhile, and comes to the next
 * page. Frees in a random order take two thirds of the time.
 */
static __always_inline struct zone *woodlot_zone_of(const struct page *page)
{
	int nid = numa_node_id();

	if (likely(page_zonenum(page) == ZONE_NORMAL && page_to_nid(page) == nid))
		return &NODE_DATA(nid)->node_zones[ZONE_NORMAL];
	/* Nor may the compiler make one calculation of both. */
	barrier();
	return page_zone(page);
}

/* Frees a block of allocated pages, whatever blocks they were allocated in. */
static __always_inline void woodlot_free(struct zone *zone, unsigned long pfn,
					 unsigned int order)
{
	if (woodlot_put_back(zone, pfn, order) && woodlot_reporting())
		woodlot_notify_free(zone, pfn);
}

#endif /* _MM_WOODLOT_H */
