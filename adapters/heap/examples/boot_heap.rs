//! A program whose global allocator is the heap, over a piece of memory that stands for a kernel's frames.
//! Until the zone is made, and where the heap has no memory, requests go to the system.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;

use woodlot_frame::{Base4K, FrameAllocator, Init, Owned, ZoneConfig};
use woodlot_heap::Heap;
use woodlot_llfree::LLFree;

const FRAMES: usize = 4096;

#[derive(Clone, Copy)]
#[repr(align(4096))]
#[expect(dead_code, reason = "the heap reaches the bytes by their address")]
struct Frame([u8; 4096]);

static mut MEMORY: [Frame; FRAMES] = [Frame([0; 4096]); FRAMES];

/// The heap, and the system where the heap has nothing.
struct Both(Heap<'static, LLFree<'static, Base4K>>);

#[global_allocator]
static HEAP: Both = Both(Heap::new(|| 0));

// SAFETY: each pointer goes back to who handed it out, told by its address.
unsafe impl GlobalAlloc for Both {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        unsafe {
            let start = self.0.alloc(layout);
            if start.is_null() { System.alloc(layout) } else { start }
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let offset = pointer.addr().wrapping_sub((&raw const MEMORY).addr());
        // SAFETY: as the caller promises.
        unsafe {
            if offset < FRAMES << 12 {
                self.0.dealloc(pointer, layout);
            } else {
                System.dealloc(pointer, layout);
            }
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let zone = Owned::<LLFree<Base4K>>::new(&ZoneConfig::new(FRAMES, 1), Init::Free)?;
    let zone: &'static LLFree<'static, Base4K> = Box::leak(Box::new(zone));
    // SAFETY: frame 0 is the first of MEMORY, which has every frame of the zone and no other user.
    unsafe { HEAP.0.start(zone, (&raw mut MEMORY).cast()) }?;

    let squares: BTreeMap<u64, String> = (0..1000).map(|n| (n, (n * n).to_string())).collect();
    let used = FRAMES - zone.stats().free_frames;
    println!("{} squares in {used} frames", squares.len());
    drop(squares);
    println!("{} frames kept by the heap returned", HEAP.0.trim());
    Ok(())
}
