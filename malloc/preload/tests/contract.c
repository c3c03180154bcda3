// What a C program sees of malloc and its family. `contract NAME` runs one part; it exits with 0, or says what was wrong.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include "woodlot_malloc.h"

#pragma GCC diagnostic ignored "-Walloc-size-larger-than="
#pragma GCC diagnostic ignored "-Wuse-after-free"
#pragma GCC diagnostic ignored "-Wfree-nonheap-object"

#define CHECK(what) \
    do { if (!(what)) { fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #what, errno); exit(1); } } while (0)

// Keeps the compiler from knowing what a pointer or a number is.
static void *hide(void *pointer) { __asm__ volatile("" : "+r"(pointer) : : "memory"); return pointer; }
static size_t number(size_t n) { __asm__ volatile("" : "+r"(n)); return n; }

static const size_t HUGE_SIZES[] = {PTRDIFF_MAX, (size_t)PTRDIFF_MAX + 1, SIZE_MAX - 4096, SIZE_MAX};

static int all(const unsigned char *bytes, size_t count, unsigned char is) {
    for (size_t at = 0; at < count; at++)
        if (bytes[at] != is) return 0;
    return 1;
}

static size_t resident(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%*d %ld", &pages) == 1);
    fclose(file);
    return (size_t)pages * 4096;
}

static void sizes(void) {
    enum { COUNT = 400 };
    static unsigned char *blocks[COUNT];
    for (size_t step = 1; step < 60000; step = step * 5 / 2 + 1) {
        for (size_t at = 0; at < COUNT; at++) {
            size_t bytes = at * step % 70000;
            blocks[at] = hide(malloc(bytes));
            CHECK(blocks[at] && (uintptr_t)blocks[at] % 16 == 0);
            size_t usable = malloc_usable_size(blocks[at]);
            CHECK(usable >= bytes);
            memset(blocks[at], (int)at, usable);
        }
        for (size_t at = 0; at < COUNT; at++) {
            CHECK(all(blocks[at], malloc_usable_size(blocks[at]), (unsigned char)at));
            free(blocks[at]);
        }
    }
    void *none = hide(malloc(0)), *other = hide(malloc(0));
    CHECK(none && other && none != other);
    free(none);
    free(other);
    for (size_t at = 0; at < 4; at++) {
        errno = 0;
        CHECK(!hide(malloc(number(HUGE_SIZES[at]))) && errno == ENOMEM);
    }
    errno = 77;
    free(NULL);
    free(hide(malloc(10)));
    free(hide(malloc(10 << 20)));
    CHECK(errno == 77 && malloc_usable_size(NULL) == 0);
}

static void zeroed(void) {
    for (int round = 0; round < 3; round++)
        for (size_t bytes = 1; bytes < 20 << 20; bytes = bytes * 3 + 1) {
            unsigned char *dirty = hide(malloc(bytes));
            CHECK(dirty);
            memset(dirty, 0xA5, bytes);
            free(dirty);
            unsigned char *clean = hide(calloc(number(bytes), 1));
            CHECK(clean && all(clean, bytes, 0));
            memset(clean, 0xA5, bytes);
            free(clean);
        }
    errno = 0;
    CHECK(!hide(calloc(number(SIZE_MAX / 2), 3)) && errno == ENOMEM);
    errno = 0;
    CHECK(!hide(calloc(number((size_t)1 << 33), (size_t)1 << 33)) && errno == ENOMEM);
}

static void resized(void) {
    unsigned char *block = hide(realloc(NULL, 1));
    CHECK(block);
    *block = 3;
    size_t had = 1;
    static const size_t TO[] = {16, 17, 100, 90, 5000, 4097, 4096, 4000, 300000, 299000, 20 << 20, 30 << 20,
                                9 << 20, 5 << 20, 4 << 20, 100000, 40, 1};
    for (size_t at = 0; at < sizeof TO / sizeof *TO; at++) {
        block = hide(realloc(block, TO[at]));
        CHECK(block && malloc_usable_size(block) >= TO[at]);
        CHECK(all(block, had < TO[at] ? had : TO[at], 3));
        memset(block, 3, TO[at]);
        had = TO[at];
    }
    for (size_t at = 0; at < 4; at++) {
        errno = 0;
        CHECK(!hide(realloc(block, number(HUGE_SIZES[at]))) && errno == ENOMEM && *block == 3);
        errno = 0;
        CHECK(!hide(reallocarray(block, number(HUGE_SIZES[at]), 16)) && errno == ENOMEM && *block == 3);
    }
    block = hide(reallocarray(block, 100, 7));
    CHECK(block && *block == 3 && malloc_usable_size(block) >= 700);
    CHECK(!hide(realloc(block, 0)));
}

static void aligned(void) {
    void *blocks[64];
    for (size_t align = 1; align <= 64 << 20; align *= 2)
        for (size_t bytes = 0; bytes < 12 << 20; bytes = bytes * 7 + 1) {
            int count = 0;
            blocks[count++] = hide(aligned_alloc(align, bytes));
            blocks[count++] = hide(memalign(align, bytes));
            if (align >= sizeof(void *)) {
                errno = 77;
                CHECK(posix_memalign(&blocks[count++], align, bytes) == 0 && errno == 77);
            }
            for (int at = 0; at < count; at++) {
                CHECK(blocks[at] && (uintptr_t)blocks[at] % align == 0);
                CHECK(malloc_usable_size(blocks[at]) >= bytes);
                memset(blocks[at], at, bytes);
            }
            for (int at = 0; at < count; at++) {
                CHECK(all(blocks[at], bytes, (unsigned char)at));
                free(blocks[at]);
            }
        }
    void *out = blocks;
    errno = 77;
    CHECK(posix_memalign(&out, 4, 8) == EINVAL && posix_memalign(&out, 0, 8) == EINVAL);
    CHECK(posix_memalign(&out, 24, 8) == EINVAL && posix_memalign(&out, 64, number(PTRDIFF_MAX)) == ENOMEM);
    CHECK(out == blocks && errno == 77);
    CHECK(!hide(aligned_alloc(number(3), 9)) && errno == EINVAL);
    CHECK(!hide(memalign(number(SIZE_MAX), 9)) && errno == EINVAL);
    errno = 0;
    CHECK(!hide(aligned_alloc(64, number(PTRDIFF_MAX))) && errno == ENOMEM);
    void *page = hide(valloc(100)), *pages = hide(pvalloc(4097)), *three = hide(memalign(48, 10));
    CHECK(page && (uintptr_t)page % 4096 == 0 && pages && (uintptr_t)pages % 4096 == 0);
    CHECK(malloc_usable_size(pages) >= 8192 && (uintptr_t)three % 64 == 0);
    free(page), free(pages), free(three);
    errno = 0;
    CHECK(!hide(pvalloc(number(SIZE_MAX))) && errno == ENOMEM);
}

// Memory that is free goes back, and can be had in another size.
static void given_back(void) {
    enum { BYTES = 192 << 20 };
    size_t before = resident();
    for (size_t bytes = 64; bytes <= 1 << 20; bytes *= 64) {
        size_t count = BYTES / bytes;
        void **blocks = hide(malloc(count * sizeof *blocks));
        for (size_t at = 0; at < count; at++) {
            blocks[at] = hide(malloc(bytes));
            CHECK(blocks[at]);
            memset(blocks[at], 1, bytes);
        }
        CHECK(resident() > before + BYTES);
        CHECK(resident() < before + BYTES + count * sizeof *blocks + BYTES / 16);
        for (size_t at = 0; at < count; at++) free(blocks[at]);
        free(blocks);
        CHECK(resident() < before + BYTES / 2);
    }
    CHECK(malloc_trim(0) == 1 && malloc_trim(0) == 0);
    CHECK(resident() < before + (8 << 20));
}

static unsigned xorshift(unsigned *state) {
    *state ^= *state << 13, *state ^= *state >> 17, *state ^= *state << 5;
    return *state;
}

// Blocks in use; their addresses lie in memory that the heap has not.
typedef struct { char **blocks; size_t count, most; } Some;

static Some some(size_t most) {
    Some some = {mmap(NULL, most * sizeof(char *), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0), 0, most};
    CHECK(some.blocks != MAP_FAILED);
    return some;
}

static void add(Some *some, size_t bytes) {
    char *block = hide(malloc(bytes));
    CHECK(block && some->count < some->most);
    block[0] = block[bytes - 1] = 1;
    some->blocks[some->count++] = block;
}

// Frees any of them.
static size_t take(Some *some, unsigned *random) {
    size_t at = xorshift(random) % some->count;
    char *block = some->blocks[at];
    some->blocks[at] = some->blocks[--some->count];
    size_t bytes = malloc_usable_size(block);
    free(block);
    return bytes;
}

// What may stay when all is free: 64 MiB, and what caches have.
enum { KEPT = 64 << 20, CACHED = 16 << 20 };

// Memory that is freed in any order goes back by itself, and after a while what stays does, too.
static void returned(void) {
    enum { BYTES = 192 << 20 };
    unsigned random = 1;
    Some used = some(BYTES / 64);
    size_t before = resident();
    for (size_t bytes = 64; bytes <= 4096; bytes *= 8) {
        while (used.count < BYTES / bytes) add(&used, bytes);
        CHECK(resident() > before + BYTES);
        while (used.count) take(&used, &random);
        CHECK(resident() < before + KEPT + CACHED);
    }
    for (int round = 0; resident() > before + (24 << 20); round++) {
        CHECK(round < 3000);
        usleep(10000);
        while (used.count < 500) add(&used, 1000);
        while (used.count) take(&used, &random);
    }
}

// A load that rises and falls, with other sizes each time: pages that the next sizes cannot use go back before the heap grows.
static void cyclical(void) {
    enum { BYTES = 64 << 20, DAYS = 4 };
    static const unsigned OCTAVES[DAYS][2] = {{4, 7}, {8, 10}, {10, 12}, {4, 12}};
    unsigned random = 1;
    Some used = some(BYTES / 16);
    size_t before = resident(), in_use = 0, peak = 0;
    for (int day = 0; day < DAYS; day++) {
        while (in_use < BYTES) {
            unsigned octaves = OCTAVES[day][1] - OCTAVES[day][0], octave = 1 << (OCTAVES[day][0] + xorshift(&random) % octaves);
            add(&used, octave + xorshift(&random) % octave);
            in_use += malloc_usable_size(used.blocks[used.count - 1]);
        }
        size_t now = resident() - before;
        if (peak < now) peak = now;
        while (in_use > BYTES / 16) in_use -= take(&used, &random);
    }
    while (used.count) take(&used, &random);
    size_t left = resident() - before;
    CHECK(peak < (size_t)BYTES * 17 / 8);
    CHECK(left < KEPT + (28 << 20));
}

enum { SHARED = 4096 };
static _Atomic(size_t *) shared[SHARED];
static atomic_int over;
// So many blocks a thread allocates.
static int steps = 30000;

enum { MOST = 24 };
static _Atomic pid_t tasks[MOST];

// A block begins with its size, and the rest is filled with that.
static void fill(size_t *block, size_t bytes) {
    memset(block, (int)bytes, bytes);
    *block = bytes;
}

static void check(size_t *block) {
    size_t bytes = *block;
    CHECK(bytes <= malloc_usable_size(block));
    CHECK(all((unsigned char *)(block + 1), bytes - sizeof *block, (unsigned char)bytes));
    *block = 0;
    memset(block + 1, 0x5A, bytes - sizeof *block);
    *block = bytes;
}

// Takes blocks that any thread has put there, checks them, frees them, and puts others.
static void *churn(void *seed) {
    if ((uintptr_t)seed < MOST) tasks[(uintptr_t)seed] = gettid();
    unsigned state = (unsigned)(uintptr_t)seed * 2654435761u + 1;
    for (int step = 0; step < steps && !atomic_load(&over); step++) {
        unsigned random = xorshift(&state);
        size_t bytes = 2 * sizeof(size_t) + (random % 64 == 0 ? random % 30000 : random % 600);
        size_t *block = hide(random % 3 ? malloc(bytes) : calloc(1, bytes));
        CHECK(block);
        fill(block, bytes);
        block = atomic_exchange(&shared[xorshift(&state) % SHARED], block);
        if (block) {
            check(block);
            if (random % 5 == 0) {
                fill(block, *block);
                block = hide(realloc(block, bytes = *block + random % 100));
                CHECK(block);
                fill(block, bytes);
                check(block);
            }
            free(block);
        }
    }
    return NULL;
}

static pthread_t churning[8];

static void *migrate(void *cpus) {
    for (int step = 0; !atomic_load(&over); step++) {
        for (int at = 0; at < MOST; at++) {
            cpu_set_t set;
            CPU_ZERO(&set);
            CPU_SET((step + at) % (int)(intptr_t)cpus, &set);
            // A thread that has ended is not moved.
            if (tasks[at]) sched_setaffinity(tasks[at], sizeof set, &set);
        }
    }
    return NULL;
}

// Threads that free each other's blocks; with `moved`, from CPU to CPU all the time.
static void storm(int moved) {
    pthread_t mover;
    for (int round = 0; round < 3; round++) {
        atomic_store(&over, 0);
        for (intptr_t at = 0; at < 8; at++) CHECK(!pthread_create(&churning[at], NULL, churn, (void *)(at + 8 * round)));
        if (moved) CHECK(!pthread_create(&mover, NULL, migrate, (void *)sysconf(_SC_NPROCESSORS_ONLN)));
        if (round == 1) malloc_trim(0);
        for (int at = 0; at < 8; at++) pthread_join(churning[at], NULL);
        atomic_store(&over, 1);
        if (moved) pthread_join(mover, NULL);
    }
}

// Children of a process whose other threads are anywhere in malloc.
static void forks(void) {
    steps = INT_MAX;
    for (intptr_t at = 0; at < 4; at++) CHECK(!pthread_create(&churning[at], NULL, churn, (void *)(at + 1)));
    for (int child = 0; child < 15; child++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(60);
            steps = 3000;
            for (int at = 0; at < 4; at++) {
                unsigned char *block = hide(malloc((size_t)at << 22));
                CHECK(block);
                free(block);
            }
            pthread_t thread;
            CHECK(!pthread_create(&thread, NULL, churn, (void *)(intptr_t)child));
            pthread_join(thread, NULL);
            CHECK(malloc_trim(0) >= 0);
            pid_t grandchild = fork();
            if (grandchild == 0) _exit(hide(malloc(100)) ? 0 : 1);
            int status = 1;
            CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
            _exit(0);
        }
        int status = 1;
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(status == 0);
    }
    atomic_store(&over, 1);
    for (int at = 0; at < 4; at++) pthread_join(churning[at], NULL);
}

static void *short_life(void *count) {
    void *blocks[200];
    for (int at = 0; at < 200; at++) CHECK((blocks[at] = hide(malloc((size_t)at * (size_t)(intptr_t)count % 3000))));
    for (int at = 0; at < 200; at++) free(blocks[at]);
    return NULL;
}

// What threads had is not lost when they end.
static void short_lives(void) {
    size_t first = 0;
    for (intptr_t count = 0; count < 1500; count++) {
        pthread_t thread;
        CHECK(!pthread_create(&thread, NULL, short_life, (void *)count));
        pthread_join(thread, NULL);
        if (count == 300) first = resident();
    }
    CHECK(resident() < first + (4 << 20));
}

static atomic_int handled;

static void handler(int signal) {
    (void)signal;
    handled++;
}

static void signals(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    CHECK(!sigaction(SIGALRM, &action, NULL));
    ualarm(50, 50);
    churn((void *)7);
    ualarm(0, 0);
    CHECK(handled > 0);
}

enum { SIGNALS = 100000, RING = 64 };
static size_t *ring[RING];
static atomic_int refused;

// Allocates and frees, whatever the thread was doing.
static void allocator(int signal) {
    (void)signal;
    int kept = errno, count = handled, at = count % RING;
    size_t bytes = (size_t)(count * 37 % 900 + 16);
    if (count % 64 == 0) bytes *= 1000;
    if (ring[at]) {
        check(ring[at]);
        free(ring[at]);
    }
    ring[at] = hide(malloc(bytes));
    if (ring[at]) fill(ring[at], bytes);
    else refused++;
    errno = kept;
    struct itimerval never = {0};
    if (++handled == SIGNALS) setitimer(ITIMER_REAL, &never, NULL);
}

// Handlers that allocate while their thread has a lock, or is about to take one.
static void signal_storm(void) {
    enum { COUNT = 300 };
    static size_t *blocks[COUNT];
    // A thread that waits for itself does so until it has no CPU time left.
    struct rlimit limit = {.rlim_cur = 100, .rlim_max = 100};
    CHECK(!setrlimit(RLIMIT_CPU, &limit));
    struct sigaction action = {.sa_handler = allocator, .sa_flags = SA_RESTART};
    CHECK(!sigaction(SIGALRM, &action, NULL));
    struct itimerval often = {.it_interval = {.tv_usec = 15}, .it_value = {.tv_usec = 15}};
    CHECK(!setitimer(ITIMER_REAL, &often, NULL));
    for (size_t round = 0; handled < SIGNALS; round++) {
        size_t bytes = round % 8 == 0 ? 20000 : round % 50 == 1 ? 5 << 20 : 16 + round * 61 % 4000;
        size_t count = bytes > 1 << 20 ? 3 : COUNT;
        for (size_t at = 0; at < count; at++) {
            blocks[at] = hide(malloc(bytes));
            CHECK(blocks[at]);
            *blocks[at] = at;
        }
        for (size_t at = 0; at < count; at++) {
            CHECK(*blocks[at] == at);
            if (at % 7 == 0) blocks[at] = hide(realloc(blocks[at], bytes / 2 + 16));
            CHECK(blocks[at] && *blocks[at] == at);
            free(blocks[at]);
        }
        if (round % 100 == 3) malloc_trim(0);
    }
    // How many are refused depends on how much the thread does between two signals.
    CHECK(handled >= SIGNALS && refused < SIGNALS - SIGNALS / 100);
}

// Blocks of all kinds, none of which the caches have at hand for long.
static void use_heap(void) {
    static const size_t BYTES[] = {100, 5000, 100000, 9 << 20};
    for (size_t at = 0; at < sizeof BYTES / sizeof *BYTES; at++) {
        unsigned char *blocks[200];
        size_t count = BYTES[at] < 50000 ? 200 : 3;
        for (size_t block = 0; block < count; block++) {
            blocks[block] = hide(malloc(BYTES[at]));
            CHECK(blocks[block]);
            memset(blocks[block], (int)block, BYTES[at]);
        }
        for (size_t block = 0; block < count; block++) {
            CHECK(all(blocks[block], BYTES[at], (unsigned char)block));
            free(blocks[block]);
        }
    }
}

static void wait_for(pid_t child) {
    int status = 1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

// early.so, which is loaded beside the library, allocates in handlers of pthread_atfork that it has registered first.
static void early_forks(void) {
    const int *handled = dlsym(RTLD_DEFAULT, "early_handled");
    void (*end)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "early_end");
    CHECK(handled && end);
    steps = INT_MAX;
    for (intptr_t at = 0; at < 3; at++) CHECK(!pthread_create(&churning[at], NULL, churn, (void *)(at + 1)));
    for (int child = 0; child < 5; child++) {
        pid_t pid = fork();
        if (pid == 0) {
            alarm(60);
            CHECK(*handled == 2 * child + 2);
            use_heap();
            _exit(0);
        }
        end();
        wait_for(pid);
        CHECK(*handled == 2 * child + 2);
    }
    atomic_store(&over, 1);
    for (int at = 0; at < 3; at++) pthread_join(churning[at], NULL);
}

// The C library calls no handlers in such a child.
static void bare_forks(void) {
    for (int child = 0; child < 3; child++) {
        use_heap();
        pid_t pid = _Fork();
        if (pid == 0) {
            alarm(60);
            use_heap();
            CHECK(malloc_trim(0) >= 0);
            use_heap();
            _exit(0);
        }
        wait_for(pid);
    }
}

// From here on the system does this instead of a call.
static void replace(unsigned call, unsigned action) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

// From here on the system refuses this call.
static void forbid(unsigned call) {
    replace(call, SECCOMP_RET_ERRNO | EPERM);
    errno = 0;
    CHECK(syscall((long)call, 0, 0, 0) == -1 && errno == EPERM);
}

static void (*in_call)(void);
static void handle_call(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    // What the call has come to.
#ifdef __x86_64__
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = -EPERM;
#else
    ((ucontext_t *)context)->uc_mcontext.regs[0] = -EPERM;
#endif
    if (in_call) in_call();
    in_call = NULL;
}

// Has a signal handler run this in the middle of malloc_trim, where that gives memory back, and so has locks.
static void in_trim(void (*call)(void)) {
    // Memory to give back.
    static void *blocks[300];
    for (int at = 0; at < 300; at++) CHECK((blocks[at] = hide(malloc(100000))));
    for (int at = 0; at < 300; at++) free(blocks[at]);
    struct sigaction action = {.sa_sigaction = handle_call, .sa_flags = SA_SIGINFO};
    CHECK(!sigaction(SIGSYS, &action, NULL));
    in_call = call;
    replace(SYS_madvise, SECCOMP_RET_TRAP);
    malloc_trim(0);
    CHECK(!in_call);
}

enum { PARKED = 2000 };
static void *parked[PARKED];
static void free_all(void) {
    for (int at = 0; at < PARKED; at++) free(parked[at]);
}

// A handler frees more than a page has addresses of. All of it is free when the call that it has interrupted ends.
static void freed_in_handler(void) {
    static const size_t BYTES[] = {40, 4096, 6000, 50000, 5 << 20};
    for (int at = 0; at < PARKED; at++) {
        size_t bytes = BYTES[at % 100 ? at % 4 : 4];
        parked[at] = hide(malloc(bytes));
        CHECK(parked[at]);
        memset(parked[at], at, bytes);
    }
    size_t before = resident();
    in_trim(free_all);
    CHECK(resident() + (90 << 20) < before);
    use_heap();
}

static void *wrong;
static void free_twice(void) { free(wrong); free(hide(wrong)); }
// When the cache of the CPU is full, a free takes the slow path, which is interrupted.
static void fill_and_free_twice(void) { free_all(); free_twice(); }
static void twice_in_handler(void) {
    for (int at = 0; at < PARKED; at++) parked[at] = hide(malloc(64));
    wrong = hide(malloc(64));
    in_trim(fill_and_free_twice);
}
static void twice_large_in_handler(void) { wrong = hide(malloc(10 << 20)); in_trim(free_twice); }
static void free_page_again(void) { free(hide(wrong)); }
static void again_in_handler(void) { wrong = hide(malloc(4096)); free(wrong); in_trim(free_page_again); }
static long words[] = {1, 2, 3, 4};
static void free_words(void) {
    free(hide(words + 1));
    CHECK(words[0] == 1 && words[1] == 2 && words[2] == 3 && words[3] == 4);
}
static void foreign_in_handler(void) { in_trim(free_words); }

// The child has its parent's memory, and so the parent's caches: on each CPU in turn, which others use meanwhile.
static void vforks(void) {
    int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    steps = INT_MAX;
    for (intptr_t at = 0; at < 4; at++) CHECK(!pthread_create(&churning[at], NULL, churn, (void *)(at + 1)));
    for (int child = 0; child < 3; child++) {
        pid_t pid = vfork();
        if (pid == 0) {
            for (int step = 0; step < 6000; step++) {
                if (step % 60 == 0) {
                    cpu_set_t set;
                    CPU_ZERO(&set);
                    CPU_SET(step / 60 % cpus, &set);
                    sched_setaffinity(0, sizeof set, &set);
                }
                size_t bytes = 16 + (size_t)step % 600;
                size_t *block = hide(malloc(bytes));
                CHECK(block);
                fill(block, bytes);
                block = atomic_exchange(&shared[step % SHARED], block);
                if (block) {
                    check(block);
                    free(block);
                }
            }
            _exit(0);
        }
        wait_for(pid);
        use_heap();
    }
    atomic_store(&over, 1);
    for (int at = 0; at < 4; at++) pthread_join(churning[at], NULL);
    malloc_trim(0);
#ifdef SYS_vfork
    forbid(SYS_vfork);
    errno = 0;
    pid_t refused = vfork();
    if (refused == 0) _exit(0);
    CHECK(refused == -1 && errno == EPERM);
#endif
}

// What a child of vfork has at its first instruction, before it could say anything itself: no CPU.
static void vfork_has_no_cpu(void) {
#ifdef __x86_64__
    const ptrdiff_t *offset = dlsym(RTLD_DEFAULT, "__rseq_offset");
    const unsigned *size = dlsym(RTLD_DEFAULT, "__rseq_size");
    if (!offset || !*size) return;
    volatile int *cpu = (int *)((char *)__builtin_thread_pointer() + *offset + 4);
    pid_t parent = fork();
    if (parent == 0) {
        CHECK(!ptrace(PTRACE_TRACEME, 0, NULL, NULL) && !raise(SIGSTOP));
        pid_t child = vfork();
        if (child == 0) _exit(0);
        CHECK(*cpu >= 0);
        wait_for(child);
        use_heap();
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(parent, &status, 0) == parent);
    if (!WIFSTOPPED(status)) {
        printf("processes may not be traced: left out\n");
        return;
    }
    CHECK(!ptrace(PTRACE_SETOPTIONS, parent, NULL, (void *)(PTRACE_O_TRACEVFORK | PTRACE_O_EXITKILL)));
    CHECK(!ptrace(PTRACE_CONT, parent, NULL, NULL) && waitpid(parent, &status, 0) == parent);
    CHECK(status >> 8 == (SIGTRAP | PTRACE_EVENT_VFORK << 8));
    unsigned long child = 0;
    CHECK(!ptrace(PTRACE_GETEVENTMSG, parent, NULL, &child));
    CHECK(waitpid((pid_t)child, &status, __WALL) == (pid_t)child && WIFSTOPPED(status));
    CHECK((int)ptrace(PTRACE_PEEKDATA, (pid_t)child, (void *)cpu, NULL) == -3);
    CHECK(!ptrace(PTRACE_DETACH, (pid_t)child, NULL, NULL) && !ptrace(PTRACE_DETACH, parent, NULL, NULL));
    wait_for(parent);
#endif
}
static void vfork_begins(void) { use_heap(); vfork_has_no_cpu(); }

// The same where nothing was allocated before: the child's first allocation is that of the process.
static void vfork_first(void) {
    int (*look)(struct woodlot_malloc_heap *, struct woodlot_malloc_size *, size_t);
    *(void **)&look = dlsym(RTLD_DEFAULT, "woodlot_malloc_look");
    struct woodlot_malloc_heap heap;
    CHECK(look && !look(&heap, NULL, 0));
    CHECK(heap.caches == 0);
    vfork_has_no_cpu();
    CHECK(!look(&heap, NULL, 0) && heap.caches == 0);
    pid_t child = vfork();
    if (child == 0) {
        for (size_t bytes = 1; bytes < 4000; bytes++) free(hide(malloc(bytes)));
        _exit(hide(malloc(100)) ? 0 : 1);
    }
    wait_for(child);
    CHECK(!look(&heap, NULL, 0) && heap.caches != 0);
    use_heap();
}

// The first allocation asks for barriers, and does without.
static void no_barriers(void) {
    forbid(SYS_membarrier);
    errno = 77;
    void *first = hide(malloc(10));
    CHECK(first && errno == 77);
    free(first);
    use_heap();
    malloc_trim(0);
    CHECK(errno == 77);
}

// They are forbidden when the caches of all CPUs have blocks.
static void barriers_forbidden(void) {
    atomic_store(&over, 0);
    for (intptr_t at = 0; at < 4; at++) CHECK(!pthread_create(&churning[at], NULL, churn, (void *)at));
    for (int at = 0; at < 4; at++) pthread_join(churning[at], NULL);
    forbid(SYS_membarrier);
    errno = 77;
    malloc_trim(0);
    use_heap();
    CHECK(errno == 77);
    storm(0);
    malloc_trim(0);
}

// Bytes that the process may write to and nobody else sees.
static size_t data(void) {
    char line[200];
    size_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file);
    while (!kib && fgets(line, sizeof line, file)) sscanf(line, "VmData: %zu", &kib);
    fclose(file);
    CHECK(kib);
    return kib << 10;
}

