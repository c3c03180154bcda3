//! The example does what it says.

#[expect(dead_code, reason = "`main` is called by another name")]
#[path = "../examples/buffer_pool.rs"]
mod buffer_pool;

#[test]
fn a_buffer_pool_evicts_and_loses_nothing() {
    buffer_pool::run().expect("it checks its own pages");
}
