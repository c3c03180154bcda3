//! The contract suite on LLFree as a member of an owner table uses it: the tags change no result.

#[expect(dead_code, reason = "nothing happens between the steps of a call here")]
#[path = "common/between.rs"]
mod between;

use between::Between;
use woodlot_frame::{
    Base64K, Construct, Geometry, Init, InitError, MetadataSize, RawMetadata, ZoneConfig,
};
use woodlot_llfree::LLFree;
use woodlot_zone::{Memory, Owners, PAGE, Shared, Tagged, erase};

type Engine<G> = LLFree<'static, G>;
type Owned<G> = Between<'static, Tagged<'static, 'static, Engine<G>>>;

/// The owner table lies behind the volatile part, from the next page on.
impl<G: Geometry> Construct for Owned<G> {
    fn metadata_size(config: &ZoneConfig) -> Result<MetadataSize, InitError> {
        let MetadataSize { durable, volatile } = Engine::<G>::metadata_size(config)?;
        let table = Owners::len(config, 1).map_err(|_| InitError::ZoneTooLarge)?;
        Ok(MetadataSize { durable, volatile: volatile + table + PAGE })
    }

    unsafe fn construct(
        config: &ZoneConfig,
        metadata: RawMetadata,
        init: Init,
    ) -> Result<Self, InitError> {
        metadata.check(Self::metadata_size(config)?)?;
        let (start, len) = metadata.volatile;
        let size = Engine::<G>::metadata_size(config)?.volatile;
        let at = size + start.wrapping_add(size).align_offset(PAGE);
        // SAFETY: as the caller promises; the parts of the volatile part do not overlap.
        let (engine, owners) = unsafe {
            let volatile = (start, at);
            let engine = Engine::construct(config, RawMetadata { volatile, ..metadata }, init)?;
            let memory = Memory::new(start.add(at), len - at).expect("it is aligned");
            erase(memory, &Shared).expect("nothing fails");
            (engine, Owners::format::<G>(memory, config, 1).expect("there is room"))
        };
        let me = owners.join(1).expect("there is room");
        let engine = Box::leak(Box::new(engine));
        let tagged = Tagged::new(engine, owners, me).expect("it is this zone's");
        Ok(Between { engine: Box::leak(Box::new(tagged)), happens: &|_, _, _| () })
    }
}

woodlot_suite::contract_tests! {
    base64k: Owned<Base64K>,
}
