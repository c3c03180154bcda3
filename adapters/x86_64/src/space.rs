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
//! 3. A table is zero before an entry leads to it: processors look there unasked. Tables stay.
//! 4. The caller is kept to its CPU: nothing that comes in between wants the lock, or moves it to another CPU.

use core::ptr::NonNull;

use woodlot_frame::atomics::{Ordering, fence};
use woodlot_frame::{Base4K, FrameAllocator, FrameId};
use woodlot_kmem::{AddressSpace, Cpus, Lock, NotMapped, StillMapped, Taken};
use x86_64::structures::paging::page::PageRangeInclusive;
use x86_64::structures::paging::{
    self, Mapper, Page, PageSize, PageTableFlags, PhysFrame, Size4KiB,
};
use x86_64::{PhysAddr, VirtAddr};

use crate::Frames;

/// CPUs that forget what they remember of page tables: the TLB shootdown. As for a lock of `woodlot-kmem`, the caller is kept to its
/// CPU by [`Cpus::enter`], and [`Cpus::wait`] is called where one waits.
///
/// # Safety
/// After [`forget`](Self::forget) has returned true, no CPU reaches memory by what it remembered of these pages before.
pub unsafe trait Shootdown: Cpus {
    /// Has all CPUs forget up to 32 pages, this one too. It is called between `enter` and `leave`, by one who may have locks of
    /// `woodlot-kmem`: if it waits for other CPUs, these must answer in [`Cpus::wait`]. False: one of them may remember a page.
    fn forget(&self, pages: PageRangeInclusive) -> bool;
}

// SAFETY: as that of what is referred to.
unsafe impl<S: Shootdown> Shootdown for &S {
    fn forget(&self, pages: PageRangeInclusive) -> bool {
        S::forget(self, pages)
    }
}

/// A shootdown by [calls](Cpus::call) of all CPUs, one after the other.
///
/// A call that a CPU does not answer in time is a shootdown that is refused: the pages stay mapped, and their frames are lost for
/// ever. So `Calls` of `woodlot-kernel` wants all the patience that there is here, nothing is freed before each CPU has opened its
/// mailbox, and none closes it.
///
/// # Progress
/// As [`Cpus::call`], once for each CPU.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub struct ByCalls<C> {
    cpus: C,
    count: usize,
}

#[cfg(target_arch = "x86_64")]
impl<C: Cpus> ByCalls<C> {
    /// Calls the CPUs with numbers below `count`.
    ///
    /// # Safety
    /// * No other CPU uses the page tables, and all of this runs in ring 0.
    /// * No CPU has process-context identifiers on (CR4.PCIDE), or pages are global ([`PageTableFlags::GLOBAL`], and CR4.PGE on all of
    ///   them): `invlpg` forgets others of the present context alone.
    pub const unsafe fn new(cpus: C, count: usize) -> Self {
        ByCalls { cpus, count }
    }
}

#[cfg(target_arch = "x86_64")]
// SAFETY: as those of `C`.
unsafe impl<C: Cpus> Cpus for ByCalls<C> {
    type State = C::State;

    fn enter(&self) -> (usize, C::State) {
        self.cpus.enter()
    }

    fn leave(&self, state: C::State) {
        self.cpus.leave(state);
    }

    fn call(&self, cpu: usize, call: &mut (dyn FnMut() + Send)) -> bool {
        self.cpus.call(cpu, call)
    }

    fn wait(&self, tries: usize) {
        self.cpus.wait(tries);
    }
}

#[cfg(target_arch = "x86_64")]
// SAFETY: `invlpg` forgets a page, and what leads there. It has been done on a CPU when its call returns true.
unsafe impl<C: Cpus> Shootdown for ByCalls<C> {
    fn forget(&self, pages: PageRangeInclusive) -> bool {
        let first = pages.start;
        let mut forget = || {
            // The range itself steps behind its last page, where there may be no address.
            for page in 0..pages.len() {
                x86_64::instructions::tlb::flush((first + page).start_address());
            }
        };
        on_all(&self.cpus, self.count, &mut forget)
    }
}

