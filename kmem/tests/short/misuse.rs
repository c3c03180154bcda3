//! Wrong frees: all are found by a checked allocator, at the call; those that page descriptors show by any. Nothing else
//! changes.

use std::ptr::{self, NonNull};
use std::sync::Mutex;

use woodlot_frame::{Construct, FrameAllocator};
use woodlot_kmem::{
    Checked, Cookie, Direct, Hooks, Kmem, Marks, Misuse, Octaves, PAGE, Quarters, Sizes, Wide,
};

use crate::cpus::{Caches, caches, run_on, wander};
use crate::memory::Memory;
use crate::model::{Block, How, Model};
use crate::{LLFree, Nbbs, calls};

/// What was told.
#[derive(Default)]
struct Told(Mutex<Vec<Misuse>>);

impl Hooks for Told {
    fn misuse(&self, misuse: Misuse) {
        self.0.lock().expect("not poisoned").push(misuse);
    }
}

impl Told {
    fn take(&self) -> Vec<Misuse> {
        std::mem::take(&mut *self.0.lock().expect("not poisoned"))
    }
}

type Plain<'a, Z, S> = Kmem<Caches<2>, Direct<'a, Z>, S, Told>;
type Judged<'a, Z, S> = Kmem<Caches<2>, Direct<'a, Z>, S, Checked<'a, Told>>;

fn plain<Z: Construct + FrameAllocator, S: Sizes>(memory: &Memory<Z>) -> Plain<'_, Z, S> {
    Kmem::new(caches::<2>(), memory.pages(), Told::default())
}

fn judged<'a, Z: Construct + FrameAllocator, S: Sizes>(
    memory: &'a Memory<Z>,
    marks: &'a [Marks],
) -> Judged<'a, Z, S> {
    Kmem::new(caches::<2>(), memory.pages(), Checked::new(Told::default(), marks))
}

fn pointer(at: usize) -> NonNull<u8> {
    NonNull::new(ptr::with_exposed_provenance_mut(at)).expect("not null")
}

fn alloc<Z: FrameAllocator, S: Sizes>(
    checked: &Judged<'_, Z, S>,
    random: &mut fastrand::Rng,
) -> Block {
    let most = 1 << random.u32(..14);
    let (bytes, align) = (random.usize(most / 2..=most), 1 << random.u32(..14));
    let (block, how) = match random.u8(..3) {
        0 if bytes <= S::MOST => {
            (checked.alloc_cookie(Cookie::new(bytes).expect("it is small")), How::Cookie)
        }
        1 => (checked.alloc_aligned(bytes, align), How::Aligned(align)),
        _ => (checked.alloc(bytes), How::Size),
    };
    let block = block.expect("there is memory");
    let usable = checked.usable(block).expect("it is in use");
    Block::new::<S>(block, (bytes, how), usable, random.u8(..))
}

fn free<Z: FrameAllocator, S: Sizes>(
    checked: &Judged<'_, Z, S>,
    random: &mut fastrand::Rng,
    block: Block,
) {
    block.check();
    let (at, bytes) = (block.pointer(), block.bytes);
    // SAFETY: the model has given it up.
    unsafe {
        match block.how {
            _ if random.bool() => checked.free_any(at),
            How::Size => checked.free(at, bytes),
            How::Cookie => checked.free_cookie(Cookie::new(bytes).expect("it is small"), at),
            How::Aligned(align) => checked.free_aligned(at, bytes, align),
        }
    }
}