// A program that keeps all it has in memory has what it uses there, and goes on when nothing can be given back.
static void locked(void) {
    use_heap();
    CHECK(data() < 100 << 20);
    if (mlockall(MCL_CURRENT | MCL_FUTURE)) {
        CHECK(errno == EPERM || errno == ENOMEM);
        printf("memory may not be locked: left out\n");
        return;
    }
    CHECK(resident() < 100 << 20);
    enum { COUNT = 1000, BYTES = 70000 };
    static unsigned char *blocks[COUNT];
    for (int round = 0; round < 3; round++) {
        for (int at = 0; at < COUNT; at++) {
            blocks[at] = hide(calloc(1, BYTES));
            CHECK(blocks[at] && all(blocks[at], BYTES, 0));
            memset(blocks[at], 0xA5, BYTES);
        }
        for (int at = 0; at < COUNT; at++) free(blocks[at]);
        malloc_trim(0);
        CHECK(resident() > COUNT * BYTES && resident() < 200 << 20);
    }
}

static void plugins(void) {
    for (int round = 0; round < 3; round++) {
        void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
        CHECK(library && dlsym(library, "cos") && !dlclose(library));
        CHECK(!dlopen("libno-such-library.so", RTLD_NOW) && dlerror());
    }
}

static void limited(void) {
    struct rlimit limit = {.rlim_cur = 64 << 20, .rlim_max = 64 << 20};
    CHECK(!setrlimit(RLIMIT_DATA, &limit));
    void *blocks[64];
    int count = 0;
    errno = 0;
    while (count < 64 && (blocks[count] = hide(malloc(8 << 20)))) count++;
    CHECK(count < 9 && errno == ENOMEM);
    while (count > 0) free(blocks[--count]);
    CHECK((blocks[0] = hide(malloc(8 << 20))));
}

