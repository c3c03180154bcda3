//! What kmem has for addresses that are mapped, for objects that stay constructed, and for nodes.

use core::fmt::{Display, Formatter, Result as Fmt};
use core::ptr::NonNull;

use woodlot_frame::{Base4K, FrameId};
use woodlot_kmem::{
    AddressSpace, Build, Cookie, Descriptor, Direct, Dope, Flaw, Guarded, Kind, Kmem, Nodes,
    NotMapped, Objects, Octaves, PageId, Pages, StillMapped, VmblkStats, Vmblks,
};
use woodlot_llfree::LLFree;

use crate::kmem::{Ears, Machine};

type Block = NonNull<u8>;
type Caches = Guarded<Machine, 8>;
type Engine = LLFree<'static, Base4K>;
type Mapped = Vmblks<'static, Engine, Space>;

/// Page tables.
pub struct Space(
    fn(Block, &[FrameId]) -> Result<(), NotMapped>,
    fn(Block, &mut [FrameId]) -> Result<(), StillMapped>,
);

// SAFETY: the functions are never called.
unsafe impl AddressSpace for Space {
    fn map(&self, first: Block, frames: &[FrameId]) -> Result<(), NotMapped> {
        (self.0)(first, frames)
    }

    unsafe fn unmap(&self, first: Block, frames: &mut [FrameId]) -> Result<(), StillMapped> {
        (self.1)(first, frames)
    }
}

/// What makes objects.
pub struct Makes(fn(usize) -> Option<NonNull<[u64; 8]>>, fn(usize, NonNull<[u64; 8]>));

// SAFETY: as above.
unsafe impl Build for Makes {
    type Object = [u64; 8];
    const KINDS: usize = 3;
    const TARGET: usize = 16;

    fn make(&self, kind: usize) -> Option<NonNull<[u64; 8]>> {
        (self.0)(kind)
    }

    unsafe fn unmake(&self, kind: usize, object: NonNull<[u64; 8]>) {
        (self.1)(kind, object);
    }
}

type Cache = Objects<Caches, Makes>;
type Pool = Kmem<Caches, Direct<'static, Engine>, Octaves, Ears>;
type Pools = Nodes<Pool, 4>;

// SAFETY of all: the functions are never called.
mod vmblks {
    use super::*;

    symbols! { hot kmem_vmblks:
        alloc(pages: &Mapped, count: usize, align: usize, cpu: usize) -> Option<PageId> =
            pages.alloc(count, align, cpu).ok();
        free(pages: &Mapped, first: PageId, count: usize, cpu: usize) -> () =
            // SAFETY: as above.
            unsafe { pages.free(first, count, cpu) };
        address(pages: &Mapped, page: PageId) -> Block = pages.address(page);
        find(pages: &Mapped, at: *mut u8) -> Option<(PageId, usize)> = pages.find(at);
        descriptor(pages: &'static Mapped, page: PageId) -> &'static Descriptor = pages.descriptor(page);
        kind(pages: &Mapped, page: PageId) -> Kind = pages.descriptor(page).kind();
    }

    symbols! { cold kmem_vmblks:
        new(zone: &'static Engine, space: Space, base: Block, dope: &'static [Dope]) -> Option<Mapped> =
            // SAFETY: as above.
            unsafe { Vmblks::new(zone, space, base, dope) };
        stats(pages: &Mapped) -> VmblkStats = pages.stats();
        validate(pages: &Mapped) -> Result<(), Flaw> = pages.validate();
        show_flaw(flaw: &Flaw, f: &mut Formatter) -> Fmt = Display::fmt(flaw, f);
        show_not_mapped(error: &NotMapped, f: &mut Formatter) -> Fmt = Display::fmt(error, f);
        over(machine: Machine, pages: Mapped, ears: Ears) -> Kmem<Caches, Mapped, Octaves, Ears> =
            Kmem::new(Guarded::new(machine), pages, ears);
        kmem_alloc(kmem: &Kmem<Caches, Mapped, Octaves, Ears>, bytes: usize) -> Option<Block> =
            kmem.alloc(bytes);
        kmem_free(kmem: &Kmem<Caches, Mapped, Octaves, Ears>, block: Block) -> () =
            // SAFETY: as above.
            unsafe { kmem.free_any(block) };
    }
}

mod objects {
    use super::*;

    symbols! { hot kmem_objects:
        alloc(objects: &Cache, kind: usize) -> Option<NonNull<[u64; 8]>> = objects.alloc(kind);
        free(objects: &Cache, kind: usize, object: NonNull<[u64; 8]>) -> () =
            // SAFETY: as above.
            unsafe { objects.free(kind, object) };
    }

    symbols! { cold kmem_objects:
        new(machine: Machine, makes: Makes) -> Cache = Objects::new(Guarded::new(machine), makes);
        flush(objects: &Cache) -> () = objects.flush();
        flush_cpu(objects: &Cache, cpu: usize) -> bool = objects.flush_cpu(cpu);
    }
}

mod nodes {
    use super::*;

    symbols! { hot kmem_nodes:
        alloc(nodes: &Pools, bytes: usize, node: usize) -> Option<Block> = nodes.alloc(bytes, node);
        alloc_cookie(nodes: &Pools, cookie: Cookie<Octaves>, node: usize) -> Option<Block> =
            nodes.alloc_cookie(cookie, node);
        alloc_aligned(nodes: &Pools, bytes: usize, align: usize, node: usize) -> Option<Block> =
            nodes.alloc_aligned(bytes, align, node);
        // SAFETY: as above.
        free(nodes: &Pools, block: Block, bytes: usize) -> () = unsafe { nodes.free(block, bytes) };
        free_cookie(nodes: &Pools, cookie: Cookie<Octaves>, block: Block) -> () =
            // SAFETY: as above.
            unsafe { nodes.free_cookie(cookie, block) };
        // SAFETY: as above.
        free_any(nodes: &Pools, block: Block) -> () = unsafe { nodes.free_any(block) };
        node_of(nodes: &Pools, at: *mut u8) -> Option<usize> = nodes.node_of(at);
    }

    symbols! { cold kmem_nodes:
        new(pools: [Pool; 4]) -> Pools = Nodes::new(pools);
        flush(nodes: &Pools) -> () = nodes.flush();
        flush_cpu(nodes: &Pools, cpu: usize) -> bool = nodes.flush_cpu(cpu);
    }
}
