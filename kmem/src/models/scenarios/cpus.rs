//! What two CPUs do to one another.

use super::{cpu, scenarios};
use crate::models::Op::{Alloc, AllocSure, Flush, FlushCpu, Free};
use crate::models::world::World;
use crate::models::{On, Script};

const LARGE: usize = 2048;
const SMALL: usize = 1024;
const PAGE: usize = 4096;
const SPAN: usize = 2 * 4096;

scenarios! { World<1>;
    /// Each allocates and frees.
    pairs: 2 pages, [], [
        cpu(0, &[], &[AllocSure(LARGE), Free(0)]),
        cpu(1, &[], &[AllocSure(LARGE), Free(0)]),
    ];

    /// One frees what was allocated before, the other allocates.
    lists_cross: 2 pages, [Alloc(LARGE), Alloc(LARGE), Alloc(LARGE)], [
        cpu(0, &[0, 1, 2], &[Free(0), Free(1), Free(2)]),
        cpu(1, &[], &[Alloc(LARGE), Alloc(LARGE)]),
    ];

    /// Odd blocks meet in the bucket.
    odd_blocks: 1 pages, [Alloc(SMALL), Alloc(SMALL), Alloc(SMALL), Alloc(SMALL)], [
        cpu(0, &[0, 1], &[Free(0), FlushCpu(0), Free(1)]),
        cpu(1, &[2, 3], &[Free(0), FlushCpu(1), Alloc(SMALL)]),
    ];

    /// One flushes the other while it allocates and frees.
    flushed_from_outside: 2 pages, [Alloc(LARGE), Free(0)], [
        cpu(0, &[], &[AllocSure(LARGE), AllocSure(LARGE), Free(0), Free(1)]),
        cpu(1, &[], &[FlushCpu(0), FlushCpu(0)]),
    ];

    /// Each flushes the other.
    each_flushes_the_other: 2 pages, [], [
        cpu(0, &[], &[AllocSure(LARGE), FlushCpu(1), Free(0)]),
        cpu(1, &[], &[AllocSure(LARGE), FlushCpu(0), Free(0)]),
    ];

    /// Two want more than there is, and look for it in each other's caches.
    the_last_blocks: 1 pages, [], [
        cpu(0, &[], &[Alloc(LARGE), Free(0)]),
        cpu(1, &[], &[Alloc(LARGE), Alloc(LARGE)]),
    ];

    /// The last block of a page is freed, while the other wants the page for another size.
    a_page_changes_its_size: 1 pages, [Alloc(LARGE)], [
        cpu(0, &[0], &[Free(0), Flush]),
        cpu(1, &[], &[Alloc(SMALL), Free(0)]),
    ];

    /// Pages that are one block, beside slabs.
    spans_and_slabs: 2 pages, [], [
        cpu(0, &[], &[Alloc(SPAN), Free(0)]),
        cpu(1, &[], &[Alloc(LARGE), Free(0)]),
    ];

    /// More lists than the global layer keeps.
    the_global_layer_is_too_full: 3 pages, [Alloc(LARGE); 6], [
        cpu(0, &[0, 2, 4], &[Free(0), Free(1), Free(2)]),
        cpu(1, &[1, 3, 5], &[Free(0), Free(1), Free(2)]),
    ];

    /// All is flushed, twice at once.
    two_flushes: 1 pages, [Alloc(SMALL), Alloc(SMALL), Alloc(SMALL), Free(1)], [
        cpu(0, &[0], &[Free(0), Flush]),
        cpu(1, &[2], &[Free(0), Flush]),
    ];

    /// Two threads take turns on one CPU, between any two steps of a call.
    on_one_cpu: 2 pages, [Alloc(SMALL)], [
        cpu(0, &[0], &[Free(0), AllocSure(SMALL)]),
        cpu(0, &[], &[AllocSure(SMALL), AllocSure(SMALL), Free(0)]),
    ];

    /// A thread that is moved between any two steps of a call, beside one that stays.
    moved: 2 pages, [Alloc(SMALL), Alloc(SMALL)], [
        Script { on: On::All, owns: &[0, 1], ops: &[Free(0), Free(1), AllocSure(SMALL)] },
        cpu(1, &[], &[AllocSure(SMALL), Free(0)]),
    ];

    /// A page of the global layer goes down for a slab.
    pages_for_a_slab: 3 pages, [Alloc(PAGE); 3], [
        cpu(0, &[0, 1, 2], &[Free(0), Free(1), Free(2)]),
        cpu(1, &[], &[Alloc(LARGE), Free(0)]),
    ];

    /// And for a span.
    pages_for_a_span: 3 pages, [Alloc(PAGE); 3], [
        cpu(0, &[0, 1, 2], &[Free(2), Free(1), Free(0)]),
        cpu(1, &[], &[Alloc(SPAN), Free(0)]),
    ];

    /// Blocks that are pages, beside those of a slab.
    pages_and_slabs: 2 pages, [Alloc(PAGE)], [
        cpu(0, &[0], &[Free(0), Alloc(PAGE)]),
        cpu(1, &[], &[Alloc(LARGE), Free(0)]),
    ];
}
