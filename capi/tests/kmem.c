/*
 * woodlot_kmem.h from C: blocks of all sizes, cookies, alignment, objects, memory that runs out and comes back, wrong
 * frees, and bad input. Two CPUs, one after the other.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <woodlot_kmem.h>

enum { FRAMES = 2048, CPUS = 2, PAGE = 4096 };

static int failures;

static void expect(int line, int expected, int said)
{
    if (said == expected)
        return;
    failures++;
    fprintf(stderr, "line %d: %d (%s), not %d\n", line, said, woodlot_error_message(said), expected);
}

#define EXPECT(expected, call) expect(__LINE__, (expected), (call))
#define CHECK(fact) expect(__LINE__, 1, (fact) != 0)

/* ---- What a kernel supplies ---- */

static size_t cpu, entered;
static uint32_t wrong;
static void *wrong_at, *held;
static struct woodlot_kmem kmem;

static size_t enter(void *context, size_t *state)
{
    *state = ++entered;
    return cpu + (context != (void *)&entered);
}

static void leave(void *context, size_t state)
{
    CHECK(context == (void *)&entered && state == entered);
    entered--;
}

/* The other CPU does it at once. */
static int call(void *context, size_t other, void (*run)(void *), void *argument)
{
    size_t here = cpu, state;
    cpu = other;
    CHECK(enter(context, &state) == other);
    run(argument);
    leave(context, state);
    cpu = here;
    return 1;
}

static void misuse(void *context, uint32_t kind, void *block)
{
    CHECK(context == (void *)&entered);
    wrong = kind;
    wrong_at = block;
}

static int reclaim(void *context, size_t pages)
{
    CHECK(context == (void *)&entered && pages > 0);
    if (!held)
        return 0;
    EXPECT(WOODLOT_OK, woodlot_kmem_free_any(&kmem, held));
    held = NULL;
    return 1;
}

static struct woodlot_zone zone;
static struct woodlot_kmem_config config = {&zone, NULL, {CPUS, &entered, enter, leave, call}, misuse, reclaim};
static struct woodlot_kmem_memory memory;

static void *aligned(size_t align, size_t bytes)
{
    void *start = aligned_alloc(align, (bytes + align - 1) / align * align);
    if (!start)
        exit(EXIT_FAILURE);
    return memset(start, 0xa5, bytes);
}

static int all(const unsigned char *bytes, size_t count, unsigned char byte)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != byte)
            return 0;
    return 1;
}

/* ---- Blocks ---- */

static void everything_is_free(void)
{
    EXPECT(WOODLOT_OK, woodlot_kmem_flush(&kmem));
    CHECK(woodlot_free_frames(&zone).count == FRAMES);
    CHECK(entered == 0 && wrong == 0);
}

static void sizes(void)
{
    static void *blocks[3 * PAGE];
    for (size_t bytes = 0; bytes < 3 * PAGE; bytes += 17) {
        cpu = bytes % CPUS;
        blocks[bytes] = woodlot_kmem_alloc(&kmem, bytes);
        CHECK(blocks[bytes] && (uintptr_t)blocks[bytes] % 16 == 0);
        CHECK(woodlot_kmem_usable(&kmem, blocks[bytes]) >= bytes);
        memset(blocks[bytes], (int)(bytes % 251), bytes);
    }
    for (size_t bytes = 0; bytes < 3 * PAGE; bytes += 17) {
        CHECK(all(blocks[bytes], bytes, (unsigned char)(bytes % 251)));
        cpu = bytes / 2 % CPUS;
        EXPECT(WOODLOT_OK, bytes % 3 ? woodlot_kmem_free(&kmem, blocks[bytes], bytes)
                                     : woodlot_kmem_free_any(&kmem, blocks[bytes]));
    }
    everything_is_free();
}

