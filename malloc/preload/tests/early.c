// A library that registers handlers of pthread_atfork when it is loaded, which allocate.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// Handlers that have found memory, in this process and its parents.
int early_handled;

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

__attribute__((constructor)) static void loaded(void) { pthread_atfork(handle, handle, handle); }
