//! A heap, as the loops see one.

/// Blocks of memory by size. Each heap's loops are compiled for it, so that nothing stands between a loop and the heap.
///
/// # Safety
/// What `alloc` returns is null, or as many bytes, aligned to 16 and nobody else's until they are freed.
pub unsafe trait Heap: Sync + 'static {
    /// What it is called on the command line.
    const NAME: &'static str;
    /// What it is, in a line.
    const ABOUT: &'static str;

    /// Allocates so many bytes, at least one. Null: there is no memory.
    fn alloc(&self, bytes: usize) -> *mut u8;

    /// The same, all zero.
    fn alloc_zeroed(&self, bytes: usize) -> *mut u8 {
        let block = self.alloc(bytes);
        if !block.is_null() {
            // SAFETY: the block has so many bytes.
            unsafe { block.write_bytes(0, bytes) };
        }
        block
    }

    /// Frees a block.
    ///
    /// # Safety
    /// The block was allocated here for so many bytes, and the caller uses it no more.
    unsafe fn free(&self, block: *mut u8, bytes: usize);

    /// From now on this thread is the CPU with this number; no two threads are the same at a time.
    fn enter(&self, cpu: usize) {
        let _ = cpu;
    }

    /// What a clock around the heap has it do, if one has ticked: called between calls, so often that no tick is missed for long.
    fn tick(&self) {}

    /// Gives back what it keeps, as far as its interface has a call for that.
    fn flush(&self) {}

    /// Bytes that it has taken from below; `None` where only the system knows.
    fn taken(&self) -> Option<usize> {
        None
    }
}

/// Calls between which nobody looks at the clock.
pub(super) const SLICE: usize = 1024;

/// So many calls, between which the clock of the heap's surroundings ticks; fewer, if `work` can make no more.
pub(super) fn ticking<H: Heap>(
    heap: &H,
    calls: usize,
    mut work: impl FnMut(usize) -> usize,
) -> usize {
    let mut done = 0;
    while done < calls {
        let slice = SLICE.min(calls - done);
        let made = work(slice);
        heap.tick();
        done += made;
        if made < slice {
            break;
        }
    }
    done
}

/// The size that a loop asks for, which the compiler knows or does not.
pub trait Bytes: Copy + Send + Sync {
    /// How many.
    fn get(self) -> usize;
}

/// A size that is known when the program is compiled: the paper's cookie.
#[derive(Clone, Copy)]
pub struct Known<const BYTES: usize>;

impl<const BYTES: usize> Bytes for Known<BYTES> {
    #[inline(always)]
    fn get(self) -> usize {
        BYTES
    }
}

/// A size that is known at run time: the paper's standard interface.
impl Bytes for usize {
    #[inline(always)]
    fn get(self) -> usize {
        crate::clock::opaque(self)
    }
}
