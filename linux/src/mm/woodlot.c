// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The less frequent half of mm/woodlot.h: boot, the reserve for atomic
 * high-order allocations, exact frames, reports.
 */

#include <linux/bitmap.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/page_reporting.h>
#include <linux/proc_fs.h>
#include <linux/scatterlist.h>
#include <linux/seq_file.h>

#include "internal.h"

static_assert(WOODLOT_RS_ORDERS == NR_PAGE_ORDERS);

/*
 * How often an allocation tries again while the zone says that there is a
 * block. Such a try fails only if others allocated all blocks that it came to
 * while others freed some that it had passed. That this happens to three in a
 * row, and a block is left each time, is not worth a fourth: each goes through
 * all trees, and the page allocator has its own ways to try again.
 */
#define RETRIES 3

/* The huge frame of a page, counted from the first of its zone. */
static unsigned long huge_index(const struct zone *zone, unsigned long pfn)
{
	return (pfn >> WOODLOT_RS_HUGE_ORDER) - (zone->zone_start_pfn >> WOODLOT_RS_HUGE_ORDER);
}

/* How many huge frames a zone has, with those at its ends. */
static unsigned long nr_huge(const struct zone *zone)
{
	return huge_index(zone, zone_end_pfn(zone) - 1) + 1;
}

/*
 * Gives every zone its allocator, with all pages allocated: memblock frees
 * what there is. The number of possible CPUs is known by now, and memblock
 * still hands out memory.
 */
void __init woodlot_init(void)
{
	struct zone *zone;

	for_each_zone(zone) {
		unsigned long start = zone->zone_start_pfn, nr = zone->spanned_pages;
		int i, nid = zone_to_nid(zone);
		struct woodlot_zone *wz;
		unsigned long size;

		if (!nr)
			continue;
		size = woodlot_rs_size(start, nr, nr_cpu_ids);
		if (!size)
			panic("woodlot: no allocator for zone %s of %lu pages\n", zone->name, nr);
		wz = memblock_alloc_node(sizeof(*wz) + size, SMP_CACHE_BYTES, nid);
		if (!wz || !woodlot_rs_init(wz->rs, start, nr, nr_cpu_ids))
			panic("woodlot: no memory for the allocator of zone %s\n", zone->name);
		for (i = 0; i < WOODLOT_RESERVE; i++)
			wz->reserve[i] = WOODLOT_RS_NONE;
		wz->scarce = NR_PAGE_ORDERS;
		if (IS_ENABLED(CONFIG_PAGE_REPORTING)) {
			size = BITS_TO_LONGS(nr_huge(zone)) * sizeof(long);
			wz->reported = memblock_alloc_node(size, SMP_CACHE_BYTES, nid);
			if (!wz->reported)
				panic("woodlot: no memory for zone %s\n", zone->name);
		}
		zone->woodlot = wz;
	}
	if (debug_guardpage_minorder())
		pr_warn("woodlot: there are no guard pages: debug_guardpage_minorder is ignored\n");
}

/* The reserve has so many pages more. Each of the numbers is read by itself. */
static void count_reserve(struct zone *zone, long pages)
{
	unsigned long *const counts[] = {
		&zone->nr_free_highatomic, &zone->nr_reserved_highatomic,
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(counts); i++) {
		unsigned long old = READ_ONCE(*counts[i]);

		while (!try_cmpxchg(counts[i], &old, old + pages))
			;
	}
}

/* The first PFN of a block that was reserved in this place, or %WOODLOT_RS_NONE. */
static unsigned long unreserve(struct zone *zone, int place)
{
	unsigned long *reserve = &zone->woodlot->reserve[place];
	unsigned long pfn = READ_ONCE(*reserve);

	if (pfn != WOODLOT_RS_NONE)
		pfn = xchg(reserve, WOODLOT_RS_NONE);
	if (pfn != WOODLOT_RS_NONE)
		count_reserve(zone, -(1L << WOODLOT_RESERVE_ORDER));
	return pfn;
}

