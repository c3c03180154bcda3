/*
 * Woodlot: a kernel memory allocator over the frames of a zone (McKenney and Slingwine).
 *
 *   per CPU   two lists of free blocks of each size        no lock, no atomic instruction
 *   global    full lists, on their way between CPUs        a lock for each size
 *   slabs     pages of blocks, sorted by what is free      a page that is free goes back at once
 *   pages     frames of the zone, where they lie
 *
 *     static struct woodlot_kmem kmem;
 *     struct woodlot_kmem_config config = {&zone, base, {cpus, 0, enter, leave, 0}, misuse, 0};
 *     struct woodlot_kmem_sizes need;
 *     woodlot_kmem_memory_size(&config, &need);                how much memory it takes
 *     woodlot_kmem_init(&kmem, &config, &memory);
 *     void *block = woodlot_kmem_alloc(&kmem, 100);
 *     woodlot_kmem_free(&kmem, block, 100);
 *
 * BLOCKS have 16 bytes to 4 KiB, of four sizes in each octave; more bytes are whole pages of 4 KiB. A block's
 * address is a multiple of 16, and of the largest power of two in its size, up to a page. Contents are any.
 *
 * ERRORS. As in woodlot.h. A call that hands out memory answers a null pointer where there is none, and where
 * there is no allocator. Beside its own, each other call that takes an allocator answers WOODLOT_E_NULL,
 * WOODLOT_E_UNALIGNED or WOODLOT_E_NOT_A_KMEM (WOODLOT_E_NOT_OBJECTS) where there is none.
 *
 * WRONG FREES. What is no block in use is not freed, and is told to the function `misuse`: at once by
 * woodlot_kmem_free_any and for more than 4 KiB, otherwise when the block comes to its page, and the call
 * answers 0. That a block in a cache is free is not seen: to free it again destroys the list. A library that was
 * built with the feature `checked` finds each wrong free at the call, and takes 32 bytes more for each frame.
 *
 * FUNCTIONS. `enter` keeps the CPU to its caller and answers its number: from then to `leave` nothing else on
 * that CPU calls the allocator. So it turns interrupts off; or preemption, where no interrupt handler
 * allocates. Calls are nested: `state` is what `leave` of the same pair gets. A CPU with too large a number has
 * no cache. The functions are called on any CPU, with a lock of the allocator held, and must not call it;
 * but for `reclaim`, `make` and `unmake`, which hold nothing. None of them may unwind or jump out.
 *
 * PROGRESS. A call that its CPU's cache serves takes constant time. Otherwise it takes a spinlock, with the CPU
 * kept to it, for a bounded number of steps; where that says so, for more. No call uses a heap, makes a
 * system call or ends the program.
 *
 * INTERRUPTS. What `enter` turns off decides who may call. woodlot_kmem_init and woodlot_objects_init end before
 * anybody else uses the allocator, and what they wrote has become visible by then.
 *
 * MEMORY. As in woodlot.h. Handle, caches, page descriptors, and the memory of all frames that the zone hands to
 * the allocator are the allocator's from its init on. The zone stays. Others may allocate frames of the zone. A
 * block is freed where it was allocated, once, and is not used afterwards.
 *
 * Licence: MIT OR Apache-2.0.
 */
#ifndef WOODLOT_KMEM_H
#define WOODLOT_KMEM_H

#include "woodlot.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Numbers ---- */

/* What was wrong with a free. */
enum woodlot_kmem_misuse {
    WOODLOT_KMEM_FOREIGN = 1,    /* in no page in use, or behind the first page of a larger block */
    WOODLOT_KMEM_INTERIOR = 2,   /* inside a block, or behind the last one of its page */
    WOODLOT_KMEM_WRONG_SIZE = 3, /* the block has another size than the free says, or the cookie */
    WOODLOT_KMEM_DOUBLE_FREE = 4 /* the block is free already */
};

/* What caches are asked for is counted by a library alone that was built with the feature `counted`. */
#define WOODLOT_KMEM_NOT_COUNTED UINT64_MAX

/* Bytes and alignment of handles, bytes of a CPU's cache, blocks with a size of their own, objects of a list, what a clock sees. */
enum woodlot_kmem_limits {
    WOODLOT_KMEM_SIZE = 65536,
    WOODLOT_OBJECTS_SIZE = 16384,
    WOODLOT_KMEM_ALIGN = 128,
    WOODLOT_KMEM_CACHE_SIZE = 1024,
    WOODLOT_KMEM_MAX_SIZE = 4096,
    WOODLOT_OBJECTS_TARGET = 16,
    WOODLOT_KMEM_SEEN = 64
};

