//! The coalesce-to-vmblk layer: pages of a range of addresses, to which frames are mapped.
//!
//! ```text
//!   range    │ vmblk │ vmblk │ free  │ vmblk │ free   …          addresses of the caller
//!   vmblk    │ descriptors │ span │ free span │ span │ free span │
//!                 ▲           ▲                  ▲
//!   zone     frames, mapped where there are descriptors and spans in use
//! ```
//!
//! 1. Every page in use and every page of descriptors has a frame. No page of a free span has one. A page whose mapping
//!    the address space does not end is *stuck*: it keeps its frame, and is nobody's for ever. Of descriptors that are stuck
//!    the addresses of the whole vmblk are lost.
//! 2. A vmblk whose data pages are all free goes back to the range, and the frames of its descriptors to the zone.
//! 3. Whoever has a page of a vmblk keeps it there, and whoever has the lock. A free of an address in a vmblk of which the
//!    caller has no block may come when its descriptors are unmapped already, and fault: see [`Pages::hold`].
//! 4. Spans are found, cut and coalesced with the lock. Their pages are mapped and unmapped without it, while they are the
//!    caller's; only descriptors are with it.
//!
//! Section 3.3.4 of the paper: physical memory is returned apart from virtual addresses.
//!
//! *Progress*: a page is mapped and unmapped in as many steps as [`AddressSpace`] and the zone take. A new vmblk takes as
//! many steps as the dope vector has words.

use core::ops::Range;
use core::ptr::NonNull;

use woodlot_frame::{FrameAllocator, FrameId};

use crate::audit::{Flaw, audit};
use crate::dope::{Dope, Dopes, Shape, VMBLK, Vmblk};
use crate::frames::{BATCH, Frames};
use crate::lock::{Lock, Taken};
use crate::page::{Descriptor, PageId};
use crate::pages::{NoPages, Pages};
use crate::size::PAGE;
use crate::space::{AddressSpace, NotMapped, StillMapped};
use crate::span::{Span, Spans};

/// Pages of a range of addresses, to which frames of a zone are mapped.
///
/// `A` is where the frames come from, and `M` maps them.
pub struct Vmblks<'a, A, M> {
    frames: Frames<'a, A>,
    space: M,
    base: NonNull<u8>,
    dopes: Dopes<'a>,
    inside: Lock<Inside>,
}

/// What the holder of the lock may change.
#[cfg_attr(woodlot_explore, derive(Clone, PartialEq, Eq, Hash))]
struct Inside {
    spans: Spans,
    stats: VmblkStats,
}

/// What the layer has, and what it has done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct VmblkStats {
    /// Vmblks that were made.
    pub made: u64,
    /// Vmblks that went back to the range.
    pub returned: u64,
    /// Pages that have descriptors, and hold data or may.
    pub pages: usize,
    /// Of these, pages that are free, and have no frame.
    pub free: usize,
    /// Pages of descriptors.
    pub descriptor_pages: usize,
    /// Pages of spans and descriptors that keep a frame for ever, as [the address space](AddressSpace) could not end their
    /// mapping: so many frames are lost. Those of spans count among `pages`. With pages of descriptors the addresses of
    /// their vmblk are lost, which count nowhere.
    pub stuck: usize,
}

/// Pages to which no frames could be mapped, or from which they could not be taken: which of them have frames all the same,
/// counted from the first page. These are stuck.
type Stuck = Range<usize>;

// SAFETY: the zone and the address space may be shared, descriptors and the dope vector are atomics, and the base is an
// address.
unsafe impl<A: Sync, M: Sync> Sync for Vmblks<'_, A, M> {}
// SAFETY: as above.
unsafe impl<A: Sync, M: Send> Send for Vmblks<'_, A, M> {}

