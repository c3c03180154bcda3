//! Maps pages with the `x86_64` crate, whose page tables come from a zone: 16 MiB of memory stand for the
//! machine's.

use std::alloc::{Layout, alloc_zeroed};

use woodlot_frame::{Base4K, Class, FrameAllocator as _, FrameId, Init, Owned, Slot, ZoneConfig};
use woodlot_llfree::LLFree;
use woodlot_x86_64::Frames;
use x86_64::structures::paging::{
    FrameAllocator, Mapper, OffsetPageTable, Page, PageTable, PageTableFlags, PhysFrame, Size2MiB,
    Size4KiB, Translate,
};
use x86_64::{PhysAddr, VirtAddr};

const FRAMES: usize = 4096;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // SAFETY: the layout has a size above zero.
    let memory = unsafe { alloc_zeroed(Layout::from_size_align(FRAMES << 12, 2 << 20)?) };
    let offset = VirtAddr::from_ptr(memory);

    let zone = Owned::<LLFree<Base4K>>::new(&ZoneConfig::new(FRAMES, 1), Init::Free)?;
    // SAFETY: the zone's frames are the memory above, which nobody else uses.
    let mut frames = unsafe { Frames::new(&*zone, Slot(0), Class::IMMOVABLE) }?;

    let root: PhysFrame<Size4KiB> = frames.allocate_frame().ok_or("no frame for the root")?;
    let table = memory.wrapping_add(root.start_address().as_u64() as usize).cast::<PageTable>();
    // SAFETY: the frame is this program's alone, and zeroes are an empty table; `offset` is where frame 0 is.
    let mut mapper = unsafe {
        table.write(PageTable::new());
        OffsetPageTable::new(&mut *table, offset)
    };

    let flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE;
    let small = Page::<Size4KiB>::containing_address(VirtAddr::new(0x4000_0000));
    let huge = Page::<Size2MiB>::containing_address(VirtAddr::new(0x8000_0000));
    let (base, large) = (frames.alloc::<Size4KiB>()?, frames.alloc::<Size2MiB>()?);
    // SAFETY: these tables are no CPU's.
    unsafe {
        mapper.map_to(small, base, flags, &mut frames).map_err(|why| format!("{why:?}"))?.ignore();
        mapper.map_to(huge, large, flags, &mut frames).map_err(|why| format!("{why:?}"))?.ignore();
    }
    for page in [small.start_address(), huge.start_address() + 0x1234] {
        let address: Option<PhysAddr> = mapper.translate_addr(page);
        println!("{page:?} is at {address:?}");
    }
    let tables = FRAMES - zone.stats().free_frames - 1 - FrameId(512).0;
    println!("{tables} frames for page tables, {} huge frames left", zone.stats().free_huge);
    Ok(())
}