static void foreign(void) { int local[8]; free(hide(local)); }
static void inside_of_span(void) { free((char *)hide(malloc(100000)) + 4096 + 16); }
static void inside_of_large(void) { free((char *)hide(malloc(10 << 20)) + 64); }
static void twice_large(void) { void *block = hide(malloc(10 << 20)); free(block); free(hide(block)); }
static void twice_span(void) { void *block = hide(malloc(100000)); free(block); free(hide(block)); }
static void twice_page(void) { void *block = hide(malloc(4096)); free(block); free(hide(block)); }
static void twice_pages(void) { void *block = hide(malloc(5000)); free(block); free(hide(block)); }
static void usable_of_foreign(void) { int local[8]; CHECK(malloc_usable_size(hide(local))); }
static void usable_of_inside(void) { CHECK(malloc_usable_size((char *)hide(malloc(100)) + 16)); }
static void resized_inside(void) { CHECK(realloc((char *)hide(malloc(10 << 20)) + 4096, 8)); }

static _Atomic uint32_t told, kinds;
static void *_Atomic told_of;
static void hear(uint32_t kind, void *block) { kinds |= 1u << kind; told_of = block; told++; }
static void have_heard(void (*hear)(uint32_t, void *)) {
    __typeof__(&woodlot_malloc_on_misuse) on_misuse = (__typeof__(on_misuse))dlsym(RTLD_DEFAULT, "woodlot_malloc_on_misuse");
    CHECK(on_misuse);
    on_misuse(hear);
}
// So many wrong calls of this kind were told of since the last time.
static int heard(uint32_t count, uint32_t kind, void *block) {
    int is_so = told == count && kinds == 1u << kind && told_of == block;
    told = kinds = 0;
    return is_so;
}

