//! Zones that survive.

use core::fmt::{Display, Formatter, Result as Fmt};

use woodlot_frame::{Base4K, Base16K, Base64K, Init, InitError, ZoneConfig};
use woodlot_zone::{
    Cause, Check, Closed, Eadr, Field, Hidden, Info, Layout, Memory, NotDurable, Opened, Opening,
    Persistence, Phase, Repairs, Shared, Verdict, Zone, ZoneError,
};

symbols! { cold zone:
    show_error(error: &ZoneError, f: &mut Formatter) -> Fmt = Display::fmt(error, f);
    show_field(field: &Field, f: &mut Formatter) -> Fmt = Display::fmt(field, f);
    show_cause(cause: &Cause, f: &mut Formatter) -> Fmt = Display::fmt(cause, f);
    show_phase(phase: &Phase, f: &mut Formatter) -> Fmt = Display::fmt(phase, f);
    show_not_durable(error: &NotDurable, f: &mut Formatter) -> Fmt = Display::fmt(error, f);
    show_persistence(model: &Persistence, f: &mut Formatter) -> Fmt = Display::fmt(model, f);
    error_of_config(error: InitError) -> ZoneError = error.into();
    error_of_medium(error: NotDurable) -> ZoneError = error.into();
    check_default() -> Check = Check::default();
    eadr_default() -> Eadr = Default::default();
    shared_default() -> Shared = Default::default();
    read(memory: Memory<'static>) -> Result<Info, ZoneError> = Info::read(memory);
    is_clean(verdict: &Verdict) -> bool = verdict.is_clean();
    is_nothing(repairs: &Repairs) -> bool = repairs.is_nothing();
    nothing_hidden(hidden: &Hidden) -> bool = hidden.is_nothing();
    behind(memory: Memory<'static>, bytes: usize) -> Result<Memory<'static>, ZoneError> =
        memory.behind(bytes);
    and(repairs: Repairs, other: Repairs) -> Repairs = repairs.and(other);
}

/// # Safety
/// As [`Memory::new`].
#[unsafe(export_name = "cold_zone_memory")]
pub unsafe fn memory(start: *mut u8, len: usize) -> Result<Memory<'static>, ZoneError> {
    // SAFETY: as the caller promises.
    unsafe { Memory::new(start, len) }
}

/// # Safety
/// As [`woodlot_zone::erase`].
#[unsafe(export_name = "cold_zone_erase")]
pub unsafe fn erase(memory: Memory<'static>) -> Result<(), NotDurable> {
    // SAFETY: as the caller promises.
    unsafe { woodlot_zone::erase(memory, &Eadr) }
}

/// What there is for each geometry.
macro_rules! zone {
    ($module:ident, $geometry:ty) => {
        mod $module {
            use super::*;

            type Of = Zone<'static, $geometry, Eadr>;
            type Begun = Opening<'static, $geometry, Eadr>;
            type Expected<'c> = Option<&'c ZoneConfig>;

            symbols! { cold $module:
                layout(config: &ZoneConfig) -> Result<Layout, InitError> =
                    Layout::of::<$geometry>(config);
                layout_with_intents(config: &ZoneConfig) -> Result<Layout, InitError> =
                    Layout::with_intents::<$geometry>(config);
                help(opening: &Begun) -> () = opening.help();
                finish(opening: Begun) -> Result<(Of, Opened), ZoneError> = opening.finish();
                sync(zone: &Of) -> Result<(), ZoneError> = zone.sync();
                resolve(zone: &Of) -> Result<Repairs, ZoneError> = zone.resolve();
                close(zone: Of) -> Result<Closed, ZoneError> = zone.close();
                hidden(zone: &Of) -> Hidden = zone.hidden();
                generation(zone: &Of) -> u32 = zone.generation();
                layout_of(zone: &Of) -> &Layout = zone.layout();
                slots(zone: &Of) -> usize = woodlot_frame::FrameAllocator::zone(&**zone).slots;
            }

            /// # Safety
            /// As [`Zone::format`].
            #[unsafe(export_name = concat!("cold_", stringify!($module), "_format"))]
            pub unsafe fn format(
                memory: Memory<'static>,
                config: &ZoneConfig,
                init: Init,
            ) -> Result<Of, ZoneError> {
                // SAFETY: as the caller promises.
                unsafe { Of::format(memory, config, init, Eadr) }
            }

            /// # Safety
            /// As [`Zone::open`].
            #[unsafe(export_name = concat!("cold_", stringify!($module), "_open"))]
            pub unsafe fn open(
                memory: Memory<'static>,
                expected: Expected<'_>,
                check: Check,
            ) -> Result<(Of, Opened), ZoneError> {
                // SAFETY: as the caller promises.
                unsafe { Of::open(memory, expected, check, Eadr) }
            }

            /// # Safety
            /// As [`Opening::begin`].
            #[unsafe(export_name = concat!("cold_", stringify!($module), "_begin"))]
            pub unsafe fn begin(
                memory: Memory<'static>,
                expected: Expected<'_>,
                check: Check,
            ) -> Result<Begun, ZoneError> {
                // SAFETY: as the caller promises.
                unsafe { Begun::begin(memory, expected, check, Eadr) }
            }

            /// # Safety
            /// As [`Zone::attach`].
            #[unsafe(export_name = concat!("cold_", stringify!($module), "_attach"))]
            pub unsafe fn attach(
                memory: Memory<'static>,
                expected: Expected<'_>,
            ) -> Result<Of, ZoneError> {
                // SAFETY: as the caller promises.
                unsafe { Of::attach(memory, expected, Eadr) }
            }

            /// # Safety
            /// As [`woodlot_zone::verify`].
            #[unsafe(export_name = concat!("cold_", stringify!($module), "_verify"))]
            pub unsafe fn verify(
                memory: Memory<'static>,
                expected: Expected<'_>,
            ) -> Result<Verdict, ZoneError> {
                // SAFETY: as the caller promises.
                unsafe { woodlot_zone::verify::<$geometry>(memory, expected) }
            }

            /// # Safety
            /// As [`woodlot_zone::view`].
            #[unsafe(export_name = concat!("cold_", stringify!($module), "_view"))]
            pub unsafe fn view(memory: Memory<'static>) -> Result<[usize; 3], ZoneError> {
                // SAFETY: as the caller promises.
                let (_, view) = unsafe { woodlot_zone::view::<$geometry>(memory) }?;
                let frames = view.huge_frames().map(|huge| huge.frames);
                let held = view.slots().map(|slot| slot.held.iter().sum::<usize>());
                let add = |sum: usize, count: usize| sum.wrapping_add(count);
                Ok([view.stats().free_frames, frames.fold(0, add), held.fold(0, add)])
            }

            #[unsafe(export_name = concat!("cold_", stringify!($module), "_in_use"))]
            pub fn in_use(memory: Memory<'static>) -> Result<(), ZoneError> {
                woodlot_zone::in_use(memory)
            }
        }
    };
}

zone!(zone_base4k, Base4K);
zone!(zone_base16k, Base16K);
zone!(zone_base64k, Base64K);
