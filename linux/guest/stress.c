// What a page allocator must stand, seen from user space. Ends with status 0 if all was as it must be.
//
//   stress write SECONDS WORKERS   memory, shared memory and files are written, kept and read back
//   stress fork SECONDS WORKERS    processes that share their pages until one of them writes
//   stress oom TIMES               memory is used up until the kernel kills the one who did it
//   stress counts                  the statistics of every zone agree with its allocator
//
// Every page of memory is filled from its owner's seed and its own number, so a page that two owners
// were given is found by the one who wrote first.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = PAGE / sizeof(uint64_t), REGIONS = 24 };

static _Noreturn void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	printf("stress failed: ");
	vprintf(format, arguments);
	printf("\n");
	fflush(stdout);
	_exit(1);
}

static uint64_t mix(uint64_t value)
{
	value ^= value >> 30;
	value *= 0xbf58476d1ce4e5b9;
	value ^= value >> 27;
	value *= 0x94d049bb133111eb;
	return value ^ value >> 31;
}

static uint64_t state;

static uint64_t below(uint64_t bound)
{
	return mix(state += 0x9e3779b97f4a7c15) % bound;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

/* A mapping, and what its pages were written from. */
struct region {
	uint64_t *words;
	size_t pages;
	uint64_t seed;
};

static void write_pages(struct region *region, size_t from, size_t to)
{
	for (size_t page = from; page < to; page++)
		for (size_t i = 0; i < WORDS; i++)
			region->words[page * WORDS + i] = mix(region->seed + page) + i;
}

static void check_pages(const struct region *region, size_t from, size_t to)
{
	for (size_t page = from; page < to; page++) {
		uint64_t expected = mix(region->seed + page);

		for (size_t i = 0; i < WORDS; i++)
			if (region->words[page * WORDS + i] != expected + i)
				fail("process %d: page %zu of %zu, word %zu: %#llx, written was %#llx",
				     getpid(), page, region->pages, i,
				     (unsigned long long)region->words[page * WORDS + i],
				     (unsigned long long)expected + i);
	}
}

static void map(struct region *region, size_t pages, bool shared)
{
	int flags = MAP_ANONYMOUS | (shared ? MAP_SHARED : MAP_PRIVATE);

	region->words = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (region->words == MAP_FAILED)
		fail("mmap of %zu pages: %s", pages, strerror(errno));
	region->pages = pages;
	region->seed = below(UINT64_MAX);
	write_pages(region, 0, pages);
}

static void unmap(struct region *region)
{
	check_pages(region, 0, region->pages);
	if (munmap(region->words, region->pages * PAGE))
		fail("munmap: %s", strerror(errno));
	region->words = NULL;
}

/* Writes a file in /tmp, reads it back and removes it. */
static void file_round(size_t pages)
{
	uint64_t page[WORDS], seed = below(UINT64_MAX);
	char name[64];
	int file;

	snprintf(name, sizeof(name), "/tmp/stress-%d", getpid());
	file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (file < 0)
		fail("%s: %s", name, strerror(errno));
	for (size_t i = 0; i < pages; i++) {
		for (size_t word = 0; word < WORDS; word++)
			page[word] = mix(seed + i) + word;
		if (write(file, page, PAGE) != PAGE)
			fail("write of %s: %s", name, strerror(errno));
	}
	for (size_t i = 0; i < pages; i++) {
		if (pread(file, page, PAGE, i * PAGE) != PAGE)
			fail("read of %s: %s", name, strerror(errno));
		for (size_t word = 0; word < WORDS; word++)
			if (page[word] != mix(seed + i) + word)
				fail("%s: page %zu is not what was written", name, i);
	}
	close(file);
	unlink(name);
}

/* A value of /proc/meminfo, in pages. */
static size_t meminfo(const char *name)
{
	FILE *file = fopen("/proc/meminfo", "r");
	char line[128], key[64];
	unsigned long kib = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%63[^:]: %lu kB", key, &kib) == 2 && !strcmp(key, name)) {
			fclose(file);
			return kib / 4;
		}
	fail("/proc/meminfo has no %s", name);
}

