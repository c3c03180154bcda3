//! A small Linux that writes its own trace: every allocation is of free frames, every free of
//! owned ones.

use std::fmt::Write;

use proptest::prelude::*;

/// One thing that the small Linux does; numbers are taken modulo what there is to choose from.
#[derive(Debug, Clone)]
pub enum Act {
    /// Allocates at the first free place from here on.
    Alloc { at: u32, order: u8, migrate: u8, event: usize },
    /// Frees one of the blocks owned, whole or its first half.
    Free { which: usize, half: bool },
    /// Fails.
    Fail { order: u8 },
    /// Writes a marker.
    Mark { text: String },
    /// Prints something that says nothing about ownership.
    Noise { event: usize },
}

pub fn acts() -> impl Strategy<Value = Vec<(u8, u16, Act)>> {
    let act = prop_oneof![
        4 => (0..4096u32, 0..=10u8, 0..3u8, 0..4usize)
            .prop_map(|(at, order, migrate, event)| Act::Alloc { at, order, migrate, event }),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(which, half)| Act::Free { which, half }),
        1 => (0..=10u8).prop_map(|order| Act::Fail { order }),
        1 => "[A-Za-z_]([ A-Za-z0-9_]{0,18}[A-Za-z0-9])?".prop_map(|text| Act::Mark { text }),
        1 => (0..3usize).prop_map(|event| Act::Noise { event }),
    ];
    prop::collection::vec((0..3u8, 0..2000u16, act), 1..200)
}

/// The trace and its start-owned list, as text.
pub struct Written {
    pub trace: String,
    pub start_owned: String,
}

const FRAMES: u32 = 4096;
const ALLOCS: [&str; 4] = ["mm_page_alloc", "bulk_alloc", "cmpct_alloc", "cmpct_release"];
const NOISE: [&str; 3] = [
    "mm_page_free_batched: pfn=0x10",
    "mm_page_pcpu_drain: pfn=0x10 order=0 migratetype=1",
    "sched_process_exit: comm=a pid=1 prio=120",
];

/// Writes what the small Linux does.
pub fn write(acts: &[(u8, u16, Act)]) -> Written {
    let mut trace = String::from("# a comment\n");
    let mut owned: Vec<(u32, u8)> = vec![(0x100, 3), (0x400, 10)];
    let start_owned = "U 100 8\n400 10 1 A\n".to_string();
    let mut time = 41_465_640u64;
    for (cpu, step, act) in acts {
        time += u64::from(*step);
        let fields = match act {
            Act::Alloc { at, order, migrate, event } => {
                let order = if *event == 1 { 0 } else { *order };
                let Some(pfn) = place(&owned, at % FRAMES, order) else { continue };
                owned.push((pfn, order));
                match event {
                    1 => format!("{}: pfn={pfn:#x} migratetype={migrate}", ALLOCS[1]),
                    0 => format!("{}: pfn={pfn:#x} order={order} migratetype={migrate}", ALLOCS[0]),
                    _ => format!("{}: pfn={pfn:#x} order={order}", ALLOCS[*event]),
                }
            }
            Act::Free { which, half } => {
                if owned.is_empty() {
                    continue;
                }
                let index = which % owned.len();
                let (pfn, mut order) = owned.swap_remove(index);
                if *half && order > 0 {
                    order -= 1;
                    owned.push((pfn + (1 << order), order));
                }
                format!("mm_page_free: pfn={pfn:#x} order={order}")
            }
            Act::Fail { order } => {
                format!("mm_page_alloc: pfn=FAILED order={order} migratetype=1 gfp_flags=X")
            }
            Act::Mark { text } => format!("tracing_mark_write: {text}"),
            Act::Noise { event } => NOISE[*event].to_string(),
        };
        let (seconds, micros) = (time / 1_000_000, time % 1_000_000);
        writeln!(trace, "<idle>-0 [{cpu:03}] {seconds}.{micros:06}: {fields}").unwrap();
    }
    Written { trace, start_owned }
}

/// The first aligned place from `at` on where nothing is owned.
fn place(owned: &[(u32, u8)], at: u32, order: u8) -> Option<u32> {
    let free = |start: u32| {
        let end = start + (1 << order);
        owned.iter().all(|&(pfn, o)| end <= pfn || pfn + (1 << o) <= start)
    };
    let first = at.next_multiple_of(1 << order);
    (first..FRAMES).step_by(1 << order).find(|&start| free(start))
}