/// A wrong free of a random kind, and what must be told of it.
fn wrong<Z: FrameAllocator, S: Sizes>(
    checked: &Judged<'_, Z, S>,
    model: &Model,
    gone: &[usize],
    random: &mut fastrand::Rng,
) {
    let Some(block) = model.any(random) else { return };
    let (at, right): (usize, fn(&Misuse) -> bool) = match random.u8(..4) {
        0 => {
            let Some(&at) = gone.get(random.usize(..=gone.len())) else { return };
            // Its page may have become something else since.
            (at, |_| true)
        }
        1 => {
            // Behind the first page of a span nothing is known.
            let inside = random.usize(1..block.bytes.max(2));
            match block.is_span && inside >= PAGE {
                true => (block.at + inside, |told| matches!(told, Misuse::Foreign(_))),
                false => (block.at + inside, |told| matches!(told, Misuse::Interior(_))),
            }
        }
        2 => {
            let before = checked.pages().zone().zone().frames * PAGE;
            let far = random.usize(1..1 << 20) + if random.bool() { 0 } else { before };
            (block.at.wrapping_add(far) ^ 1 << 45, |told| matches!(told, Misuse::Foreign(_)))
        }
        _ => {
            let bytes = random.usize(..4 * PAGE);
            let fits = match S::of(bytes) {
                Some(id) => !block.is_span && S::size(id).bytes == usable(checked, block),
                None => block.is_span && bytes.div_ceil(PAGE) * PAGE == usable(checked, block),
            };
            if fits {
                return;
            }
            // SAFETY: nothing is freed by it.
            unsafe { checked.free(block.pointer(), bytes) };
            let told = checked.hooks().hooks().take();
            return assert_eq!(told, [Misuse::WrongSize(block.pointer().as_ptr())]);
        }
    };
    if model.has(at) {
        return;
    }
    // SAFETY: nothing is freed by it.
    unsafe {
        match random.u8(..3) {
            0 => checked.free(pointer(at), random.usize(..4 * PAGE)),
            1 => {
                checked.free_cookie(Cookie::new(random.usize(..PAGE)).expect("small"), pointer(at))
            }
            _ => checked.free_any(pointer(at)),
        }
    }
    let told = checked.hooks().hooks().take();
    assert!(told.len() == 1 && right(&told[0]), "{told:?} of {at:#x}, {block:?}");
}

fn usable<Z: FrameAllocator, S: Sizes>(checked: &Judged<'_, Z, S>, block: Block) -> usize {
    checked.usable(block.pointer()).expect("it is in use")
}

/// Right calls and wrong ones take turns: each wrong one is told of at once, and the model agrees all the time.
fn history<Z: Construct + FrameAllocator, S: Sizes>(seed: u64) {
    let memory = Memory::<Z>::new(2048, 2);
    let checked = judged::<Z, S>(&memory, &memory.marks);
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut model, mut gone) = (Model::default(), Vec::new());
    wander(2, seed);
    for call in 0..calls(2000) {
        match random.u8(..4) {
            0 => wrong(&checked, &model, &gone, &mut random),
            1 if model.len() > 100 => {
                let block = model.remove(&mut random).expect("there are many");
                free(&checked, &mut random, block);
                gone.push(block.at);
            }
            _ if model.len() < 200 => model.add(alloc(&checked, &mut random)),
            _ => checked.flush(),
        }
        assert_eq!(checked.hooks().hooks().take(), [], "a right call is no misuse");
        if call % 200 == 199 {
            model.judge(&checked, false);
        }
    }
    while let Some(block) = model.remove(&mut random) {
        free(&checked, &mut random, block);
    }
    checked.flush();
    model.judge(&checked, true);
    assert_eq!(checked.hooks().hooks().take(), []);
    assert!(memory.is_whole());
}

#[test]
fn a_checked_allocator_finds_all() {
    history::<LLFree, Octaves>(1);
    history::<LLFree, Quarters>(2);
    history::<Nbbs, Quarters>(3);
    history::<LLFree, Wide>(4);
}

