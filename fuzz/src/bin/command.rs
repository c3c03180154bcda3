//! The fuzzer of [`woodlot_fuzz::command`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| woodlot_fuzz::command(data));