/* ---- Structures ---- */

/* The handle of an allocator, in the caller's memory: opaque. Zeros are none, and are recognised as none. */
struct woodlot_kmem {
    WOODLOT_ALIGNAS(128) unsigned char opaque[WOODLOT_KMEM_SIZE];
};

/* The handle of a cache of objects: the same. */
struct woodlot_objects {
    WOODLOT_ALIGNAS(128) unsigned char opaque[WOODLOT_OBJECTS_SIZE];
};

/* The CPUs, and how one is kept to its caller. */
struct woodlot_kmem_cpus {
    size_t cpus;   /* how many have caches: those with lower numbers; at least one */
    void *context; /* what each function gets, those of the structure around this too */
    size_t (*enter)(void *context, size_t *state);
    void (*leave)(void *context, size_t state);
    /*
     * Has run(argument) called on another CPU, between enter and leave there, and returns when it was. Not 0 if so.
     * A null pointer: other CPUs cannot be reached, and what they keep is not found when it is the last.
     */
    int (*call)(void *context, size_t cpu, void (*run)(void *argument), void *argument);
};

/* An allocator that is to be made. */
struct woodlot_kmem_config {
    const struct woodlot_zone *zone; /* of frames of 4 KiB */
    void *base;                      /* where the zone's first frame lies, and the others behind it */
    struct woodlot_kmem_cpus cpus;
    /* Hears of a wrong free: an enum woodlot_kmem_misuse, and the address. It may end the program. Null: nobody. */
    void (*misuse)(void *context, uint32_t kind, void *block);
    /* There is no memory for so many pages. Not 0: something was freed, and the call tries again. Null: never. */
    int (*reclaim)(void *context, size_t pages);
};

/* How many bytes an allocator needs beside its handle. */
struct woodlot_kmem_sizes {
    size_t caches_size;      /* WOODLOT_KMEM_CACHE_SIZE for each CPU */
    size_t descriptors_size; /* 16 for each frame; 48 with `checked` */
};

/* The memory for it, of any value. */
struct woodlot_kmem_memory {
    void *caches_start; /* a multiple of WOODLOT_KMEM_ALIGN */
    size_t caches_size;
    void *descriptors_start; /* a multiple of 8 */
    size_t descriptors_size;
};

/* A size that was looked up. */
struct woodlot_kmem_cookie {
    uint32_t number; /* of the size; no size's with an error */
    int error;
};

/*
 * What a clock has seen: zeros at first. One for each CPU of an allocator or of a cache of objects, and one for its global layer.
 */
struct woodlot_kmem_seen {
    uint64_t signs[WOODLOT_KMEM_SEEN];
};

/* What a size has, and what its layers have done. */
struct woodlot_kmem_stats {
    size_t bytes;         /* of a block */
    size_t target;        /* blocks of a full list */
    size_t lists;         /* that come from slabs, or go there, at a time; of blocks that are pages, one comes */
    size_t pages;         /* of its slabs */
    size_t global_blocks; /* free in the global layer */
    size_t slab_blocks;   /* free in slabs */
    uint64_t allocs;      /* blocks that CPUs asked their caches for, or WOODLOT_KMEM_NOT_COUNTED */
    uint64_t frees;       /* blocks that they gave them, or the same */
    uint64_t takes;       /* lists that CPUs asked for: misses of the layer above, whose hits are the others of `allocs` */
    uint64_t take_misses; /* of these, times that there was none, and slabs were asked */
    uint64_t puts;        /* lists that came from CPUs, by flushes too */
    uint64_t put_misses;  /* of these, times that there were too many, and slabs got some */
    uint64_t slabs_made;  /* of pages */
    uint64_t slabs_freed; /* whose blocks were all free, and whose pages went back */
};

/* A cache of objects that is to be made. */
struct woodlot_objects_config {
    struct woodlot_kmem_cpus cpus; /* of memory for caches of its own */
    /* Makes an object: memory of at least 16 bytes, a multiple of 8; null, if there is none. */
    void *(*make)(void *context);
    /* Takes an object apart that is free. All but its first 16 bytes is as it was freed. */
    void (*unmake)(void *context, void *object);
};

