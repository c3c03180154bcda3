//! The example does what it says.

#[expect(dead_code, reason = "`main` is called by another name")]
#[path = "../examples/allocb.rs"]
mod allocb;

#[test]
fn messages_are_handed_out_as_units() {
    allocb::run().expect("it checks itself");
}
