/*
 * A kernel's heap before there is anything else: 16 MiB of its image, a zone of frames over them, and small blocks over
 * the zone. One CPU, whose interrupts are a flag here.
 */
#include <stddef.h>
#include <stdint.h>

#include <woodlot_kmem.h>

enum { FRAMES = 4096, CPUS = 1 };

static _Alignas(16384) unsigned char image[FRAMES][4096];
static _Alignas(WOODLOT_METADATA_ALIGN) unsigned char durable[1 << 16], volatile_part[1 << 16];
static _Alignas(WOODLOT_KMEM_ALIGN) unsigned char caches[CPUS * WOODLOT_KMEM_CACHE_SIZE];
static _Alignas(16) unsigned char descriptors[FRAMES * 16];
static struct woodlot_zone zone;
static struct woodlot_kmem kmem;

/* `pushf; cli` and `popf`, on a machine. */
static size_t interrupts = 1;

static size_t enter(void *context, size_t *state)
{
    (void)context;
    *state = interrupts;
    interrupts = 0;
    return 0;
}

static void leave(void *context, size_t state)
{
    (void)context;
    interrupts = state;
}

/* A kernel would say so, and stop. */
static uint32_t misused;

static void misuse(void *context, uint32_t kind, void *block)
{
    (void)context, (void)block;
    misused = kind;
}

static int boot(void)
{
    struct woodlot_config frames = {.frames = FRAMES, .slots = CPUS};
    struct woodlot_metadata metadata = {durable, sizeof durable, volatile_part, sizeof volatile_part};
    struct woodlot_kmem_config config = {
        .zone = &zone, .base = image, .cpus = {CPUS, NULL, enter, leave, NULL}, .misuse = misuse};
    struct woodlot_kmem_memory memory = {caches, sizeof caches, descriptors, sizeof descriptors};
    int error = woodlot_init(&zone, &frames, &metadata, WOODLOT_INIT_FREE);
    return error ? error : woodlot_kmem_init(&kmem, &config, &memory);
}

struct thread {
    struct thread *next;
    uint64_t registers[16];
};

/* The number of the step that failed, or 0. */
int main(void)
{
    if (boot())
        return 1;
    /* By a cookie, which the compiler works out; and by a size that is known later. */
    struct woodlot_kmem_cookie cookie = woodlot_kmem_cookie_of(sizeof(struct thread));
    struct thread *thread = woodlot_kmem_alloc_cookie(&kmem, cookie);
    void *stack = woodlot_kmem_alloc_aligned(&kmem, 16384, 16384);
    if (!thread || !stack || (uintptr_t)stack % 16384)
        return 2;
    if (woodlot_kmem_free_cookie(&kmem, thread, cookie) || woodlot_kmem_free_aligned(&kmem, stack, 16384, 16384))
        return 3;
    /* The stack once more: the page says that nobody has it. */
    if (woodlot_kmem_free_any(&kmem, stack) || misused != WOODLOT_KMEM_FOREIGN)
        return 4;
    if (woodlot_kmem_flush(&kmem) || woodlot_free_frames(&zone).count != FRAMES || interrupts != 1)
        return 5;
    return 0;
}
