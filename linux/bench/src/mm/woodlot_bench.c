// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Page allocator benchmarks.
 *
 * A line written to /proc/woodlot_bench runs one job; reading the file gives the result of the last
 * one as CSV. Blocks are taken and given back through alloc_pages() and __free_pages() alone, so
 * that one source measures whatever allocator lies below.
 *
 *   bulk order=3 threads=2    every thread allocates its share of half the memory, then frees it in
 *                             the order of allocation
 *   random ...                the same, but what all threads have allocated is shuffled and dealt
 *                             out to them again before it is freed
 *   repeat ... pairs=100000   every thread allocates one block and frees it, again and again
 *   remote ...                one thread of each two allocates while the other frees what the first
 *                             allocated one run before
 *   exit-storm ...            as bulk, but all threads free the blocks of all, in runs of STORM_RUN
 *                             dealt to them in turn
 *
 * Each pattern makes "runs" runs. Its result has the median and the minimum over the runs of the
 * time for one call (repeat: for both calls), averaged over the threads.
 *
 *   frag-fill movable=0 seed=1    allocate frames up to 90 % of memory, free a random half of them
 *   frag-churn                    free a random tenth of them, allocate as many, drain all CPUs
 *   frag-end                      free everything
 *
 *   atomic order=3    allocate blocks that cannot wait where memory is short, then all of memory, free
 *                     every second frame of it, and allocate such blocks again: they can only come
 *                     from what is set aside for them. The result has how many there were before and
 *                     after, in the places of allocs and frees.
 *   low order=3       the same, but free single frames only until such a block is allocated. The result
 *                     has whether one was, and after how many frames.
 *   reporting seconds=10 fail=0    have free memory reported (CONFIG_PAGE_REPORTING), to a device that
 *                     always fails if asked. The result has how often the device was asked, and how
 *                     many blocks it was told.
 */

#define pr_fmt(fmt) "woodlot_bench: " fmt

#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/page_reporting.h>
#include <linux/parser.h>
#include <linux/prandom.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/sort.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#define GFP_BENCH (GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN)

/* As many blocks as Linux frees in one go when a process ends. */
#define STORM_RUN 32

#define MAX_RUNS 1000

enum pattern {
	BULK, RANDOM, REPEAT, REMOTE, EXIT_STORM, FRAG_FILL, FRAG_CHURN, FRAG_END, ATOMIC, LOW, REPORTING
};

static const char * const names[] = {
	"bulk", "random", "repeat", "remote", "exit-storm", "frag-fill", "frag-churn", "frag-end",
	"atomic", "low", "reporting",
};

/* What a line asks for. */
struct job {
	enum pattern pattern;
	unsigned int order;
	unsigned int threads;
	unsigned int runs;
	unsigned int pairs;
	unsigned int movable;
	unsigned int seed;
	unsigned int seconds;
	unsigned int fail;
};

/* What one thread did in one run. */
struct sample {
	u64 alloc_ns;
	u64 free_ns;
	u64 allocs;
	u64 frees;
};

struct bench {
	const struct job *job;
	/* Blocks of one thread in one run. */
	size_t share;
	/* The threads' blocks one after the other: threads * share. */
	struct page **blocks;
	/* Those of a run one after the other: runs * threads. */
	struct sample *samples;
	struct rnd_state random;
	/* How often threads have come to the barrier, ever. */
	atomic_t arrived;
	atomic_t running;
	struct completion done;
};

struct worker {
	struct bench *bench;
	unsigned int index;
	/* How often this thread has passed the barrier. */
	unsigned int passed;
};

static DEFINE_MUTEX(lock);
static char result[256];

/* The frames of the fragmentation benchmark, from frag-fill to frag-end. */
static struct {
	struct page **frames;
	size_t used;
	gfp_t gfp;
	struct rnd_state random;
} frag;

static size_t below(struct rnd_state *random, size_t bound)
{
	return ((u64)prandom_u32_state(random) * bound) >> 32;
}

static void exchange(struct page **blocks, size_t a, size_t b)
{
	struct page *was = blocks[a];

	blocks[a] = blocks[b];
	blocks[b] = was;
}