/* Makes and drops regions of up to @budget pages together, until @end. */
static void write_worker(size_t budget, double end)
{
	struct region regions[REGIONS] = {};
	size_t largest = budget / REGIONS;

	do {
		struct region *region = &regions[below(REGIONS)];

		if (region->words)
			unmap(region);
		else
			map(region, 1 + below(below(4) ? 64 : largest), below(4) == 0);
		if (below(16) == 0)
			file_round(1 + below(largest));
	} while (now() < end);
	for (int i = 0; i < REGIONS; i++)
		if (regions[i].words)
			unmap(&regions[i]);
}

static void wait_for(pid_t child)
{
	int status;

	if (waitpid(child, &status, 0) != child)
		fail("waitpid: %s", strerror(errno));
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fail("process %d ended with status %#x", child, status);
}

static pid_t start(void)
{
	pid_t child = fork();

	if (child < 0)
		fail("fork: %s", strerror(errno));
	return child;
}

/* Forks again and again; parent and child write other halves of what they shared. */
static void fork_worker(size_t budget, double end)
{
	do {
		struct region region;
		size_t half;
		pid_t child;

		map(&region, 2 + below(budget / 2), false);
		half = region.pages / 2;
		child = start();
		if (child == 0) {
			struct region mine = region;

			mine.seed = mix(region.seed);
			write_pages(&mine, 0, half);
			check_pages(&mine, 0, half);
			check_pages(&region, half, region.pages);
			_exit(0);
		}
		check_pages(&region, 0, half);
		write_pages(&region, half, region.pages);
		wait_for(child);
		unmap(&region);
	} while (now() < end);
}

static void workers(void (*work)(size_t, double), double seconds, unsigned int count)
{
	size_t budget = meminfo("MemAvailable") / 2 / count;
	double end = now() + seconds;
	pid_t children[256];

	if (count < 1 || count > 256 || budget < 256)
		fail("%u workers, %zu pages for each", count, budget);
	for (unsigned int i = 0; i < count; i++) {
		children[i] = start();
		if (children[i] == 0) {
			state = mix(i + 1);
			work(budget, end);
			_exit(0);
		}
	}
	for (unsigned int i = 0; i < count; i++)
		wait_for(children[i]);
}

static void use_up_memory(void)
{
	const size_t step = 16 << 20;
	FILE *file = fopen("/proc/self/oom_score_adj", "w");

	if (!file || fprintf(file, "1000") < 0 || fclose(file))
		fail("oom_score_adj: %s", strerror(errno));
	for (;;) {
		char *memory = mmap(NULL, step, PROT_READ | PROT_WRITE,
				    MAP_ANONYMOUS | MAP_PRIVATE | MAP_NORESERVE, -1, 0);

		if (memory == MAP_FAILED)
			fail("mmap was refused before memory was used up: %s", strerror(errno));
		for (size_t i = 0; i < step; i += PAGE)
			memory[i] = 1;
	}
}

enum { MAX_ZONES = 64 };

struct zone {
	int node;
	char name[16];
	unsigned long free;
};

/* What the statistics say: "pages free" of a zone in /proc/zoneinfo. */
static bool parse_statistics(const char *line, struct zone *zone)
{
	sscanf(line, "Node %d, zone %15s", &zone->node, zone->name);
	return sscanf(line, " pages free %lu", &zone->free) == 1;
}

/* Blocks of each order in a zone of /proc/buddyinfo. */
static bool parse_blocks(const char *line, struct zone *zone)
{
	unsigned long blocks;
	int at, used;

	if (sscanf(line, "Node %d, zone %15s%n", &zone->node, zone->name, &at) != 2)
		return false;
	zone->free = 0;
	for (int order = 0; sscanf(line + at, "%lu%n", &blocks, &used) == 1; order++) {
		zone->free += blocks << order;
		at += used;
	}
	return true;
}

/* What Woodlot's allocator of a zone counts, in /proc/woodlot, if there is one, and its reserve. */
static bool parse_woodlot(const char *line, struct zone *zone)
{
	unsigned long reserved;

	if (sscanf(line, "node %d zone %15s nr_free_pages %*u free %lu free_huge %*u reserved %lu",
		   &zone->node, zone->name, &zone->free, &reserved) != 4)
		return false;
	zone->free += reserved;
	return true;
}

