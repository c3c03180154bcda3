/work/main/linux/glue/target/debug/deps/woodlot_frame-0be87969b43eeb6b.d: /work/main/frame/src/lib.rs /work/main/frame/src/allocator.rs /work/main/frame/src/atomics.rs /work/main/frame/src/class.rs /work/main/frame/src/error.rs /work/main/frame/src/frame.rs /work/main/frame/src/geometry.rs /work/main/frame/src/metadata.rs /work/main/frame/src/range.rs /work/main/frame/src/request.rs /work/main/frame/src/run.rs /work/main/frame/src/stats.rs

/work/main/linux/glue/target/debug/deps/libwoodlot_frame-0be87969b43eeb6b.rmeta: /work/main/frame/src/lib.rs /work/main/frame/src/allocator.rs /work/main/frame/src/atomics.rs /work/main/frame/src/class.rs /work/main/frame/src/error.rs /work/main/frame/src/frame.rs /work/main/frame/src/geometry.rs /work/main/frame/src/metadata.rs /work/main/frame/src/range.rs /work/main/frame/src/request.rs /work/main/frame/src/run.rs /work/main/frame/src/stats.rs

/work/main/frame/src/lib.rs:
/work/main/frame/src/allocator.rs:
/work/main/frame/src/atomics.rs:
/work/main/frame/src/class.rs:
/work/main/frame/src/error.rs:
/work/main/frame/src/frame.rs:
/work/main/frame/src/geometry.rs:
/work/main/frame/src/metadata.rs:
/work/main/frame/src/range.rs:
/work/main/frame/src/request.rs:
/work/main/frame/src/run.rs:
/work/main/frame/src/stats.rs:
