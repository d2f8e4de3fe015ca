#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| evenkeel_planner::fuzz::sql(bytes));
