//! The addresses of a kernel: page tables, and the other CPUs' copies of their entries.
//!
//! ```text
//!   map      entries, with the lock
//!   unmap    entries, with the lock ──▶ shootdown, without it ──▶ the frames are the caller's
//!                                             └─ refused ──▶ entries as they were, with the lock
//! ```
//!
//! 1. Whoever maps or unmaps pages is alone with these pages; the lock is for the tables that they share with others.
//! 2. A frame leaves when no CPU has an entry for it any more.
//! 3. Tables stay.

use core::ptr::NonNull;

use woodlot_frame::{Base4K, FrameAllocator, FrameId};
use woodlot_kmem::{AddressSpace, Cpus, Lock, NotMapped, StillMapped, Taken};
use x86_64::structures::paging::page::PageRangeInclusive;
use x86_64::structures::paging::{Mapper, Page, PageTableFlags, PhysFrame, Size4KiB};
use x86_64::{PhysAddr, VirtAddr};

use crate::Frames;

/// Has CPUs forget what they remember of page tables: the TLB shootdown.
///
/// # Safety
/// After [`forget`](Self::forget) has returned true, no CPU reaches memory by what it remembered of these pages before.
pub unsafe trait Shootdown: Sync {
    /// Has all CPUs forget up to 32 pages, this one too. The caller is alone on its CPU, and may have locks of
    /// `woodlot-kmem`. False: one of them may remember them.
    fn forget(&self, pages: PageRangeInclusive) -> bool;

    /// The caller waits for a lock, for the `tries`-th time in a row, alone on its CPU. If [`forget`](Self::forget) waits for other
    /// CPUs, this CPU answers them here.
    fn wait(&self, tries: usize) {
        let _ = tries;
        core::hint::spin_loop();
    }
}

/// A shootdown by a call of each of so many CPUs, one after the other. Each must answer where it waits: in
/// [`Cpus::wait`] too, as `Calls` of `woodlot-kernel` does.
///
/// # Progress
/// As [`Cpus::call`], once for each CPU.
#[derive(Clone, Copy, Debug)]
pub struct ByCalls<C> {
    cpus: C,
    count: usize,
}

impl<C: Cpus> ByCalls<C> {
    /// Calls the CPUs with numbers below `count`.
    ///
    /// # Safety
    /// No other CPU uses the page tables, and all of this runs in ring 0.
    pub const unsafe fn new(cpus: C, count: usize) -> Self {
        ByCalls { cpus, count }
    }
}

#[cfg(target_arch = "x86_64")]
// SAFETY: `invlpg` forgets a page, of whatever address space, and a call has been made when it returns.
unsafe impl<C: Cpus> Shootdown for ByCalls<C> {
    fn forget(&self, pages: PageRangeInclusive) -> bool {
        let mut forget = || {
            for page in pages {
                x86_64::instructions::tlb::flush(page.start_address());
            }
        };
        (0..self.count).all(|cpu| self.cpus.call(cpu, &mut forget))
    }

    fn wait(&self, tries: usize) {
        self.cpus.wait(tries);
    }
}

/// Addresses at which page tables map frames of 4 KiB: what [`woodlot_kmem::Vmblks`] and `woodlot-stacks` want of a
/// kernel.
///
/// `M` is a mapper of the `x86_64` crate. Page tables that are missing are frames of a zone, which need not be the one whose
/// frames are mapped. They stay: a frame for each 2 MiB of addresses at which anything was ever mapped, and for each GiB, and
/// for each 512 GiB. A kernel whose address spaces share these addresses makes the tables of the highest level first.
///
/// # Progress
/// With a lock, held for up to 32 pages. `unmap` waits for the [`Shootdown`].
pub struct KernelSpace<'a, A, M, S> {
    tables: Lock<Tables<'a, A, M>>,
    flags: PageTableFlags,
    shootdown: S,
}

struct Tables<'a, A, M> {
    mapper: M,
    frames: Frames<'a, A>,
}