/* Moves @wanted blocks, chosen at random, behind the others. */
static void draw(struct page **blocks, size_t count, size_t wanted, struct rnd_state *random)
{
	for (size_t left = count; left > count - wanted; left--) {
		size_t chosen = below(random, left);

		exchange(blocks, chosen, left - 1);
	}
}

static noinline size_t fill(struct page **blocks, size_t count, unsigned int order)
{
	size_t allocated = 0;

	for (size_t i = 0; i < count; i++) {
		blocks[i] = alloc_pages(GFP_BENCH, order);
		allocated += !!blocks[i];
	}
	return allocated;
}

static noinline size_t release(struct page **blocks, size_t count, unsigned int order)
{
	size_t freed = 0;

	for (size_t i = 0; i < count; i++) {
		if (!blocks[i])
			continue;
		__free_pages(blocks[i], order);
		freed++;
	}
	return freed;
}

/* Frees every @threads-th run of STORM_RUN blocks from the @thread-th on. */
static noinline size_t release_runs(struct page **blocks, size_t count, unsigned int order,
				    unsigned int thread, unsigned int threads)
{
	size_t freed = 0;

	for (size_t i = thread * STORM_RUN; i < count; i += threads * STORM_RUN)
		freed += release(blocks + i, min_t(size_t, STORM_RUN, count - i), order);
	return freed;
}

static noinline size_t repeat(size_t pairs, unsigned int order)
{
	size_t done = 0;

	for (size_t i = 0; i < pairs; i++) {
		struct page *block = alloc_pages(GFP_BENCH, order);

		if (!block)
			continue;
		__free_pages(block, order);
		done++;
	}
	return done;
}

/* Waits, spinning, until all threads have come here as often as this one. */
static void barrier_wait(struct worker *worker)
{
	struct bench *bench = worker->bench;
	int awaited = ++worker->passed * bench->job->threads;

	atomic_inc_return(&bench->arrived);
	while (atomic_read_acquire(&bench->arrived) - awaited < 0)
		cpu_relax();
}

static void timed_fill(struct bench *bench, struct page **blocks, struct sample *sample)
{
	u64 start = ktime_get_ns();

	sample->allocs = fill(blocks, bench->share, bench->job->order);
	sample->alloc_ns = ktime_get_ns() - start;
}

static void timed_release(struct bench *bench, struct page **blocks, struct sample *sample)
{
	u64 start = ktime_get_ns();

	sample->frees = release(blocks, bench->share, bench->job->order);
	sample->free_ns = ktime_get_ns() - start;
}

static void run_repeat(struct worker *worker, struct sample *sample)
{
	const struct job *job = worker->bench->job;
	u64 start;

	barrier_wait(worker);
	start = ktime_get_ns();
	sample->allocs = repeat(job->pairs, job->order);
	sample->frees = sample->allocs;
	sample->alloc_ns = ktime_get_ns() - start;
}

static void run_bulk(struct worker *worker, struct sample *sample)
{
	struct bench *bench = worker->bench;
	struct page **mine = bench->blocks + worker->index * bench->share;

	barrier_wait(worker);
	timed_fill(bench, mine, sample);
	barrier_wait(worker);
	timed_release(bench, mine, sample);
}

static void run_random(struct worker *worker, struct sample *sample)
{
	struct bench *bench = worker->bench;
	struct page **mine = bench->blocks + worker->index * bench->share;
	size_t all = bench->share * bench->job->threads;

	barrier_wait(worker);
	timed_fill(bench, mine, sample);
	barrier_wait(worker);
	if (worker->index == 0)
		draw(bench->blocks, all, all, &bench->random);
	barrier_wait(worker);
	timed_release(bench, mine, sample);
}

static void run_exit_storm(struct worker *worker, struct sample *sample)
{
	struct bench *bench = worker->bench;
	const struct job *job = bench->job;
	u64 start;

	barrier_wait(worker);
	timed_fill(bench, bench->blocks + worker->index * bench->share, sample);
	barrier_wait(worker);
	start = ktime_get_ns();
	sample->frees = release_runs(bench->blocks, bench->share * job->threads, job->order,
				     worker->index, job->threads);
	sample->free_ns = ktime_get_ns() - start;
}