/* ---- Making an allocator ---- */

/*
 * How much memory an allocator needs.
 * Errors: WOODLOT_E_NO_CPUS, WOODLOT_E_NO_CALLBACK without enter or leave, WOODLOT_E_TOO_LONG;
 * WOODLOT_E_NOT_A_ZONE, WOODLOT_E_BAD_GEOMETRY of frames of another size, WOODLOT_E_ZONE_TOO_LARGE from 2^32 - 1 frames on.
 */
int woodlot_kmem_memory_size(const struct woodlot_kmem_config *config, struct woodlot_kmem_sizes *out);

/*
 * Makes an allocator that has no pages yet. Takes time linear in the frames, and little of the stack.
 * Errors: those of woodlot_kmem_memory_size; WOODLOT_E_CACHES_SHORT, WOODLOT_E_DESCRIPTORS_SHORT, WOODLOT_E_OVERLAP;
 * WOODLOT_E_NULL and WOODLOT_E_UNALIGNED also of base (4096) and of both pieces of memory.
 */
int woodlot_kmem_init(struct woodlot_kmem *kmem, const struct woodlot_kmem_config *config,
                      const struct woodlot_kmem_memory *memory);

/* ---- Blocks ---- */

/* Allocates so many bytes; a block of 0 bytes is one of 16. */
void *woodlot_kmem_alloc(const struct woodlot_kmem *kmem, size_t bytes);

/*
 * Frees what woodlot_kmem_alloc() answered for so many bytes.
 * Errors: WOODLOT_E_NULL also of the block.
 */
int woodlot_kmem_free(const struct woodlot_kmem *kmem, void *block, size_t bytes);

/*
 * The same at a multiple of `align`. A null pointer also where that is no power of two, and where it is more than a
 * page and the address of frame 0, as `base` has it, is no multiple of it.
 */
void *woodlot_kmem_alloc_aligned(const struct woodlot_kmem *kmem, size_t bytes, size_t align);

/*
 * Frees what woodlot_kmem_alloc_aligned() answered for so many bytes and that alignment.
 * Errors: WOODLOT_E_NULL also of the block; WOODLOT_E_MISALIGNED where `align` is no power of two.
 */
int woodlot_kmem_free_aligned(const struct woodlot_kmem *kmem, void *block, size_t bytes, size_t align);

/*
 * The cookie for blocks of at least so many bytes: calls with one look for no size.
 * Errors: WOODLOT_E_TOO_LARGE above WOODLOT_KMEM_MAX_SIZE.
 */
struct woodlot_kmem_cookie woodlot_kmem_cookie(size_t bytes);

/* The same, for a size that is known when the program is compiled: compilers leave nothing of it. */
static inline struct woodlot_kmem_cookie woodlot_kmem_cookie_of(size_t bytes)
{
    struct woodlot_kmem_cookie cookie = {UINT32_MAX, WOODLOT_E_TOO_LARGE};
    if (bytes > WOODLOT_KMEM_MAX_SIZE)
        return cookie;
    cookie.error = WOODLOT_OK;
    cookie.number = (uint32_t)(bytes <= 16     ? 0
                               : bytes <= 128  ? (bytes - 1) / 16
                               : bytes <= 256  ? 8 + (bytes - 129) / 32
                               : bytes <= 512  ? 12 + (bytes - 257) / 64
                               : bytes <= 1024 ? 16 + (bytes - 513) / 128
                               : bytes <= 2048 ? 20 + (bytes - 1025) / 256
                                               : 24 + (bytes - 2049) / 512);
    return cookie;
}

/* Allocates a block of a cookie's size; a null pointer also for a cookie with an error. */
void *woodlot_kmem_alloc_cookie(const struct woodlot_kmem *kmem, struct woodlot_kmem_cookie cookie);

/*
 * Frees a block of a cookie's size, however it was allocated.
 * Errors: WOODLOT_E_NULL also of the block; WOODLOT_E_TOO_LARGE of a cookie with an error.
 */
int woodlot_kmem_free_cookie(const struct woodlot_kmem *kmem, void *block, struct woodlot_kmem_cookie cookie);

/*
 * Frees a block of any size, which its page tells.
 * Errors: WOODLOT_E_NULL also of the block.
 */
int woodlot_kmem_free_any(const struct woodlot_kmem *kmem, void *block);

