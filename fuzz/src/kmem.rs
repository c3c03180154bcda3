//! Calls of the kernel memory allocator, right and wrong, judged one by one by a list of what is in use.

mod wrong;

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Mutex;

use woodlot_frame::{Base4K, FrameAllocator, Init, Owned, ZoneConfig};
use woodlot_kmem::{
    Checked, Cookie, Cpus, Descriptor, Direct, Guarded, Hooks, Kind, Kmem, Marks, Misuse, Octaves,
    PAGE, Pages, PerCpu, Quarters, Sizes, Wide,
};
use woodlot_llfree::LLFree;
pub use wrong::{switch_on, wrong};

use crate::bytes::Bytes;

/// Frames of the zone: so few that memory runs out.
const FRAMES: usize = 512;
/// CPUs that have caches. There is one more, which has none.
const CPUS: usize = 2;
/// What is filled at the begin of a block, and at its end.
const EDGE: usize = 16;

thread_local! {
    static CPU: Cell<usize> = const { Cell::new(0) };
}

/// One thread, which goes from CPU to CPU between two calls.
struct OneThread;

// SAFETY: nothing interrupts the thread.
unsafe impl Cpus for OneThread {
    type State = ();

    fn enter(&self) -> (usize, ()) {
        (CPU.get(), ())
    }

    fn leave(&self, (): ()) {}

    fn call(&self, cpu: usize, call: &mut (dyn FnMut() + Send)) -> bool {
        let here = CPU.replace(cpu);
        call();
        CPU.set(here);
        true
    }
}

/// What was told since somebody looked.
#[derive(Default)]
struct Told(Mutex<Vec<Misuse>>);

impl Hooks for &Told {
    fn misuse(&self, misuse: Misuse) {
        self.0.lock().expect("nobody has panicked").push(misuse);
    }
}

/// What is put around the layers that an allocator is made of.
trait Layers {
    type Caches<C: PerCpu>: PerCpu;
    type Pages<P: Pages>: Pages;
    type Sizes<S: Sizes>: Sizes;
    type Hooks<H: Hooks>: Hooks;

    fn caches<C: PerCpu>(caches: C) -> Self::Caches<C>;
    fn pages<P: Pages>(pages: P) -> Self::Pages<P>;
    fn hooks<H: Hooks>(hooks: H) -> Self::Hooks<H>;
}

/// Nothing.
struct Plain;

impl Layers for Plain {
    type Caches<C: PerCpu> = C;
    type Pages<P: Pages> = P;
    type Sizes<S: Sizes> = S;
    type Hooks<H: Hooks> = H;

    fn caches<C: PerCpu>(caches: C) -> C {
        caches
    }

    fn pages<P: Pages>(pages: P) -> P {
        pages
    }

    fn hooks<H: Hooks>(hooks: H) -> H {
        hooks
    }
}

/// Memory of frames.
struct Memory(NonNull<u8>);

const LAYOUT: Layout = match Layout::from_size_align(FRAMES * PAGE, PAGE) {
    Ok(layout) => layout,
    Err(_) => panic!("a size"),
};

impl Memory {
    fn new() -> Memory {
        // SAFETY: the layout is not empty.
        Memory(NonNull::new(unsafe { alloc_zeroed(LAYOUT) }).expect("memory"))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.0.as_ptr(), LAYOUT) };
    }
}

/// The first byte chooses the sizes, the others the calls.
pub fn kmem(data: &[u8]) {
    judged::<Plain>(Bytes::new(data));
}

fn judged<L: Layers>(mut bytes: Bytes) {
    match bytes.byte() % 3 {
        0 => history::<L, Octaves>(bytes),
        1 => history::<L, Quarters>(bytes),
        _ => history::<L, Wide>(bytes),
    }
}

fn history<L: Layers, S: Sizes>(mut bytes: Bytes) {
    CPU.set(0);
    let memory = Memory::new();
    let zone = Owned::new(&ZoneConfig::new(FRAMES, CPUS), Init::Free).expect("a zone");
    let zone: &LLFree<'static, Base4K> = &zone;
    let descriptors: Vec<_> = (0..FRAMES).map(|_| Descriptor::default()).collect();
    let marks: Vec<_> = (0..FRAMES).map(|_| Marks::default()).collect();
    let told = Told::default();
    // SAFETY: the memory has as many frames as the zone, which nobody else uses.
    let pages = unsafe { Direct::new(zone, memory.0, &descriptors) }.expect("enough of them");
    let caches = L::caches(Guarded::<_, CPUS>::new(OneThread));
    let hooks = L::hooks(Checked::new(&told, &marks));
    let checked = Kmem::<_, _, L::Sizes<S>, _>::new(caches, L::pages(pages), hooks);
    let used = BTreeMap::new();
    let mut history = History { checked, sizes: PhantomData::<S>, told: &told, used, next: 0 };
    while !bytes.is_empty() {
        history.call(&mut bytes);
    }
    history.finish();
    assert_eq!(zone.stats().free_frames, FRAMES, "frames are lost");
    assert!(descriptors.iter().all(|page| page.kind() == Kind::None), "a page is known");
}

/// A block in use.
#[derive(Clone, Copy)]
struct Block {
    bytes: usize,
    align: usize,
    usable: usize,
    fill: u8,
}

struct History<'a, S, K> {
    checked: K,
    /// Those that blocks should have.
    sizes: PhantomData<S>,
    told: &'a Told,
    /// By address.
    used: BTreeMap<usize, Block>,
    next: u8,
}