static void cookies(void)
{
    for (size_t bytes = 0; bytes <= WOODLOT_KMEM_MAX_SIZE; bytes++) {
        struct woodlot_kmem_cookie cookie = woodlot_kmem_cookie(bytes), folded = woodlot_kmem_cookie_of(bytes);
        struct woodlot_kmem_stats stats;
        CHECK(!cookie.error && !folded.error && cookie.number == folded.number);
        EXPECT(WOODLOT_OK, woodlot_kmem_size(&kmem, cookie.number, &stats));
        CHECK(stats.bytes >= bytes && (bytes <= 16 || stats.bytes * 4 <= bytes * 5 + 60));
    }
    struct woodlot_kmem_cookie none = woodlot_kmem_cookie(WOODLOT_KMEM_MAX_SIZE + 1);
    EXPECT(WOODLOT_E_TOO_LARGE, none.error);
    EXPECT(WOODLOT_E_TOO_LARGE, woodlot_kmem_cookie_of(SIZE_MAX).error);
    CHECK(!woodlot_kmem_alloc_cookie(&kmem, none));
    struct woodlot_kmem_cookie cookie = woodlot_kmem_cookie_of(200);
    void *block = woodlot_kmem_alloc_cookie(&kmem, cookie);
    CHECK(woodlot_kmem_usable(&kmem, block) == 224);
    EXPECT(WOODLOT_E_TOO_LARGE, woodlot_kmem_free_cookie(&kmem, block, none));
    EXPECT(WOODLOT_OK, woodlot_kmem_free_cookie(&kmem, block, cookie));
    everything_is_free();
}

static void alignment(void)
{
    for (size_t align = 1; align <= 16 * PAGE; align *= 2) {
        void *block = woodlot_kmem_alloc_aligned(&kmem, 100, align);
        CHECK(block && (uintptr_t)block % align == 0);
        EXPECT(WOODLOT_OK, woodlot_kmem_free_aligned(&kmem, block, 100, align));
    }
    CHECK(!woodlot_kmem_alloc_aligned(&kmem, 100, 0) && !woodlot_kmem_alloc_aligned(&kmem, 100, 48));
    EXPECT(WOODLOT_E_MISALIGNED, woodlot_kmem_free_aligned(&kmem, &zone, 100, 48));
    everything_is_free();
}

/* All of memory in one size, and then in another. What the other CPU keeps is found. */
static void shortage(void)
{
    static void *blocks[FRAMES * (PAGE / 32)];
    for (size_t bytes = 32; bytes <= PAGE; bytes *= 8) {
        size_t count = 0;
        cpu = 0;
        while (count < FRAMES * (PAGE / 32) && (blocks[count] = woodlot_kmem_alloc(&kmem, bytes)))
            count++;
        CHECK(count == FRAMES * (PAGE / bytes));
        CHECK(woodlot_free_frames(&zone).count == 0);
        cpu = 1;
        EXPECT(WOODLOT_OK, woodlot_kmem_free(&kmem, blocks[0], bytes));
        cpu = 0;
        void *last = woodlot_kmem_alloc(&kmem, bytes);
        CHECK(last == blocks[0]);
        /* There is none left, until something is reclaimed. */
        CHECK(!woodlot_kmem_alloc(&kmem, bytes));
        held = last;
        CHECK(woodlot_kmem_alloc(&kmem, bytes) == last && !held);
        for (size_t i = 0; i < count; i++)
            EXPECT(WOODLOT_OK, woodlot_kmem_free(&kmem, blocks[i], bytes));
    }
    CHECK(!woodlot_kmem_alloc(&kmem, SIZE_MAX) && !woodlot_kmem_alloc(&kmem, (size_t)FRAMES * PAGE * 2));
    everything_is_free();
}