/// What only looks at the CPU's cache looks at marks, too. What is wrong is left to the other way.
#[test]
fn caches_know_of_marks() {
    let memory = Memory::<LLFree>::new(512, 1);
    let checked = judged::<LLFree, Wide>(&memory, &memory.marks);
    run_on(0);
    for bytes in [64, PAGE, 5000] {
        let block = checked.alloc(bytes).expect("memory");
        // SAFETY: the block has so many bytes; what is wrong frees nothing, and the block is freed once.
        unsafe {
            assert!(!checked.free_cached(block.add(16)) && !checked.free_cached_sized(block, 16));
            assert!(checked.free_cached(block));
            assert!(!checked.free_cached(block) && !checked.free_cached_sized(block, bytes));
            checked.free_any(block);
        }
        let twice = Misuse::DoubleFree(block.as_ptr());
        assert_eq!(checked.hooks().hooks().take(), [twice]);
        assert_eq!((checked.usable(block), checked.alloc_cached(bytes)), (None, Some(block)));
        // SAFETY: it was allocated, and nobody uses it.
        assert!(unsafe { checked.free_cached_sized(block, bytes) });
    }
    checked.flush();
    assert_eq!(checked.hooks().hooks().take(), []);
    assert!(memory.is_whole());
}

/// Of two threads that free one block at the same time, one is told.
#[test]
fn two_free_one_block() {
    let memory = Memory::<LLFree>::new(512, 2);
    let checked = judged::<LLFree, Octaves>(&memory, &memory.marks);
    for _ in 0..calls(100) {
        run_on(0);
        let at = checked.alloc(64).expect("there is memory").as_ptr().expose_provenance();
        std::thread::scope(|scope| {
            for cpu in 0..2 {
                let checked = &checked;
                scope.spawn(move || {
                    run_on(cpu);
                    // SAFETY: nobody uses the block.
                    unsafe { checked.free_any(pointer(at)) };
                });
            }
        });
        assert_eq!(checked.hooks().hooks().take(), [Misuse::DoubleFree(pointer(at).as_ptr())]);
    }
    checked.flush();
    assert!(memory.is_whole());
}

/// There is no memory in pages without marks, and none is lost there.
#[test]
fn pages_without_marks() {
    let memory = Memory::<LLFree>::new(512, 2);
    let checked = judged::<LLFree, Octaves>(&memory, &memory.marks[..0]);
    run_on(0);
    assert_eq!((checked.alloc(64), checked.alloc(9000)), (None, None));
    checked.flush();
    assert!(memory.is_whole());
    assert_eq!(checked.hooks().hooks().take(), []);
}

/// What an allocator that is not checked finds at the call.
#[test]
fn descriptors_show_some_at_once() {
    let memory = Memory::<LLFree>::new(512, 1);
    let kmem = plain::<LLFree, Octaves>(&memory);
    run_on(0);
    let (small, span) = (kmem.alloc(64), kmem.alloc(3 * PAGE));
    let (small, span) = (small.expect("memory"), span.expect("memory"));
    let unused = (0..512).map(|frame| memory.frame(frame)).find(|&frame| {
        kmem.usable(frame).is_none()
            && kmem.pages().zone().is_free(
                woodlot_frame::FrameId((frame.addr().get() - memory.frame(0).addr().get()) / PAGE),
                woodlot_frame::Order::BASE,
            )
    });
    let unused = unused.expect("there are free pages");
    let mut outside = 0u64;
    let outside = NonNull::from(&mut outside).cast::<u8>();
    // SAFETY: the span has so many bytes, the block too.
    let (in_span, behind, in_small) = unsafe { (span.add(16), span.add(PAGE), small.add(16)) };
    // SAFETY: nothing is freed by it.
    unsafe {
        kmem.free_any(unused);
        kmem.free_any(outside);
        kmem.free_any(in_span);
        kmem.free_any(behind);
        kmem.free(span, 4 * PAGE);
        kmem.free(small, 2 * PAGE);
        kmem.free_aligned(small, 64, 2 * PAGE);
    }
    let [foreign, interior, size] = [Misuse::Foreign, Misuse::Interior, Misuse::WrongSize];
    let told = [
        foreign(unused.as_ptr()),
        foreign(outside.as_ptr()),
        interior(in_span.as_ptr()),
        foreign(behind.as_ptr()),
        size(span.as_ptr()),
        size(small.as_ptr()),
        size(small.as_ptr()),
    ];
    assert_eq!(kmem.hooks().take(), told);
    assert_eq!(kmem.usable(in_small), None, "no block begins there");
    // SAFETY: both were allocated, and nobody uses them.
    unsafe {
        kmem.free(span, 3 * PAGE);
        kmem.free(small, 64);
        kmem.free_any(span);
    }
    assert_eq!(kmem.hooks().take(), [foreign(span.as_ptr())], "its pages are gone");
    kmem.flush();
    assert!(memory.is_whole());
}

