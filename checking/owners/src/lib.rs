//! The tags by which owners are known (`zone/src/owners/tags.rs`), on the explorer: living members that allocate and
//! free, a dead one, and members that release it, in every interleaving.
//!
//! The allocator is a row of bits: one swap takes a block or gives it back. It is all that the tags ask of an allocator.
//!
//! In every state:
//! * what a living member owns is allocated, and nobody else owns it;
//! * a frame whose tag is a number is allocated;
//! * a frame that is allocated has a tag that is a number, or is that of the one call that each thread has under way.
//!   So this is all that a death hides at any point, for any thread may stop in any state.
//!
//! At the end every frame that is nobody's is free.
#![cfg(all(test, woodlot_explore))]

#[path = "../../../zone/src/owners/tags.rs"]
#[expect(dead_code, reason = "the models do not need all of it")]
mod tags;

mod models;
