//! The fuzzer of [`woodlot_fuzz::history`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| woodlot_fuzz::history(data));