/// The same where nothing lies behind: of the block that ends the zone, whose last page has the last descriptor that there is.
#[test]
fn nothing_is_looked_at_behind_the_last_block() {
    let memory = Memory::<LLFree>::new(512, 1);
    let kmem = plain::<LLFree, Wide>(&memory);
    run_on(0);
    for bytes in [PAGE, 2 * PAGE, 8 * PAGE] {
        let blocks: Vec<_> = std::iter::from_fn(|| kmem.alloc(bytes)).collect();
        let last = *blocks.iter().max().expect("there is memory");
        assert_eq!(last.addr().get() + bytes, memory.frame(511).addr().get() + PAGE);
        for inside in (16..bytes).step_by(PAGE / 2) {
            // SAFETY: the block has so many bytes.
            let inside = unsafe { last.add(inside) };
            let interior = [Misuse::Interior(inside.as_ptr())];
            // SAFETY: nothing is freed by it.
            unsafe {
                assert!(!kmem.free_cached(inside) && !kmem.free_cached_sized(inside, bytes));
                assert_eq!(kmem.hooks().take(), [], "the other way tells");
                kmem.free(inside, bytes);
                assert_eq!(kmem.hooks().take(), interior);
                kmem.free_any(inside);
            }
            assert_eq!(kmem.hooks().take(), interior);
        }
        // SAFETY: they were allocated, and nobody uses them.
        blocks.into_iter().for_each(|block| unsafe { kmem.free(block, bytes) });
        kmem.flush();
        assert!(memory.is_whole());
    }
}

/// An address that is no block's, of a slab of any size, is found where the page's descriptor is looked at: before anything changes.
#[test]
fn what_begins_no_block_is_found_at_once() {
    let memory = Memory::<LLFree>::new(2048, 1);
    let kmem = plain::<LLFree, Wide>(&memory);
    run_on(0);
    for id in 0..Wide::COUNT {
        let cookie = Cookie::<Wide>::of_number(id).expect("there are so many");
        let bytes = cookie.bytes();
        let blocks: Vec<_> = (0..33).map(|_| kmem.alloc_cookie(cookie).expect("memory")).collect();
        for (at, block) in blocks.iter().enumerate() {
            let step = if at == 0 { 1 } else { bytes / 16 + 1 };
            for inside in (1..bytes).step_by(step) {
                // SAFETY: the block has so many bytes.
                let inside = unsafe { block.add(inside) };
                // SAFETY: nothing is freed by it.
                unsafe {
                    assert!(!kmem.free_cached(inside), "{bytes} {inside:?}");
                    assert_eq!(kmem.hooks().take(), [], "the other way tells");
                    assert!(kmem.free_if_here(inside));
                }
                assert_eq!(kmem.hooks().take(), [Misuse::Interior(inside.as_ptr())], "{bytes}");
                assert_eq!(kmem.usable(inside), None);
                assert_eq!(kmem.wrong(inside), Misuse::Interior(inside.as_ptr()));
            }
        }
        let slab = Wide::TABLE.size(id).pages() * PAGE;
        // Of a slab that is aligned, as all of the zone's are: what is left behind its last block.
        let start = blocks[0].addr().get() & !(slab - 1);
        let left = Wide::TABLE.size(id).blocks * bytes;
        for behind in (left..slab).map(|offset| pointer(start + offset)) {
            // SAFETY: nothing is freed by it.
            unsafe { kmem.free_any(behind) };
            assert_eq!(kmem.hooks().take(), [Misuse::Interior(behind.as_ptr())], "{bytes}");
        }
        // SAFETY: they were allocated, and nobody uses them.
        blocks.iter().for_each(|&block| unsafe { kmem.free_any(block) });
        kmem.flush();
        assert_eq!(kmem.hooks().take(), []);
        assert!(memory.is_whole(), "{bytes}");
    }
}

