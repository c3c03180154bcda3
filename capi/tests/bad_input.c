/*
 * Bad input from C: null and misaligned pointers, handles of zeros, wrong sizes, numbers at the integers'
 * limits. Each has its own error, and changes nothing.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <woodlot.h>

enum { FRAMES = 1 << 15, SLOTS = 2 };

static int failures;

/* Compares a number with what it has to be. */
#define EXPECT(error, call) expect(#call, __LINE__, error, call)

static void expect(const char *call, int line, int expected, int answer)
{
    if (answer != expected) {
        fprintf(stderr, "line %d: %s: %s (%d), expected %s (%d)\n", line, call, woodlot_error_message(answer),
                answer, woodlot_error_message(expected), expected);
        failures++;
    }
}

static struct woodlot_zone zone, before;
static struct woodlot_metadata metadata;
static struct woodlot_config config = {.start = 1000, .frames = FRAMES, .slots = SLOTS};

static void *part(size_t size)
{
    void *start = aligned_alloc(WOODLOT_METADATA_ALIGN, size);
    if (start == NULL)
        abort();
    return memset(start, 0xa5, size);
}

/* A pointer that is one byte off. */
static void *off(void *pointer)
{
    return (char *)pointer + 1;
}

static void bad_configurations(void)
{
    struct woodlot_metadata_sizes size;
    EXPECT(WOODLOT_E_NULL, woodlot_metadata_size(NULL, &size));
    EXPECT(WOODLOT_E_NULL, woodlot_metadata_size(&config, NULL));
    EXPECT(WOODLOT_E_UNALIGNED, woodlot_metadata_size(off(&config), &size));
    EXPECT(WOODLOT_E_UNALIGNED, woodlot_metadata_size(&config, off(&size)));

    static const uint32_t limits[] = {3, 16, INT_MAX, UINT_MAX};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct woodlot_config bad = config;
        bad.engine = limits[i];
        EXPECT(WOODLOT_E_BAD_ENGINE, woodlot_metadata_size(&bad, &size));
        bad = config;
        bad.geometry = limits[i];
        EXPECT(WOODLOT_E_BAD_GEOMETRY, woodlot_metadata_size(&bad, &size));
        EXPECT(WOODLOT_E_BAD_MODE, woodlot_init(&zone, &config, &metadata, limits[i]));
    }
    struct {
        size_t start, frames, slots;
        int error;
    } zones[] = {
        {0, 0, 1, WOODLOT_E_EMPTY_ZONE},
        {0, 1, 0, WOODLOT_E_NO_SLOTS},
        {0, 1, SIZE_MAX, WOODLOT_E_TOO_MANY_SLOTS},
        {0, SIZE_MAX, 1, WOODLOT_E_ZONE_TOO_LARGE},
        {SIZE_MAX, 1, 1, WOODLOT_E_ZONE_TOO_LARGE},
        {SIZE_MAX, SIZE_MAX, 1, WOODLOT_E_ZONE_TOO_LARGE},
    };
    for (uint32_t engine = 0; engine < 2; engine++) {
        for (size_t i = 0; i < sizeof zones / sizeof zones[0]; i++) {
            struct woodlot_config bad = {zones[i].start, zones[i].frames, zones[i].slots, engine, 0, NULL};
            EXPECT(zones[i].error, woodlot_metadata_size(&bad, &size));
            EXPECT(zones[i].error, woodlot_init(&zone, &bad, &metadata, WOODLOT_INIT_FREE));
        }
    }
}

