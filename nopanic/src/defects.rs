//! One function for each kind of thing that must not be there. `cargo xtask no-panic` must say of
//! each what its name begins with.

unsafe extern "C" {
    fn malloc(bytes: usize) -> *mut u8;
    fn pthread_mutex_lock(mutex: *mut u8) -> i32;
}

symbols! { hot defect:
    panic_bounds(words: &[u64], at: usize) -> u64 = words[at];
    panic_slice(words: &[u64], to: usize) -> usize = words[..to].len();
    panic_unwrap(word: Option<u64>) -> u64 = word.unwrap();
    panic_assert(word: u64) -> () = assert!(word > 7, "a word is {word}");
    panic_divisor(a: usize, b: usize) -> usize = a / b;
    // SAFETY: never called.
    heap_malloc(bytes: usize) -> *mut u8 = unsafe { malloc(bytes) };
    // SAFETY: as above.
    lock_pthread(mutex: &mut u8) -> i32 = unsafe { pthread_mutex_lock(mutex) };
    float_sum(a: u64, b: u64) -> u64 = (a as f64 + b as f64) as u64;
    division_rest(a: usize, b: core::num::NonZeroUsize) -> usize = a % b;
}