/// And what it finds when the block comes to its page.
#[test]
fn descriptors_show_some_at_the_page() {
    let memory = Memory::<LLFree>::new(512, 1);
    let kmem = plain::<LLFree, Quarters>(&memory);
    run_on(0);
    let cookie = |bytes| Cookie::<Quarters>::new(bytes).expect("it is small");
    let blocks: Vec<_> = (0..70).map(|_| kmem.alloc(640).expect("memory")).collect();
    let other = kmem.alloc(256).expect("memory");
    // Blocks are handed out upwards, and not all of the last slab's at once.
    let last = (0..512).map(|frame| memory.frame(frame)).rfind(|&at| kmem.usable(at) == Some(640));
    // SAFETY: it is in the slab.
    let never = unsafe { last.expect("there are some").add(5 * 640) };
    // SAFETY: the blocks are in use, and what lies in them is of no worth.
    let inside = unsafe { blocks[9].add(32) };
    // SAFETY: nobody uses the blocks.
    unsafe {
        kmem.free_cookie(cookie(640), other);
        kmem.free_cookie(cookie(640), inside);
        kmem.free_cookie(cookie(640), never);
    }
    kmem.flush();
    let told = kmem.hooks().take();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told.contains(&Misuse::DoubleFree(never.as_ptr())));
    assert!(told.contains(&Misuse::WrongSize(other.as_ptr())));
    assert!(told.contains(&Misuse::Interior(inside.as_ptr())));
    // SAFETY: each was allocated, and nothing was freed yet.
    unsafe {
        blocks.iter().for_each(|&block| kmem.free(block, 640));
        kmem.free(other, 256);
    }
    kmem.flush();
    assert_eq!(kmem.hooks().take(), []);
    assert!(memory.is_whole());
}

/// The descriptors of a block of a page or more show whether it is free.
#[test]
fn a_block_of_a_page_or_more_is_freed_once() {
    let memory = Memory::<LLFree>::new(512, 1);
    let kmem = plain::<LLFree, Wide>(&memory);
    run_on(0);
    for size in Wide::all().map(Wide::size).filter(|size| size.bytes >= PAGE) {
        let mut blocks: Vec<_> =
            (0..5).map(|_| kmem.alloc(size.bytes).expect("there is memory")).collect();
        for at in [3, 0, 4] {
            let block = blocks[at];
            assert_eq!(kmem.usable(block), Some(size.bytes));
            // SAFETY: it is freed once, and nobody uses it.
            unsafe {
                kmem.free(block, size.bytes);
                assert_eq!(kmem.usable(block), None, "{size:?} is free");
                assert_eq!(kmem.hooks().take(), []);
                kmem.free(block, size.bytes);
                kmem.free_any(block);
            }
            assert_eq!(kmem.hooks().take(), [Misuse::DoubleFree(block.as_ptr()); 2], "{size:?}");
        }
        // It can be had again, and freed again, once; and its neighbours were not touched by all this.
        for at in [4, 0, 3] {
            let again = kmem.alloc(size.bytes).expect("it is free");
            assert_eq!(again, blocks[at], "{size:?}: a list was destroyed");
            blocks[at] = again;
        }
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(blocks.len(), 5, "{size:?}");
        // SAFETY: they were allocated, and nobody uses them.
        blocks.iter().for_each(|&block| unsafe { kmem.free(block, size.bytes) });
        assert_eq!(kmem.hooks().take(), []);
    }
    kmem.flush();
    assert_eq!(kmem.hooks().take(), []);
    assert!(memory.is_whole());
}