static void bad_classes(void)
{
    struct woodlot_metadata_sizes size;
    struct woodlot_classes classes;
    struct woodlot_config bad = config;
    bad.classes = &classes;
    EXPECT(WOODLOT_E_NULL, woodlot_shipped_classes(NULL));
    EXPECT(WOODLOT_E_UNALIGNED, woodlot_shipped_classes(off(&classes)));
    EXPECT(WOODLOT_OK, woodlot_shipped_classes(&classes));
    EXPECT(WOODLOT_OK, woodlot_metadata_size(&bad, &size));
    static const uint32_t counts[] = {0, 3, 5, 9, INT_MAX, UINT_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        classes.count = counts[i];
        EXPECT(WOODLOT_E_BAD_CLASSES, woodlot_metadata_size(&bad, &size));
    }
    EXPECT(WOODLOT_OK, woodlot_shipped_classes(&classes));
    classes.fills[3] = 5;
    EXPECT(WOODLOT_E_BAD_CLASSES, woodlot_metadata_size(&bad, &size));
    EXPECT(WOODLOT_OK, woodlot_shipped_classes(&classes));
    classes.turns[1][2] = 255;
    EXPECT(WOODLOT_E_BAD_CLASSES, woodlot_metadata_size(&bad, &size));
    bad.classes = off(&classes);
    EXPECT(WOODLOT_E_UNALIGNED, woodlot_metadata_size(&bad, &size));
}

/* Tries metadata that is refused. */
static void refused(int error, void *durable, size_t durable_size, void *volatile_start, size_t volatile_size)
{
    struct woodlot_metadata bad = {durable, durable_size, volatile_start, volatile_size};
    EXPECT(error, woodlot_init(&zone, &config, &bad, WOODLOT_INIT_FREE));
}

static void bad_metadata(void)
{
    void *durable = metadata.durable_start, *computed = metadata.volatile_start;
    size_t durable_size = metadata.durable_size, size = metadata.volatile_size;
    EXPECT(WOODLOT_E_NULL, woodlot_init(NULL, &config, &metadata, WOODLOT_INIT_FREE));
    EXPECT(WOODLOT_E_NULL, woodlot_init(&zone, NULL, &metadata, WOODLOT_INIT_FREE));
    EXPECT(WOODLOT_E_NULL, woodlot_init(&zone, &config, NULL, WOODLOT_INIT_FREE));
    EXPECT(WOODLOT_E_UNALIGNED, woodlot_init(off(&zone), &config, &metadata, WOODLOT_INIT_FREE));
    EXPECT(WOODLOT_E_UNALIGNED, woodlot_init(&zone, off(&config), &metadata, WOODLOT_INIT_FREE));
    EXPECT(WOODLOT_E_UNALIGNED, woodlot_init(&zone, &config, off(&metadata), WOODLOT_INIT_FREE));
    refused(WOODLOT_E_DURABLE_NULL, NULL, durable_size, computed, size);
    refused(WOODLOT_E_VOLATILE_NULL, durable, durable_size, NULL, size);
    refused(WOODLOT_E_DURABLE_SHORT, durable, 0, computed, size);
    refused(WOODLOT_E_DURABLE_SHORT, durable, durable_size - 1, computed, size);
    refused(WOODLOT_E_VOLATILE_SHORT, durable, durable_size, computed, size - 1);
    refused(WOODLOT_E_DURABLE_MISALIGNED, off(durable), durable_size, computed, size);
    refused(WOODLOT_E_VOLATILE_MISALIGNED, durable, durable_size, off(computed), size);
    refused(WOODLOT_E_DURABLE_MISALIGNED, durable, SIZE_MAX, computed, size);
    refused(WOODLOT_E_OVERLAP, durable, durable_size, durable, durable_size > size ? durable_size : size);
    refused(WOODLOT_E_OVERLAP, &zone, durable_size, computed, size);
    refused(WOODLOT_E_OVERLAP, durable, durable_size, (char *)&zone + WOODLOT_ZONE_SIZE - 64, size);
}

