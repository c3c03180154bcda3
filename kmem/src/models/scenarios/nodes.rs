//! Two nodes with a page each: CPU 0 is near the first one, CPU 1 near the second one.

use super::{cpu, scenarios};
use crate::models::Op::{Alloc, AllocSure, Flush, FlushCpu, Free};
use crate::models::world::World;
use crate::models::{On, Script};

const LARGE: usize = 2048;
const PAGE: usize = 4096;

scenarios! { World<2>;
    /// What one has allocated near itself, the other one frees.
    frees_cross_nodes: 1 pages, [Alloc(LARGE), Alloc(LARGE)], [
        cpu(1, &[0, 1], &[Free(0), Free(1)]),
        cpu(0, &[], &[AllocSure(LARGE), AllocSure(LARGE)]),
    ];

    /// One has the whole of its node, and gets what is far; the other one wants that too.
    memory_of_the_other_node: 1 pages, [Alloc(PAGE)], [
        cpu(0, &[0], &[Alloc(LARGE), Free(1)]),
        cpu(1, &[], &[Alloc(PAGE), Free(0)]),
    ];

    /// A thread is moved from node to node in the middle of its calls, while another one flushes.
    moved_between_nodes: 1 pages, [Alloc(LARGE)], [
        Script { on: On::All, owns: &[0], ops: &[Free(0), AllocSure(LARGE)] },
        cpu(1, &[], &[FlushCpu(0), Flush]),
    ];
}