fn pointer(at: usize) -> NonNull<u8> {
    NonNull::new(ptr::with_exposed_provenance_mut(at)).expect("not null")
}

impl<S: Sizes, T: Sizes, C: PerCpu, P: Pages, H: Hooks> History<'_, S, Kmem<C, P, T, H>> {
    fn call(&mut self, bytes: &mut Bytes) {
        match bytes.byte() % 16 {
            0..6 => self.alloc(bytes),
            6..10 => self.free(bytes),
            10 => CPU.set(bytes.below(CPUS + 1)),
            11 => assert!(self.checked.flush_cpu(bytes.below(CPUS))),
            12 => self.checked.flush(),
            13 => (0..bytes.below(100)).for_each(|_| self.alloc_bytes(16, 1)),
            _ => self.wrong(bytes),
        }
        let told = self.told.0.lock().expect("nobody has panicked").len();
        assert_eq!(told, 0, "a right call was told of");
    }

    fn alloc(&mut self, bytes: &mut Bytes) {
        let size = match bytes.byte() {
            small @ ..200 => usize::from(small) * 24,
            _ => bytes.short() * 16,
        };
        let byte = bytes.byte();
        let align = if byte < 192 { 1 } else { 1 << bytes.below(15) };
        // One less, or one more: where one size ends, the next one begins.
        let size = (size + usize::from(byte % 3)).saturating_sub(1);
        self.alloc_bytes(size, align);
    }

    fn alloc_bytes(&mut self, bytes: usize, align: usize) {
        let block = match Cookie::new(bytes) {
            _ if align > 1 => self.checked.alloc_aligned(bytes, align),
            Some(cookie) if self.next.is_multiple_of(2) => self.checked.alloc_cookie(cookie),
            _ => self.checked.alloc(bytes),
        };
        let Some(block) = block else { return };
        let at = block.as_ptr().expose_provenance();
        let usable = self.checked.usable(block).expect("it is in use");
        let fits = usable >= bytes && usable >= EDGE && at.is_multiple_of(align.max(EDGE));
        assert!(fits, "a block is not what was asked for");
        let before = self.used.range(..at + usable).next_back();
        assert!(
            before.is_none_or(|(&other, block)| other + block.usable <= at),
            "two blocks share bytes"
        );
        self.next = self.next.wrapping_add(1);
        for part in [block, pointer(at + usable - EDGE)] {
            // SAFETY: the block was just allocated.
            unsafe { part.write_bytes(self.next, EDGE) };
        }
        self.used.insert(at, Block { bytes, align, usable, fill: self.next });
    }

    /// Any one that is in use.
    fn any(&self, bytes: &mut Bytes) -> Option<(usize, Block)> {
        let number = bytes.below(self.used.len());
        self.used.iter().nth(number).map(|(&at, &block)| (at, block))
    }

    fn free(&mut self, bytes: &mut Bytes) {
        if let Some((at, block)) = self.any(bytes) {
            self.free_block(at, block, bytes.byte());
        }
    }

    fn free_block(&mut self, at: usize, block: Block, how: u8) {
        self.used.remove(&at);
        for part in [at, at + block.usable - EDGE] {
            // SAFETY: the block is in use.
            let is = unsafe { pointer(part).cast::<[u8; EDGE]>().read() };
            assert_eq!(is, [block.fill; EDGE], "a block was written to");
        }
        // SAFETY: it was allocated so, and nobody uses it any more.
        unsafe {
            match Cookie::new(block.bytes) {
                _ if how.is_multiple_of(3) => self.checked.free_any(pointer(at)),
                _ if block.align > 1 => {
                    self.checked.free_aligned(pointer(at), block.bytes, block.align);
                }
                Some(cookie) if how % 3 == 1 => self.checked.free_cookie(cookie, pointer(at)),
                _ => self.checked.free(pointer(at), block.bytes),
            }
        }
    }

    /// A free of what is no block in use, or with a wrong size: it is told of, and nothing else happens.
    fn wrong(&mut self, bytes: &mut Bytes) {
        let Some((at, block)) = self.any(bytes) else { return };
        let other = bytes.short() * 8;
        // SAFETY: nothing is freed by it.
        unsafe {
            if bytes.byte().is_multiple_of(2) {
                let at = at.wrapping_add(other);
                if self.used.contains_key(&at) {
                    return;
                }
                self.checked.free_any(pointer(at));
            } else {
                let is_right = match S::of(other) {
                    Some(id) => block.usable == S::size(id).bytes && !self.is_span(block),
                    None => self.is_span(block) && other.div_ceil(PAGE) * PAGE == block.usable,
                };
                if is_right {
                    return;
                }
                self.checked.free(pointer(at), other);
            }
        }
        let told = std::mem::take(&mut *self.told.0.lock().expect("as above"));
        assert_eq!(told.len(), 1, "a wrong call was not told of: {told:?}");
    }

    fn is_span(&self, block: Block) -> bool {
        block.bytes > S::MOST || block.align > PAGE
    }

    /// Everything comes back.
    fn finish(&mut self) {
        while let Some((&at, &block)) = self.used.first_key_value() {
            self.free_block(at, block, self.next);
        }
        self.checked.flush();
        for size in (0..S::COUNT).filter_map(|size| self.checked.stats(size)) {
            let kept = (size.global_blocks, size.coalesce.free, size.pages);
            assert_eq!(kept, (0, 0, 0), "blocks of {} bytes are lost", size.bytes);
        }
    }
}
