// moves: how many frames would have to be moved so that all free ones lie in free huge frames, at the
// least (LLFree section 5.6), from the flags in /proc/kpageflags. Prints free frames, free huge frames
// and that number.
//
// The emptiest huge frames are those to be cleared; what is allocated in them must move.

#include <linux/kernel-page-flags.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { HUGE = 512, MOST = 1 << 16 };

static int fuller(const void *a, const void *b)
{
	return *(const int *)b - *(const int *)a;
}

int main(void)
{
	static uint64_t flags[HUGE];
	static int free_in[MOST];
	FILE *file = fopen("/proc/kpageflags", "r");
	size_t huge = 0, free = 0, free_huge = 0, moves = 0, got;

	while (file && huge < MOST && (got = fread(flags, sizeof(*flags), HUGE, file)) > 0) {
		for (size_t i = 0; i < got; i++)
			free_in[huge] += flags[i] >> KPF_BUDDY & 1;
		free += free_in[huge];
		free_huge += free_in[huge] == HUGE;
		huge++;
	}
	if (!file || !huge || !feof(file)) {
		fprintf(stderr, "moves: /proc/kpageflags cannot be read to its end\n");
		return 1;
	}
	qsort(free_in, huge, sizeof(*free_in), fuller);
	for (size_t i = 0; i < free / HUGE; i++)
		moves += HUGE - free_in[i];
	printf("%zu %zu %zu\n", free, free_huge, moves);
	return 0;
}
