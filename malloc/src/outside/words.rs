//! A snapshot in words: a table, and JSON.

use core::fmt;

use super::snapshot::{Blocks, Caches, Layer, SizeSnapshot, Snapshot};

/// Version of the JSON.
const JSON: u32 = 1;

impl Caches {
    fn name(self) -> &'static str {
        match self {
            Caches::None => "none",
            Caches::Cpus => "cpus",
            Caches::Threads => "threads",
        }
    }
}

/// The table.
impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "woodlot_malloc {}, ", self.library())?;
        match self.caches {
            Caches::None => return writeln!(f, "nothing has been allocated"),
            Caches::Cpus => writeln!(f, "caches of CPUs, {} sequences aborted", self.aborts)?,
            Caches::Threads => writeln!(f, "caches of threads")?,
        }
        let cached = if self.caches == Caches::Cpus { "in CPUs" } else { "in threads" };
        let groups = ["blocks", "caches missed", "global layer missed", "slabs"];
        let [blocks, caches, global, slabs] = groups;
        writeln!(f, "\n{:7}{blocks:>44}{caches:>22}{global:>22}{slabs:>18}", "")?;
        write!(f, "{:>7}{:>11}{cached:>11}{:>11}{:>11}", "bytes", "in use", "global", "in slabs")?;
        write!(f, "{:>11}{:>11}{:>11}{:>11}", "alloc", "free", "alloc", "free")?;
        writeln!(f, "{:>9}{:>9}", "made", "freed")?;
        for size in self.sizes().iter().filter(|size| size.slabs_made > 0) {
            row(f, size)?;
        }
        self.hits(f)?;
        writeln!(f)?;
        self.memory(f)
    }
}

fn row(f: &mut fmt::Formatter<'_>, size: &SizeSnapshot) -> fmt::Result {
    write!(f, "{:>7}{:>11}{:>11}", size.bytes, size.in_use, size.cached)?;
    write!(f, "{:>11}{:>11}", size.global_blocks, size.slab_free)?;
    for Layer { alloc_misses, free_misses, .. } in [size.cpu, size.global] {
        write!(f, "{alloc_misses:>11}{free_misses:>11}")?;
    }
    writeln!(f, "{:>9}{:>9}", size.slabs_made, size.slabs_freed)
}

/// Hits, and how many of all requests they are.
fn hits(f: &mut fmt::Formatter<'_>, all: Option<u64>, hits: Option<u64>) -> fmt::Result {
    match all.zip(hits) {
        Some((all, hits)) => {
            write!(f, "{hits:>14}")?;
            // Of nothing there is no share.
            match all {
                0 => write!(f, "{:>8}", ""),
                _ => write!(f, "{:>8.2}", 100.0 * hits as f64 / all as f64),
            }
        }
        None => write!(f, "{:>14}{:>8}", "–", "–"),
    }
}

impl SizeSnapshot {
    /// From the top.
    fn layers(&self) -> [Layer; 3] {
        [self.cpu, self.global, self.coalesce()]
    }
}

impl Snapshot {
    /// What each layer served itself.
    fn hits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = || self.sizes().iter().filter(|size| size.slabs_made > 0);
        writeln!(
            f,
            "\n{:7}{:>44}{:>44}{:>44}",
            "", "hits of caches", "of the global layer", "of slabs, at least"
        )?;
        write!(f, "{:>7}", "bytes")?;
        for _ in 0..3 {
            write!(f, "{:>14}{:>8}{:>14}{:>8}", "alloc", "%", "free", "%")?;
        }
        writeln!(f)?;
        for size in used() {
            write!(f, "{:>7}", size.bytes)?;
            for layer in size.layers() {
                hits(f, layer.allocs, layer.alloc_hits())?;
                hits(f, layer.frees, layer.free_hits())?;
            }
            writeln!(f)?;
        }
        match used().all(|size| size.cpu.allocs.is_some()) {
            true => Ok(()),
            false => writeln!(f, "–: not counted; a library with the feature `counted` counts it"),
        }
    }

    fn memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut_off: usize = self.sizes().iter().map(|size| size.cut_off).sum();
        let [spans, large] = [self.spans, self.large];
        writeln!(f, "memory, KiB")?;
        for (what, bytes) in [
            ("blocks in use", self.bytes(|size| size.in_use)),
            ("free in caches", self.bytes(|size| size.cached)),
            ("free in the global layer", self.bytes(|size| size.global_blocks)),
            ("free in slabs", self.bytes(|size| size.slab_free)),
            ("behind the last block of a slab", cut_off),
        ] {
            writeln!(f, "{:>12}  {what}", bytes >> 10)?;
        }
        writeln!(f, "{:>12}  blocks of 32 KiB to 4 MiB: {}", spans.bytes >> 10, spans.count)?;
        writeln!(f, "{:>12}  free pages", self.free_pages() >> 10)?;
        writeln!(f, "{:>12}  all of these: huge frames that may have memory", self.resident >> 10)?;
        writeln!(f, "{:>12}  larger blocks: {}", large.bytes >> 10, large.count)
    }

    /// The same as JSON, on one line.
    pub fn json(&self) -> impl fmt::Display {
        Json(self)
    }
}

struct Json<'a>(&'a Snapshot);

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Json(heap) = self;
        write!(f, "{{\"version\":{JSON},\"library\":\"{}\",", heap.library())?;
        write!(f, "\"caches\":\"{}\",\"aborts\":{},\"sizes\":[", heap.caches.name(), heap.aborts)?;
        for (at, size) in heap.sizes().iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "," })?;
            json_of_size(f, size)?;
        }
        f.write_str("],")?;
        for (what, Blocks { count, bytes }) in [("spans", heap.spans), ("large", heap.large)] {
            write!(f, "\"{what}\":{{\"count\":{count},\"bytes\":{bytes}}},")?;
        }
        write!(f, "\"free_page_bytes\":{},", heap.free_pages())?;
        write!(f, "\"resident_bytes\":{},\"open_bytes\":{}}}", heap.resident, heap.open)
    }
}

/// A number, or that there is none.
struct OrNull(Option<u64>);

impl fmt::Display for OrNull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(number) => number.fmt(f),
            None => f.write_str("null"),
        }
    }
}

fn json_of_size(f: &mut fmt::Formatter<'_>, size: &SizeSnapshot) -> fmt::Result {
    write!(f, "{{\"bytes\":{},\"target\":{},", size.bytes, size.target)?;
    write!(f, "\"in_use\":{},\"cached\":{},", size.in_use, size.cached)?;
    write!(f, "\"global\":{},\"in_slabs\":{},", size.global_blocks, size.slab_free)?;
    write!(f, "\"pages\":{},\"cut_off_bytes\":{},", size.pages, size.cut_off)?;
    for (what, layer) in [("cpu", size.cpu), ("global", size.global)] {
        let Layer { alloc_misses, free_misses, .. } = layer;
        write!(f, "\"{what}_misses\":{{\"alloc\":{alloc_misses},\"free\":{free_misses}}},")?;
    }
    for (what, layer) in ["cpu", "global", "slab"].into_iter().zip(size.layers()) {
        let [alloc, free] = [layer.alloc_hits(), layer.free_hits()].map(OrNull);
        write!(f, "\"{what}_hits\":{{\"alloc\":{alloc},\"free\":{free}}},")?;
    }
    write!(f, "\"slabs\":{{\"made\":{},\"freed\":{}}}}}", size.slabs_made, size.slabs_freed)
}
