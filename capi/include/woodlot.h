/*
 * Woodlot: lock-free page-frame allocators.
 *
 *   zone    frames start .. start + frames           one handle manages one zone
 *   tree    32 huge frames                           what a CPU reserves for itself
 *   huge    2^huge_order base frames                 what the MMU maps large
 *   frame   2^base_shift bytes                       what is counted
 *
 *     static struct woodlot_zone zone;
 *     struct woodlot_config config = {.start = 0x100, .frames = 1 << 18, .slots = 4};
 *     struct woodlot_metadata_sizes need;
 *     woodlot_metadata_size(&config, &need);                   how much memory it takes
 *     woodlot_init(&zone, &config, &metadata, WOODLOT_INIT_FREE);
 *     struct woodlot_block block = woodlot_alloc(&zone, 0, WOODLOT_MOVABLE, cpu);
 *     if (!block.error)
 *             woodlot_free(&zone, block.frame, 0, cpu);
 *
 * UNITS. A frame is named by its number, counted from physical address zero (a PFN), and a huge frame by its
 * number counted in huge frames. An order o is a block of 2^o frames, aligned to its size; orders go from 0
 * to the geometry's max_order. A slot names the state of one CPU: 0 to config.slots - 1. A slot is a hint, not
 * an owner: two CPUs may use one slot at once, and any slot may free any frame.
 *
 * ERRORS. A call answers 0 or an error number below zero (enum woodlot_error), as its value or in the member
 * `error`. A refused call changes nothing. Where several things are wrong, the number names any one of them.
 * A call that lists no errors has none of its own. Beside its own, each call that takes a zone answers
 * WOODLOT_E_NULL, WOODLOT_E_UNALIGNED or WOODLOT_E_NOT_A_ZONE where there is no zone, and each call that takes
 * another pointer answers the first two where that pointer is null or misaligned. The numbers never change
 * their meaning.
 *
 * PROGRESS. Every call on a zone is lock-free: a call never waits for another one, and a CPU that stops for
 * ever inside a call delays nobody. No call uses a heap, takes a lock, makes a system call or ends the
 * program. Calls that are linear in something say so; the others take constant time, which means here: a time
 * that grows neither with the zone nor with the other calls; with NBBS some look at each block of a huge frame.
 *
 * INTERRUPTS. Every call may be made from an interrupt, an NMI or a signal handler, also from one that
 * interrupts a call with the same zone and slot. woodlot_init is the exception: it ends before anybody else
 * uses the zone, and what it wrote must have become visible to them as any other memory does.
 *
 * MEMORY. A pointer that is neither null nor misaligned must lead to memory of its type. The handle and the
 * metadata are the zone's from woodlot_init on: nobody else writes them, and the handle is not copied. A zone
 * ends when its last call has returned; who then sets the handle to zero has later calls refused.
 *
 * Licence: MIT OR Apache-2.0.
 */
