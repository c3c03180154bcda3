//! Memory that a C program points to: refused where it cannot be, read or written where it can.

use core::ffi::c_int;

use crate::error::Error;

/// Is this a pointer to a `T`, as far as can be told?
///
/// # Errors
/// [`Error::Null`] or [`Error::Unaligned`].
#[inline]
pub(crate) fn check<T>(pointer: *const T) -> Result<(), Error> {
    if pointer.is_null() {
        return Err(Error::Null);
    }
    if pointer.is_aligned() { Ok(()) } else { Err(Error::Unaligned) }
}

/// Reads what `pointer` leads to.
///
/// # Safety
/// Unless it is null or misaligned, the pointer leads to an initialised `T`.
pub(crate) unsafe fn read<T: Copy>(pointer: *const T) -> Result<T, Error> {
    check(pointer)?;
    // SAFETY: it is neither null nor misaligned; the rest is the caller's promise.
    Ok(unsafe { pointer.read() })
}

/// Writes what `pointer` leads to.
///
/// # Safety
/// Unless it is null or misaligned, the pointer leads to memory for a `T`.
pub(crate) unsafe fn write<T>(pointer: *mut T, value: T) -> Result<(), Error> {
    check(pointer)?;
    // SAFETY: as in `read`.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Is this an array of `len` values, as far as can be told? One of length 0 may be at a null pointer.
fn check_array<T>(start: *const T, len: usize) -> Result<(), Error> {
    if len > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Error::TooLong);
    }
    if len == 0 { Ok(()) } else { check(start) }
}

/// An array that is read.
///
/// # Safety
/// Unless it is null or misaligned, `start` leads to so many values, which nobody writes for `'a`.
pub(crate) unsafe fn array<'a, T>(start: *const T, len: usize) -> Result<&'a [T], Error> {
    check_array(start, len)?;
    if len == 0 {
        return Ok(&[]);
    }
    // SAFETY: as in `read`; the length fits.
    Ok(unsafe { core::slice::from_raw_parts(start, len) })
}

/// An array that is written: zeros at first, for a C program need not have written anything there.
///
/// # Safety
/// Unless it is null or misaligned, `start` leads to memory for so many values, which nobody else uses for
/// `'a`; a `T` of zeros is a value.
pub(crate) unsafe fn array_mut<'a, T>(start: *mut T, len: usize) -> Result<&'a mut [T], Error> {
    check_array(start, len)?;
    if len == 0 {
        return Ok(&mut []);
    }
    // SAFETY: as in `read`; the length fits, and zeros are values.
    Ok(unsafe {
        start.write_bytes(0, len);
        core::slice::from_raw_parts_mut(start, len)
    })
}

/// Do two pieces of memory, each a start and a length, have a byte in common?
pub(crate) fn overlap(a: (usize, usize), b: (usize, usize)) -> bool {
    a.0 < b.0.saturating_add(b.1) && b.0 < a.0.saturating_add(a.1)
}

/// What the header calls success, or the error's number.
pub(crate) fn status(answer: Result<(), Error>) -> c_int {
    answer.map_or_else(c_int::from, |()| 0)
}
