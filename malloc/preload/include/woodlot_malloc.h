/*
 * libwoodlot_malloc.so: what it has beside the malloc family of <stdlib.h> and <malloc.h>.
 *
 *     struct woodlot_malloc_heap heap;
 *     struct woodlot_malloc_size sizes[WOODLOT_MALLOC_SIZES];
 *     if (!woodlot_malloc_look(&heap, sizes, WOODLOT_MALLOC_SIZES))
 *             printf("%zu blocks of %zu bytes\n", sizes[0].in_use, sizes[0].bytes);
 *     woodlot_malloc_print(2, WOODLOT_MALLOC_TEXT);
 *
 * A program is linked with the library (-lwoodlot_malloc) for this, or finds the functions by dlsym(), where the library is
 * preloaded.
 *
 * ERRORS. A call answers 0 or the number of an error of <errno.h>. errno stays as it is.
 *
 * PROGRESS. Looking and printing take no lock and no memory, and some thousand calls of the system. They may be called at any
 * time, also from a signal handler. Words are read one after the other while they change: what is said of each is true of a
 * moment. Flushing and trimming are linear in what is free, and must not be called where malloc must not.
 *
 * Licence: MIT OR Apache-2.0.
 */
#ifndef WOODLOT_MALLOC_H
#define WOODLOT_MALLOC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Numbers ---- */

/* Whose the caches are. */
enum woodlot_malloc_caches {
    WOODLOT_MALLOC_NONE = 0,   /* nobody has allocated yet */
    WOODLOT_MALLOC_CPUS = 1,   /* of CPUs, by restartable sequences */
    WOODLOT_MALLOC_THREADS = 2 /* of threads, where there are none */
};

/* How statistics are printed. */
enum woodlot_malloc_form {
    WOODLOT_MALLOC_TEXT = 0, /* a table */
    WOODLOT_MALLOC_JSON = 1  /* one line: {"pid": 1, "heaps": [{}]} */
};

/* What is wrong with a block that is freed. */
enum woodlot_malloc_misuse {
    WOODLOT_MALLOC_FOREIGN = 1,    /* in no page in use, or behind the first page of a block of more than 32 KiB */
    WOODLOT_MALLOC_INTERIOR = 2,   /* no block begins there */
    WOODLOT_MALLOC_WRONG_SIZE = 3, /* it has another size than free_sized() or free_aligned_sized() says */
    WOODLOT_MALLOC_DOUBLE_FREE = 4 /* it is free already */
};

/* Sizes that blocks of up to 32 KiB have. A later version may have more. */
enum woodlot_malloc_limits {
    WOODLOT_MALLOC_SIZES = 41
};

/* What caches are asked for is counted by a library alone that was built with the feature `counted`. */
#define WOODLOT_MALLOC_NOT_COUNTED UINT64_MAX

/* ---- Structures ---- */

/* What the heap has, all sizes together. */
struct woodlot_malloc_heap {
    uint32_t caches;       /* enum woodlot_malloc_caches */
    uint32_t size_count;   /* how many sizes there are */
    uint64_t aborts;       /* sequences that the system has aborted, which began again */
    size_t span_count;     /* blocks of more than 32 KiB, up to 4 MiB */
    size_t span_bytes;     /* their pages */
    size_t large_count;    /* blocks above that, each a mapping of its own */
    size_t large_bytes;    /* of these */
    size_t free_pages;     /* bytes of pages that nobody has, and that may have memory */
    size_t resident_bytes; /* of all but large blocks: huge frames that may have memory */
};

/* What one size has, and what its layers have done. */
struct woodlot_malloc_size {
    size_t bytes;                 /* of a block */
    size_t target;                /* blocks of a full list */
    size_t in_use;                /* blocks that the program has */
    size_t cached;                /* free in caches */
    size_t global;                /* free in the global layer */
    size_t in_slabs;              /* free in slabs */
    size_t pages;                 /* of slabs */
    uint64_t cache_allocs;        /* blocks that caches were asked for, or WOODLOT_MALLOC_NOT_COUNTED */
    uint64_t cache_alloc_misses;  /* of these, lists that they asked of the global layer */
    uint64_t cache_frees;         /* blocks that caches were given, or WOODLOT_MALLOC_NOT_COUNTED */
    uint64_t cache_free_misses;   /* lists that caches gave to it, by flushes too */
    uint64_t global_alloc_misses; /* of those asked for, times that there was none */
    uint64_t global_free_misses;  /* of those given, times that there were too many */
    uint64_t slabs_made;          /* of pages */
    uint64_t slabs_freed;         /* whose blocks were all free, and whose pages went back */
};

/* ---- Looking ---- */

/*
 * What the heap has and has done; and the same of up to `room` sizes, the smallest first. Each may be a null pointer.
 * Errors: that of process_vm_readv(), where a filter of system calls keeps a process from reading its own memory.
 */
int woodlot_malloc_look(struct woodlot_malloc_heap *heap, struct woodlot_malloc_size *sizes, size_t room);

/*
 * Writes the statistics to a file descriptor, as `woodlot kmem stat` prints them.
 * Errors: EINVAL, where `form` is none of enum woodlot_malloc_form; EIO, where they could not be written.
 */
int woodlot_malloc_print(int fd, uint32_t form);

/* ---- Giving back ---- */

/* Gives what caches keep back to its pages, so that other sizes can have it. Other threads' caches are not reached. */
void woodlot_malloc_flush(void);

/* The same, and gives free memory to the system, but for so many bytes. The bytes that were given: malloc_trim() says if any. */
size_t woodlot_malloc_trim(size_t keep);

/* ---- Wrong calls ---- */

/*
 * Has a function hear of wrong frees, and of addresses for which realloc() and malloc_usable_size() find no block, in place of a
 * line on standard error and the end of the process; null: those again. When it returns, nothing was freed, and the two answer
 * null and 0. It may be called in the middle of a call, on any thread and in signal handlers: it must not allocate or free, nor
 * wait for somebody who does. WOODLOT_MALLOC_MISUSE=report in the environment has the process go on after the line.
 *
 * Which are found at the call, the README of woodlot-malloc says; by a library built with the feature `checked`, all are.
 */
void woodlot_malloc_on_misuse(void (*hear)(uint32_t kind, void *block));

/* ---- Freeing with the size (C23), which spares a look at the block's page ---- */

/* Frees what malloc(), calloc() or realloc() answered for so many bytes; of calloc(), count times size. */
void free_sized(void *block, size_t bytes);

/* Frees what aligned_alloc() answered for so many bytes at this alignment. */
void free_aligned_sized(void *block, size_t align, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