/* Thread 2p fills one of the two shares of pair p while thread 2p + 1 frees the other. */
static void run_remote(struct worker *worker)
{
	struct bench *bench = worker->bench;
	const struct job *job = bench->job;
	struct page **pair = bench->blocks + (worker->index & ~1u) * bench->share;
	bool frees = worker->index & 1;

	for (unsigned int round = 0; round <= job->runs; round++) {
		/* The freeing thread is one round behind. */
		unsigned int run = round - frees;

		barrier_wait(worker);
		if (run < job->runs) {
			struct page **blocks = pair + (run & 1) * bench->share;
			struct sample *sample = &bench->samples[run * job->threads + worker->index];

			if (frees)
				timed_release(bench, blocks, sample);
			else
				timed_fill(bench, blocks, sample);
		}
	}
}

static int work(void *data)
{
	struct worker *worker = data;
	struct bench *bench = worker->bench;
	const struct job *job = bench->job;

	if (job->pattern == REMOTE)
		run_remote(worker);
	for (unsigned int run = 0; job->pattern != REMOTE && run < job->runs; run++) {
		struct sample *sample = &bench->samples[run * job->threads + worker->index];

		switch (job->pattern) {
		case BULK:
			run_bulk(worker, sample);
			break;
		case RANDOM:
			run_random(worker, sample);
			break;
		case EXIT_STORM:
			run_exit_storm(worker, sample);
			break;
		default:
			run_repeat(worker, sample);
		}
	}
	if (atomic_dec_and_test(&bench->running))
		complete(&bench->done);
	return 0;
}

static int compare(const void *a, const void *b)
{
	u64 left = *(const u64 *)a, right = *(const u64 *)b;

	return left < right ? -1 : left > right;
}

/* Appends median and minimum, in nanoseconds with one decimal; nothing where nothing was timed. */
static int write_figures(char *text, size_t size, u64 *tenths, unsigned int runs)
{
	u64 median;

	sort(tenths, runs, sizeof(*tenths), compare, NULL);
	if (tenths[runs - 1] == 0)
		return scnprintf(text, size, ",,");
	median = tenths[runs / 2];
	return scnprintf(text, size, ",%llu.%llu,%llu.%llu", median / 10, median % 10,
			 tenths[0] / 10, tenths[0] % 10);
}

static u64 per_call(u64 ns, u64 calls)
{
	return calls ? div64_u64(ns * 10, calls) : 0;
}

static int report(const struct bench *bench)
{
	const struct job *job = bench->job;
	u64 allocs = 0, frees = 0;
	u64 *alloc, *free;
	int length;

	alloc = kcalloc(2 * job->runs, sizeof(*alloc), GFP_KERNEL);
	if (!alloc)
		return -ENOMEM;
	free = alloc + job->runs;
	for (unsigned int run = 0; run < job->runs; run++) {
		struct sample sum = {};

		for (unsigned int thread = 0; thread < job->threads; thread++) {
			const struct sample *sample = &bench->samples[run * job->threads + thread];

			sum.allocs += sample->allocs;
			sum.frees += sample->frees;
			sum.alloc_ns += sample->alloc_ns;
			sum.free_ns += sample->free_ns;
		}
		allocs += sum.allocs;
		frees += sum.frees;
		alloc[run] = per_call(sum.alloc_ns, sum.allocs);
		free[run] = sum.free_ns ? per_call(sum.free_ns, sum.frees) : 0;
	}
	length = scnprintf(result, sizeof(result), "%s,%u,%u,%u,%llu,%llu", names[job->pattern],
			   job->order, job->threads, job->runs, allocs, frees);
	if (job->pattern == REPEAT)
		length += scnprintf(result + length, sizeof(result) - length, ",,,,");
	length += write_figures(result + length, sizeof(result) - length, alloc, job->runs);
	if (job->pattern == REPEAT)
		length += scnprintf(result + length, sizeof(result) - length, "\n");
	else {
		length += write_figures(result + length, sizeof(result) - length, free, job->runs);
		scnprintf(result + length, sizeof(result) - length, ",,\n");
	}
	kfree(alloc);
	return 0;
}