/// A block that is a page is linked through its descriptor, which shows what it is at the call.
#[test]
fn a_page_is_looked_at_when_it_is_freed() {
    let memory = Memory::<LLFree>::new(512, 1);
    let kmem = plain::<LLFree, Quarters>(&memory);
    run_on(0);
    let [page, small, span] = [PAGE, 64, 3 * PAGE].map(|bytes| kmem.alloc(bytes).expect("memory"));
    let mut outside = 0u64;
    let outside = NonNull::from(&mut outside).cast::<u8>();
    // SAFETY: the block has so many bytes.
    let inside = unsafe { page.add(64) };
    // SAFETY: nothing is freed by it; the page is freed once.
    unsafe {
        for wrong in [outside, inside, small, span] {
            kmem.free(wrong, PAGE);
        }
        kmem.free_any(inside);
        kmem.free(page, PAGE);
        kmem.flush();
        kmem.free(page, PAGE);
    }
    let [foreign, interior, size] = [Misuse::Foreign, Misuse::Interior, Misuse::WrongSize];
    let told = [
        foreign(outside.as_ptr()),
        interior(inside.as_ptr()),
        size(small.as_ptr()),
        size(span.as_ptr()),
        interior(inside.as_ptr()),
        foreign(page.as_ptr()),
    ];
    assert_eq!(kmem.hooks().take(), told);
    // SAFETY: both were allocated, and nobody uses them.
    unsafe {
        kmem.free(small, 64);
        kmem.free(span, 3 * PAGE);
    }
    kmem.flush();
    assert_eq!(kmem.hooks().take(), []);
    assert!(memory.is_whole());
}

/// A block of nobody's comes to a list by its cookie, and is found out when there is no page for it.
#[test]
fn what_has_no_page_is_named_when_it_should_come_to_one() {
    let memory = Memory::<LLFree>::new(512, 1);
    let kmem = plain::<LLFree, Quarters>(&memory);
    run_on(0);
    let block = kmem.alloc(64).expect("memory");
    let mut outside = [0u64; 8];
    let foreign = NonNull::from(&mut outside).cast::<u8>();
    let cookie = Cookie::<Quarters>::new(64).expect("it is small");
    // SAFETY: both have 64 bytes, which nobody uses.
    unsafe {
        kmem.free_cookie(cookie, foreign);
        kmem.free_cookie(cookie, block);
    }
    assert_eq!(kmem.hooks().take(), [], "no descriptor was looked at");
    kmem.flush();
    assert_eq!(kmem.hooks().take(), [Misuse::Foreign(foreign.as_ptr())]);
    assert!(memory.is_whole(), "the block behind it in the list is lost");
}

/// Requests that no memory could serve are refused before any is asked for.
#[test]
fn what_no_memory_could_serve_is_refused() {
    let memory = Memory::<LLFree>::new(512, 1);
    let kmem = plain::<LLFree, Quarters>(&memory);
    run_on(0);
    for bytes in [isize::MAX as usize + 1, usize::MAX] {
        assert_eq!((kmem.alloc(bytes), kmem.alloc_aligned(bytes, 16)), (None, None), "{bytes}");
    }
    assert_eq!(kmem.alloc_aligned(64, 3 * PAGE), None, "no power of two");
    assert!(memory.is_whole());
    let small = kmem.alloc(64).expect("memory");
    assert!(!kmem.is_zero(small), "what it holds is not known");
    // SAFETY: it was allocated, and nobody uses it.
    unsafe { kmem.free(small, 64) };
    kmem.flush();
    assert!(memory.is_whole());
}
