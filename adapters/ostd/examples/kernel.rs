//! What a kernel on OSTD has: a type of its own that passes OSTD's calls on to the frames. The trait of
//! `woodlot-ostd` stands for OSTD's.

#![forbid(unsafe_code)]

use core::alloc::Layout;

use woodlot_ostd::{Config, Frames, GlobalFrameAllocator, Paddr, Storage};

const CONFIG: Config =
    Config { memory: 16 << 30, cpus: 4, cpu: || 0, refused: |why| eprintln!("refused: {why}") };
static STORAGE: Storage<{ CONFIG.lines() }> = Storage::new();
static FRAMES: Frames = Frames::new(CONFIG, &STORAGE);

struct Woodlot;

impl GlobalFrameAllocator for Woodlot {
    fn alloc(&self, layout: Layout) -> Option<Paddr> {
        FRAMES.alloc(layout)
    }

    fn dealloc(&self, addr: Paddr, size: usize) {
        FRAMES.dealloc(addr, size)
    }

    fn add_free_memory(&self, addr: Paddr, size: usize) {
        FRAMES.add_free_memory(addr, size)
    }
}

static ALLOCATOR: &dyn GlobalFrameAllocator = &Woodlot;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A memory map with a hole below 4 GiB, and a range that this kernel is not made for.
    for (start, end) in [(0x1000, 0x9f000), (1 << 20, 3 << 30), (4 << 30, 7 << 30)] {
        ALLOCATOR.add_free_memory(start, end - start);
    }
    ALLOCATOR.add_free_memory(15 << 30, 2 << 30);

    let frames = Layout::from_size_align(768 << 12, 1 << 16)?;
    let found = ALLOCATOR.alloc(frames).ok_or("no 3 MiB are free")?;
    println!("3 MiB at {found:#x}, {} MiB free", FRAMES.free_bytes() >> 20);
    ALLOCATOR.dealloc(found, frames.size());
    ALLOCATOR.dealloc(found, frames.size());
    Ok(())
}
