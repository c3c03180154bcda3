//! The handle of a zone, in the caller's memory.
//!
//! ```text
//!   0       8                                              1024
//!   │ word  │ the engine's own fields          ┊ unused      │
//!     └─ "WOODLOT" and which engine with which geometry; any other value: no zone
//! ```
//!
//! # Invariants
//! 1. Where the word is one of those of this table, an engine of that type lies behind it: the word is
//!    written last, by `woodlot_init` alone.
//! 2. An engine is never dropped, and nothing in it needs that.

use core::mem::MaybeUninit;

use crate::error::Error;
use crate::memory;

/// Bytes of a handle: `WOODLOT_ZONE_SIZE`.
pub const ZONE_SIZE: usize = 1024;
/// What a handle is aligned to: `WOODLOT_ZONE_ALIGN`. A cache line, so that nothing that is written
/// often lies beside what every call reads.
pub const ZONE_ALIGN: usize = 64;

const ENGINE_WORDS: usize = ZONE_SIZE / size_of::<u64>() - 1;

/// `struct woodlot_zone`.
#[repr(C, align(64))]
pub struct Zone {
    word: u64,
    engine: MaybeUninit<[u64; ENGINE_WORDS]>,
}

const _: () = assert!(size_of::<Zone>() == ZONE_SIZE && align_of::<Zone>() == ZONE_ALIGN);

/// `WOODLOT_LLFREE`.
pub const LLFREE: u32 = 0;
/// `WOODLOT_NBBS`.
pub const NBBS: u32 = 1;
/// `WOODLOT_ONEWRITE`.
pub const ONEWRITE: u32 = 2;
/// `WOODLOT_4K`.
pub const BASE_4K: u32 = 0;
/// `WOODLOT_16K`.
pub const BASE_16K: u32 = 1;
/// `WOODLOT_64K`.
pub const BASE_64K: u32 = 2;

/// "WOODLOT", and room for eight bits.
const MAGIC: u64 = 0x574f_4f44_4c4f_5400;

/// The word of a zone with this engine and geometry.
///
/// # Errors
/// [`Error::BadEngine`] or [`Error::BadGeometry`].
pub(crate) const fn word(engine: u32, geometry: u32) -> Result<u64, Error> {
    let is_there = engine == LLFREE
        || engine == NBBS && cfg!(feature = "nbbs")
        || engine == ONEWRITE && cfg!(feature = "onewrite");
    if !is_there {
        return Err(Error::BadEngine);
    }
    if geometry > BASE_64K {
        return Err(Error::BadGeometry);
    }
    Ok(of(engine, geometry))
}

/// [`word`] for numbers that there are.
pub(crate) const fn of(engine: u32, geometry: u32) -> u64 {
    MAGIC | (engine << 4 | geometry) as u64
}

/// The engine and the geometry that a word stands for.
pub(crate) const fn kind(word: u64) -> (u32, u32) {
    (word as u32 >> 4 & 0xf, word as u32 & 0xf)
}

/// Does what follows `=>` with the type of a word's engine, or what follows `else`.
macro_rules! with_type {
    ($word:expr, $engine:ident => $body:expr, else $other:expr) => {{
        use woodlot_frame::{Base4K, Base16K, Base64K};
        use woodlot_llfree::LLFree;
        #[cfg(feature = "nbbs")]
        use woodlot_nbbs::Nbbs4;
        #[cfg(feature = "onewrite")]
        use woodlot_onewrite::OneWrite;
        $crate::zone::with_type!(@ $word, $engine => $body, else $other;
            [all()] LLFREE, LLFree, BASE_4K, Base4K;
            [all()] LLFREE, LLFree, BASE_16K, Base16K;
            [all()] LLFREE, LLFree, BASE_64K, Base64K;
            [feature = "nbbs"] NBBS, Nbbs4, BASE_4K, Base4K;
            [feature = "nbbs"] NBBS, Nbbs4, BASE_16K, Base16K;
            [feature = "nbbs"] NBBS, Nbbs4, BASE_64K, Base64K;
            [feature = "onewrite"] ONEWRITE, OneWrite, BASE_4K, Base4K;
            [feature = "onewrite"] ONEWRITE, OneWrite, BASE_16K, Base16K;
            [feature = "onewrite"] ONEWRITE, OneWrite, BASE_64K, Base64K;
        )
    }};
    (@ $word:expr, $engine:ident => $body:expr, else $other:expr;
        $([$there:meta] $number:ident, $type:ident, $base:ident, $geometry:ident;)*) => {
        match $word {
            $(#[cfg($there)]
            word if word == const { $crate::zone::of($crate::zone::$number, $crate::zone::$base) } => {
                type $engine = $type<'static, $geometry>;
                $body
            })*
            _ => $other,
        }
    };
}

/// Does what follows `=>` with the engine of the zone at a pointer; returns the error where there is no zone.
macro_rules! on_zone {
    ($zone:expr, $engine:ident => $body:expr) => {
        $crate::zone::on_zone_or!($zone, $engine => $body, error => error.into())
    };
}

/// The same, where an error is returned as something else.
macro_rules! on_zone_or {
    ($zone:expr, $engine:ident => $body:expr, $error:ident => $answer:expr) => {{
        // SAFETY: as the caller of this function promises.
        let zone = match unsafe { $crate::zone::Zone::at($zone) } {
            Ok(zone) => zone,
            Err($error) => return $answer,
        };
        $crate::zone::with_type!(zone.word(), Engine => {
            // SAFETY: the word says so: invariant 1.
            let $engine = unsafe { zone.engine::<Engine>() };
            $body
        }, else {
            let $error = $crate::Error::NotAZone;
            return $answer;
        })
    }};
}

pub(crate) use {on_zone, on_zone_or, with_type};

impl Zone {
    /// The handle that a pointer leads to.
    ///
    /// # Errors
    /// [`Error::Null`] or [`Error::Unaligned`].
    ///
    /// # Safety
    /// Unless it is null or misaligned, the pointer leads to a handle or zeros, which nobody writes for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn at<'a>(zone: *const Zone) -> Result<&'a Zone, Error> {
        memory::check(zone)?;
        // SAFETY: it is neither null nor misaligned; the rest is the caller's promise.
        Ok(unsafe { &*zone })
    }

    /// What engine this is.
    #[inline(always)]
    pub(crate) fn word(&self) -> u64 {
        self.word
    }

    /// The engine.
    ///
    /// # Safety
    /// The word says that it is of this type.
    #[inline(always)]
    pub(crate) unsafe fn engine<E>(&self) -> &E {
        // SAFETY: invariant 1; `fill` checks size and alignment.
        unsafe { &*self.engine.as_ptr().cast::<E>() }
    }

    /// Makes a zone of the handle.
    ///
    /// # Safety
    /// The pointer leads to memory for a handle that nobody else uses, and the word is that of `E`.
    pub(crate) unsafe fn fill<E>(zone: *mut Zone, engine: E, word: u64) {
        const { assert!(size_of::<E>() <= 8 * ENGINE_WORDS && align_of::<E>() <= 8) };
        // SAFETY: as the caller promises; the engine fits, as just asserted.
        unsafe {
            (&raw mut (*zone).engine).cast::<E>().write(engine);
            (&raw mut (*zone).word).write(word);
        }
    }
}