/* Starts one thread on each of the first CPUs, and waits until the last has ended. */
static int run_threads(struct bench *bench)
{
	const struct job *job = bench->job;
	struct task_struct **tasks;
	struct worker *workers;
	unsigned int cpu, made = 0;
	int error = 0;

	tasks = kcalloc(job->threads, sizeof(*tasks), GFP_KERNEL);
	workers = kcalloc(job->threads, sizeof(*workers), GFP_KERNEL);
	if (!tasks || !workers) {
		error = -ENOMEM;
		goto out;
	}
	cpus_read_lock();
	for_each_online_cpu(cpu) {
		struct worker *worker = &workers[made];

		if (made == job->threads)
			break;
		worker->bench = bench;
		worker->index = made;
		tasks[made] = kthread_create_on_node(work, worker, cpu_to_node(cpu),
						     "woodlot_bench/%u", cpu);
		if (IS_ERR(tasks[made])) {
			error = PTR_ERR(tasks[made]);
			break;
		}
		kthread_bind(tasks[made++], cpu);
	}
	if (!error && made < job->threads)
		error = -EINVAL;
	for (unsigned int i = 0; i < made; i++) {
		if (error)
			kthread_stop(tasks[i]);
		else
			wake_up_process(tasks[i]);
	}
	cpus_read_unlock();
	if (!error)
		wait_for_completion(&bench->done);
out:
	kfree(workers);
	kfree(tasks);
	return error;
}

static int measure(const struct job *job)
{
	struct bench bench = { .job = job };
	size_t half = (totalram_pages() / 2) >> job->order;
	int error;

	if (job->order > MAX_PAGE_ORDER || !job->threads || job->threads > num_online_cpus() ||
	    !job->runs || job->runs > MAX_RUNS || !job->pairs)
		return -EINVAL;
	if (job->pattern == REMOTE && job->threads % 2)
		return -EINVAL;
	bench.share = job->pattern == REPEAT ? 0 : half / job->threads;
	atomic_set(&bench.running, job->threads);
	init_completion(&bench.done);
	prandom_seed_state(&bench.random, job->seed);
	bench.blocks = vcalloc(max_t(size_t, bench.share * job->threads, 1), sizeof(struct page *));
	bench.samples = vcalloc(job->runs * job->threads, sizeof(struct sample));
	if (bench.blocks && bench.samples)
		error = run_threads(&bench);
	else
		error = -ENOMEM;
	if (!error)
		error = report(&bench);
	vfree(bench.blocks);
	vfree(bench.samples);
	return error;
}

/* Allocates frames into the places from @from on; says whether there were enough. */
static int frag_take(size_t from, size_t count)
{
	for (frag.used = from; frag.used < from + count; frag.used++) {
		frag.frames[frag.used] = alloc_pages(frag.gfp, 0);
		if (!frag.frames[frag.used])
			return -ENOMEM;
		cond_resched();
	}
	return 0;
}

/* Frees all frames from place @from on. */
static void frag_give(size_t from)
{
	while (frag.used > from) {
		__free_pages(frag.frames[--frag.used], 0);
		cond_resched();
	}
}

static int frag_end(void)
{
	frag_give(0);
	vfree(frag.frames);
	frag.frames = NULL;
	drain_all_pages(NULL);
	return 0;
}