static void bad_requests(void)
{
    static const uint32_t orders[] = {11, 63, 64, 255, 256, 1U << 31, UINT_MAX};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        uint32_t order = orders[i];
        EXPECT(WOODLOT_E_ORDER_TOO_LARGE, woodlot_alloc(&zone, order, 0, 0).error);
        EXPECT(WOODLOT_E_ORDER_TOO_LARGE, woodlot_free(&zone, 1024, order, 0));
        EXPECT(WOODLOT_E_ORDER_TOO_LARGE, woodlot_can_free(&zone, 1024, order, 0));
        EXPECT(0, woodlot_is_available(&zone, order));
        EXPECT(0, woodlot_is_free(&zone, 1024, order));
    }
    EXPECT(WOODLOT_E_ORDER_TOO_LARGE, woodlot_alloc_range(&zone, 1, UINT_MAX, 0, 0, woodlot_anywhere()).error);
    static const uint32_t classes[] = {4, 8, 256, UINT_MAX};
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        EXPECT(WOODLOT_E_BAD_CLASS, woodlot_alloc(&zone, 0, classes[i], 0).error);
        EXPECT(WOODLOT_E_BAD_CLASS, woodlot_alloc_range(&zone, 1, 0, classes[i], 0, woodlot_anywhere()).error);
    }
    static const size_t slots[] = {SLOTS, 1ULL << 32, SIZE_MAX};
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
        EXPECT(WOODLOT_E_BAD_SLOT, woodlot_alloc(&zone, 0, 0, slots[i]).error);
        EXPECT(WOODLOT_E_BAD_SLOT, woodlot_free(&zone, 1000, 0, slots[i]));
        EXPECT(WOODLOT_E_BAD_SLOT, woodlot_free_range(&zone, 1000, 1001, slots[i]).error);
        EXPECT(WOODLOT_E_BAD_SLOT, woodlot_drain(&zone, slots[i]));
    }
    static const size_t frames[] = {0, 999, 1000 + FRAMES, SIZE_MAX - 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        struct woodlot_place place = woodlot_at(frames[i]);
        EXPECT(WOODLOT_E_OUT_OF_RANGE, woodlot_alloc_placed(&zone, 0, 0, 0, place).error);
        EXPECT(WOODLOT_E_OUT_OF_RANGE, woodlot_alloc_range(&zone, 1, 0, 0, 0, place).error);
        EXPECT(WOODLOT_E_OUT_OF_RANGE, woodlot_free(&zone, frames[i], 0, 0));
        EXPECT(0, woodlot_is_free(&zone, frames[i], 0));
    }
    EXPECT(WOODLOT_E_OUT_OF_RANGE, woodlot_free_range(&zone, 0, SIZE_MAX, 0).error);
    EXPECT(WOODLOT_E_REVERSED, woodlot_free_range(&zone, SIZE_MAX, 0, 0).error);
    EXPECT(WOODLOT_E_NOT_ALLOCATED, woodlot_free_range(&zone, 1000, 1000 + FRAMES, 0).error);
    EXPECT(WOODLOT_E_NOT_ALLOCATED, woodlot_free(&zone, 1024, 9, 0));
    EXPECT(WOODLOT_E_MISALIGNED, woodlot_free(&zone, 1025, 1, 0));
    EXPECT(WOODLOT_E_MISALIGNED, woodlot_alloc_placed(&zone, 1, 0, 0, woodlot_at(1025)).error);
    EXPECT(WOODLOT_E_NO_FRAMES, woodlot_alloc_range(&zone, 0, 0, 0, 0, woodlot_anywhere()).error);
    EXPECT(WOODLOT_E_NO_PLACE, woodlot_alloc_range(&zone, SIZE_MAX, 0, 0, 0, woodlot_anywhere()).error);
    EXPECT(WOODLOT_E_NO_PLACE, woodlot_alloc_placed(&zone, 0, 0, 0, woodlot_within(0, 1000)).error);
    EXPECT(WOODLOT_E_REVERSED, woodlot_alloc_placed(&zone, 0, 0, 0, woodlot_within(SIZE_MAX, 0)).error);
    struct woodlot_place nowhere = {UINT_MAX, 1000, 2000};
    EXPECT(WOODLOT_E_BAD_PLACE, woodlot_alloc_placed(&zone, 0, 0, 0, nowhere).error);
    EXPECT(WOODLOT_E_BAD_PLACE, woodlot_alloc_range(&zone, 1, 0, 0, 0, nowhere).error);
}

