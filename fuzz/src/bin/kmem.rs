//! The fuzzer of [`woodlot_fuzz::kmem`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| woodlot_fuzz::kmem(data));