static int frag_fill(const struct job *job)
{
	size_t count = totalram_pages() * 9 / 10;
	int error;

	if (frag.frames)
		return -EBUSY;
	frag.frames = vcalloc(count, sizeof(*frag.frames));
	if (!frag.frames)
		return -ENOMEM;
	frag.gfp = GFP_BENCH;
	if (job->movable)
		frag.gfp |= __GFP_HIGHMEM | __GFP_MOVABLE;
	prandom_seed_state(&frag.random, job->seed);
	/* What the rest of the kernel uses counts as filled. */
	count -= min(count, totalram_pages() - global_zone_page_state(NR_FREE_PAGES));
	error = frag_take(0, count);
	if (error) {
		frag_end();
		return error;
	}
	draw(frag.frames, frag.used, frag.used, &frag.random);
	frag_give(frag.used / 2);
	drain_all_pages(NULL);
	return 0;
}

static int frag_churn(void)
{
	size_t freed = frag.used / 10;
	size_t kept = frag.used - freed;
	int error;

	if (!frag.frames)
		return -EINVAL;
	draw(frag.frames, frag.used, freed, &frag.random);
	frag_give(kept);
	error = frag_take(kept, freed);
	drain_all_pages(NULL);
	return error;
}

/* Allocates up to @wanted blocks; returns how many. */
static size_t take(struct page **blocks, size_t wanted, gfp_t gfp, unsigned int order)
{
	size_t taken = 0;

	while (taken < wanted && (blocks[taken] = alloc_pages(gfp | __GFP_NOWARN, order)))
		taken++;
	return taken;
}

/*
 * Allocates all of memory, some of it as blocks that cannot wait, of which there are some set aside
 * since. Returns how many single frames there are.
 */
static size_t take_all(const struct job *job, struct page **frames, size_t count,
		       struct page **blocks, size_t *given)
{
	/* As far as an allocation gets that cannot wait either. */
	size_t taken = take(frames, count, GFP_NOWAIT, 0);

	*given = take(blocks, STORM_RUN, GFP_ATOMIC, job->order);
	/* One that could wait leaves alone what is set aside. */
	return taken + take(frames + taken, count - taken, GFP_BENCH | __GFP_MEMALLOC, 0);
}

/* Frees every second frame, so that they make no block, until all are freed or a block was given. */
static size_t give_singles(struct page **frames, size_t count, struct page **block, unsigned int order)
{
	size_t freed = 0;

	for (size_t i = 0; i < count && !(block && *block); i += 2) {
		__free_pages(frames[i], 0);
		frames[i] = NULL;
		freed++;
		if (block)
			take(block, 1, GFP_ATOMIC, order);
	}
	return freed;
}

static int atomic_blocks(const struct job *job)
{
	size_t count = totalram_pages(), all, before, first, second;
	struct page *blocks[2 * STORM_RUN] = {};
	struct page **frames;

	if (job->order > MAX_PAGE_ORDER)
		return -EINVAL;
	frames = vcalloc(count, sizeof(*frames));
	if (!frames)
		return -ENOMEM;
	all = take_all(job, frames, count, blocks, &before);
	if (job->pattern == LOW) {
		/* Far more than any watermark. */
		second = give_singles(frames, all / 16, &blocks[before], job->order);
		first = !!blocks[before];
	} else {
		give_singles(frames, all, NULL, 0);
		drain_all_pages(NULL);
		first = before;
		second = take(blocks + before, STORM_RUN, GFP_ATOMIC, job->order);
	}
	release(blocks, ARRAY_SIZE(blocks), job->order);
	release(frames, all, 0);
	vfree(frames);
	scnprintf(result, sizeof(result), "%s,%u,1,1,%zu,%zu,,,,,,\n", names[job->pattern],
		  job->order, first, second);
	return 0;
}

#ifdef CONFIG_PAGE_REPORTING

/* What the device that free memory is reported to was asked, and what it says. */
static struct {
	struct page_reporting_dev_info device;
	size_t calls;
	size_t blocks;
	bool fail;
} reported;

static int hear(struct page_reporting_dev_info *device, struct scatterlist *list,
		unsigned int blocks)
{
	reported.calls++;
	if (reported.fail)
		return -EIO;
	reported.blocks += blocks;
	return 0;
}