/* Leaves what was in the reserve to everybody. It has counted as free all the time. */
static void release(struct zone *zone, unsigned long pfn, unsigned int order)
{
	if (woodlot_give(zone, pfn, order) && woodlot_reporting())
		woodlot_notify_free(zone, pfn);
}

/* Takes a block out of the reserve and leaves the rest of it to everybody. */
static unsigned long take_reserve(struct zone *zone, unsigned int order)
{
	unsigned int part;
	int i;

	if (order > WOODLOT_RESERVE_ORDER)
		return WOODLOT_RS_NONE;
	for (i = 0; i < WOODLOT_RESERVE; i++) {
		unsigned long pfn = unreserve(zone, i);

		if (pfn == WOODLOT_RS_NONE)
			continue;
		for (part = WOODLOT_RESERVE_ORDER; part > order; part--)
			release(zone, pfn + (1UL << (part - 1)), part - 1);
		return pfn;
	}
	return WOODLOT_RS_NONE;
}

/*
 * Has the allocator a block? What it says is remembered for woodlot_has_order(),
 * but good news not within a second of bad ones: to fail takes far longer than
 * to ask, since all that other CPUs have reserved is drained.
 */
static bool is_available(struct zone *zone, unsigned int order)
{
	bool available = woodlot_rs_is_available(woodlot_rs(zone), order);
	struct woodlot_zone *wz = zone->woodlot;
	bool granted = order < READ_ONCE(wz->scarce);

	if (granted && !available) {
		WRITE_ONCE(wz->scarce_since, jiffies);
		WRITE_ONCE(wz->scarce, order);
	} else if (!granted && available &&
		   time_after(jiffies, READ_ONCE(wz->scarce_since) + HZ)) {
		WRITE_ONCE(wz->scarce, order + 1);
	}
	return available;
}

/*
 * The allocator has found nothing. The reserve is there for high-order
 * allocations that cannot wait, so they go to it at once. The others try again
 * while there is a block, since out-of-memory must not be reported for a race.
 */
unsigned long woodlot_alloc_slow(struct zone *zone, unsigned int order, u8 class,
				 unsigned int alloc_flags)
{
	unsigned long pfn = WOODLOT_RS_NONE;
	int i;

	if (alloc_flags & ALLOC_HIGHATOMIC)
		pfn = take_reserve(zone, order);
	for (i = 0; pfn == WOODLOT_RS_NONE && i < RETRIES; i++) {
		if (!is_available(zone, order))
			break;
		pfn = woodlot_take(zone, order, class);
	}
	/* Failing these now is worse than failing an atomic block later. */
	if (pfn == WOODLOT_RS_NONE &&
	    ((alloc_flags & ALLOC_OOM) || (!order && (alloc_flags & ALLOC_NON_BLOCK))))
		pfn = take_reserve(zone, order);
	return pfn;
}

/* Allocates up to @nr single pages at once; returns how many. */
unsigned int woodlot_alloc_pages(struct zone *zone, int migratetype,
				 unsigned long *pfns, unsigned int nr)
{
	unsigned int i, got;

	got = woodlot_rs_alloc_pages(woodlot_rs(zone), woodlot_class(0, migratetype), get_cpu(),
				     pfns, nr);
	put_cpu();
	mod_zone_page_state(zone, NR_FREE_PAGES, -(long)got);
	if (woodlot_reporting())
		for (i = 0; i < got; i++)
			woodlot_set_reported(pfn_to_page(pfns[i]), 0, false);
	return got;
}

/* Frees single pages at once. */
void woodlot_free_pages(struct zone *zone, const unsigned long *pfns, unsigned int nr)
{
	unsigned int done;

	done = woodlot_rs_free_pages(woodlot_rs(zone), pfns, nr, get_cpu());
	put_cpu();
	mod_zone_page_state(zone, NR_FREE_PAGES, done);
	/* One was refused: it is reported by itself, and then the rest. */
	for (; done < nr; done++)
		woodlot_free(zone, pfns[done], 0);
	if (woodlot_reporting())
		for (done = 0; done < nr; done++)
			woodlot_notify_free(zone, pfns[done]);
}