#ifndef WOODLOT_H
#define WOODLOT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define WOODLOT_ALIGNAS(bytes) alignas(bytes)
extern "C" {
#else
#define WOODLOT_ALIGNAS(bytes) _Alignas(bytes)
#endif

/* The version of this header; woodlot_version() says the library's. */
#define WOODLOT_VERSION "0.1.0"

/* ---- Numbers ---- */

/* Why a call was refused. woodlot_error_message() says it in words. */
enum woodlot_error {
    WOODLOT_OK = 0,
    /* Of requests for frames. */
    WOODLOT_E_OUT_OF_MEMORY = -1,   /* no such block or run is free */
    WOODLOT_E_ORDER_TOO_LARGE = -2, /* above the geometry's max_order */
    WOODLOT_E_BAD_SLOT = -3,        /* the zone has no such slot */
    WOODLOT_E_BAD_CLASS = -4,       /* the zone has no such class */
    WOODLOT_E_OUT_OF_RANGE = -5,    /* outside the zone, or a count of no huge frames */
    WOODLOT_E_MISALIGNED = -6,      /* the frame is no multiple of the block's size */
    WOODLOT_E_IN_USE = -7,          /* a frame is allocated or offline */
    WOODLOT_E_NO_FRAMES = -8,       /* a run of no frames */
    WOODLOT_E_REVERSED = -9,        /* a range that ends before it begins */
    WOODLOT_E_NO_PLACE = -10,       /* no place of this size and alignment, whatever is free */
    WOODLOT_E_UNSUPPORTED = -11,    /* this engine cannot do this */
    /* Of frees, and of huge frames. */
    WOODLOT_E_NOT_ALLOCATED = -12, /* a frame is free already: a double free, or a wrong order */
    WOODLOT_E_OFFLINE = -13,       /* a frame lies in a huge frame that is offline */
    WOODLOT_E_NOT_OFFLINE = -14,   /* a huge frame is not offline */
    /* Of looking for the next one. */
    WOODLOT_E_NO_MORE = -15, /* there is no further one */
    /* Of pointers and numbers. */
    WOODLOT_E_NULL = -16,       /* a null pointer */
    WOODLOT_E_UNALIGNED = -17,  /* a pointer that is not aligned to its type */
    WOODLOT_E_NOT_A_ZONE = -18, /* the handle is zero, or holds something else */
    WOODLOT_E_TOO_LONG = -19,   /* an array of more than PTRDIFF_MAX bytes */
    WOODLOT_E_BAD_PLACE = -20,  /* no member of enum woodlot_place_kind */
    WOODLOT_E_BAD_MODE = -21,   /* no member of enum woodlot_batch_mode or woodlot_init_mode */
    /* Of making a zone. */
    WOODLOT_E_EMPTY_ZONE = -22,          /* no frames */
    WOODLOT_E_ZONE_TOO_LARGE = -23,      /* past the last frame number, or what the engine can name */
    WOODLOT_E_NO_SLOTS = -24,            /* no slots */
    WOODLOT_E_TOO_MANY_SLOTS = -25,      /* more than the engine can keep */
    WOODLOT_E_TOO_MANY_CLASSES = -26,    /* more than the engine can keep */
    WOODLOT_E_DURABLE_SHORT = -27,       /* fewer bytes than woodlot_metadata_size() says */
    WOODLOT_E_VOLATILE_SHORT = -28,      /* the same of the other part */
    WOODLOT_E_DURABLE_NULL = -29,        /* a null pointer as metadata */
    WOODLOT_E_VOLATILE_NULL = -30,       /* the same of the other part */
    WOODLOT_E_DURABLE_MISALIGNED = -31,  /* no multiple of WOODLOT_METADATA_ALIGN, or past the last address */
    WOODLOT_E_VOLATILE_MISALIGNED = -32, /* the same of the other part */
    WOODLOT_E_OVERLAP = -33,             /* the handle and the two parts share memory */
    WOODLOT_E_BAD_ENGINE = -34,          /* no member of enum woodlot_engine, or not built in */
    WOODLOT_E_BAD_GEOMETRY = -35,        /* no member of enum woodlot_geometry */
    WOODLOT_E_BAD_CLASSES = -36,         /* no policy: see struct woodlot_classes */
    WOODLOT_E_UNKNOWN = -37,             /* a cause that has no number yet */
    /* Of woodlot_kmem.h. */
    WOODLOT_E_NOT_A_KMEM = -38,        /* the handle is zero, or holds something else */
    WOODLOT_E_NOT_OBJECTS = -39,       /* the same of a cache of objects */
    WOODLOT_E_TOO_LARGE = -40,         /* more bytes than a cookie is for */
    WOODLOT_E_NO_CPUS = -41,           /* no CPUs */
    WOODLOT_E_NO_CALLBACK = -42,       /* a function that must be there is a null pointer */
    WOODLOT_E_CACHES_SHORT = -43,      /* fewer bytes than woodlot_kmem_memory_size() says */
    WOODLOT_E_DESCRIPTORS_SHORT = -44, /* the same of the page descriptors */
    WOODLOT_E_UNREACHABLE = -45        /* another CPU, which cannot be reached */
};

/* Which allocator manages a zone. */
enum woodlot_engine {
    WOODLOT_LLFREE = 0,  /* LLFree: keeps huge frames whole; can do all of what is in here */
    WOODLOT_NBBS = 1,    /* the Non-Blocking Buddy System: see woodlot_zone_info.unsupported */
    WOODLOT_ONEWRITE = 2 /* one atomic write for most calls, on any number of CPUs: likewise */
};

/* The frame sizes of a zone. */
enum woodlot_geometry {
    WOODLOT_4K = 0,  /* 4 KiB base, 2 MiB huge (order 9): x86-64, RISC-V, Arm */
    WOODLOT_16K = 1, /* 16 KiB base, 32 MiB huge (order 11): Arm */
    WOODLOT_64K = 2  /* 64 KiB base, 2 MiB huge (order 5): Arm with the contiguous hint */
};

/* What frames are for, with the classes as shipped. Frames of one class are kept together. */
enum woodlot_class {
    WOODLOT_MOVABLE = 0,   /* can be moved by rewriting a mapping: user memory, page cache */
    WOODLOT_IMMOVABLE = 1, /* stays where it is: kernel objects, page tables, DMA buffers */
    WOODLOT_HUGE = 2,      /* asked for by the huge frame */
    WOODLOT_LONG_LIVED = 3 /* immovable, and stays for the life of the system */
};

/* What the frames of a new zone are, before the first call. */
enum woodlot_init_mode {
    WOODLOT_INIT_FREE = 0,      /* free; holes are then claimed or taken offline */
    WOODLOT_INIT_ALLOCATED = 1, /* allocated; what exists is then freed, so that holes never are */
    WOODLOT_INIT_RECOVER = 2    /* as the durable metadata says, of which any bytes are made consistent */
};

/* How many blocks a batch must yield. */
enum woodlot_batch_mode {
    WOODLOT_ALL = 0,  /* all, or none */
    WOODLOT_UP_TO = 1 /* as many as there are, at least one */
};

/* Where a block or a run may lie. */
enum woodlot_place_kind {
    WOODLOT_ANYWHERE = 0, /* wherever the allocator likes */
    WOODLOT_AT = 1,       /* at this frame and nowhere else */
    WOODLOT_WITHIN = 2    /* wholly inside a range of frames */
};

/* Bits of what an engine cannot do: woodlot_zone_info.unsupported. */
enum woodlot_unsupported {
    WOODLOT_NO_EXACT_FRAME = 1,      /* places other than WOODLOT_ANYWHERE, and runs */
    WOODLOT_NO_PARTIAL_FREE = 2,     /* freeing a block in parts, and WOODLOT_INIT_ALLOCATED */
    WOODLOT_NO_CLASSES = 4,          /* keeping classes apart; each can still be asked for */
    WOODLOT_NO_OFFLINE = 8,          /* woodlot_offline and woodlot_online */
    WOODLOT_NO_RECOVERY = 16,        /* WOODLOT_INIT_RECOVER */
    WOODLOT_NO_EXACT_EXHAUSTION = 32 /* finding memory that another slot holds */
};

/* Bytes and alignment of a handle, the alignment of metadata, the most classes and orders. */
enum woodlot_limits {
    WOODLOT_ZONE_SIZE = 1024,
    WOODLOT_ZONE_ALIGN = 64,
    WOODLOT_METADATA_ALIGN = 64,
    WOODLOT_MAX_CLASSES = 8,
    WOODLOT_ORDERS = 14
};

/* ---- Structures ---- */

/* The handle of a zone, in the caller's memory: opaque. Zeros are no zone, and are recognised as none. */
struct woodlot_zone {
    WOODLOT_ALIGNAS(64) unsigned char opaque[WOODLOT_ZONE_SIZE];
};

/* One frame, or why there is none. */
struct woodlot_block {
    size_t frame; /* the first frame of the block; with an error, the frame that the error is about, or 0 */
    int error;
};

/* Neighbouring frames, or why there are none. */
struct woodlot_run {
    size_t start; /* the first frame; with an error, the frame that the error is about, or 0 */
    size_t end;   /* the frame after the last; with an error, the same as start */
    int error;
};

/* How far a batch came. */
struct woodlot_batch {
    size_t count; /* how many blocks were allocated or freed */
    size_t frame; /* with an error, the frame that the error is about; otherwise 0 */
    int error;
};

/* A number of frames. */
struct woodlot_count {
    size_t count; /* 0 with an error */
    int error;
};

/* A huge frame, or why there is none. */
struct woodlot_huge {
    size_t huge; /* 0 with an error */
    int error;
};

/* Which of 64 frames are free. */
struct woodlot_map {
    uint64_t map; /* bit i stands for the i-th frame; 0 with an error */
    int error;
};

/* Where a block or a run may lie; made by the three functions that follow. */
struct woodlot_place {
    uint32_t kind; /* enum woodlot_place_kind */
    size_t start;  /* with WOODLOT_AT the frame, with WOODLOT_WITHIN the first one */
    size_t end;    /* with WOODLOT_WITHIN the frame after the last */
};

/* Wherever the allocator likes. */
static inline struct woodlot_place woodlot_anywhere(void)
{
    struct woodlot_place place = {WOODLOT_ANYWHERE, 0, 0};
    return place;
}

/* At this frame and nowhere else. */
static inline struct woodlot_place woodlot_at(size_t frame)
{
    struct woodlot_place place = {WOODLOT_AT, frame, 0};
    return place;
}

/* Wholly inside these frames; those outside the zone are left out. (Frames of 4 KiB below 4 GiB: 0, 1 << 20.) */
static inline struct woodlot_place woodlot_within(size_t start, size_t end)
{
    struct woodlot_place place = {WOODLOT_WITHIN, start, end};
    return place;
}

/*
 * A policy of classes. Row c of `turns` lists every class once, in the order in which class c turns to them,
 * itself first. The first fills[c] of them are those whose huge frames class c fills up before a free
 * huge frame is broken: 1 to count, itself included. Rows and columns from `count` on are not looked at.
 */
struct woodlot_classes {
    uint32_t count; /* 1 to WOODLOT_MAX_CLASSES */
    uint8_t fills[WOODLOT_MAX_CLASSES];
    uint8_t turns[WOODLOT_MAX_CLASSES][WOODLOT_MAX_CLASSES];
};

/* A zone that is to be made. Zeros in the last three are LLFree, 4 KiB frames and the classes as shipped. */
struct woodlot_config {
    size_t start;                          /* the first frame; aligned to nothing */
    size_t frames;                         /* how many; at least one */
    size_t slots;                          /* at least one; one for each CPU is best */
    uint32_t engine;                       /* enum woodlot_engine */
    uint32_t geometry;                     /* enum woodlot_geometry */
    const struct woodlot_classes *classes; /* null: as shipped */
};

/* How many bytes of metadata a zone needs. */
struct woodlot_metadata_sizes {
    size_t durable_size;  /* what a recovery starts from; in persistent memory if the zone is to survive */
    size_t volatile_size; /* what is recomputed at every start */
};

/* The memory for it: two pieces of initialised memory, of any value. */
struct woodlot_metadata {
    void *durable_start; /* a multiple of WOODLOT_METADATA_ALIGN */
    size_t durable_size;
    void *volatile_start; /* a multiple of WOODLOT_METADATA_ALIGN */
    size_t volatile_size;
};

/* The sizes of a geometry. */
struct woodlot_geometry_sizes {
    uint32_t base_shift; /* log2 of a base frame's bytes */
    uint32_t huge_order; /* the order of a huge frame */
    uint32_t max_order;  /* the largest order: two huge frames */
    uint32_t tree_huge;  /* huge frames in a tree */
};

/* A zone as it was made. */
struct woodlot_zone_info {
    size_t start;                        /* the first frame */
    size_t frames;                       /* how many */
    size_t slots;                        /* how many */
    size_t first_huge;                   /* the first huge frame that lies wholly in the zone */
    size_t end_huge;                     /* the one after the last of those */
    uint32_t engine;                     /* enum woodlot_engine */
    uint32_t geometry;                   /* enum woodlot_geometry */
    uint32_t unsupported;                /* enum woodlot_unsupported, added up */
    struct woodlot_geometry_sizes sizes; /* of the geometry */
    struct woodlot_classes classes;      /* rows and columns from `count` on are 0 */
};

/* What lies in the trees of one class. */
struct woodlot_class_counts {
    size_t trees;
    size_t free_frames; /* free base frames in them */
    size_t free_huge;   /* free huge frames in them */
};

/* A count over a zone. */
struct woodlot_counts {
    size_t free_frames;  /* free base frames */
    size_t free_huge;    /* huge frames all of whose base frames are free */
    size_t offline_huge; /* huge frames that are offline */
    struct woodlot_class_counts classes[WOODLOT_MAX_CLASSES];
};

/* Free blocks by order, each free frame counted once, in the largest aligned free block that it lies in. */
struct woodlot_blocks {
    size_t counts[WOODLOT_ORDERS];
    size_t largest_run; /* the most free frames in a row, aligned or not */
};

/* ---- Making a zone ---- */

/*
 * How much metadata a zone of this configuration needs, beside its handle.
 * Errors: WOODLOT_E_BAD_ENGINE, _BAD_GEOMETRY, _BAD_CLASSES, _EMPTY_ZONE, _ZONE_TOO_LARGE, _NO_SLOTS,
 * _TOO_MANY_SLOTS, _TOO_MANY_CLASSES. Constant time.
 */
int woodlot_metadata_size(const struct woodlot_config *config, struct woodlot_metadata_sizes *out);

/*
 * Makes a zone: fills the handle and the metadata. `mode` is of enum woodlot_init_mode. The configuration is
 * copied. A handle that held a zone before may be used again, as soon as no call is under way on it.
 * WOODLOT_INIT_RECOVER reads the durable metadata alone.
 * Errors: those of woodlot_metadata_size(), and WOODLOT_E_BAD_MODE, _DURABLE_NULL, _VOLATILE_NULL,
 * _DURABLE_SHORT, _VOLATILE_SHORT, _DURABLE_MISALIGNED, _VOLATILE_MISALIGNED, _OVERLAP, and _UNSUPPORTED where
 * the engine cannot start in this mode. Nothing is written then.
 * Not beside other calls on the zone; linear in the metadata.
 */
int woodlot_init(struct woodlot_zone *zone, const struct woodlot_config *config,
                 const struct woodlot_metadata *metadata, uint32_t mode);

/* What a zone was made of. Errors: none of its own. Constant time. */
int woodlot_info(const struct woodlot_zone *zone, struct woodlot_zone_info *out);

/* The sizes of a geometry. Errors: WOODLOT_E_BAD_GEOMETRY. */
int woodlot_sizes(uint32_t geometry, struct woodlot_geometry_sizes *out);

/* The classes as shipped, to make others of. Errors: none of its own. */
int woodlot_shipped_classes(struct woodlot_classes *out);

/* ---- Allocating ---- */

/*
 * Allocates a block of 2^order frames, wherever the allocator likes. While such a block is free and no other
 * call is under way, there is one to be had, through any slot and for any class.
 * Errors: WOODLOT_E_OUT_OF_MEMORY, _ORDER_TOO_LARGE, _BAD_SLOT, _BAD_CLASS.
 * Progress: lock-free; linear in the zone's trees before memory is said to be exhausted.
 */
struct woodlot_block woodlot_alloc(const struct woodlot_zone *zone, uint32_t order, uint32_t frame_class,
                                   size_t slot);

/*
 * The same in a place: at one frame, or inside a range (where it is searched for from the first frame on).
 * Errors: those of woodlot_alloc(), WOODLOT_E_BAD_PLACE, _UNSUPPORTED; with WOODLOT_AT also _IN_USE,
 * _OUT_OF_RANGE and _MISALIGNED; with WOODLOT_WITHIN also _REVERSED and _NO_PLACE.
 * Progress: lock-free; within a range, linear in its huge frames.
 */
struct woodlot_block woodlot_alloc_placed(const struct woodlot_zone *zone, uint32_t order,
                                          uint32_t frame_class, size_t slot, struct woodlot_place place);

/*
 * Allocates `frames` neighbouring frames, of any number, the first of which is a multiple of 2^align: also of
 * more frames than the largest block has. The run is made of free memory, never by moving frames.
 * woodlot_free_range() frees it, and so do single frees.
 * Errors: as woodlot_alloc_placed(), and WOODLOT_E_NO_FRAMES. _IN_USE names the first frame that is.
 * _ORDER_TOO_LARGE: 2^align does not fit a size_t. Exact while no other call is under way.
 * Progress: lock-free; linear in the huge frames of the place, and in the frames of those in use in part.
 */
struct woodlot_run woodlot_alloc_range(const struct woodlot_zone *zone, size_t frames, uint32_t align,
                                       uint32_t frame_class, size_t slot, struct woodlot_place place);

/*
 * Allocates up to `wanted` blocks of one order and writes their first frames to `frames`. With WOODLOT_AT the
 * blocks are those that follow one another from there. `mode` is of enum woodlot_batch_mode: WOODLOT_ALL yields
 * all or none, WOODLOT_UP_TO as many as there are. With an error `frames` holds nothing of meaning.
 * `frames` may be null where `wanted` is 0.
 * Errors: as woodlot_alloc_placed(), WOODLOT_E_BAD_MODE, _TOO_LONG.
 * Progress: lock-free; linear in `wanted`.
 */
struct woodlot_batch woodlot_alloc_batch(const struct woodlot_zone *zone, uint32_t order,
                                         uint32_t frame_class, size_t slot, struct woodlot_place place,
                                         uint32_t mode, size_t *frames, size_t wanted);

/* ---- Freeing ---- */

/*
 * Frees the block of 2^order frames at `frame`: as it was allocated, a part of it, or neighbours together,
 * through any slot.
 * Errors: WOODLOT_E_NOT_ALLOCATED, _ORDER_TOO_LARGE, _BAD_SLOT, _OUT_OF_RANGE, _MISALIGNED, _OFFLINE,
 * _UNSUPPORTED.
 * Progress: lock-free; constant time.
 */
int woodlot_free(const struct woodlot_zone *zone, size_t frame, uint32_t order, size_t slot);

/*
 * Frees the frames from `start` to the one before `end`, in the largest blocks, whatever they were allocated
 * as: how boot memory is handed over, and what frees a run. An empty range is freed at once.
 * Errors: WOODLOT_E_NOT_ALLOCATED with the first frame that is free already, _OUT_OF_RANGE with the first one
 * outside the zone, _BAD_SLOT, _OFFLINE, _REVERSED, _UNSUPPORTED. Nothing is freed then. The answer's frame
 * is 0 where there is no error.
 * Progress: lock-free; linear in the blocks.
 */
struct woodlot_block woodlot_free_range(const struct woodlot_zone *zone, size_t start, size_t end, size_t slot);

/*
 * Frees `count` blocks of one order, in their order. Stops at the first that woodlot_free() would refuse: those
 * before it are free, it and those behind it untouched; the answer's count says how many were freed.
 * `frames` may be null where `count` is 0.
 * Errors: as woodlot_free(), WOODLOT_E_TOO_LONG.
 * Progress: lock-free; linear in `count`.
 */
struct woodlot_batch woodlot_free_batch(const struct woodlot_zone *zone, const size_t *frames, size_t count,
                                        uint32_t order, size_t slot);

/* Would woodlot_free() succeed at this moment? 0, or its error. Changes nothing. Constant time. */
int woodlot_can_free(const struct woodlot_zone *zone, size_t frame, uint32_t order, size_t slot);

/* ---- Slots and huge frames ---- */

/*
 * Gives back everything that a slot holds for itself, so that counts show where the free frames are.
 * Errors: WOODLOT_E_BAD_SLOT. Progress: lock-free; constant time.
 */
int woodlot_drain(const struct woodlot_zone *zone, size_t slot);

/*
 * Takes `count` free huge frames out, all or none: nobody can allocate them until they are put back.
 * Errors: WOODLOT_E_IN_USE with the first frame that is allocated or offline, _OUT_OF_RANGE where a huge frame
 * is not wholly inside the zone or `count` is 0, _UNSUPPORTED. Progress: lock-free; linear in `count`.
 */
struct woodlot_block woodlot_offline(const struct woodlot_zone *zone, size_t first_huge, size_t count);

/*
 * Puts them back, all or none.
 * Errors: WOODLOT_E_NOT_OFFLINE, _OUT_OF_RANGE, _UNSUPPORTED. Progress: lock-free; linear in `count`.
 */
int woodlot_online(const struct woodlot_zone *zone, size_t first_huge, size_t count);

/* ---- Looking ---- */

/*
 * Is a block of 2^order frames free? 1 or 0, or an error below zero. Exact while no other call is under way.
 * An order that is too large is never available. At worst linear in the zone's trees.
 */
int woodlot_is_available(const struct woodlot_zone *zone, uint32_t order);

/*
 * Is every frame of the block free at this moment? 1 or 0, or an error below zero. 0 for what is no block of
 * the zone. Constant time.
 */
int woodlot_is_free(const struct woodlot_zone *zone, size_t frame, uint32_t order);

/*
 * About how many frames are free; exact while no call is under way, if no slot is used by two calls at once.
 * woodlot_stats() makes good what was lost by that. Linear in the slots.
 */
struct woodlot_count woodlot_free_frames(const struct woodlot_zone *zone);

/* How many frames of a huge frame are free at this moment. 0 outside the zone, and offline. Constant time. */
struct woodlot_count woodlot_free_in_huge(const struct woodlot_zone *zone, size_t huge);

/*
 * Which of the 64 frames around `frame` are free at this moment: bit i stands for the i-th from `frame`,
 * rounded down to a multiple of 64. Frames outside the zone are not free. Constant time.
 */
struct woodlot_map woodlot_free_map(const struct woodlot_zone *zone, size_t frame);

/*
 * The first run of free frames among those from `from` to the one before `end`, as long as it goes:
 *     for (run = woodlot_next_free_run(zone, 0, SIZE_MAX); !run.error;
 *          run = woodlot_next_free_run(zone, run.end, SIZE_MAX))
 * Errors: WOODLOT_E_NO_MORE. Linear in the huge frames passed by, and in the frames of those in use in part.
 */
struct woodlot_run woodlot_next_free_run(const struct woodlot_zone *zone, size_t from, size_t end);

/*
 * The first free huge frame from number `from` on, and the last one before number `before`:
 *     for (h = woodlot_next_free_huge(zone, 0); !h.error; h = woodlot_next_free_huge(zone, h.huge + 1))
 *     for (h = woodlot_last_free_huge(zone, SIZE_MAX); !h.error; h = woodlot_last_free_huge(zone, h.huge))
 * Errors: WOODLOT_E_NO_MORE. Linear in the huge frames passed by.
 */
struct woodlot_huge woodlot_next_free_huge(const struct woodlot_zone *zone, size_t from);
struct woodlot_huge woodlot_last_free_huge(const struct woodlot_zone *zone, size_t before);

/* Counts the zone, by class too. Errors: none of its own. Linear in the trees and slots. */
int woodlot_stats(const struct woodlot_zone *zone, struct woodlot_counts *out);

/*
 * Counts the free blocks of every order, as /proc/buddyinfo does. Errors: none of its own. Linear in the huge
 * frames, and in the frames of those in use in part.
 */
int woodlot_free_blocks(const struct woodlot_zone *zone, struct woodlot_blocks *out);

/* ---- What needs no zone ---- */

/* The library's version: equal to WOODLOT_VERSION where the two belong together. */
const char *woodlot_version(void);

/* What a number means: static strings, also for numbers that there are not. */
const char *woodlot_error_message(int error);
const char *woodlot_engine_name(uint32_t engine);
const char *woodlot_geometry_name(uint32_t geometry);
const char *woodlot_class_name(uint32_t frame_class);

/* The smallest order whose block has room for so many frames; above 2^63 frames, one that is refused. */
uint32_t woodlot_order_containing(size_t frames);

/* How many frames a block of an order has; 0 where that number does not fit a size_t. */
size_t woodlot_order_frames(uint32_t order);

/*
 * The physical address of a frame's first byte, and the frame that an address lies in. Both saturate. For a
 * geometry that is none: the largest number.
 */
uint64_t woodlot_frame_address(uint32_t geometry, size_t frame);
size_t woodlot_frame_containing(uint32_t geometry, uint64_t address);

/*
 * The frames that lie wholly between two addresses, as a memory map gives them; an empty run where there is
 * none. Errors: WOODLOT_E_BAD_GEOMETRY.
 */
struct woodlot_run woodlot_frames_inside(uint32_t geometry, uint64_t start, uint64_t end);

/*
 * The huge frame that a frame lies in, and the first frame of a huge frame, which saturates. For a geometry
 * that is none: the largest number.
 */
size_t woodlot_huge_containing(uint32_t geometry, size_t frame);
size_t woodlot_huge_first(uint32_t geometry, size_t huge);

#ifdef __cplusplus
}
#endif

#endif