impl<'a, A: FrameAllocator, M: AddressSpace> Vmblks<'a, A, M> {
    /// Pages at the addresses from `base` on, 4 MiB for each word of the dope vector, with frames from a zone. `None`, if
    /// `base` is not a multiple of 4 MiB, a word is not zero, there are 2^22 words or more, or the frames are not of 4 KiB.
    ///
    /// # Safety
    /// * The addresses are the caller's for `'a`, in one piece, of 48 bits with copies of the highest one above, and nothing is
    ///   mapped there.
    /// * Nobody else uses frames that the zone hands to this, or maps anything at the addresses.
    pub unsafe fn new(
        zone: &'a A,
        space: M,
        base: NonNull<u8>,
        dope: &'a [Dope],
    ) -> Option<Vmblks<'a, A, M>> {
        let (frames, dopes) = (Frames::new(zone)?, Dopes::new(dope)?);
        let inside = Inside { spans: Spans::new(), stats: VmblkStats::default() };
        let is_free = dopes.all().next().is_none();
        (is_free && base.as_ptr().addr() & (VMBLK - 1) == 0).then_some(Vmblks {
            frames,
            space,
            base,
            dopes,
            inside: Lock::new(inside),
        })
    }

    /// The frame allocator.
    pub fn zone(&self) -> &'a A {
        self.frames.zone()
    }

    /// What maps the frames.
    pub fn space(&self) -> &M {
        &self.space
    }

    /// What the layer has, and what it has done. The caller is alone on its CPU, as for whatever takes the lock.
    pub fn stats(&self) -> VmblkStats {
        let inside = self.lock();
        VmblkStats { free: inside.spans.pages(), ..inside.stats }
    }

    /// Looks at every page: do descriptors, lists and counts agree? Others wait meanwhile, and the caller is alone on its
    /// CPU.
    ///
    /// # Errors
    /// The first page that is wrong.
    pub fn validate(&self) -> Result<(), Flaw> {
        let inside = self.lock();
        audit(self, &inside.spans, self.dopes.all())
    }

    fn lock(&self) -> Taken<'_, Inside> {
        self.inside.take(|tries| self.space.wait(tries))
    }

    /// Takes pages without frames.
    fn take(&self, count: usize, align: usize, cpu: usize) -> Result<Span, NoPages> {
        let mut inside = self.lock();
        if let Some(span) = inside.spans.take(self, count, align) {
            return Ok(span);
        }
        let vmblk = self.make((count, align), &mut inside.stats, cpu)?;
        inside.stats.made += 1;
        inside.stats.pages += vmblk.data_pages();
        inside.stats.descriptor_pages += vmblk.descriptor_pages();
        inside.spans.put(
            self,
            Span { first: vmblk.data(), pages: vmblk.data_pages() },
            vmblk.end(),
        );
        inside.spans.take(self, count, align).ok_or(NoPages)
    }

    /// Makes pages without frames free. A vmblk that has no others goes back.
    fn put(&self, span: Span, cpu: usize) {
        let Some(vmblk) = self.dopes.of(span.first.0 as usize) else { return };
        let mut inside = self.lock();
        let whole = inside.spans.put(self, span, vmblk.end());
        if whole.pages == vmblk.data_pages() {
            inside.spans.unlink(self, whole);
            inside.stats.returned += 1;
            inside.stats.pages -= vmblk.data_pages();
            inside.stats.descriptor_pages -= vmblk.descriptor_pages();
            // Nobody finds it any more, and its addresses are not free yet.
            self.dopes.lose(vmblk);
            // SAFETY: the vmblk has no pages in use, and whoever reads the dope vector finds it no more.
            match unsafe { self.unmap(vmblk.start(), vmblk.descriptor_pages(), cpu) } {
                Ok(()) => self.dopes.clear(vmblk),
                Err(stuck) => inside.stats.stuck += stuck.len(),
            }
        }
    }

    /// Makes pages free, but for those that keep their frames: they are nobody's.
    fn put_but(&self, span: Span, stuck: &Stuck, cpu: usize) {
        self.lock().stats.stuck += stuck.len();
        for free in [0..stuck.start, stuck.end..span.pages] {
            if !free.is_empty() {
                self.put(Span { first: span.first.plus(free.start), pages: free.len() }, cpu);
            }
        }
    }

    /// Makes a vmblk that has room for so many pages.
    fn make(
        &self,
        (count, align): (usize, usize),
        stats: &mut VmblkStats,
        cpu: usize,
    ) -> Result<Vmblk, NoPages> {
        let shape = Shape::new(count, align);
        let is_right = |start: PageId| {
            let address = self.address(start.plus(shape.offset)).as_ptr().addr();
            address & (align - 1) == 0
        };
        let vmblk = self.dopes.room(shape, is_right).ok_or(NoPages)?;
        if let Err(stuck) = self.map(vmblk.start(), vmblk.descriptor_pages(), cpu) {
            if !stuck.is_empty() {
                self.dopes.lose(vmblk);
                stats.stuck += stuck.len();
            }
            return Err(NoPages);
        }
        // SAFETY: the pages were just mapped, for this, and have room for a descriptor of each page of the vmblk.
        unsafe { Descriptor::init(self.address(vmblk.start()).cast(), vmblk.pages()) };
        self.dopes.set(vmblk);
        Ok(vmblk)
    }

    /// Maps frames to pages that have none: to all of them, or to those only that are stuck.
    fn map(&self, first: PageId, count: usize, cpu: usize) -> Result<(), Stuck> {
        let mut mapped = 0;
        while mapped < count {
            match self.map_some(first.plus(mapped), count - mapped, cpu) {
                Ok(some) => mapped += some,
                Err(behind) => {
                    // SAFETY: these were mapped before, and nobody has heard of them.
                    let unmapped = unsafe { self.unmap(first, mapped, cpu) };
                    let from = unmapped.map_or_else(|stuck| stuck.start, |()| mapped);
                    return Err(from..mapped + behind);
                }
            }
        }
        Ok(())
    }

    /// Maps frames to up to so many pages. Returns to how many; at least to one.
    ///
    /// # Errors
    /// None can be used; so many are stuck.
    fn map_some(&self, first: PageId, count: usize, cpu: usize) -> Result<usize, usize> {
        let mut room = [FrameId(0); BATCH];
        let room = room.get_mut(..BATCH.min(count)).unwrap_or_default();
        let frames = self.frames.take(room, cpu).map_err(|NoPages| 0_usize)?;
        match self.space.map(self.address(first), frames) {
            Ok(()) => Ok(frames.len()),
            Err(NotMapped::Undone) => {
                self.frames.give(frames, cpu);
                Err(0)
            }
            Err(NotMapped::Stuck) => Err(frames.len()),
        }
    }

    /// Takes the frames from pages, and gives them back.
    ///
    /// # Errors
    /// The address space refuses. What is before the pages that are stuck has no frames any more, and there is nothing behind.
    ///
    /// # Safety
    /// All of the pages have frames, and nobody uses them any more.
    unsafe fn unmap(&self, first: PageId, count: usize, cpu: usize) -> Result<(), Stuck> {
        let mut room = [FrameId(0); BATCH];
        for from in (0..count).step_by(BATCH) {
            let frames = room.get_mut(..BATCH.min(count - from)).unwrap_or_default();
            // SAFETY: as the caller says.
            unsafe { self.space.unmap(self.address(first.plus(from)), frames) }
                .map_err(|StillMapped| from..count)?;
            self.frames.give(frames, cpu);
        }
        Ok(())
    }
}

