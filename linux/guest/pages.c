// What walks free pages or claims them by number, seen from user space. Ends with status 0 if all was
// as it must be. Needs a kernel built --with features.
//
//   pages flags      /proc/kpageflags marks as many pages free as the zones count
//   pages poison     free pages fail, are gone, and come back repaired; pages in use are replaced
//   pages owner      no free page has an owner (needs page_owner=on)
//   pages reporting  the hypervisor hears of free huge frames, once, and again after they were used

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, BUDDY = 10, HWPOISON = 19, HUGE = 512, ATTEMPTS = 200 };

#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE 101
#endif

static _Noreturn void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	printf("pages failed: ");
	vprintf(format, arguments);
	printf("\n");
	exit(1);
}

static void pause_a_little(void)
{
	usleep(10000);
}

/* The flags of every page. */
static size_t kpageflags(uint64_t **flags)
{
	static uint64_t *all;
	static size_t room;
	int file = open("/proc/kpageflags", O_RDONLY);
	size_t count = 0;
	ssize_t got;

	if (file < 0)
		fail("/proc/kpageflags: %s", strerror(errno));
	do {
		if (count == room) {
			room = room ? 2 * room : 1 << 16;
			all = realloc(all, room * sizeof(*all));
			if (!all)
				fail("no memory for the flags of %zu pages", room);
		}
		got = read(file, all + count, (room - count) * sizeof(*all));
		if (got < 0)
			fail("/proc/kpageflags, page %zu: %s", count, strerror(errno));
		count += got / sizeof(*all);
	} while (got);
	close(file);
	*flags = all;
	return count;
}

static bool has(uint64_t flags, int bit)
{
	return flags >> bit & 1;
}

static uint64_t flags_of(size_t pfn)
{
	int file = open("/proc/kpageflags", O_RDONLY);
	uint64_t flags;

	if (file < 0 || pread(file, &flags, sizeof(flags), pfn * sizeof(flags)) != sizeof(flags))
		fail("/proc/kpageflags, page %zu: %s", pfn, strerror(errno));
	close(file);
	return flags;
}

static size_t marked_free(void)
{
	uint64_t *flags;
	size_t count = kpageflags(&flags), marked = 0;

	for (size_t pfn = 0; pfn < count; pfn++)
		marked += has(flags[pfn], BUDDY);
	return marked;
}

/* The free pages of all zones by the kernel's statistics. */
static size_t counted_free(void)
{
	FILE *file = fopen("/proc/zoneinfo", "r");
	size_t sum = 0, pages;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, " pages free %zu", &pages) == 1)
			sum += pages;
	if (file)
		fclose(file);
	return sum;
}

/* Pages come and go while they are looked at, so there are many attempts. */
static void check_flags(void)
{
	size_t marked = 0, counted = 0;

	for (int i = 0; i < ATTEMPTS; i++) {
		size_t before = counted_free();

		marked = marked_free();
		counted = counted_free();
		/* What is marked lies between two counts that are near each other. */
		if (before <= counted + 64 && counted <= before + 64 &&
		    marked + 64 >= counted && marked <= counted + 64)
			return;
		pause_a_little();
	}
	fail("%zu pages are marked free, %zu are counted", marked, counted);
}

static bool tell(const char *name, size_t pfn)
{
	char path[64], text[32];
	int file, length;
	bool done;

	snprintf(path, sizeof(path), "/sys/kernel/debug/hwpoison/%s", name);
	file = open(path, O_WRONLY);
	if (file < 0)
		fail("%s: %s", path, strerror(errno));
	length = snprintf(text, sizeof(text), "%zu", pfn);
	done = write(file, text, length) == length;
	close(file);
	return done;
}

/* Some free page, each time another one: of free huge frames, and of others. */
static size_t some_free_page(unsigned int nth)
{
	uint64_t *flags;
	size_t count = kpageflags(&flags);
	size_t start = nth * 2654435761u % count;

	for (size_t i = 0; i < count; i++) {
		size_t pfn = (start + i) % count;

		if (has(flags[pfn], BUDDY))
			return pfn;
	}
	fail("no page is free");
}

static void poison_free_pages(void)
{
	enum { PAGES = 64 };
	size_t pfns[PAGES], count = 0;

	for (unsigned int nth = 0; nth < 4 * PAGES && count < PAGES; nth++) {
		size_t pfn = some_free_page(nth);

		/* It may have been allocated meanwhile: then something else is tested. */
		if (!tell("corrupt-pfn", pfn) || !has(flags_of(pfn), HWPOISON))
			continue;
		pfns[count++] = pfn;
	}
	if (count < PAGES)
		fail("of %u free pages only %zu could be made to fail", 4 * PAGES, count);
	for (size_t i = 0; i < count; i++)
		if (has(flags_of(pfns[i]), BUDDY))
			fail("page %zu failed and is free", pfns[i]);
	check_flags();
	for (size_t i = 0; i < count; i++)
		if (!tell("unpoison-pfn", pfns[i]) || has(flags_of(pfns[i]), HWPOISON))
			fail("page %zu was not repaired: %s", pfns[i], strerror(errno));
	check_flags();
	for (size_t i = 0, back = 0; i < count; i++) {
		back += has(flags_of(pfns[i]), BUDDY);
		/* Some may be in use by now. */
		if (i + 1 == count && back < count / 2)
			fail("of %zu repaired pages only %zu are free", count, back);
	}
}

