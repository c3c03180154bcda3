//! An allocator that is made where it stays, and is looked at by addresses: as a crash dump is.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use woodlot_kmem::{
    Cookie, Descriptor, Direct, Kind, Kmem, List, Octaves, Pages, Place, Quarters, SizeStats, Sizes,
};

use crate::LLFree;
use crate::cpus::{Caches, caches, run_on};
use crate::memory::Memory;

type Small<'a> = Kmem<Caches<2>, Direct<'a, LLFree>, Octaves>;

/// The counters of each size by their places are those that the allocator says.
fn agree(kmem: &Small, size: usize) -> SizeStats {
    let word = |place: Place| {
        let at = (&raw const *kmem).wrapping_byte_add(place.offset + size * place.stride);
        // SAFETY: the place is a word of the allocator, which nobody changes meanwhile.
        unsafe { at.cast::<u64>().read() }
    };
    let (places, told) = (Small::PLACES, kmem.stats(size).expect("a size"));
    assert_eq!(word(places.takes), told.global.takes);
    assert_eq!(word(places.take_misses), told.global.take_misses);
    assert_eq!(word(places.puts), told.global.puts);
    assert_eq!(word(places.put_misses), told.global.put_misses);
    let bucket = List::from_word(word(places.bucket)).len();
    assert_eq!(word(places.lists) as usize * told.target + bucket, told.global_blocks);
    assert_eq!(word(places.splits), told.coalesce.splits);
    assert_eq!(word(places.coalesces), told.coalesce.coalesces);
    assert_eq!(word(places.free) as usize, told.coalesce.free);
    told
}

#[test]
fn counters_lie_at_their_places() {
    let memory = Memory::<LLFree>::new(512, 2);
    run_on(0);
    let mut place = Box::new(MaybeUninit::uninit());
    let kmem: &Small = Small::init(&mut place, caches::<2>(), memory.pages(), ());
    let at = |offset: usize| (&raw const *kmem).addr() + offset;
    assert_eq!(at(Small::PLACES.caches), (&raw const *kmem.caches()).addr());
    assert_eq!(at(Small::PLACES.pages), (&raw const *kmem.pages()).addr());
    let check = || (0..Octaves::COUNT).map(|size| agree(kmem, size)).collect::<Vec<_>>();
    assert!(check().iter().all(|size| size.global.takes == 0 && size.pages == 0));
    let blocks: Vec<(NonNull<u8>, usize)> = (0..600)
        .map(|at| 1 << (4 + at % 6))
        .map(|bytes| (kmem.alloc(bytes).expect("memory"), bytes))
        .collect();
    assert!(check().iter().any(|size| size.global.take_misses > 0 && size.coalesce.free > 0));
    for (block, bytes) in blocks {
        // SAFETY: it was allocated with this size, and nobody uses it.
        unsafe { kmem.free(block, bytes) };
    }
    kmem.flush_cpu(0);
    assert!(check().iter().any(|size| size.global.puts > 0 && size.global_blocks > 0));
    kmem.flush();
    assert!(check().iter().all(|size| size.pages == 0));
    assert!(memory.is_whole());
}

#[test]
fn cookies_are_numbers_and_descriptors_are_words() {
    for number in 0..Quarters::COUNT {
        let cookie = Cookie::<Quarters>::of_number(number).expect("a size");
        assert_eq!((cookie.number(), cookie.bytes()), (number, Quarters::TABLE.size(number).bytes));
        let again = Cookie::<Quarters>::new(cookie.bytes()).expect("a size");
        assert_eq!(again.number(), number);
    }
    for none in [Quarters::COUNT, 255, 256, usize::MAX] {
        assert!(Cookie::<Quarters>::of_number(none).is_none());
    }
    let memory = Memory::<LLFree>::new(512, 2);
    run_on(0);
    let kmem: Small = Kmem::new(caches::<2>(), memory.pages(), ());
    let span = kmem.alloc(5 * 4096).expect("memory");
    let page = kmem.pages().find(span.as_ptr()).expect("a page").0;
    let words = (&raw const *kmem.pages().descriptor(page)).cast::<[u64; 2]>();
    // SAFETY: nobody changes it meanwhile.
    let copy = Descriptor::of_words(unsafe { words.read() });
    assert_eq!(copy.kind(), Kind::Span(5));
    // SAFETY: it was allocated with this size, and nobody uses it.
    unsafe { kmem.free(span, 5 * 4096) };
}
