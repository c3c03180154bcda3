/work/main/linux/glue/target/debug/deps/woodlot_llfree-49359e34decf1162.d: /work/main/llfree/src/lib.rs /work/main/llfree/src/allocate.rs /work/main/llfree/src/children.rs /work/main/llfree/src/exact.rs /work/main/llfree/src/free.rs /work/main/llfree/src/index.rs /work/main/llfree/src/init.rs /work/main/llfree/src/line.rs /work/main/llfree/src/lower.rs /work/main/llfree/src/lower/start.rs /work/main/llfree/src/raw.rs /work/main/llfree/src/refusal.rs /work/main/llfree/src/reservation.rs /work/main/llfree/src/rows.rs /work/main/llfree/src/state.rs /work/main/llfree/src/stats.rs /work/main/llfree/src/tree.rs /work/main/llfree/src/tuning.rs /work/main/llfree/src/upper.rs

/work/main/linux/glue/target/debug/deps/libwoodlot_llfree-49359e34decf1162.rmeta: /work/main/llfree/src/lib.rs /work/main/llfree/src/allocate.rs /work/main/llfree/src/children.rs /work/main/llfree/src/exact.rs /work/main/llfree/src/free.rs /work/main/llfree/src/index.rs /work/main/llfree/src/init.rs /work/main/llfree/src/line.rs /work/main/llfree/src/lower.rs /work/main/llfree/src/lower/start.rs /work/main/llfree/src/raw.rs /work/main/llfree/src/refusal.rs /work/main/llfree/src/reservation.rs /work/main/llfree/src/rows.rs /work/main/llfree/src/state.rs /work/main/llfree/src/stats.rs /work/main/llfree/src/tree.rs /work/main/llfree/src/tuning.rs /work/main/llfree/src/upper.rs

/work/main/llfree/src/lib.rs:
/work/main/llfree/src/allocate.rs:
/work/main/llfree/src/children.rs:
/work/main/llfree/src/exact.rs:
/work/main/llfree/src/free.rs:
/work/main/llfree/src/index.rs:
/work/main/llfree/src/init.rs:
/work/main/llfree/src/line.rs:
/work/main/llfree/src/lower.rs:
/work/main/llfree/src/lower/start.rs:
/work/main/llfree/src/raw.rs:
/work/main/llfree/src/refusal.rs:
/work/main/llfree/src/reservation.rs:
/work/main/llfree/src/rows.rs:
/work/main/llfree/src/state.rs:
/work/main/llfree/src/stats.rs:
/work/main/llfree/src/tree.rs:
/work/main/llfree/src/tuning.rs:
/work/main/llfree/src/upper.rs:
