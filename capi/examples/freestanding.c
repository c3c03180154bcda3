/*
 * A kernel's memory before there is anything else: no libc, no heap. All memory begins allocated, what the
 * memory map says is there is freed, and the metadata lie in the kernel's own image.
 */
#include <stddef.h>
#include <stdint.h>

#include <woodlot.h>

/* Addresses, as a boot loader hands them over: with holes, and with ends that are no frame's. */
static const struct {
    uint64_t start, end;
} memory_map[] = {
    {0x1000, 0x9fc00},
    {0x100000, 0x2ffe0000},
    {0x30000000, 0x3f000000},
};

enum { RANGES = sizeof memory_map / sizeof memory_map[0], CPUS = 4 };

static struct woodlot_zone zone;
static _Alignas(WOODLOT_METADATA_ALIGN) unsigned char durable[1 << 16], volatile_part[1 << 16];

/* Hands the memory over; 0 or an error number. */
static int boot(void)
{
    struct woodlot_config config = {
        .frames = woodlot_frame_containing(WOODLOT_4K, memory_map[RANGES - 1].end),
        .slots = CPUS,
    };
    struct woodlot_metadata metadata = {durable, sizeof durable, volatile_part, sizeof volatile_part};
    int error = woodlot_init(&zone, &config, &metadata, WOODLOT_INIT_ALLOCATED);
    for (size_t i = 0; i < RANGES && !error; i++) {
        struct woodlot_run frames =
            woodlot_frames_inside(WOODLOT_4K, memory_map[i].start, memory_map[i].end);
        error = frames.error;
        if (!error)
            error = woodlot_free_range(&zone, frames.start, frames.end, 0).error;
    }
    return error;
}

/* The number of the step that failed, or 0. */
int main(void)
{
    if (boot())
        return 1;
    size_t free = woodlot_free_frames(&zone).count;
    if (free != 0x9e + (0x2ffe0 - 0x100) + (0x3f000 - 0x30000))
        return 2;
    /* A hole is never handed out. */
    if (woodlot_alloc_placed(&zone, 0, WOODLOT_MOVABLE, 0, woodlot_at(0xa0)).error != WOODLOT_E_IN_USE)
        return 3;
    /* A page table, and a buffer of 3 MiB for DMA below 16 MiB. */
    struct woodlot_block table = woodlot_alloc(&zone, 0, WOODLOT_IMMOVABLE, 1);
    struct woodlot_run dma =
        woodlot_alloc_range(&zone, 768, 4, WOODLOT_LONG_LIVED, 0, woodlot_within(0, 1 << 12));
    if (table.error || dma.error || dma.end > 1 << 12)
        return 4;
    if (woodlot_free(&zone, table.frame, 0, 2) || woodlot_free_range(&zone, dma.start, dma.end, 3).error)
        return 5;
    return woodlot_free_frames(&zone).count == free ? 0 : 6;
}
