//! Text to memory to binary and back.

mod common;

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use woodlot_trace::{
    Event, EventKind, LinuxFrames, Migrate, Pfn, Source, Sources, Span, Trace, Zone, load,
    read_binary, write_binary,
};

/// Loads a written trace from a folder of its own.
fn load_written(written: &common::Written) -> Trace {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("small.trace.txt"), &written.trace).unwrap();
    fs::write(folder.path().join("small.start-owned.txt"), &written.start_owned).unwrap();
    load(&folder.path().join("small.trace.txt"), &Sources::default()).unwrap().trace
}

fn there_and_back(trace: &Trace) -> Trace {
    read_binary(&write_binary(trace).unwrap(), Path::new("memory")).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn what_was_written_comes_back(mut acts in common::acts()) {
        // A trace without any event is an error of its own.
        acts.push((0, 1, common::Act::Mark { text: "END".into() }));
        let trace = load_written(&common::write(&acts));
        let mut linux = LinuxFrames::new(&trace);
        let conflicts: usize = trace.events.iter().map(|event| linux.apply(event.kind)).sum();
        prop_assert_eq!(conflicts, 0, "the small Linux is consistent");
        prop_assert_eq!(there_and_back(&trace), trace);
    }

    /// Times that jump, frees of what nobody owns, allocations of what somebody owns: a trace may
    /// have lost events, and still comes back as it was.
    #[test]
    fn odd_traces_come_back(raw in prop::collection::vec(any::<(u64, u16, u32, u8, bool)>(), 0..300)) {
        let event = |(time_us, cpu, pfn, order, free): (u64, u16, u32, u8, bool)| {
            let order = order % 11;
            let pfn = Pfn(((pfn % 8192) >> order) << order);
            let kind = match free {
                true => EventKind::Free { pfn, order },
                false => {
                    let (migrate, source) = (Migrate::Reclaimable, Source::Page);
                    EventKind::Alloc { pfn: Some(pfn), order, migrate, source }
                }
            };
            Event { time_us, cpu: cpu % 4096, kind }
        };
        let trace = Trace {
            zones: vec![Zone { name: "all".into(), span: Span { start: Pfn(0), frames: 8192 } }],
            events: raw.into_iter().map(event).collect(),
            ..Trace::default()
        };
        prop_assert_eq!(there_and_back(&trace), trace);
    }
}

#[test]
fn an_empty_trace_comes_back() {
    assert_eq!(there_and_back(&Trace::default()), Trace::default());
}

#[test]
fn events_outside_the_zones_are_not_written() {
    let kind = EventKind::Free { pfn: Pfn(0), order: 0 };
    let events = vec![Event { time_us: 0, cpu: 0, kind }];
    assert!(write_binary(&Trace { events, ..Trace::default() }).is_err());
}