static void bad_huge_frames(void)
{
    static const struct {
        size_t first, count;
    } ranges[] = {{0, 1}, {1, 1}, {2, 0}, {2, SIZE_MAX}, {SIZE_MAX, 1}, {SIZE_MAX, SIZE_MAX}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        EXPECT(WOODLOT_E_OUT_OF_RANGE, woodlot_offline(&zone, ranges[i].first, ranges[i].count).error);
        EXPECT(WOODLOT_E_OUT_OF_RANGE, woodlot_online(&zone, ranges[i].first, ranges[i].count));
    }
    EXPECT(WOODLOT_E_NOT_OFFLINE, woodlot_online(&zone, 2, 1));
    EXPECT(WOODLOT_E_NO_MORE, woodlot_next_free_huge(&zone, SIZE_MAX).error);
    EXPECT(WOODLOT_E_NO_MORE, woodlot_last_free_huge(&zone, 0).error);
    EXPECT(WOODLOT_E_NO_MORE, woodlot_next_free_run(&zone, SIZE_MAX, SIZE_MAX).error);
    EXPECT(WOODLOT_E_NO_MORE, woodlot_next_free_run(&zone, SIZE_MAX, 0).error);
}

static void bad_arrays(void)
{
    size_t frames[3] = {1000, 1001, 1002};
    struct woodlot_place place = woodlot_anywhere();
    EXPECT(WOODLOT_E_NULL, woodlot_alloc_batch(&zone, 0, 0, 0, place, WOODLOT_ALL, NULL, 1).error);
    EXPECT(WOODLOT_E_UNALIGNED, woodlot_alloc_batch(&zone, 0, 0, 0, place, WOODLOT_ALL, off(frames), 1).error);
    EXPECT(WOODLOT_E_TOO_LONG, woodlot_alloc_batch(&zone, 0, 0, 0, place, WOODLOT_ALL, frames, SIZE_MAX).error);
    EXPECT(WOODLOT_E_BAD_MODE, woodlot_alloc_batch(&zone, 0, 0, 0, place, UINT_MAX, frames, 1).error);
    EXPECT(WOODLOT_OK, woodlot_alloc_batch(&zone, 0, 0, 0, place, WOODLOT_ALL, NULL, 0).error);
    EXPECT(WOODLOT_E_NULL, woodlot_free_batch(&zone, NULL, 1, 0, 0).error);
    EXPECT(WOODLOT_E_UNALIGNED, woodlot_free_batch(&zone, off(frames), 1, 0, 0).error);
    EXPECT(WOODLOT_E_TOO_LONG, woodlot_free_batch(&zone, frames, SIZE_MAX, 0, 0).error);
    EXPECT(WOODLOT_OK, woodlot_free_batch(&zone, NULL, 0, 0, 0).error);
    EXPECT(WOODLOT_E_NOT_ALLOCATED, woodlot_free_batch(&zone, frames, 3, 0, 0).error);
    EXPECT(WOODLOT_E_NULL, woodlot_stats(&zone, NULL));
    EXPECT(WOODLOT_E_NULL, woodlot_info(&zone, NULL));
    EXPECT(WOODLOT_E_NULL, woodlot_free_blocks(&zone, NULL));
    EXPECT(WOODLOT_E_NULL, woodlot_sizes(WOODLOT_4K, NULL));
    EXPECT(WOODLOT_E_UNALIGNED, woodlot_stats(&zone, off(frames)));
    struct woodlot_geometry_sizes sizes;
    EXPECT(WOODLOT_E_BAD_GEOMETRY, woodlot_sizes(3, &sizes));
}

