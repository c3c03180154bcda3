//! The fuzzer of [`woodlot_fuzz::recovery`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| woodlot_fuzz::recovery(data));