static int reporting(const struct job *job)
{
	int error;

	memset(&reported, 0, sizeof(reported));
	reported.device.report = hear;
	reported.fail = job->fail;
	error = page_reporting_register(&reported.device);
	if (error)
		return error;
	ssleep(job->seconds);
	page_reporting_unregister(&reported.device);
	scnprintf(result, sizeof(result), "%s,,1,1,%zu,%zu,,,,,,\n", names[job->pattern],
		  reported.calls, reported.blocks);
	return 0;
}

#else

static int reporting(const struct job *job)
{
	return -EOPNOTSUPP;
}

#endif

static int run_job(const struct job *job)
{
	switch (job->pattern) {
	case FRAG_FILL:
		return frag_fill(job);
	case FRAG_CHURN:
		return frag_churn();
	case FRAG_END:
		return frag_end();
	case ATOMIC:
	case LOW:
		return atomic_blocks(job);
	case REPORTING:
		return reporting(job);
	default:
		return measure(job);
	}
}

enum { ORDER, THREADS, RUNS, PAIRS, MOVABLE, SEED, SECONDS, FAIL, UNKNOWN };

static const match_table_t settings = {
	{ ORDER, "order=%u" },	   { THREADS, "threads=%u" }, { RUNS, "runs=%u" },
	{ PAIRS, "pairs=%u" },	   { MOVABLE, "movable=%u" }, { SEED, "seed=%u" },
	{ SECONDS, "seconds=%u" }, { FAIL, "fail=%u" },	      { UNKNOWN, NULL },
};

static int parse_setting(struct job *job, char *setting)
{
	substring_t args[MAX_OPT_ARGS];
	unsigned int *value;

	switch (match_token(setting, settings, args)) {
	case ORDER:
		value = &job->order;
		break;
	case THREADS:
		value = &job->threads;
		break;
	case RUNS:
		value = &job->runs;
		break;
	case PAIRS:
		value = &job->pairs;
		break;
	case MOVABLE:
		value = &job->movable;
		break;
	case SEED:
		value = &job->seed;
		break;
	case SECONDS:
		value = &job->seconds;
		break;
	case FAIL:
		value = &job->fail;
		break;
	default:
		pr_err("unknown setting \"%s\"\n", setting);
		return -EINVAL;
	}
	return match_uint(args, value);
}

static int parse(struct job *job, char *line)
{
	char *word = strsep(&line, " ");
	int pattern = match_string(names, ARRAY_SIZE(names), word);
	int error = 0;

	if (pattern < 0) {
		pr_err("unknown job \"%s\"\n", word);
		return pattern;
	}
	job->pattern = pattern;
	while (!error && (word = strsep(&line, " ")))
		error = *word ? parse_setting(job, word) : 0;
	return error;
}

static ssize_t bench_write(struct file *file, const char __user *data, size_t size, loff_t *offset)
{
	struct job job = { .threads = 1, .runs = 5, .pairs = 200000, .seed = 1 };
	char *line;
	int error;

	if (size > PAGE_SIZE)
		return -EINVAL;
	line = memdup_user_nul(data, size);
	if (IS_ERR(line))
		return PTR_ERR(line);
	error = parse(&job, strim(line));
	kfree(line);
	if (error)
		return error;
	mutex_lock(&lock);
	result[0] = '\0';
	error = run_job(&job);
	mutex_unlock(&lock);
	return error ? error : size;
}

static int bench_show(struct seq_file *file, void *unused)
{
	seq_puts(file, "pattern,order,threads,runs,allocs,frees,");
	seq_puts(file, "alloc_ns_median,alloc_ns_min,free_ns_median,free_ns_min,");
	seq_puts(file, "pair_ns_median,pair_ns_min\n");
	mutex_lock(&lock);
	seq_puts(file, result);
	mutex_unlock(&lock);
	return 0;
}

static int bench_open(struct inode *inode, struct file *file)
{
	return single_open(file, bench_show, NULL);
}

static const struct proc_ops bench_ops = {
	.proc_open = bench_open,
	.proc_read = seq_read,
	.proc_write = bench_write,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
};

static int __init bench_init(void)
{
	return proc_create("woodlot_bench", 0600, NULL, &bench_ops) ? 0 : -ENOMEM;
}
late_initcall(bench_init);