/* Bytes that may be used of a block; 0, if none in use begins there, as far as its page shows. */
size_t woodlot_kmem_usable(const struct woodlot_kmem *kmem, const void *block);

/* ---- Looking, and giving back ---- */

/*
 * Gives what a CPU's cache keeps to the global layer: now and then, or when the CPU goes. Linear in the sizes.
 * Errors: WOODLOT_E_UNREACHABLE, if it is another CPU and `call` could not; or there is no such CPU.
 */
int woodlot_kmem_flush_cpu(const struct woodlot_kmem *kmem, size_t cpu);

/*
 * Gives what a CPU's cache keeps to the global layer, of each size that the CPU has not used since this was last called with the same
 * `seen`: for a clock or an idle loop, which calls it for its own CPU. Linear in the sizes.
 * Errors: WOODLOT_E_NULL and WOODLOT_E_UNALIGNED also of `seen`; WOODLOT_E_UNREACHABLE, if it is another CPU, or there is no such CPU.
 */
int woodlot_kmem_flush_unused(const struct woodlot_kmem *kmem, size_t cpu, struct woodlot_kmem_seen *seen);

/*
 * Gives blocks of the global layer back to their pages, and free pages to the zone, of each size for which that layer was not called since this was
 * last called with the same `seen`: for the clock of one CPU. Linear in the sizes and in what it gives.
 * Errors: WOODLOT_E_NULL and WOODLOT_E_UNALIGNED also of `seen`.
 */
int woodlot_kmem_flush_unused_global(const struct woodlot_kmem *kmem, struct woodlot_kmem_seen *seen);

/* Gives all free blocks back to their pages, and free pages to the zone. Linear in CPUs and free blocks. */
int woodlot_kmem_flush(const struct woodlot_kmem *kmem);

/*
 * What a size has and what its layers have done, by the size's number, from 0.
 * Errors: WOODLOT_E_NO_MORE behind the last one.
 */
int woodlot_kmem_size(const struct woodlot_kmem *kmem, size_t number, struct woodlot_kmem_stats *out);

/* ---- Objects that stay constructed while they are free ---- */

/*
 * Makes a cache of objects that has none yet, in memory for caches of its own: WOODLOT_KMEM_CACHE_SIZE bytes for each
 * CPU, at a multiple of WOODLOT_KMEM_ALIGN. A CPU keeps up to two lists of WOODLOT_OBJECTS_TARGET.
 * Errors: WOODLOT_E_NO_CPUS, WOODLOT_E_NO_CALLBACK, WOODLOT_E_TOO_LONG, WOODLOT_E_CACHES_SHORT, WOODLOT_E_OVERLAP;
 * WOODLOT_E_NULL and WOODLOT_E_UNALIGNED also of the caches.
 */
int woodlot_objects_init(struct woodlot_objects *objects, const struct woodlot_objects_config *config, void *caches,
                         size_t caches_size);

/* Hands out an object, as it was made or as it was freed, but for its first 16 bytes, which are any. */
void *woodlot_objects_alloc(const struct woodlot_objects *objects);

/*
 * Takes an object back, as the next caller may have it.
 * Errors: WOODLOT_E_NULL also of the object.
 */
int woodlot_objects_free(const struct woodlot_objects *objects, void *object);

/*
 * Gives the objects of a CPU's cache to the global layer.
 * Errors: WOODLOT_E_UNREACHABLE, as for woodlot_kmem_flush_cpu().
 */
int woodlot_objects_flush_cpu(const struct woodlot_objects *objects, size_t cpu);

/*
 * Gives the objects of a CPU's cache to the global layer, if the CPU has not used it since this was last called with the same `seen`.
 * Errors: as for woodlot_kmem_flush_unused().
 */
int woodlot_objects_flush_unused(const struct woodlot_objects *objects, size_t cpu, struct woodlot_kmem_seen *seen);

/*
 * Takes the objects of the global layer apart, if it was not called since this was last called with the same `seen`.
 * Errors: as for woodlot_kmem_flush_unused_global().
 */
int woodlot_objects_flush_unused_global(const struct woodlot_objects *objects, struct woodlot_kmem_seen *seen);

/* Takes all free objects apart, as far as CPUs can be reached. */
int woodlot_objects_flush(const struct woodlot_objects *objects);

#ifdef __cplusplus
}
#endif

#endif