// Addresses inside blocks of each size, wherever they lie in their slab, are found at the call.
static void inside_of_block(void) {
    have_heard(hear);
    for (size_t bytes = 16; bytes <= 32 << 10; bytes += bytes < 256 ? 16 : bytes / 8)
        for (int block = 0; block < 40; block++) {
            char *at = hide(malloc(bytes));
            size_t usable = malloc_usable_size(at), step = block == 0 ? 1 : usable / 32 * 16 + 1;
            CHECK(at);
            for (size_t inside = 1; inside < usable; inside += step) {
                free(at + inside);
                CHECK(heard(1, WOODLOT_MALLOC_INTERIOR, at + inside));
            }
        }
    have_heard(NULL);
    free((char *)hide(malloc(64)) + 16);
}

// What is wrong changes nothing: the heap goes on.
static void goes_on(void) {
    int local[8];
    char *page = hide(malloc(4096)), *span = hide(malloc(100000)), *large = hide(malloc(10 << 20)), *small = hide(malloc(64));
    free(page);
    free(hide(page));
    free(hide(local));
    free(hide(small + 16));
    free(hide(span + 16));
    free(hide(large + 4096));
    CHECK(!realloc(hide(small + 8), 1000) && !malloc_usable_size(hide(large + 16)));
    free(large);
    free(hide(large));
    free(span);
    free(small);
    sizes();
}