void woodlot_bad_free(struct zone *zone, unsigned long pfn, unsigned int order, u32 cause)
{
	static const char *const causes[] = {
		[1] = "it is free in part or as a whole already",
		[2] = "it is not in the zone",
		[3] = "it is not aligned to its order",
	};
	const char *why = "the allocator refused it";

	if (cause < ARRAY_SIZE(causes) && causes[cause])
		why = causes[cause];
	pr_alert("woodlot: zone %s: free of pfn %#lx, order %u: %s\n", zone->name, pfn, order, why);
	dump_page(pfn_to_page(pfn), "bad free");
	WARN_ON_ONCE(1);
}

/* Could an allocation with these flags succeed, as far as the allocator knows? */
bool woodlot_find_order(struct zone *zone, unsigned int order, unsigned int alloc_flags)
{
	if (is_available(zone, order))
		return true;
	return order <= WOODLOT_RESERVE_ORDER && READ_ONCE(zone->nr_free_highatomic) &&
	       (alloc_flags & (ALLOC_HIGHATOMIC | ALLOC_OOM));
}

/* Do these pages lie in a block of the reserve? */
static bool is_reserved(struct zone *zone, unsigned long pfn, unsigned int order)
{
	unsigned long block = ALIGN_DOWN(pfn, 1UL << WOODLOT_RESERVE_ORDER);
	int i;

	if (order > WOODLOT_RESERVE_ORDER || !READ_ONCE(zone->nr_free_highatomic))
		return false;
	for (i = 0; i < WOODLOT_RESERVE; i++)
		if (READ_ONCE(zone->woodlot->reserve[i]) == block)
			return true;
	return false;
}

/* Is every page of this block free at this moment? */
bool woodlot_is_free(const struct page *page, unsigned int order)
{
	struct zone *zone = page_zone(page);
	unsigned long pfn = page_to_pfn(page);

	return woodlot_rs_is_free(woodlot_rs(zone), pfn, order) || is_reserved(zone, pfn, order);
}

static bool take_at(struct zone *zone, unsigned long pfn, unsigned int order)
{
	bool taken = woodlot_rs_alloc_at(woodlot_rs(zone), pfn, order, get_cpu());

	put_cpu();
	return taken;
}

/* Allocates this very block, if it is free. */
bool woodlot_alloc_at(struct page *page, unsigned int order)
{
	struct zone *zone = page_zone(page);
	unsigned long pfn = page_to_pfn(page);

	if (!take_at(zone, pfn, order)) {
		/* What is reserved is free as well, only not known to the allocator. */
		if (!is_reserved(zone, pfn, order))
			return false;
		woodlot_drain_reserve(zone);
		if (!take_at(zone, pfn, order))
			return false;
	}
	mod_zone_page_state(zone, NR_FREE_PAGES, -(1L << order));
	if (woodlot_reporting())
		woodlot_set_reported(page, order, false);
	return true;
}

/*
 * An atomic high-order allocation has succeeded: keep a block for the next one,
 * as long as the reserve is less than a hundredth of the zone.
 */
void woodlot_fill_reserve(struct zone *zone)
{
	unsigned long *reserve = zone->woodlot->reserve;
	unsigned long pfn;
	int i;

	for (i = 0; i < WOODLOT_RESERVE; i++) {
		if (((i + 1UL) << WOODLOT_RESERVE_ORDER) > zone_managed_pages(zone) / 100)
			return;
		if (READ_ONCE(reserve[i]) == WOODLOT_RS_NONE)
			break;
	}
	if (i == WOODLOT_RESERVE || !is_available(zone, WOODLOT_RESERVE_ORDER))
		return;
	pfn = woodlot_take(zone, WOODLOT_RESERVE_ORDER, WOODLOT_RS_UNMOVABLE);
	if (pfn == WOODLOT_RS_NONE)
		return;
	if (woodlot_reporting())
		woodlot_set_reported(pfn_to_page(pfn), WOODLOT_RESERVE_ORDER, false);
	/* Counted before it can be taken, so that the count is never below zero. */
	count_reserve(zone, 1L << WOODLOT_RESERVE_ORDER);
	if (cmpxchg(&reserve[i], WOODLOT_RS_NONE, pfn) == WOODLOT_RS_NONE)
		return;
	count_reserve(zone, -(1L << WOODLOT_RESERVE_ORDER));
	release(zone, pfn, WOODLOT_RESERVE_ORDER);
}