/* A handle of zeros, one of other bytes, and pointers to none. */
static void bad_handles(void)
{
    static struct woodlot_zone zeros, other;
    memset(&other, 0x57, sizeof other);
    EXPECT(WOODLOT_E_NOT_A_ZONE, woodlot_alloc(&zeros, 0, 0, 0).error);
    EXPECT(WOODLOT_E_NOT_A_ZONE, woodlot_free(&zeros, 0, 0, 0));
    EXPECT(WOODLOT_E_NOT_A_ZONE, woodlot_free_frames(&other).error);
    EXPECT(WOODLOT_E_NOT_A_ZONE, woodlot_is_available(&other, 0));
    EXPECT(WOODLOT_E_NULL, woodlot_alloc(NULL, 0, 0, 0).error);
    EXPECT(WOODLOT_E_UNALIGNED, woodlot_alloc(off(&zone), 0, 0, 0).error);
    /* A zone that has ended. */
    memset(&other, 0, sizeof other);
    EXPECT(WOODLOT_E_NOT_A_ZONE, woodlot_drain(&other, 0));
}

/* What one engine has and another has not. */
static void missing_abilities(void)
{
    static struct woodlot_zone nbbs;
    struct woodlot_config other = config;
    other.engine = WOODLOT_NBBS;
    struct woodlot_metadata_sizes need;
    EXPECT(WOODLOT_OK, woodlot_metadata_size(&other, &need));
    struct woodlot_metadata memory = {part(need.durable_size), need.durable_size, part(need.volatile_size),
                                      need.volatile_size};
    EXPECT(WOODLOT_E_UNSUPPORTED, woodlot_init(&nbbs, &other, &memory, WOODLOT_INIT_ALLOCATED));
    EXPECT(WOODLOT_E_NOT_A_ZONE, woodlot_drain(&nbbs, 0));
    EXPECT(WOODLOT_OK, woodlot_init(&nbbs, &other, &memory, WOODLOT_INIT_FREE));
    struct woodlot_block block = woodlot_alloc(&nbbs, 3, WOODLOT_MOVABLE, 0);
    EXPECT(WOODLOT_E_UNSUPPORTED, woodlot_free(&nbbs, block.frame, 2, 0));
    EXPECT(WOODLOT_OK, woodlot_free(&nbbs, block.frame, 3, 0));
    free(memory.durable_start);
    free(memory.volatile_start);
}

int main(void)
{
    struct woodlot_metadata_sizes need;
    EXPECT(WOODLOT_OK, woodlot_metadata_size(&config, &need));
    metadata.durable_size = need.durable_size;
    metadata.durable_start = part(need.durable_size);
    metadata.volatile_size = need.volatile_size;
    metadata.volatile_start = part(need.volatile_size);
    unsigned char *durable = metadata.durable_start, *computed = metadata.volatile_start;

    /* Of the zone that is not made, nothing is written. */
    bad_configurations();
    bad_classes();
    bad_metadata();
    for (size_t i = 0; i < need.durable_size; i++)
        failures += durable[i] != 0xa5;
    for (size_t i = 0; i < need.volatile_size; i++)
        failures += computed[i] != 0xa5;
    failures += memcmp(&zone, &before, sizeof zone) != 0;

    /* Nor of the zone that is. */
    EXPECT(WOODLOT_OK, woodlot_init(&zone, &config, &metadata, WOODLOT_INIT_FREE));
    before = zone;
    void *copies[] = {part(need.durable_size), part(need.volatile_size)};
    memcpy(copies[0], durable, need.durable_size);
    memcpy(copies[1], computed, need.volatile_size);
    bad_configurations();
    bad_classes();
    bad_metadata();
    bad_requests();
    bad_huge_frames();
    bad_arrays();
    bad_handles();
    missing_abilities();
    failures += memcmp(copies[0], durable, need.durable_size) != 0;
    failures += memcmp(copies[1], computed, need.volatile_size) != 0;
    failures += memcmp(&zone, &before, sizeof zone) != 0;

    free(copies[0]);
    free(copies[1]);
    free(durable);
    free(computed);
    if (failures)
        fprintf(stderr, "%d failures\n", failures);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
