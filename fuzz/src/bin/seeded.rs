//! The fuzzer of [`woodlot_fuzz::seeded`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| woodlot_fuzz::seeded(data));