// A wrong call of a thread that is to be cancelled is told of, and the thread goes on: free is no place where it ends.
static atomic_int to_be_cancelled, has_freed;
static void *cancelled_thread(void *block) {
    while (!atomic_load(&to_be_cancelled));
    free(hide((char *)block + 8));
    free(block);
    atomic_store(&has_freed, 1);
    pthread_testcancel();
    return NULL;
}
static void cancelled(void) {
    pthread_t thread;
    void *result;
    CHECK(!pthread_create(&thread, NULL, cancelled_thread, malloc(100)));
    CHECK(!pthread_cancel(thread));
    atomic_store(&to_be_cancelled, 1);
    CHECK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
    CHECK(atomic_load(&has_freed));
}

static char *raced;
static atomic_int racing;
static void *race(void *unused) {
    atomic_fetch_add(&racing, 1);
    while (atomic_load(&racing) < 2);
    free(raced);
    return unused;
}
static void free_told(void) { free(hide(wrong)); }

// The checking profile finds each wrong call when it is made, and what is right goes on.
static void checked(void) {
    __typeof__(&free_sized) sized = (__typeof__(sized))dlsym(RTLD_DEFAULT, "free_sized");
    __typeof__(&free_aligned_sized) aligned = (__typeof__(aligned))dlsym(RTLD_DEFAULT, "free_aligned_sized");
    CHECK(sized && aligned);
    have_heard(hear);
    for (size_t bytes = 1; bytes < 6 << 20; bytes += 1 + bytes / 3) {
        int is_large = bytes > 4 << 20, is_span = bytes > 32 << 10;
        char *at = hide(malloc(bytes)), *other = hide(malloc(bytes));
        sized(at, bytes * 2 + 8192);
        CHECK(heard(1, WOODLOT_MALLOC_WRONG_SIZE, at));
        sized(at + 8, bytes);
        CHECK(heard(1, WOODLOT_MALLOC_INTERIOR, at + 8));
        CHECK(!realloc(at + 8, 5) && heard(1, WOODLOT_MALLOC_INTERIOR, at + 8));
        sized(at, bytes);
        CHECK(!told);
        free(hide(at));
        sized(hide(at), bytes);
        CHECK(!malloc_usable_size(hide(at)));
        CHECK(heard(3, is_large || is_span ? WOODLOT_MALLOC_FOREIGN : WOODLOT_MALLOC_DOUBLE_FREE, at));
        free(other);
        for (size_t align = 1; align < 16 << 20; align *= 8) {
            char *at = hide(aligned_alloc(align, bytes));
            CHECK(at && !((uintptr_t)at % align));
            aligned(at, align, bytes * 2 + 8192);
            CHECK(heard(1, WOODLOT_MALLOC_WRONG_SIZE, at));
            aligned(at, align, bytes);
            CHECK(!told);
        }
        char *again = hide(malloc(bytes)), *more = hide(malloc(bytes));
        CHECK(again != more && !told);
        free(again), free(more);
    }
    for (int round = 0; round < 200; round++) {
        pthread_t thread;
        raced = hide(malloc(48));
        atomic_store(&racing, 0);
        CHECK(!pthread_create(&thread, NULL, race, NULL));
        race(NULL);
        pthread_join(thread, NULL);
        CHECK(heard(1, WOODLOT_MALLOC_DOUBLE_FREE, raced));
    }
    wrong = hide(malloc(64));
    free(wrong);
    in_trim(free_told);
    // It is found when the call ends, and its page may be gone by then.
    CHECK(told == 1 && told_of == wrong);
    told = kinds = 0;
    sizes();
    CHECK(!told);
}

