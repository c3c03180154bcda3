// Holds blocks until its input ends: 1000 of 100 bytes, of which it has freed 300; two of 20 KiB; one of 5 MiB.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *kept[1003];

static void *filled(size_t bytes) {
    void *block = malloc(bytes);
    if (!block) exit(1);
    return memset(block, 1, bytes);
}

int main(void) {
    for (int at = 0; at < 1000; at++) kept[at] = filled(100);
    for (int at = 0; at < 300; at++) free(kept[at]);
    kept[1000] = filled(40 << 10);
    kept[1001] = filled(40 << 10);
    kept[1002] = filled(5 << 20);
    if (write(1, "ready", 5) != 5) return 1;
    char end;
    while (read(0, &end, 1) > 0) {}
    return 0;
}