static void statistics(void)
{
    struct woodlot_kmem_stats stats;
    size_t number = woodlot_kmem_cookie(64).number;
    static void *blocks[1000];
    for (size_t i = 0; i < 1000; i++)
        blocks[i] = woodlot_kmem_alloc(&kmem, 64);
    EXPECT(WOODLOT_OK, woodlot_kmem_size(&kmem, number, &stats));
    CHECK(stats.bytes == 64 && stats.target == 64 && stats.lists > 0 && stats.takes >= 1000 / 64 && stats.take_misses > 0);
    CHECK(stats.allocs == WOODLOT_KMEM_NOT_COUNTED && stats.frees == WOODLOT_KMEM_NOT_COUNTED);
    CHECK(stats.pages >= 1000 / 64 && stats.slabs_made - stats.slabs_freed == stats.pages);
    CHECK(stats.pages * 64 >= 1000 + stats.global_blocks + stats.slab_blocks);
    for (size_t i = 0; i < 1000; i++)
        EXPECT(WOODLOT_OK, woodlot_kmem_free(&kmem, blocks[i], 64));
    EXPECT(WOODLOT_OK, woodlot_kmem_flush_cpu(&kmem, 0));
    EXPECT(WOODLOT_OK, woodlot_kmem_flush_cpu(&kmem, 1));
    EXPECT(WOODLOT_E_UNREACHABLE, woodlot_kmem_flush_cpu(&kmem, CPUS));
    everything_is_free();
    /* What nobody uses goes: of the CPU at the second tick of its clock, and of all CPUs at the next two. */
    struct woodlot_kmem_seen own = {{0}}, all = {{0}};
    cpu = 0;
    blocks[0] = woodlot_kmem_alloc(&kmem, 64);
    EXPECT(WOODLOT_OK, woodlot_kmem_free(&kmem, blocks[0], 64));
    EXPECT(WOODLOT_OK, woodlot_kmem_size(&kmem, number, &stats));
    size_t pages = stats.pages, in_common = stats.global_blocks;
    CHECK(pages > 0);
    for (int tick = 0; tick < 2; tick++)
        EXPECT(WOODLOT_OK, woodlot_kmem_flush_unused(&kmem, 0, &own));
    EXPECT(WOODLOT_OK, woodlot_kmem_size(&kmem, number, &stats));
    CHECK(stats.pages == pages && stats.global_blocks > in_common);
    for (int tick = 0; tick < 2; tick++)
        EXPECT(WOODLOT_OK, woodlot_kmem_flush_unused_global(&kmem, &all));
    EXPECT(WOODLOT_OK, woodlot_kmem_size(&kmem, number, &stats));
    CHECK(stats.pages == 0 && stats.global_blocks == 0);
    EXPECT(WOODLOT_E_UNREACHABLE, woodlot_kmem_flush_unused(&kmem, 1, &own));
    EXPECT(WOODLOT_E_UNREACHABLE, woodlot_kmem_flush_unused(&kmem, CPUS, &own));
    EXPECT(WOODLOT_E_NULL, woodlot_kmem_flush_unused(&kmem, 0, NULL));
    EXPECT(WOODLOT_E_NULL, woodlot_kmem_flush_unused_global(&kmem, NULL));
    EXPECT(WOODLOT_E_UNALIGNED, woodlot_kmem_flush_unused_global(&kmem, (void *)((char *)&all + 1)));
    EXPECT(WOODLOT_OK, woodlot_kmem_size(&kmem, number, &stats));
    CHECK(stats.puts > 0 && stats.pages == 0 && stats.global_blocks == 0 && stats.slab_blocks == 0);
    for (number = 0; woodlot_kmem_size(&kmem, number, &stats) == WOODLOT_OK;)
        number++;
    CHECK(number == 28);
    EXPECT(WOODLOT_E_NO_MORE, woodlot_kmem_size(&kmem, number, &stats));
}

/* Each wrong free is told, and frees nothing. */
static void wrong_frees(void)
{
    char *span = woodlot_kmem_alloc(&kmem, 3 * PAGE), *block = woodlot_kmem_alloc(&kmem, 100), stray[16];
    const struct {
        void *block;
        size_t bytes;
        uint32_t kind;
    } frees[] = {
        {stray, 3 * PAGE, WOODLOT_KMEM_FOREIGN},
        {span + PAGE, 3 * PAGE, WOODLOT_KMEM_FOREIGN},
        {span + 16, 3 * PAGE, WOODLOT_KMEM_INTERIOR},
        {span, 5 * PAGE, WOODLOT_KMEM_WRONG_SIZE},
        {block, 3 * PAGE, WOODLOT_KMEM_WRONG_SIZE},
    };
    for (size_t i = 0; i < sizeof frees / sizeof frees[0]; i++) {
        wrong = 0;
        EXPECT(WOODLOT_OK, woodlot_kmem_free(&kmem, frees[i].block, frees[i].bytes));
        CHECK(wrong == frees[i].kind && wrong_at == frees[i].block);
    }
    /* A small block is found to be wrong at its page. */
    wrong = 0;
    EXPECT(WOODLOT_OK, woodlot_kmem_free(&kmem, block, 200));
    CHECK(wrong == 0);
    EXPECT(WOODLOT_OK, woodlot_kmem_flush(&kmem));
    CHECK(wrong == WOODLOT_KMEM_WRONG_SIZE && wrong_at == (void *)block);
    EXPECT(WOODLOT_OK, woodlot_kmem_free(&kmem, block, 100));
    EXPECT(WOODLOT_OK, woodlot_kmem_flush(&kmem));
    wrong = 0;
    EXPECT(WOODLOT_OK, woodlot_kmem_free_any(&kmem, block));
    CHECK(wrong == WOODLOT_KMEM_FOREIGN);
    CHECK(woodlot_kmem_usable(&kmem, block) == 0 && woodlot_kmem_usable(&kmem, stray) == 0);
    EXPECT(WOODLOT_OK, woodlot_kmem_free_any(&kmem, span));
    wrong = 0;
    everything_is_free();
}

