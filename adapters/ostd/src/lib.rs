#![doc = include_str!("../README.md")]
//!
//! # Progress
//! Lock-free, and every call may be made from interrupt context, from the first added range on. The call that
//! adds the first range makes the zone; another one that adds memory at that moment waits until the zone is
//! made. So memory is first added where no interrupt of the same CPU adds any.
#![no_std]
#![deny(missing_docs)]

mod config;
mod error;
mod storage;

use core::alloc::Layout;
use core::ops::Range;

use woodlot_frame::{
    AllocError, Base4K, Class, FrameAllocator, FrameId, Geometry, Order, RangeRequest, Request,
    Slot,
};
use woodlot_llfree::LLFree;

pub use config::Config;
pub use error::{Paddr, Refused};
pub use storage::Storage;

/// The global frame allocator as OSTD 0.19 wants it: the same methods as
/// `ostd::mm::frame::GlobalFrameAllocator`, which is in a crate that needs the nightly compiler and a kernel
/// around it.
pub trait GlobalFrameAllocator: Sync {
    /// Allocates frames that lie together: `layout.size()` bytes, which are whole frames.
    fn alloc(&self, layout: Layout) -> Option<Paddr>;

    /// Frees frames, all or some of those that an allocation had.
    fn dealloc(&self, addr: Paddr, size: usize);

    /// Adds frames that are free from now on.
    fn add_free_memory(&self, addr: Paddr, size: usize);
}

/// The frames of a machine, in the shape of OSTD's global frame allocator.
///
/// Frames are immovable to the zone, whose engine is LLFree.
pub struct Frames {
    config: Config,
    storage: storage::Zone,
}

impl Frames {
    /// No frames yet: [`add_free_memory`](GlobalFrameAllocator::add_free_memory) brings them. The storage is
    /// for the metadata, and must be of [`Config::lines`] lines at least.
    pub const fn new<const LINES: usize>(
        config: Config,
        storage: &'static Storage<LINES>,
    ) -> Frames {
        Frames { config, storage: storage::Zone::new(storage) }
    }

    /// Allocates frames that lie together.
    ///
    /// # Errors
    /// [`Refused::NotFrames`] where the size is not of whole frames, otherwise [`Refused::Alloc`].
    ///
    /// # Progress
    /// Lock-free. A size or alignment that is no block of the zone's, a power of two up to 4 MiB, is searched
    /// for in time linear in the huge frames.
    pub fn try_alloc(&self, layout: Layout) -> Result<Paddr, Refused> {
        whole_frames(0, layout.size())?;
        let refused = |cause| Refused::Alloc { layout, cause };
        let zone = self.storage.get().ok_or(refused(AllocError::OutOfMemory))?;
        let frames = layout.size() >> Base4K::BASE_SHIFT;
        let align = Order::containing(layout.align() >> Base4K::BASE_SHIFT);
        let order = Order::containing(frames);
        if order.frames() == frames && align <= order && order <= Order::max::<Base4K>() {
            match zone.alloc(Request::immovable(order, self.slot())) {
                Ok(frame) => return Ok(address(frame)),
                // A run that is not aligned to its size may be there all the same.
                Err(AllocError::OutOfMemory) if align < order => {}
                Err(cause) => return Err(refused(cause)),
            }
        }
        let request = RangeRequest::new(frames, Class::IMMOVABLE, self.slot()).aligned(align);
        zone.alloc_range(request).map(|run| address(run.start)).map_err(refused)
    }

    /// Frees frames, all or some of those that an allocation had, or of several that lie together.
    ///
    /// # Errors
    /// [`Refused::NotFrames`] where these are no whole frames, otherwise [`Refused::Free`]. Nothing is freed
    /// then.
    pub fn try_dealloc(&self, addr: Paddr, size: usize) -> Result<(), Refused> {
        let frames = whole_frames(addr, size)?;
        let zone = self.storage.get().ok_or(Refused::Early { addr, size })?;
        let refused = |cause| Refused::Free { addr, size, cause };
        zone.free_range(frames, self.slot()).map_err(refused)
    }

    /// Adds memory, at any time. Of two calls at once with ranges that overlap, each may add some frames and
    /// be refused.
    ///
    /// # Errors
    /// [`Refused::Start`] and [`Refused::StorageTaken`] where the zone cannot be made,
    /// [`Refused::NotFrames`] where these are no whole frames, [`Refused::Free`] where some of them are there
    /// already, and nothing is added then; [`Refused::Beyond`] with the part that lies above
    /// [`Config::memory`], and what lies below is added.
    pub fn try_add(&self, addr: Paddr, size: usize) -> Result<(), Refused> {
        let Range { start, end } = whole_frames(addr, size)?;
        let zone = self.storage.get_or_make(&self.config.zone())?;
        let limit = zone.zone().end();
        self.try_dealloc(address(start), address(end.min(limit)).saturating_sub(address(start)))?;
        if end > limit {
            let from = address(start.max(limit));
            return Err(Refused::Beyond { addr: from, size: address(end) - from });
        }
        Ok(())
    }

    /// Free bytes. Exact when no call is in flight.
    pub fn free_bytes(&self) -> usize {
        self.storage.get().map_or(0, |zone| zone.stats().free_frames << Base4K::BASE_SHIFT)
    }

    /// The zone, once memory has been added: for all that the contract has beyond OSTD's trait.
    pub fn zone(&self) -> Option<&LLFree<'static, Base4K>> {
        self.storage.get()
    }

    fn slot(&self) -> Slot {
        Slot((self.config.cpu)().checked_rem(self.config.cpus).unwrap_or(0))
    }

    /// Tells what was refused.
    fn told<T>(&self, result: Result<T, Refused>) -> Option<T> {
        result
            .inspect_err(|&why| {
                if !why.is_out_of_memory() {
                    (self.config.refused)(why)
                }
            })
            .ok()
    }
}

impl GlobalFrameAllocator for Frames {
    fn alloc(&self, layout: Layout) -> Option<Paddr> {
        self.told(self.try_alloc(layout))
    }

    fn dealloc(&self, addr: Paddr, size: usize) {
        self.told(self.try_dealloc(addr, size));
    }

    fn add_free_memory(&self, addr: Paddr, size: usize) {
        self.told(self.try_add(addr, size));
    }
}

fn address(frame: FrameId) -> Paddr {
    frame.address::<Base4K>() as Paddr
}

/// The frames of a range of addresses, which must be whole.
fn whole_frames(addr: Paddr, size: usize) -> Result<Range<FrameId>, Refused> {
    let whole = (addr | size) & (Base4K::BASE_BYTES - 1) == 0;
    match addr.checked_add(size) {
        Some(end) if whole => Ok(FrameId::inside::<Base4K>(addr as u64..end as u64)),
        _ => Err(Refused::NotFrames { addr, size }),
    }
}