/// Has something done on so many CPUs, this one first. False, if one of them does not do it.
#[cfg(target_arch = "x86_64")]
fn on_all(cpus: &impl Cpus, count: usize, work: &mut (dyn FnMut() + Send)) -> bool {
    let (here, state) = cpus.enter();
    work();
    let mut others = (0..count).filter(|&cpu| cpu != here);
    let is_done = others.all(|cpu| cpus.call(cpu, work));
    cpus.leave(state);
    is_done
}

/// Addresses at which page tables map frames of 4 KiB: what [`woodlot_kmem::Vmblks`] and `woodlot-stacks` want of a
/// kernel. Several of these can have a reference to one.
///
/// `M` is a mapper of the `x86_64` crate. Page tables that are missing are frames of a zone, which need not be the one whose
/// frames are mapped. They stay: a frame for each 2 MiB of addresses at which anything was ever mapped, and for each GiB, and
/// for each 512 GiB. A kernel whose address spaces share these addresses makes the tables of the highest level first.
///
/// # Progress
/// With a lock, held for up to 32 pages, and the CPU kept to the caller. `unmap` waits for the [`Shootdown`].
pub struct KernelSpace<'a, A, M, S> {
    tables: Lock<Tables<'a, A, M>>,
    flags: PageTableFlags,
    shootdown: S,
}

struct Tables<'a, A, M> {
    mapper: M,
    more: Zeroed<'a, A>,
}

/// Frames for page tables.
struct Zeroed<'a, A> {
    frames: Frames<'a, A>,
    /// Where physical address zero is mapped, or would be.
    base: *mut u8,
}

// SAFETY: the base is an address; who has this has the frames alone.
unsafe impl<A: Sync> Send for Zeroed<'_, A> {}

// SAFETY: as `Frames`.
unsafe impl<A> paging::FrameAllocator<Size4KiB> for Zeroed<'_, A>
where
    A: FrameAllocator<Geometry = Base4K>,
{
    fn allocate_frame(&mut self) -> Option<PhysFrame<Size4KiB>> {
        let frame: PhysFrame<Size4KiB> = self.frames.alloc().ok()?;
        let table = self.base.wrapping_add(frame.start_address().as_u64() as usize);
        // SAFETY: the frame is mapped there, and this call's.
        unsafe { table.write_bytes(0, Size4KiB::SIZE as usize) };
        // The mapper makes the entry first, and zeroes the table then.
        fence(Ordering::Release);
        Some(frame)
    }
}