/* ---- Objects ---- */

struct buffer {
    unsigned char links[16];
    char *text;
};

static size_t made, unmade;

static void *make(void *context)
{
    struct buffer *buffer = woodlot_kmem_alloc(&kmem, sizeof *buffer);
    CHECK(context == (void *)&entered);
    if (!buffer)
        return NULL;
    buffer->text = woodlot_kmem_alloc(&kmem, 500);
    strcpy(buffer->text, "constructed");
    made++;
    return buffer;
}

static void unmake(void *context, void *object)
{
    struct buffer *buffer = object;
    CHECK(context == (void *)&entered && strcmp(buffer->text, "constructed") == 0);
    EXPECT(WOODLOT_OK, woodlot_kmem_free(&kmem, buffer->text, 500));
    EXPECT(WOODLOT_OK, woodlot_kmem_free(&kmem, buffer, sizeof *buffer));
    unmade++;
}

static void objects(void)
{
    static struct woodlot_objects cache;
    struct woodlot_objects_config built = {{CPUS, &entered, enter, leave, call}, make, unmake};
    size_t size = CPUS * WOODLOT_KMEM_CACHE_SIZE;
    void *caches = aligned(WOODLOT_KMEM_ALIGN, size + WOODLOT_KMEM_ALIGN);
    memset(&cache, 0, sizeof cache);
    CHECK(!woodlot_objects_alloc(&cache) && !woodlot_objects_alloc(NULL));
    EXPECT(WOODLOT_E_NOT_OBJECTS, woodlot_objects_flush(&cache));
    EXPECT(WOODLOT_E_NULL, woodlot_objects_init(NULL, &built, caches, size));
    EXPECT(WOODLOT_E_NULL, woodlot_objects_init(&cache, NULL, caches, size));
    EXPECT(WOODLOT_E_NULL, woodlot_objects_init(&cache, &built, NULL, size));
    EXPECT(WOODLOT_E_UNALIGNED, woodlot_objects_init(&cache, &built, (char *)caches + 64, size));
    EXPECT(WOODLOT_E_CACHES_SHORT, woodlot_objects_init(&cache, &built, caches, size - 1));
    EXPECT(WOODLOT_E_OVERLAP, woodlot_objects_init(&cache, &built, &cache, size));
    built.make = NULL;
    EXPECT(WOODLOT_E_NO_CALLBACK, woodlot_objects_init(&cache, &built, caches, size));
    built.make = make;
    EXPECT(WOODLOT_OK, woodlot_objects_init(&cache, &built, caches, size));
    struct buffer *taken[100];
    for (size_t round = 0; round < 10; round++) {
        for (size_t i = 0; i < 20; i++) {
            taken[i] = woodlot_objects_alloc(&cache);
            CHECK(taken[i] && strcmp(taken[i]->text, "constructed") == 0);
            memset(taken[i]->links, 0xff, sizeof taken[i]->links);
        }
        for (size_t i = 0; i < 20; i++)
            EXPECT(WOODLOT_OK, woodlot_objects_free(&cache, taken[i]));
    }
    CHECK(made >= 20 && made <= 20 + 2 * WOODLOT_OBJECTS_TARGET && unmade == 0);
    EXPECT(WOODLOT_E_NULL, woodlot_objects_free(&cache, NULL));
    struct woodlot_kmem_seen own = {{0}}, all = {{0}};
    for (int tick = 0; tick < 2; tick++)
        EXPECT(WOODLOT_OK, woodlot_objects_flush_unused(&cache, 0, &own));
    CHECK(unmade == 0);
    for (int tick = 0; tick < 2; tick++)
        EXPECT(WOODLOT_OK, woodlot_objects_flush_unused_global(&cache, &all));
    CHECK(made == unmade);
    EXPECT(WOODLOT_E_UNREACHABLE, woodlot_objects_flush_unused(&cache, CPUS, &own));
    EXPECT(WOODLOT_E_NULL, woodlot_objects_flush_unused(&cache, 0, NULL));
    EXPECT(WOODLOT_E_NULL, woodlot_objects_flush_unused_global(&cache, NULL));
    EXPECT(WOODLOT_OK, woodlot_objects_flush_cpu(&cache, 0));
    EXPECT(WOODLOT_E_UNREACHABLE, woodlot_objects_flush_cpu(&cache, CPUS));
    EXPECT(WOODLOT_OK, woodlot_objects_flush(&cache));
    CHECK(made == unmade);
    everything_is_free();
    free(caches);
}