enum { MANY = 1 << 15 };
static _Atomic(size_t *) many[MANY];
static atomic_int falling;

// Replaces blocks that any thread has put there, or nearly only frees them.
static void *rise_and_fall(void *seed) {
    unsigned state = (unsigned)(uintptr_t)seed * 2654435761u + 1;
    while (!atomic_load(&over)) {
        size_t *block = NULL, bytes = 2 * sizeof(size_t) + xorshift(&state) % 16000;
        if (!atomic_load(&falling) || bytes % 16 == 0) {
            block = hide(bytes % 4 ? malloc(bytes) : calloc(1, bytes));
            CHECK(block && (bytes % 4 || all((unsigned char *)block, bytes, 0)));
            fill(block, bytes);
        }
        block = atomic_exchange(&many[xorshift(&state) % MANY], block);
        if (block) check(block), free(block);
    }
    return NULL;
}

// Pages go to the system while threads allocate and free others of the same huge frames.
static void tides(void) {
    for (intptr_t at = 0; at < 4; at++) CHECK(!pthread_create(&churning[at], NULL, rise_and_fall, (void *)at));
    for (int tide = 0; tide < 16; tide++) {
        usleep(200000);
        atomic_store(&falling, tide % 2 == 0);
    }
    atomic_store(&over, 1);
    for (int at = 0; at < 4; at++) pthread_join(churning[at], NULL);
}