impl<'a, A, M, S> KernelSpace<'a, A, M, S>
where
    A: FrameAllocator<Geometry = Base4K>,
    M: Mapper<Size4KiB>,
    S: Shootdown,
{
    /// Pages are present, writable, and whatever else `flags` says: `NO_EXECUTE` and `GLOBAL`, on CPUs that have these on. `base` is where
    /// physical address zero is mapped, or would be.
    ///
    /// # Safety
    /// * The tables of `mapper` are those of all CPUs, wherever anything will be mapped, and nobody else changes them there.
    /// * The mapper reaches the frames of `frames`, as those of its tables; they are mapped from `base` on, too.
    /// * Pages with these flags can be read and written by whoever uses them.
    pub const unsafe fn new(
        mapper: M,
        frames: Frames<'a, A>,
        base: *mut u8,
        flags: PageTableFlags,
        shootdown: S,
    ) -> Self {
        let flags = flags.union(PageTableFlags::PRESENT).union(PageTableFlags::WRITABLE);
        let flags = flags.difference(PageTableFlags::HUGE_PAGE);
        let tables = Tables { mapper, more: Zeroed { frames, base } };
        KernelSpace { tables: Lock::new(tables), flags, shootdown }
    }

    fn tables(&self) -> Taken<'_, Tables<'a, A, M>> {
        self.tables.take(|tries| self.shootdown.wait(tries))
    }

    /// Makes entries for pages; of how many, if that is not all.
    fn enter(&self, first: Page, frames: &[FrameId]) -> Result<(), usize> {
        let Tables { mapper, more } = &mut *self.tables();
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

    /// Does something with the CPU kept to it.
    fn kept<T>(&self, work: impl FnOnce() -> T) -> T {
        let (_, state) = self.shootdown.enter();
        let result = work();
        self.shootdown.leave(state);
        result
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
        self.kept(|| {
            let Err(entered) = self.enter(first, frames) else { return Ok(()) };
            // A CPU may have looked at them meanwhile, unasked.
            let left = self.leave(first, entered, |_, _| {});
            let is_undone = left == entered && self.forget(first, entered);
            Err(if is_undone { NotMapped::Undone } else { NotMapped::Stuck })
        })
    }

    unsafe fn unmap(&self, first: NonNull<u8>, frames: &mut [FrameId]) -> Result<(), StillMapped> {
        let first = page(first);
        self.kept(|| {
            let left = self.leave(first, frames.len(), |at, frame| {
                frames.get_mut(at).into_iter().for_each(|place| *place = frame);
            });
            if left == frames.len() && self.forget(first, left) {
                return Ok(());
            }
            // Their tables are there, so that this succeeds.
            let _ = self.enter(first, frames.get(..left).unwrap_or_default());
            Err(StillMapped)
        })
    }

    fn wait(&self, tries: usize) {
        self.shootdown.wait(tries);
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    extern crate std;

    use core::cell::Cell;
    use std::boxed::Box;

    use woodlot_frame::{Class, Init, Owned, Slot, ZoneConfig};
    use woodlot_llfree::LLFree;
    use x86_64::structures::paging::FrameAllocator as _;

    use super::*;

    #[repr(C, align(4096))]
    struct Memory([u8; 4 * 4096]);

    #[test]
    fn tables_are_zero_before_anything_leads_to_them() {
        let zone =
            Owned::<LLFree<Base4K>>::new(&ZoneConfig::new(4, 1), Init::Free).expect("a zone");
        let mut memory = Box::new(Memory([0xff; 4 * 4096]));
        let base = (&raw mut memory.0).cast::<u8>();
        // SAFETY: the memory is this test's.
        let frames =
            unsafe { Frames::new(&*zone, Slot(0), Class::IMMOVABLE) }.expect("a good zone");
        let mut zeroed = Zeroed { frames, base };
        for nth in 1..=4 {
            assert!(zeroed.allocate_frame().is_some());
            let zeroes = memory.0.iter().filter(|&&byte| byte == 0).count();
            assert_eq!(zeroes, nth * 4096);
        }
        assert_eq!(zeroed.allocate_frame(), None);
    }

    /// CPUs that do what they are called for up to one of them. The caller is on number 2.
    struct Deaf {
        from: usize,
        inside: Cell<isize>,
    }

    // SAFETY: one thread has them.
    unsafe impl Sync for Deaf {}

    // SAFETY: one thread calls, and nothing interrupts it.
    unsafe impl Cpus for Deaf {
        type State = ();

        fn enter(&self) -> (usize, ()) {
            self.inside.set(self.inside.get() + 1);
            (2, ())
        }

        fn leave(&self, (): ()) {
            self.inside.set(self.inside.get() - 1);
        }

        fn call(&self, cpu: usize, call: &mut (dyn FnMut() + Send)) -> bool {
            assert!(cpu != 2 && self.inside.get() == 1, "this one needs no call, and is kept");
            if cpu < self.from {
                call();
            }
            cpu < self.from
        }
    }

    #[test]
    fn a_shootdown_by_calls_is_done_on_every_cpu() {
        for (from, is_done, times) in [(4, true, 4), (3, false, 3), (1, false, 2), (0, false, 1)] {
            let (cpus, mut done) = (Deaf { from, inside: Cell::new(0) }, 0);
            assert_eq!(on_all(&cpus, 4, &mut || done += 1), is_done, "{from} answer");
            assert_eq!((done, cpus.inside.get()), (times, 0), "{from} answer");
        }
    }
}