// SAFETY: a span is taken by one caller until it is put back, its pages are mapped meanwhile, and those of free spans have
// a tag or nothing in their descriptors, which `kind` calls `None`.
unsafe impl<A: FrameAllocator, M: AddressSpace> Pages for Vmblks<'_, A, M> {
    fn alloc(&self, count: usize, align: usize, cpu: usize) -> Result<PageId, NoPages> {
        let span = self.take(count, align, cpu)?;
        match self.map(span.first, count, cpu) {
            Ok(()) => Ok(span.first),
            Err(stuck) => {
                self.put_but(span, &stuck, cpu);
                Err(NoPages)
            }
        }
    }

    unsafe fn free(&self, first: PageId, count: usize, cpu: usize) {
        let span = Span { first, pages: count };
        // SAFETY: the pages were handed out, and the caller uses them no more.
        match unsafe { self.unmap(first, count, cpu) } {
            Ok(()) => self.put(span, cpu),
            Err(stuck) => self.put_but(span, &stuck, cpu),
        }
    }

    #[inline]
    fn address(&self, page: PageId) -> NonNull<u8> {
        // SAFETY: the page lies in the range that `base` begins.
        unsafe { self.base.add(page.0 as usize * PAGE) }
    }

    #[inline]
    fn find(&self, address: *mut u8) -> Option<(PageId, usize)> {
        let offset = address.addr().wrapping_sub(self.base.as_ptr().addr());
        let page = offset / PAGE;
        self.dopes.of(page)?;
        Some((PageId(page as u32), offset % PAGE))
    }

    #[inline]
    fn descriptor(&self, page: PageId) -> &Descriptor {
        let start = self.dopes.of(page.0 as usize).map_or(page, Vmblk::start);
        let descriptors = self.address(start).cast::<Descriptor>();
        // SAFETY: the page lies in a vmblk, as it was handed out or found, or is one of a free span. The vmblk begins with
        // a descriptor for each of its pages.
        unsafe { descriptors.add((page.0 - start.0) as usize).as_ref() }
    }

    /// A vmblk goes back with the lock held.
    fn hold<T>(&self, call: impl FnOnce() -> T) -> T {
        let _inside = self.lock();
        call()
    }
}
