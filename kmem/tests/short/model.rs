//! What must be true of an allocator: a list of what is in use, with its contents.

use std::collections::BTreeMap;
use std::ptr::{self, NonNull};

use woodlot_kmem::{Cookie, Hooks, Kmem, PAGE, PerCpu, Sizes};

use crate::memory::InUse;

/// How a block was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    Size,
    Cookie,
    Aligned(usize),
}

/// A block in use.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub at: usize,
    pub bytes: usize,
    pub how: How,
    /// Bytes that may be written to, all of which are.
    usable: usize,
    /// Is it of pages, rather than one of a size?
    pub is_span: bool,
    fill: u8,
}

impl Block {
    /// Takes a block that was just allocated, and fills it.
    pub fn new<S: Sizes>(
        block: NonNull<u8>,
        (bytes, how): (usize, How),
        usable: usize,
        fill: u8,
    ) -> Block {
        assert!(usable >= bytes);
        let align = if let How::Aligned(align) = how { align } else { 16 };
        let at = block.as_ptr().expose_provenance();
        assert_eq!(at % align, 0, "{bytes} bytes");
        // SAFETY: the block was just allocated.
        unsafe { block.write_bytes(fill, usable) };
        let is_span = bytes > S::MOST || matches!(how, How::Aligned(align) if align > PAGE);
        Block { at, bytes, how, usable, is_span, fill }
    }

    pub fn pointer(&self) -> NonNull<u8> {
        NonNull::new(ptr::with_exposed_provenance_mut(self.at)).expect("not null")
    }

    /// Nobody else has written to it.
    pub fn check(&self) {
        // SAFETY: the block is in use.
        let bytes = unsafe { std::slice::from_raw_parts(self.pointer().as_ptr(), self.usable) };
        let right = [self.fill; PAGE];
        let is_right = bytes.chunks(PAGE).all(|part| part == &right[..part.len()]);
        assert!(is_right, "{:#x} was written to", self.at);
    }
}

/// Allocates something.
pub fn alloc<C: PerCpu, P: woodlot_kmem::Pages, S: Sizes, H: Hooks>(
    kmem: &Kmem<C, P, S, H>,
    random: &mut fastrand::Rng,
    largest: u32,
) -> Option<Block> {
    let most = 1 << random.u32(..=largest);
    let bytes = random.usize(most / 2..=most);
    let (block, how) = match random.u8(..3) {
        0 if bytes <= S::MOST => (kmem.alloc_cookie(Cookie::new(bytes)?), How::Cookie),
        1 => {
            let align = 1 << random.u32(..14);
            (kmem.alloc_aligned(bytes, align), How::Aligned(align))
        }
        _ => (kmem.alloc(bytes), How::Size),
    };
    let block = block?;
    let usable = kmem.usable(block).expect("it is in use");
    Some(Block::new::<S>(block, (bytes, how), usable, random.u8(..)))
}

/// Frees it again, in one of the ways there are.
pub fn free<C: PerCpu, P: woodlot_kmem::Pages, S: Sizes, H: Hooks>(
    kmem: &Kmem<C, P, S, H>,
    random: &mut fastrand::Rng,
    block: Block,
) {
    block.check();
    let (at, bytes) = (block.pointer(), block.bytes);
    // SAFETY: the block was allocated so, and nobody uses it any more.
    unsafe {
        match block.how {
            _ if random.u8(..3) == 0 => kmem.free_any(at),
            How::Size => kmem.free(at, bytes),
            How::Cookie => kmem.free_cookie(Cookie::new(bytes).expect("it is small"), at),
            How::Aligned(align) => kmem.free_aligned(at, bytes, align),
        }
    }
}

/// Blocks in use, by address.
#[derive(Default)]
pub struct Model(BTreeMap<usize, Block>);

impl Model {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn add(&mut self, block: Block) {
        let before = self.0.range(..block.at + block.usable).next_back();
        assert!(
            before.is_none_or(|(&at, other)| at + other.usable <= block.at),
            "{:#x} is in use already",
            block.at
        );
        self.0.insert(block.at, block);
    }

    /// Takes any one out.
    pub fn remove(&mut self, random: &mut fastrand::Rng) -> Option<Block> {
        let block = self.any(random)?;
        self.0.remove(&block.at)
    }

    /// Any one: the first behind a random one's middle.
    pub fn any(&self, random: &mut fastrand::Rng) -> Option<Block> {
        let (&first, _) = self.0.first_key_value()?;
        let (&last, block) = self.0.last_key_value()?;
        let found = self.0.range(random.usize(first..=last)..).next();
        Some(found.map_or(*block, |(_, block)| *block))
    }

    /// Does a block in use begin there?
    pub fn has(&self, at: usize) -> bool {
        self.0.contains_key(&at)
    }

    /// Judges every count of an allocator at rest; after a flush nothing may be on its way.
    pub fn judge<C: PerCpu, P: InUse, S: Sizes, H: Hooks>(
        &self,
        kmem: &Kmem<C, P, S, H>,
        is_flushed: bool,
    ) {
        let (spans, blocks): (Vec<&Block>, Vec<&Block>) =
            self.0.values().partition(|block| block.is_span);
        let mut pages: usize = spans.iter().map(|span| span.usable / PAGE).sum();
        for (number, size) in S::all().map(S::size).enumerate() {
            let stats = kmem.stats(number).expect("there is this size");
            let used = blocks.iter().filter(|block| block.usable == size.bytes).count();
            let (slabs, free) = (stats.coalesce.slabs(), stats.coalesce.free);
            assert_eq!((stats.bytes, stats.target), (size.bytes, size.target));
            assert_eq!(stats.pages, slabs * size.pages());
            let cached = (slabs * size.blocks).checked_sub(used + free + stats.global_blocks);
            let cached = cached.expect("each block is in one place");
            assert!(cached <= kmem.caches().cpus() * 2 * size.target, "a CPU keeps too much");
            assert!(
                stats.global_blocks < (2 * size.lists + 1) * size.target,
                "the global layer keeps too much"
            );
            if is_flushed {
                assert_eq!((cached, stats.global_blocks), (0, 0), "{} bytes", size.bytes);
                assert!(slabs <= used, "a slab of {} bytes without a used block", size.bytes);
            }
            pages += stats.pages;
        }
        assert_eq!(kmem.pages().in_use(), pages, "pages are lost");
    }
}