/* ---- Bad input ---- */

static void bad_input(void)
{
    static struct woodlot_kmem other;
    struct woodlot_kmem_sizes need;
    struct woodlot_kmem_config bad = config;
    struct woodlot_kmem_memory room = memory;
    char block[16];
    EXPECT(WOODLOT_E_NULL, woodlot_kmem_memory_size(NULL, &need));
    EXPECT(WOODLOT_E_NULL, woodlot_kmem_memory_size(&config, NULL));
    EXPECT(WOODLOT_E_NULL, woodlot_kmem_init(NULL, &config, &memory));
    EXPECT(WOODLOT_E_NULL, woodlot_kmem_init(&other, NULL, &memory));
    EXPECT(WOODLOT_E_NULL, woodlot_kmem_init(&other, &config, NULL));
    EXPECT(WOODLOT_E_UNALIGNED, woodlot_kmem_init((struct woodlot_kmem *)(void *)&other.opaque[8], &config, &memory));
#define REFUSED(expected, member, value) \
    do { \
        bad = config; \
        bad.member = (value); \
        EXPECT(expected, woodlot_kmem_init(&other, &bad, &memory)); \
    } while (0)
    static struct woodlot_zone nothing;
    REFUSED(WOODLOT_E_NULL, zone, NULL);
    REFUSED(WOODLOT_E_NOT_A_ZONE, zone, &nothing);
    REFUSED(WOODLOT_E_NULL, base, NULL);
    REFUSED(WOODLOT_E_UNALIGNED, base, (char *)config.base + 64);
    REFUSED(WOODLOT_E_NO_CPUS, cpus.cpus, 0);
    REFUSED(WOODLOT_E_TOO_LONG, cpus.cpus, SIZE_MAX / 256);
    REFUSED(WOODLOT_E_CACHES_SHORT, cpus.cpus, CPUS + 1);
    REFUSED(WOODLOT_E_NO_CALLBACK, cpus.enter, NULL);
    REFUSED(WOODLOT_E_NO_CALLBACK, cpus.leave, NULL);
    room.caches_size--;
    EXPECT(WOODLOT_E_CACHES_SHORT, woodlot_kmem_init(&other, &config, &room));
    room = memory;
    room.descriptors_size--;
    EXPECT(WOODLOT_E_DESCRIPTORS_SHORT, woodlot_kmem_init(&other, &config, &room));
    room = memory;
    room.caches_start = (char *)memory.caches_start + 64;
    EXPECT(WOODLOT_E_UNALIGNED, woodlot_kmem_init(&other, &config, &room));
    room.caches_start = NULL;
    EXPECT(WOODLOT_E_NULL, woodlot_kmem_init(&other, &config, &room));
    room.caches_start = memory.descriptors_start;
    EXPECT(WOODLOT_E_OVERLAP, woodlot_kmem_init(&other, &config, &room));
    room = memory;
    room.descriptors_start = &other;
    EXPECT(WOODLOT_E_OVERLAP, woodlot_kmem_init(&other, &config, &room));
    room.descriptors_start = (char *)memory.descriptors_start + 4;
    EXPECT(WOODLOT_E_UNALIGNED, woodlot_kmem_init(&other, &config, &room));
    /* Nothing was made of it. */
    CHECK(all(other.opaque, sizeof other, 0));
    CHECK(!woodlot_kmem_alloc(&other, 16) && !woodlot_kmem_alloc(NULL, 16));
    CHECK(!woodlot_kmem_alloc_aligned(&other, 16, 16) && !woodlot_kmem_alloc_cookie(&other, woodlot_kmem_cookie(16)));
    CHECK(woodlot_kmem_usable(&other, block) == 0 && woodlot_kmem_usable(&kmem, NULL) == 0);
    struct woodlot_kmem_stats stats;
    EXPECT(WOODLOT_E_NOT_A_KMEM, woodlot_kmem_free(&other, block, 16));
    EXPECT(WOODLOT_E_NOT_A_KMEM, woodlot_kmem_free_any(&other, block));
    EXPECT(WOODLOT_E_NOT_A_KMEM, woodlot_kmem_free_aligned(&other, block, 16, 16));
    EXPECT(WOODLOT_E_NOT_A_KMEM, woodlot_kmem_free_cookie(&other, block, woodlot_kmem_cookie(16)));
    EXPECT(WOODLOT_E_NOT_A_KMEM, woodlot_kmem_flush(&other));
    EXPECT(WOODLOT_E_NOT_A_KMEM, woodlot_kmem_flush_cpu(&other, 0));
    EXPECT(WOODLOT_E_NOT_A_KMEM, woodlot_kmem_size(&other, 0, &stats));
    EXPECT(WOODLOT_E_NULL, woodlot_kmem_size(&kmem, 0, NULL));
    EXPECT(WOODLOT_E_NULL, woodlot_kmem_free(&kmem, NULL, 16));
    EXPECT(WOODLOT_E_NULL, woodlot_kmem_free_any(&kmem, NULL));
    everything_is_free();
}

