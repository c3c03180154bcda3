//! The traces that ship are whole, small, and what their origin says.

use std::time::Instant;

use woodlot_trace::{EventKind, LinuxFrames, Trace, shipped, write_binary};

/// Allocations (failed ones included), frees and rows of the curve, from the traces' own account.
const KNOWN: [(&str, usize, usize, usize); 3] =
    [("boot", 69755, 53931, 11), ("build", 380975, 370048, 79), ("pressure", 750050, 701817, 102)];

fn traces() -> Vec<Trace> {
    let unpack = |shipped: woodlot_trace::Shipped| shipped.trace().expect("it is whole");
    shipped().map(unpack).into()
}

#[test]
fn they_hold_what_was_recorded() {
    for (trace, (name, allocs, frees, rows)) in traces().iter().zip(KNOWN) {
        let is_alloc = |kind: &EventKind| matches!(kind, EventKind::Alloc { .. });
        let is_free = |kind: &EventKind| matches!(kind, EventKind::Free { .. });
        let count = |which: &dyn Fn(&EventKind) -> bool| {
            trace.events.iter().filter(|event| which(&event.kind)).count()
        };
        assert_eq!(trace.name, name);
        assert_eq!((count(&is_alloc), count(&is_free), trace.curve.len()), (allocs, frees, rows));
        assert_eq!((trace.frames(), trace.zones.len(), trace.cpus().len()), (0x80000, 2, 2));
    }
}

#[test]
fn linux_never_owns_a_frame_twice_and_its_curve_is_confirmed() {
    for trace in traces() {
        let mut linux = LinuxFrames::new(&trace);
        let mut rows = trace.curve.iter().peekable();
        for (index, event) in trace.events.iter().enumerate() {
            assert_eq!(linux.apply(event.kind), 0, "{} event {index}", trace.name);
            while let Some(row) = rows.next_if(|row| row.after as usize == index + 1) {
                let counted = (linux.recorded_free(), linux.owned().free_huge());
                let recorded = (row.free_frames as usize, row.free_huge as usize);
                assert_eq!(counted, recorded, "{} {}", trace.name, row.label);
            }
        }
        assert!(rows.peek().is_none());
    }
}

#[test]
fn they_are_small_and_the_writer_still_makes_them_so() {
    let started = Instant::now();
    let boot = &traces()[0];
    println!("unpacked in {:?}", started.elapsed());
    let bytes = write_binary(boot).expect("it is not too large");
    assert!(bytes.len() < 110_000, "{} bytes", bytes.len());
}
