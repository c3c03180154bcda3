//! Layers of the kernel memory allocator with a defect: that the judge of its calls bites.
//!
//! ```text
//!   Kmem      Wrong<caches>     blocks and lists are lost, or there twice
//!             Wrong<pages>      pages are lost, or misaligned
//!             WrongSizes        blocks are too small
//!             Wrong<hooks>      wrong frees are not told of; marks of two pages are mixed up
//! ```

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::OnceLock;

use woodlot_kmem::{
    Descriptor, Hooks, List, Marks, Misuse, NoPages, PAGE, PageId, Pages, PerCpu, SizeId, Sizes,
    Table, Which,
};

use super::{Layers, judged};
use crate::bytes::Bytes;

/// What may be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defect {
    /// A list that a CPU puts into its cache is lost.
    ListLost,
    /// The flush of a CPU loses its second list.
    FlushLosesAux,
    /// A block that a cache hands out stays there.
    BlockTwice,
    /// Of a span that is freed, the last page is lost.
    LastPageLost,
    /// A span is aligned to a page, whatever is asked for.
    SpanMisaligned,
    /// The size for so many bytes is that for one less.
    OneByteShort,
    /// The size for an alignment is that without.
    BlockMisaligned,
    /// A double free is not told of.
    DoubleFreeUntold,
    /// A free with another size is not told of.
    WrongSizeUntold,
    /// Two neighbouring pages have the same marks.
    MarksShared,
}

const ALL: [Defect; 10] = [
    Defect::ListLost,
    Defect::FlushLosesAux,
    Defect::BlockTwice,
    Defect::LastPageLost,
    Defect::SpanMisaligned,
    Defect::OneByteShort,
    Defect::BlockMisaligned,
    Defect::DoubleFreeUntold,
    Defect::WrongSizeUntold,
    Defect::MarksShared,
];

/// The one that is there.
static SEEDED: OnceLock<Defect> = OnceLock::new();

/// Seeds the defect of this name from now on.
pub fn switch_on(name: &str) {
    let defect = ALL.iter().find(|defect| format!("{defect:?}") == name);
    let defect = defect.unwrap_or_else(|| panic!("WOODLOT_DEFECT is {name}"));
    SEEDED.get_or_init(|| *defect);
}

fn is_on(defect: Defect) -> bool {
    SEEDED.get() == Some(&defect)
}

/// As [`kmem`](super::kmem), of an allocator with the defect.
pub fn wrong(data: &[u8]) {
    judged::<WrongLayers>(Bytes::new(data));
}

struct WrongLayers;

impl Layers for WrongLayers {
    type Caches<C: PerCpu> = Wrong<C>;
    type Pages<P: Pages> = Wrong<P>;
    type Sizes<S: Sizes> = WrongSizes<S>;
    type Hooks<H: Hooks> = Wrong<H>;

    fn caches<C: PerCpu>(caches: C) -> Wrong<C> {
        Wrong(caches)
    }

    fn pages<P: Pages>(pages: P) -> Wrong<P> {
        Wrong(pages)
    }

    fn hooks<H: Hooks>(hooks: H) -> Wrong<H> {
        Wrong(hooks)
    }
}

/// A layer, and what is wrong with it.
struct Wrong<T>(T);

// SAFETY: as those inside, until a defect is seeded; then it is up to the judge to see it.
unsafe impl<C: PerCpu> PerCpu for Wrong<C> {
    type Guard<'a>
        = C::Guard<'a>
    where
        Self: 'a;

    fn pop(&self, size: SizeId) -> Option<NonNull<u8>> {
        let block = self.0.pop(size)?;
        if is_on(Defect::BlockTwice) {
            // SAFETY: it has just been there, so there is room.
            unsafe { self.0.push(size, block, usize::MAX) };
        }
        Some(block)
    }

    unsafe fn push(&self, size: SizeId, block: NonNull<u8>, target: usize) -> bool {
        // SAFETY: as the caller says.
        unsafe { self.0.push(size, block, target) }
    }

    unsafe fn exchange(&self, which: Which, size: SizeId, list: List) -> List {
        // SAFETY: as the caller says.
        unsafe { self.0.exchange(which, size, list) }
    }

    unsafe fn put(&self, which: Which, size: SizeId, list: List) -> Result<(), List> {
        let list = if is_on(Defect::ListLost) { List::EMPTY } else { list };
        // SAFETY: as the caller says.
        unsafe { self.0.put(which, size, list) }
    }

    fn guard(&self) -> Self::Guard<'_> {
        self.0.guard()
    }

    fn current(&self) -> usize {
        self.0.current()
    }

    fn cpus(&self) -> usize {
        self.0.cpus()
    }

    fn steal(&self, cpu: usize, size: SizeId) -> Option<[List; 2]> {
        let [main, aux] = self.0.steal(cpu, size)?;
        Some([main, if is_on(Defect::FlushLosesAux) { List::EMPTY } else { aux }])
    }
}

// SAFETY: as above.
unsafe impl<P: Pages> Pages for Wrong<P> {
    fn alloc(&self, count: usize, align: usize, cpu: usize) -> Result<PageId, NoPages> {
        self.0.alloc(count, if is_on(Defect::SpanMisaligned) { PAGE } else { align }, cpu)
    }

    unsafe fn free(&self, first: PageId, count: usize, cpu: usize) {
        let is_lost = is_on(Defect::LastPageLost) && count > 1;
        // SAFETY: as the caller says.
        unsafe { self.0.free(first, count - usize::from(is_lost), cpu) };
    }

    fn address(&self, page: PageId) -> NonNull<u8> {
        self.0.address(page)
    }

    fn find(&self, address: *mut u8) -> Option<(PageId, usize)> {
        self.0.find(address)
    }

    fn descriptor(&self, page: PageId) -> &Descriptor {
        self.0.descriptor(page)
    }
}

impl<H: Hooks> Hooks for Wrong<H> {
    const CHECKED: bool = H::CHECKED;

    fn marks(&self, page: PageId) -> Option<&Marks> {
        self.0.marks(if is_on(Defect::MarksShared) { PageId(page.0 & !1) } else { page })
    }

    fn misuse(&self, misuse: Misuse) {
        let is_untold = match misuse {
            Misuse::DoubleFree(_) => is_on(Defect::DoubleFreeUntold),
            Misuse::WrongSize(_) => is_on(Defect::WrongSizeUntold),
            _ => false,
        };
        if !is_untold {
            self.0.misuse(misuse);
        }
    }
}

/// The sizes of a set, some of which are for too much.
#[derive(Clone, Copy)]
struct WrongSizes<S>(PhantomData<S>);

impl<S: Sizes> Sizes for WrongSizes<S> {
    const TABLE: &'static Table = S::TABLE;

    fn of(bytes: usize) -> Option<SizeId> {
        S::of(bytes.saturating_sub(usize::from(is_on(Defect::OneByteShort))))
    }

    fn aligned(bytes: usize, align: usize) -> Option<SizeId> {
        if is_on(Defect::BlockMisaligned) { S::of(bytes) } else { S::aligned(bytes, align) }
    }
}
