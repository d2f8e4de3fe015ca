#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = evenkeel_engine::fuzz::redo(bytes);
});