/* Gives the reserve back; returns whether there was one. */
bool woodlot_drain_reserve(struct zone *zone)
{
	bool any = false;
	int i;

	for (i = 0; i < WOODLOT_RESERVE; i++) {
		unsigned long pfn = unreserve(zone, i);

		if (pfn == WOODLOT_RS_NONE)
			continue;
		release(zone, pfn, WOODLOT_RESERVE_ORDER);
		any = true;
	}
	return any;
}

/*
 * Counts the free blocks of each order, for /proc/buddyinfo and OOM reports,
 * which find the numbers where they look for them. Nothing else reads them.
 */
void woodlot_count_blocks(struct zone *zone)
{
	unsigned long counts[NR_PAGE_ORDERS];
	int order;

	woodlot_rs_free_blocks(woodlot_rs(zone), counts);
	counts[WOODLOT_RESERVE_ORDER] +=
		READ_ONCE(zone->nr_free_highatomic) >> WOODLOT_RESERVE_ORDER;
	for (order = 0; order < NR_PAGE_ORDERS; order++)
		WRITE_ONCE(zone->free_area[order].nr_free, counts[order]);
}

#ifdef CONFIG_PAGE_REPORTING

/* Does the hypervisor know of every huge frame of this block that it is unused? */
static bool is_reported(struct zone *zone, unsigned long pfn, unsigned int order)
{
	unsigned long first = huge_index(zone, pfn);
	unsigned long last = huge_index(zone, pfn + (1UL << order) - 1);

	return find_next_zero_bit(zone->woodlot->reported, last + 1, first) > last;
}

/* Pages were freed: is there a huge frame more to report? */
void woodlot_notify_free(struct zone *zone, unsigned long pfn)
{
	if (!is_reported(zone, pfn, 0) &&
	    woodlot_rs_free_in_huge(woodlot_rs(zone), pfn) == 1UL << WOODLOT_RS_HUGE_ORDER)
		page_reporting_notify_free(MAX_PAGE_ORDER);
}

/* The pages are held: the hypervisor does, or does not, know them to be unused. */
void woodlot_set_reported(struct page *page, unsigned int order, bool reported)
{
	struct zone *zone = page_zone(page);
	unsigned long *bits = zone->woodlot->reported;
	unsigned long pfn = page_to_pfn(page);
	unsigned long huge, last = huge_index(zone, pfn + (1UL << order) - 1);

	for (huge = huge_index(zone, pfn); huge <= last; huge++) {
		if (reported)
			set_bit(huge, bits);
		else if (test_bit(huge, bits))
			clear_bit(huge, bits);
	}
}

/* Reports the blocks of a list and puts them back. */
static int report_blocks(struct page_reporting_dev_info *prdev, struct zone *zone,
			 struct scatterlist *sgl, unsigned int nr, unsigned int order)
{
	int err = prdev->report(prdev, sgl, nr);
	struct scatterlist *sg;
	unsigned int i;

	for_each_sg(sgl, sg, nr, i) {
		/* As long as it is held: afterwards it may be in use again. */
		if (!err)
			woodlot_set_reported(sg_page(sg), order, true);
		/* Were it notified, a device that fails would be asked for ever. */
		woodlot_put_back(zone, page_to_pfn(sg_page(sg)), order);
	}
	return err;
}