/* What is in pages that are taken out of use softly is kept elsewhere. */
static void replace_used_pages(void)
{
	enum { PAGES = 256 };
	unsigned char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	for (size_t i = 0; i < PAGES * PAGE; i++)
		memory[i] = i ^ i >> 8 ^ i >> 16;
	/* Refused as long as somebody else has the page for a moment. */
	for (size_t page = 0; page < PAGES; page += 4)
		for (int i = 0; madvise(memory + page * PAGE, PAGE, MADV_SOFT_OFFLINE); i++) {
			if (errno != EBUSY || i == ATTEMPTS)
				fail("MADV_SOFT_OFFLINE of page %zu: %s", page, strerror(errno));
			pause_a_little();
		}
	for (size_t i = 0; i < PAGES * PAGE; i++)
		if (memory[i] != (unsigned char)(i ^ i >> 8 ^ i >> 16))
			fail("byte %zu of the replaced pages is not what was written", i);
	munmap(memory, PAGES * PAGE);
	check_flags();
}

/* /proc/kpageflags is read before and after, for pages come and go. */
static void check_owners(void)
{
	FILE *file = fopen("/sys/kernel/debug/page_owner", "r");
	uint64_t *flags;
	size_t pages, owned = 0, wrong = 0;
	char line[512];

	if (!file)
		fail("/sys/kernel/debug/page_owner: %s", strerror(errno));
	pages = kpageflags(&flags);
	while (fgets(line, sizeof(line), file)) {
		unsigned long pfn;

		if (sscanf(line, "PFN %lx", &pfn) != 1)
			continue;
		owned++;
		if (pfn < pages && has(flags[pfn], BUDDY) && has(flags_of(pfn), BUDDY))
			wrong++;
	}
	fclose(file);
	if (owned < 1000)
		fail("page owner knows of %zu blocks only", owned);
	if (wrong > owned / 100)
		fail("%zu of %zu blocks with an owner are free", wrong, owned);
}

/* The sum of a value of all zones in /proc/woodlot. */
static size_t zones(const char *name)
{
	FILE *file = fopen("/proc/woodlot", "r");
	char line[512], pattern[32];
	size_t sum = 0;

	snprintf(pattern, sizeof(pattern), " %s ", name);
	while (file && fgets(line, sizeof(line), file)) {
		const char *found = strstr(line, pattern);

		if (!found)
			fail("/proc/woodlot says nothing of \"%s\"", name);
		sum += strtoull(found + strlen(pattern), NULL, 10);
	}
	if (!file)
		fail("/proc/woodlot: %s", strerror(errno));
	fclose(file);
	return sum;
}

/* Reports come every two seconds, of pairs of huge frames: single ones are left out. */
static void wait_for_reports(const char *when)
{
	for (int i = 0; i < 4000; i++) {
		size_t reported = zones("reported"), huge = zones("free_huge");

		if (reported >= huge - huge / 10 && reported <= huge + 1)
			return;
		pause_a_little();
	}
	fail("%s: %zu huge frames are free, %zu are reported", when, zones("free_huge"),
	     zones("reported"));
}

static void check_reports(void)
{
	size_t before, during, size;
	char *memory;

	wait_for_reports("at first");
	before = zones("reported");
	size = before / 2 * HUGE * PAGE;
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		fail("mmap of %zu bytes: %s", size, strerror(errno));
	for (size_t i = 0; i < size; i += PAGE)
		memory[i] = 1;
	during = zones("reported");
	/* Some of it fills up huge frames that were in use in part. */
	if (during > before - before / 2 + before / 10)
		fail("%zu huge frames are reported, and were before half of them came into use: %zu",
		     during, before);
	munmap(memory, size);
	wait_for_reports("after use");
}

int main(int count, char **arguments)
{
	const char *what = count == 2 ? arguments[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(what, "flags")) {
		check_flags();
	} else if (!strcmp(what, "poison")) {
		poison_free_pages();
		replace_used_pages();
	} else if (!strcmp(what, "owner")) {
		check_owners();
	} else if (!strcmp(what, "reporting")) {
		check_reports();
	} else {
		fail("flags | poison | owner | reporting");
	}
	return 0;
}
