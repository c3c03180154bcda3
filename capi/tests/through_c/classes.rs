//! Policies of classes, there and back.

use woodlot_capi::types::Classes;
use woodlot_frame::{ClassPolicy, MAX_CLASSES};

/// `struct woodlot_classes` of a policy. What is not looked at is no class.
pub fn rows(policy: &ClassPolicy) -> Classes {
    let mut classes = Classes {
        count: policy.count() as u32,
        fills: [0xff; MAX_CLASSES],
        turns: [[0xff; MAX_CLASSES]; MAX_CLASSES],
    };
    for class in policy.all() {
        let row = usize::from(class.0);
        classes.fills[row] = policy.fills(class).count() as u8;
        for (turn, other) in classes.turns[row].iter_mut().zip(policy.turns(class)) {
            *turn = other.0;
        }
    }
    classes
}

/// The policy of a `struct woodlot_classes`.
pub fn policy(classes: &Classes) -> ClassPolicy {
    let count = classes.count as usize;
    let rows = classes.fills.iter().zip(&classes.turns);
    let rows: Vec<(u8, &[u8])> =
        rows.map(|(&fills, turns)| (fills, &turns[..count])).take(count).collect();
    ClassPolicy::new(&rows).expect("a policy")
}