/*
 * Claims the free blocks of a zone, huge frames or larger, of which the
 * hypervisor does not know that they are unused, a list at a time; reports
 * them, and puts them back. As with free lists, that is done for a sixteenth of
 * the blocks and one list more; for the rest another pass is asked for.
 */
int woodlot_report_zone(struct page_reporting_dev_info *prdev, struct scatterlist *sgl,
			struct zone *zone)
{
	unsigned int order = clamp(page_reporting_order, WOODLOT_RS_HUGE_ORDER, MAX_PAGE_ORDER);
	unsigned long size = 1UL << order, end = zone_end_pfn(zone), pfn;
	struct woodlot_rs_stats stats;
	unsigned int nr = 0;
	long budget;
	int err;

	woodlot_rs_stats(woodlot_rs(zone), &stats);
	budget = DIV_ROUND_UP(stats.free_huge >> (order - WOODLOT_RS_HUGE_ORDER),
			      PAGE_REPORTING_CAPACITY * 16);
	for (pfn = ALIGN(zone->zone_start_pfn, size); pfn + size <= end; pfn += size) {
		cond_resched();
		if (is_reported(zone, pfn, order) ||
		    !woodlot_rs_is_free(woodlot_rs(zone), pfn, order))
			continue;
		if (budget < 0) {
			__page_reporting_notify();
			break;
		}
		if (!__isolate_free_page(pfn_to_page(pfn), order))
			continue;
		if (!nr)
			sg_init_table(sgl, PAGE_REPORTING_CAPACITY);
		sg_set_page(&sgl[nr++], pfn_to_page(pfn), PAGE_SIZE << order, 0);
		if (nr < PAGE_REPORTING_CAPACITY)
			continue;
		err = report_blocks(prdev, zone, sgl, nr, order);
		if (err)
			return err;
		nr = 0;
		budget--;
	}
	if (!nr)
		return 0;
	sg_mark_end(&sgl[nr - 1]);
	return report_blocks(prdev, zone, sgl, nr, order);
}

#endif /* CONFIG_PAGE_REPORTING */

#ifdef CONFIG_PROC_FS

/*
 * /proc/woodlot: the engine, and for each zone the free pages by the kernel's count and by the
 * allocator's; the first are those and the reserve whenever nothing is under way.
 */
static int woodlot_show(struct seq_file *m, void *v)
{
	static const char *const names[] = {
		[WOODLOT_RS_UNMOVABLE] = "unmovable",
		[WOODLOT_RS_MOVABLE] = "movable",
		[WOODLOT_RS_HUGE] = "huge",
		[WOODLOT_RS_RECLAIMABLE] = "reclaimable",
	};
	struct zone *zone;

	seq_printf(m, "engine %s\n", woodlot_rs_engine());
	for_each_populated_zone(zone) {
		struct woodlot_rs_stats stats;
		int i;

		woodlot_rs_stats(woodlot_rs(zone), &stats);
		seq_printf(m, "node %d zone %s nr_free_pages %lu free %lu free_huge %lu reserved %lu",
			   zone_to_nid(zone), zone->name,
			   zone_page_state_snapshot(zone, NR_FREE_PAGES),
			   stats.free_frames, stats.free_huge,
			   READ_ONCE(zone->nr_free_highatomic));
		for (i = 0; i < WOODLOT_RS_CLASSES; i++)
			seq_printf(m, " %s %lu %lu %lu", names[i], stats.classes[i].trees,
				   stats.classes[i].free_frames, stats.classes[i].free_huge);
		if (IS_ENABLED(CONFIG_PAGE_REPORTING))
			seq_printf(m, " reported %u",
				   bitmap_weight(zone->woodlot->reported, nr_huge(zone)));
		seq_putc(m, '\n');
	}
	return 0;
}

static int __init woodlot_proc_init(void)
{
	proc_create_single("woodlot", 0444, NULL, woodlot_show);
	return 0;
}
fs_initcall(woodlot_proc_init);

#endif /* CONFIG_PROC_FS */
