//! A look at a zone that others use.

mod memory;

use memory::Memory;
use woodlot_frame::{
    Base4K, Class, Construct, FrameAllocator, HugeId, Init, Order, Request, Slot, ZoneConfig,
};
use woodlot_llfree::{HugeUse, LLFree, View};

#[test]
fn a_look_says_what_the_allocator_says() {
    let config = ZoneConfig::new(5 * 512 + 100, 2);
    let mut memory = Memory::of::<LLFree<Base4K>>(&config);
    let metadata = memory.metadata();
    // SAFETY: the memory stays until the end, and the two alone use it.
    let (zone, look) = unsafe {
        let zone = LLFree::<Base4K>::construct(&config, metadata, Init::Free).expect("a zone");
        (zone, View::<Base4K>::of(&config, metadata).expect("a zone"))
    };
    zone.alloc(Request::new(Order(9), Class::HUGE, Slot(0))).expect("most is free");
    zone.alloc(Request::movable(Order(3), Slot(1))).expect("most is free");
    zone.offline(HugeId(4), 1).expect("it is free");
    let huge: Vec<_> = look.huge_frames().collect();
    assert_eq!(
        huge.iter().map(|huge| huge.frames).collect::<Vec<_>>(),
        [512, 512, 512, 512, 512, 100]
    );
    for huge in &huge {
        let free = match huge.used_as {
            HugeUse::Free => 512,
            HugeUse::Split { free } => free,
            HugeUse::Whole | HugeUse::Offline => 0,
        };
        assert_eq!(free, zone.free_in_huge(huge.id), "{huge:?}");
    }
    let count = |used_as| huge.iter().filter(|huge| huge.used_as == used_as).count();
    assert_eq!([HugeUse::Whole, HugeUse::Offline].map(count), [1, 1]);
    assert_eq!(look.stats(), zone.stats());
    let slots: Vec<_> = look.slots().collect();
    assert_eq!(slots.iter().map(|slot| slot.balance).collect::<Vec<_>>(), [512, 8]);
    assert!(slots[1].held[Class::MOVABLE.0 as usize] > 0, "{slots:?}");
}