impl<'a, A, M, S> KernelSpace<'a, A, M, S>
where
    A: FrameAllocator<Geometry = Base4K>,
    M: Mapper<Size4KiB>,
    S: Shootdown,
{
    /// Pages are present, writable, and whatever else `flags` says: `NO_EXECUTE` and `GLOBAL`, on a CPU that has these on.
    ///
    /// # Safety
    /// * The tables of `mapper` are those of all CPUs, wherever anything will be mapped, and nobody else changes them there.
    /// * The mapper reaches the frames of `frames`, as those of its tables.
    /// * Pages with these flags can be read and written by whoever uses them.
    pub const unsafe fn new(
        mapper: M,
        frames: Frames<'a, A>,
        flags: PageTableFlags,
        shootdown: S,
    ) -> Self {
        let flags = flags.union(PageTableFlags::PRESENT.union(PageTableFlags::WRITABLE));
        KernelSpace { tables: Lock::new(Tables { mapper, frames }), flags, shootdown }
    }

    fn tables(&self) -> Taken<'_, Tables<'a, A, M>> {
        self.tables.take(|tries| self.shootdown.wait(tries))
    }

    /// Makes entries for pages; of how many, if that is not all.
    fn enter(&self, first: Page, frames: &[FrameId]) -> Result<(), usize> {
        let Tables { mapper, frames: more } = &mut *self.tables();
        for (at, frame) in frames.iter().enumerate() {
            let address = PhysAddr::new_truncate(frame.address::<Base4K>());
            let (page, frame) = (first + at as u64, PhysFrame::containing_address(address));
            // SAFETY: the frame is to be memory at this page, as the caller of `map` says.
            let entered = unsafe { mapper.map_to(page, frame, self.flags, more) };
            // What was not there nobody remembers.
            entered.map_err(|_| at)?.ignore();
        }
        Ok(())
    }

    /// Ends the entries of so many pages, and says which frame each one had. Of how many, if that is not all.
    fn leave(&self, first: Page, count: usize, mut had: impl FnMut(usize, FrameId)) -> usize {
        let mapper = &mut self.tables().mapper;
        for at in 0..count {
            let Ok((frame, forget)) = mapper.unmap(first + at as u64) else { return at };
            forget.ignore();
            had(at, FrameId::containing::<Base4K>(frame.start_address().as_u64()));
        }
        count
    }

    /// Have all CPUs forgotten so many pages?
    fn forget(&self, first: Page, count: usize) -> bool {
        let last = count.checked_sub(1).map(|before| first + before as u64);
        last.is_none_or(|last| self.shootdown.forget(Page::range_inclusive(first, last)))
    }
}

fn page(address: NonNull<u8>) -> Page {
    Page::containing_address(VirtAddr::new_truncate(address.as_ptr().addr() as u64))
}

// SAFETY: the tables map the pages, to whoever uses them, until their entries end; and then no CPU remembers one.
unsafe impl<A, M, S> AddressSpace for KernelSpace<'_, A, M, S>
where
    A: FrameAllocator<Geometry = Base4K>,
    M: Mapper<Size4KiB> + Send,
    S: Shootdown,
{
    fn map(&self, first: NonNull<u8>, frames: &[FrameId]) -> Result<(), NotMapped> {
        let first = page(first);
        let Err(entered) = self.enter(first, frames) else { return Ok(()) };
        // A CPU may have looked at them meanwhile, unasked.
        let left = self.leave(first, entered, |_, _| {});
        let is_undone = left == entered && self.forget(first, entered);
        Err(if is_undone { NotMapped::Undone } else { NotMapped::Stuck })
    }

    unsafe fn unmap(&self, first: NonNull<u8>, frames: &mut [FrameId]) -> Result<(), StillMapped> {
        let first = page(first);
        let left = self.leave(first, frames.len(), |at, frame| {
            frames.get_mut(at).into_iter().for_each(|place| *place = frame);
        });
        if left == frames.len() && self.forget(first, left) {
            return Ok(());
        }
        // Their tables are there, so that this succeeds.
        let _ = self.enter(first, frames.get(..left).unwrap_or_default());
        Err(StillMapped)
    }

    fn wait(&self, tries: usize) {
        self.shootdown.wait(tries);
    }
}
