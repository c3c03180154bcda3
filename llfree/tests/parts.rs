//! A zone made of words instead of raw memory.

use woodlot_frame::atomics::{AtomicU32, AtomicU64};
use woodlot_frame::{
    Base4K, FrameAllocator, Geometry, Init, InitError, Order, Region, Request, Slot, ZoneConfig,
};
use woodlot_llfree::{LLFree, Line, Parts, TreeStates, Tuning};

/// A tree and a half: every part has several words, and they differ in number.
const ZONE: ZoneConfig = ZoneConfig::new(3 * Base4K::TREE_FRAMES / 2, 2);

/// Makes a zone of as many words as `lengths` says.
fn with_zone<T>(
    lengths: [usize; 8],
    use_it: impl FnOnce(Result<LLFree<'_, Base4K>, InitError>) -> T,
) -> T {
    let [rows, states, totals, slots, masks, leaves, trees, children] = lengths;
    let word = || AtomicU64::new(0x5a);
    let words = |length: usize| (0..length).map(|_| word()).collect::<Vec<_>>();
    let parts = Parts {
        rows: &words(rows),
        states: &(0..states).map(|_| Line([word(), word(), word(), word()])).collect::<Vec<_>>(),
        totals: &words(totals),
        slots: &words(slots),
        masks: &words(masks),
        leaves: &words(leaves),
        trees: &(0..trees).map(|_| Line(word())).collect::<Vec<_>>(),
        children: &(0..children).map(|_| AtomicU32::new(0x5a)).collect::<Vec<_>>(),
    };
    use_it(LLFree::from_parts(&ZONE, Tuning::default(), parts, Init::Free))
}

#[test]
fn a_zone_of_words() {
    let lengths = Parts::lengths::<Base4K>(&ZONE).expect("a zone");
    with_zone(lengths, |zone| {
        let zone = zone.expect("the words are enough");
        let huge = Request::movable(Order(Base4K::HUGE_ORDER as u8), Slot(1));
        let count = std::iter::from_fn(|| zone.alloc(huge).ok()).count();
        assert_eq!((count, zone.free_frames()), (3 * Base4K::TREE_HUGE / 2, 0));
    });
}

#[test]
fn a_part_that_is_too_short() {
    let lengths = Parts::lengths::<Base4K>(&ZONE).expect("a zone");
    let word = size_of::<AtomicU64>();
    let line = size_of::<Line<AtomicU64>>();
    let (states, child) = (size_of::<TreeStates>(), size_of::<AtomicU32>());
    let sizes = [word, states, word, word, word, word, line, child];
    for (part, bytes) in sizes.into_iter().enumerate() {
        let mut short = lengths;
        short[part] -= 1;
        let region = if part < 2 { Region::Durable } else { Region::Volatile };
        let (needed, given) = (lengths[part] * bytes, short[part] * bytes);
        let expected = InitError::Short { region, needed, given };
        assert_eq!(with_zone(short, |zone| zone.err()), Some(expected), "part {part}");
    }
}
