// A library that registers handlers of pthread_atfork when it is loaded, which allocate.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Handlers that have found memory, in this process and its parents.
int early_handled;

static pthread_t thread;
static atomic_int has_allocated;

static void handle(void) {
    static const size_t BYTES[] = {24, 5000, 200000, 9 << 20};
    void *blocks[400];
    for (size_t at = 0; at < sizeof BYTES / sizeof *BYTES; at++) {
        size_t count = BYTES[at] < 50000 ? 400 : 2;
        for (size_t block = 0; block < count; block++) {
            blocks[block] = malloc(BYTES[at]);
            if (!blocks[block]) abort();
            memset(blocks[block], 1, 24);
        }
        for (size_t block = 0; block < count; block++) free(blocks[block]);
    }
    early_handled++;
}

// What has a lock.
static void *allocate(void *bytes) {
    void *volatile block = malloc((size_t)bytes);
    free(block);
    atomic_store(&has_allocated, 1);
    return NULL;
}

// Behind the last call of the heap before the fork, no other thread gets a lock.
static void prepare(void) {
    handle();
    atomic_store(&has_allocated, 0);
    if (pthread_create(&thread, NULL, allocate, (void *)(size_t)(9 << 20))) abort();
    usleep(20000);
    if (atomic_load(&has_allocated)) abort();
}

// In the parent, when all handlers were called.
void early_end(void) { pthread_join(thread, NULL); }

__attribute__((constructor)) static void loaded(void) { pthread_atfork(prepare, handle, handle); }
