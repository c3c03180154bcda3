//! The kernel memory allocator over an engine, with each set of sizes; checked, and counted.

use core::fmt::{Display, Formatter, Result as Fmt};
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use woodlot_frame::Base4K;
use woodlot_kmem::{
    Checked, Cookie, Counted, CpuCounts, Cpus, Descriptor, Direct, Guarded, Hooks, Kind, Kmem,
    Marks, Misuse, NoPages, Octaves, PageId, Pages, Quarters, Seen, SizeId, SizeStats, Sizes, Wide,
};
use woodlot_llfree::LLFree;
use woodlot_nbbs::Nbbs4;

/// A machine that says which CPU this is.
pub struct Machine(fn() -> usize);

// SAFETY: the functions are never called.
unsafe impl Cpus for Machine {
    type State = ();

    fn enter(&self) -> (usize, ()) {
        ((self.0)(), ())
    }

    fn leave(&self, (): ()) {}
}

/// Hears of all.
pub struct Ears(fn(Misuse), fn(usize) -> bool);

impl Hooks for Ears {
    fn misuse(&self, misuse: Misuse) {
        (self.0)(misuse);
    }

    fn reclaim(&self, pages: usize) -> bool {
        (self.1)(pages)
    }
}

type Block = NonNull<u8>;
type Caches = Guarded<Machine, 8>;

symbols! { cold kmem:
    show_misuse(misuse: &Misuse, f: &mut Formatter) -> Fmt = Display::fmt(misuse, f);
    show_no_pages(error: &NoPages, f: &mut Formatter) -> Fmt = Display::fmt(error, f);
    kind(descriptor: &Descriptor) -> Kind = descriptor.kind();
    counted(caches: Caches) -> Counted<Caches> = Counted::new(caches);
    counts(caches: &Counted<Caches>, size: usize) -> CpuCounts = caches.counts(size);
}

/// An allocator of these sizes over this engine.
macro_rules! kmem {
    ($module:ident: $engine:ty, $sizes:ty) => {
        mod $module {
            use super::*;

            type Zone = Direct<'static, $engine>;
            type Of = Kmem<Caches, Zone, $sizes, Ears>;
            type Told = Checked<'static, Ears>;
            type Judged = Kmem<Caches, Zone, $sizes, Told>;
            type Sized = Cookie<$sizes>;

            // SAFETY of all: the functions are never called.
            symbols! { hot $module:
                alloc(kmem: &Of, bytes: usize) -> Option<Block> = kmem.alloc(bytes);
                alloc_cookie(kmem: &Of, cookie: Sized) -> Option<Block> = kmem.alloc_cookie(cookie);
                alloc_aligned(kmem: &Of, bytes: usize, align: usize) -> Option<Block> =
                    kmem.alloc_aligned(bytes, align);
                // SAFETY: as above.
                free(kmem: &Of, block: Block, bytes: usize) -> () = unsafe { kmem.free(block, bytes) };
                free_cookie(kmem: &Of, cookie: Sized, block: Block) -> () =
                    // SAFETY: as above.
                    unsafe { kmem.free_cookie(cookie, block) };
                free_aligned(kmem: &Of, block: Block, bytes: usize, align: usize) -> () =
                    // SAFETY: as above.
                    unsafe { kmem.free_aligned(block, bytes, align) };
                // SAFETY: as above.
                free_any(kmem: &Of, block: Block) -> () = unsafe { kmem.free_any(block) };
                usable(kmem: &Of, block: Block) -> Option<usize> = kmem.usable(block);
                alloc_cached(kmem: &Of, bytes: usize) -> Option<Block> = kmem.alloc_cached(bytes);
                // SAFETY: as above.
                free_cached(kmem: &Of, block: Block) -> bool = unsafe { kmem.free_cached(block) };
                free_cached_sized(kmem: &Of, block: Block, bytes: usize) -> bool =
                    // SAFETY: as above.
                    unsafe { kmem.free_cached_sized(block, bytes) };
                is_zero(kmem: &Of, block: Block) -> bool = kmem.is_zero(block);
                cookie(bytes: usize) -> Option<Sized> = Cookie::new(bytes);
                cookie_bytes(cookie: Sized) -> usize = cookie.bytes();
                find(pages: &Zone, at: *mut u8) -> Option<(PageId, usize)> = pages.find(at);
            }

            symbols! { cold $module:
                new(machine: Machine, pages: Zone, ears: Ears) -> Of =
                    Kmem::new(Guarded::new(machine), pages, ears);
                pages(zone: &'static $engine, base: Block, descriptors: &'static [Descriptor])
                    // SAFETY: as above.
                    -> Option<Zone> = unsafe { Direct::new(zone, base, descriptors) };
                init(place: &'static mut MaybeUninit<Of>, machine: Machine, pages: Zone, ears: Ears)
                    -> &'static mut Of = Kmem::init(place, Guarded::new(machine), pages, ears);
                wrong(kmem: &Of, block: Block) -> Misuse = kmem.wrong(block);
                flush(kmem: &Of) -> () = kmem.flush();
                flush_global(kmem: &Of) -> () = kmem.flush_global();
                flush_cpu(kmem: &Of, cpu: usize) -> bool = kmem.flush_cpu(cpu);
                flush_unused(kmem: &Of, cpu: usize, seen: &mut Seen) -> bool =
                    kmem.flush_unused(cpu, seen);
                flush_unused_global(kmem: &Of, seen: &mut Seen) -> () =
                    kmem.flush_unused_global(seen);
                stats(kmem: &Of, size: usize) -> Option<SizeStats> = kmem.stats(size);
                lock_all(kmem: &Of) -> () = kmem.lock_all();
                // SAFETY: as above.
                unlock_all(kmem: &Of) -> () = unsafe { kmem.unlock_all() };
                sizes() -> Option<SizeId> = <$sizes>::all().last();
                checked(machine: Machine, pages: Zone, ears: Ears, marks: &'static [Marks]) -> Judged =
                    Kmem::new(Guarded::new(machine), pages, Checked::new(ears, marks));
                checked_alloc(kmem: &Judged, bytes: usize) -> Option<Block> = kmem.alloc(bytes);
                checked_alloc_cookie(kmem: &Judged, cookie: Sized) -> Option<Block> =
                    kmem.alloc_cookie(cookie);
                checked_alloc_aligned(kmem: &Judged, bytes: usize, align: usize) -> Option<Block> =
                    kmem.alloc_aligned(bytes, align);
                checked_free(kmem: &Judged, block: Block, bytes: usize) -> () =
                    // SAFETY: as above.
                    unsafe { kmem.free(block, bytes) };
                checked_free_cookie(kmem: &Judged, cookie: Sized, block: Block) -> () =
                    // SAFETY: as above.
                    unsafe { kmem.free_cookie(cookie, block) };
                checked_free_aligned(kmem: &Judged, block: Block, bytes: usize, align: usize) -> () =
                    // SAFETY: as above.
                    unsafe { kmem.free_aligned(block, bytes, align) };
                // SAFETY: as above.
                checked_free_any(kmem: &Judged, block: Block) -> () = unsafe { kmem.free_any(block) };
            }
        }
    };
}

kmem! { kmem_llfree_octaves: LLFree<'static, Base4K>, Octaves }
kmem! { kmem_llfree_quarters: LLFree<'static, Base4K>, Quarters }
kmem! { kmem_llfree_wide: LLFree<'static, Base4K>, Wide }
kmem! { kmem_nbbs_octaves: Nbbs4<'static, Base4K>, Octaves }
