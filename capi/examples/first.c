/*
 * My region, my CPUs: 1 GiB of memory at 4 GiB, two CPUs, frames of order 0 and huge frames of order 9, and
 * which huge frames are left.
 */
#include <stdio.h>
#include <stdlib.h>

#include <woodlot.h>

enum { CPUS = 2 };

/* Ends the program with what a call refused. */
static void must(const char *call, int error)
{
    if (error != WOODLOT_OK) {
        fprintf(stderr, "%s: %s\n", call, woodlot_error_message(error));
        exit(EXIT_FAILURE);
    }
}

/* A part of the metadata. A kernel takes it from the region itself. */
static void *part(size_t size)
{
    void *start = aligned_alloc(WOODLOT_METADATA_ALIGN, size);
    if (start == NULL) {
        perror("aligned_alloc");
        exit(EXIT_FAILURE);
    }
    return start;
}

int main(void)
{
    static struct woodlot_zone zone;

    /* The frames of 4 KiB that lie wholly in the region. */
    struct woodlot_run region = woodlot_frames_inside(WOODLOT_4K, 4ULL << 30, 5ULL << 30);
    must("woodlot_frames_inside", region.error);
    struct woodlot_config config = {
        .start = region.start,
        .frames = region.end - region.start,
        .slots = CPUS,
    };
    struct woodlot_metadata_sizes need;
    must("woodlot_metadata_size", woodlot_metadata_size(&config, &need));
    struct woodlot_metadata metadata = {
        .durable_start = part(need.durable_size),
        .durable_size = need.durable_size,
        .volatile_start = part(need.volatile_size),
        .volatile_size = need.volatile_size,
    };
    must("woodlot_init", woodlot_init(&zone, &config, &metadata, WOODLOT_INIT_FREE));
    printf("%zu frames, %zu bytes of metadata\n", config.frames,
           sizeof zone + need.durable_size + need.volatile_size);

    /* Each CPU takes a frame and a huge frame. */
    struct woodlot_block frames[CPUS], huge[CPUS];
    for (size_t cpu = 0; cpu < CPUS; cpu++) {
        frames[cpu] = woodlot_alloc(&zone, 0, WOODLOT_MOVABLE, cpu);
        must("woodlot_alloc of order 0", frames[cpu].error);
        huge[cpu] = woodlot_alloc(&zone, 9, WOODLOT_HUGE, cpu);
        must("woodlot_alloc of order 9", huge[cpu].error);
        printf("CPU %zu: a frame at %#llx, a huge frame at %#llx\n", cpu,
               (unsigned long long)woodlot_frame_address(WOODLOT_4K, frames[cpu].frame),
               (unsigned long long)woodlot_frame_address(WOODLOT_4K, huge[cpu].frame));
    }

    /* Which huge frames are left, in runs. */
    size_t left = 0, expected = SIZE_MAX;
    struct woodlot_huge next = woodlot_next_free_huge(&zone, 0);
    for (; !next.error; next = woodlot_next_free_huge(&zone, next.huge + 1)) {
        if (next.huge != expected)
            printf("free from huge frame %zu on\n", next.huge);
        expected = next.huge + 1;
        left++;
    }
    printf("%zu huge frames are left, the last is %zu\n", left, expected - 1);

    /* A buffer of 3 MiB, in the first half of the region. */
    size_t half = region.start + config.frames / 2;
    struct woodlot_run buffer = woodlot_alloc_range(&zone, 768, 0, WOODLOT_IMMOVABLE, 0,
                                                    woodlot_within(region.start, half));
    must("woodlot_alloc_range", buffer.error);
    must("woodlot_free_range", woodlot_free_range(&zone, buffer.start, buffer.end, 0).error);

    /* Any CPU frees what another one has allocated. */
    for (size_t cpu = 0; cpu < CPUS; cpu++) {
        must("woodlot_free of order 0", woodlot_free(&zone, frames[cpu].frame, 0, CPUS - 1 - cpu));
        must("woodlot_free of order 9", woodlot_free(&zone, huge[cpu].frame, 9, CPUS - 1 - cpu));
    }
    struct woodlot_counts counts;
    must("woodlot_stats", woodlot_stats(&zone, &counts));
    printf("%zu frames are free again, %zu huge frames among them\n", counts.free_frames, counts.free_huge);

    free(metadata.durable_start);
    free(metadata.volatile_start);
    return counts.free_frames == config.frames ? EXIT_SUCCESS : EXIT_FAILURE;
}