/* A file that has the free frames of each zone; a line that completes a zone is parsed as true. */
struct source {
	const char *path;
	bool (*parse)(const char *line, struct zone *zone);
};

static const struct source statistics = { "/proc/zoneinfo", parse_statistics };
static const struct source blocks = { "/proc/buddyinfo", parse_blocks };
static const struct source woodlot = { "/proc/woodlot", parse_woodlot };

static int read_zones(const struct source *source, struct zone *zones)
{
	FILE *file = fopen(source->path, "r");
	char line[512];
	int count = 0;

	while (file && count < MAX_ZONES && fgets(line, sizeof(line), file))
		count += source->parse(line, &zones[count]);
	if (file)
		fclose(file);
	return count;
}

/* Whether the free frames of all zones are as many as the statistics say; if not, @why says where. */
static bool agree(const struct source *allocators, char *why, size_t size)
{
	struct zone said[MAX_ZONES], have[MAX_ZONES];
	/* Adds up what CPUs count for themselves; is there only if there can be several. */
	int refresh = open("/proc/sys/vm/stat_refresh", O_WRONLY);
	int zones, allocated;

	if (refresh < 0 ? errno != ENOENT : write(refresh, "1", 1) != 1)
		fail("stat_refresh: %s", strerror(errno));
	if (refresh >= 0)
		close(refresh);
	zones = read_zones(&statistics, said);
	allocated = read_zones(allocators, have);
	if (!zones || !allocated)
		fail("no zones are listed");
	for (int i = 0, j = 0; i < zones; i++) {
		bool same = j < allocated && said[i].node == have[j].node &&
			    !strcmp(said[i].name, have[j].name);
		unsigned long own = same ? have[j++].free : 0;

		/* Zones without memory are in the statistics alone. */
		if (said[i].free != own) {
			snprintf(why, size, "node %d, zone %s: %lu frames are free, its allocator has %lu",
				 said[i].node, said[i].name, said[i].free, own);
			return false;
		}
	}
	return true;
}

/* Something is always allocated or freed meanwhile, so there are many attempts. */
static void counts(const struct source *allocators)
{
	char why[256];

	for (int i = 0; i < 500; i++) {
		if (agree(allocators, why, sizeof(why)))
			return;
		usleep(10000);
	}
	fail("%s", why);
}

/* All free frames, with those that CPUs keep in lists of their own. */
static size_t free_frames(void)
{
	FILE *file = fopen("/proc/zoneinfo", "r");
	size_t sum = 0, frames;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, " pages free %zu", &frames) == 1 ||
		    sscanf(line, " count: %zu", &frames) == 1)
			sum += frames;
	if (file)
		fclose(file);
	return sum;
}

/* The process that uses memory up is killed, and all but a hundredth of its memory comes back. */
static void out_of_memory(void)
{
	size_t before = free_frames(), after = 0;
	pid_t child = start();
	int status;

	if (child == 0)
		use_up_memory();
	if (waitpid(child, &status, 0) != child)
		fail("waitpid: %s", strerror(errno));
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		fail("who used up memory ended with status %#x, and was not killed", status);
	for (int i = 0; i < 100; i++) {
		after = free_frames();
		if (after >= before - before / 100)
			return;
		usleep(50000);
	}
	fail("%zu frames were free before memory was used up, %zu are now", before, after);
}

int main(int count, char **arguments)
{
	const char *what = count > 1 ? arguments[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(what, "write") && count == 4)
		workers(write_worker, atof(arguments[2]), atoi(arguments[3]));
	else if (!strcmp(what, "fork") && count == 4)
		workers(fork_worker, atof(arguments[2]), atoi(arguments[3]));
	else if (!strcmp(what, "oom") && count == 3)
		for (int i = 0; i < atoi(arguments[2]); i++)
			out_of_memory();
	else if (!strcmp(what, "counts") && count == 2) {
		counts(&blocks);
		if (!access("/proc/woodlot", R_OK))
			counts(&woodlot);
	} else
		fail("write SECONDS WORKERS | fork SECONDS WORKERS | oom TIMES | counts");
	return 0;
}
