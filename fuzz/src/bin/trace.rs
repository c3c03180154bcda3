//! The fuzzer of [`woodlot_fuzz::trace`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| woodlot_fuzz::trace(data));