/* ---- Both engines ---- */

static void run(uint32_t engine)
{
    struct woodlot_config frames = {0, FRAMES, CPUS, engine, WOODLOT_4K, NULL};
    struct woodlot_metadata_sizes parts;
    EXPECT(WOODLOT_OK, woodlot_metadata_size(&frames, &parts));
    struct woodlot_metadata metadata = {aligned(64, parts.durable_size), parts.durable_size,
                                        aligned(64, parts.volatile_size), parts.volatile_size};
    EXPECT(WOODLOT_OK, woodlot_init(&zone, &frames, &metadata, WOODLOT_INIT_FREE));
    struct woodlot_kmem_sizes need;
    config.base = aligned(16 * PAGE, (size_t)FRAMES * PAGE);
    EXPECT(WOODLOT_OK, woodlot_kmem_memory_size(&config, &need));
    CHECK(need.caches_size == CPUS * WOODLOT_KMEM_CACHE_SIZE && need.descriptors_size == FRAMES * 16);
    memory.caches_size = need.caches_size;
    memory.caches_start = aligned(WOODLOT_KMEM_ALIGN, need.caches_size);
    memory.descriptors_size = need.descriptors_size;
    memory.descriptors_start = aligned(16, need.descriptors_size);
    EXPECT(WOODLOT_OK, woodlot_kmem_init(&kmem, &config, &memory));
    sizes();
    cookies();
    alignment();
    shortage();
    statistics();
    wrong_frees();
    objects();
    bad_input();
    made = unmade = 0;
    free(metadata.durable_start);
    free(metadata.volatile_start);
    free(memory.caches_start);
    free(memory.descriptors_start);
    free(config.base);
}

int main(void)
{
    run(WOODLOT_LLFREE);
    run(WOODLOT_NBBS);
    run(WOODLOT_ONEWRITE);
    if (failures)
        fprintf(stderr, "%d failures\n", failures);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
