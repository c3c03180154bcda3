// What the library has beside the malloc family. It exits with 0, or says what was wrong.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <woodlot_malloc.h>

#define CHECK(what) \
    do { if (!(what)) { fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #what, errno); exit(1); } } while (0)

static struct woodlot_malloc_size sizes[WOODLOT_MALLOC_SIZES];
static void *blocks[500];

// The number of the size for so many bytes.
static size_t number(size_t bytes) {
    size_t at = 0;
    while (sizes[at].bytes < bytes) at++;
    return at;
}

int main(int count, char **arguments) {
    struct woodlot_malloc_heap heap, later;
    free_sized(malloc(1), 1);
    CHECK(!woodlot_malloc_look(&heap, sizes, WOODLOT_MALLOC_SIZES));
    CHECK(heap.caches == (count > 1 ? WOODLOT_MALLOC_THREADS : WOODLOT_MALLOC_CPUS));
    CHECK(heap.size_count == WOODLOT_MALLOC_SIZES && sizes[WOODLOT_MALLOC_SIZES - 1].bytes == 32768);
    size_t at = number(3000);
    struct woodlot_malloc_size before = sizes[at];
    CHECK(before.bytes == 3072 && before.target >= 4);
    for (size_t i = 0; i < 500; i++) memset(blocks[i] = malloc(3000), 1, 3000);
    void *span = malloc(100000), *large = malloc(10 << 20);
    CHECK(span && large);
    CHECK(!woodlot_malloc_look(&later, sizes, WOODLOT_MALLOC_SIZES));
    CHECK(sizes[at].in_use == before.in_use + 500);
    CHECK(sizes[at].cache_alloc_misses >= before.cache_alloc_misses + 500 / sizes[at].target - 1);
    int is_counted = getenv("IS_COUNTED") != NULL;
    CHECK(sizes[at].cache_allocs == (is_counted ? before.cache_allocs + 500 : WOODLOT_MALLOC_NOT_COUNTED));
    CHECK(sizes[at].global_alloc_misses > 0 && sizes[at].global_alloc_misses <= sizes[at].cache_alloc_misses);
    CHECK(sizes[at].slabs_made > before.slabs_made && sizes[at].pages * 4096 > 500 * 3072);
    CHECK(later.span_count == heap.span_count + 1 && later.span_bytes == heap.span_bytes + 25 * 4096);
    CHECK(later.large_count == heap.large_count + 1 && later.large_bytes == heap.large_bytes + (10 << 20));
    CHECK(later.resident_bytes >= 500 * 3072 && later.free_pages < later.resident_bytes);
    for (size_t i = 0; i < 500; i++) free_sized(blocks[i], 3000);
    free_sized(NULL, 5);
    free_sized(span, 100000);
    free_sized(large, 10 << 20);
    void *aligned = aligned_alloc(512, 100);
    free_aligned_sized(aligned, 512, 100);
    free_aligned_sized(NULL, 512, 100);
    CHECK(!woodlot_malloc_look(NULL, sizes, WOODLOT_MALLOC_SIZES));
    CHECK(sizes[at].cache_frees == (is_counted ? before.cache_frees + 500 : WOODLOT_MALLOC_NOT_COUNTED));
    CHECK(sizes[at].in_use == before.in_use && sizes[at].cached > 0 && sizes[at].cache_free_misses > 0);
    woodlot_malloc_flush();
    CHECK(!woodlot_malloc_look(&later, sizes, WOODLOT_MALLOC_SIZES));
    CHECK(sizes[at].cached == 0 && sizes[at].global == 0 && sizes[at].slabs_freed > 0);
    CHECK(later.resident_bytes > 0 && later.large_count == heap.large_count);
    size_t resident = later.resident_bytes, given = woodlot_malloc_trim(0);
    CHECK(!woodlot_malloc_look(&later, NULL, 0));
    CHECK(given >= 500 * 3072 && later.resident_bytes < resident);
    // No more is written than there is room for.
    memset(sizes, 0xff, sizeof sizes);
    CHECK(!woodlot_malloc_look(NULL, sizes, 2) && sizes[1].bytes == 32 && sizes[2].bytes == (size_t)-1);
    errno = 77;
    CHECK(woodlot_malloc_print(1, 2) == EINVAL && woodlot_malloc_print(-1, WOODLOT_MALLOC_TEXT) == EIO);
    CHECK(errno == 77);
    CHECK(!woodlot_malloc_print(1, WOODLOT_MALLOC_TEXT) && !woodlot_malloc_print(1, WOODLOT_MALLOC_JSON));
    CHECK(arguments[0] != NULL);
    return 0;
}