static void storm_still(void) { storm(0); }
static void storm_moved(void) { storm(1); }

static const struct { const char *name; void (*part)(void); } PARTS[] = {
    {"sizes", sizes}, {"zeroed", zeroed}, {"resized", resized}, {"aligned", aligned}, {"given_back", given_back},
    {"returned", returned}, {"cyclical", cyclical},
    {"storm", storm_still}, {"storm_moved", storm_moved}, {"tides", tides}, {"forks", forks}, {"short_lives", short_lives},
    {"early_forks", early_forks},
    {"bare_forks", bare_forks}, {"vforks", vforks}, {"vfork_begins", vfork_begins}, {"vfork_first", vfork_first},
    {"no_barriers", no_barriers}, {"barriers_forbidden", barriers_forbidden},
    {"locked", locked}, {"signals", signals}, {"signal_storm", signal_storm},
    {"freed_in_handler", freed_in_handler}, {"twice_in_handler", twice_in_handler}, {"again_in_handler", again_in_handler},
    {"twice_large_in_handler", twice_large_in_handler}, {"foreign_in_handler", foreign_in_handler}, {"plugins", plugins}, {"limited", limited}, {"foreign", foreign},
    {"inside_of_span", inside_of_span}, {"inside_of_large", inside_of_large}, {"twice_large", twice_large},
    {"twice_span", twice_span}, {"twice_page", twice_page}, {"twice_pages", twice_pages}, {"usable_of_foreign", usable_of_foreign}, {"inside_of_block", inside_of_block},
    {"usable_of_inside", usable_of_inside}, {"resized_inside", resized_inside},
    {"goes_on", goes_on}, {"cancelled", cancelled}, {"checked", checked},
};

int main(int count, char **names) {
    for (size_t at = 0; count == 2 && at < sizeof PARTS / sizeof *PARTS; at++)
        if (!strcmp(PARTS[at].name, names[1])) {
            PARTS[at].part();
            return 0;
        }
    fprintf(stderr, "no such part\n");
    return 2;
}
