/work/main/linux/glue/target/debug/deps/woodlot_glue-31d7164b40b6e156.d: src/lib.rs

/work/main/linux/glue/target/debug/deps/libwoodlot_glue-31d7164b40b6e156.rmeta: src/lib.rs

src/lib.rs:
