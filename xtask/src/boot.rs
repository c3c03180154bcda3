//! `cargo xtask boot`: the example kernel, built, its lines counted, booted in QEMU with several sizes of memory
//! and numbers of CPUs, and what it says of its frames held against what the machine has. The same of the kernel whose heap
//! is mapped, but for the lines.

use std::fs;
use std::iter::once;
use std::process::Command;

use crate::outcome::{Length, Outcome};
use crate::shell::{capture, root, succeeds, this_cargo};

const KERNEL: &str = "examples/kernel";

/// The page that quotes the kernel.
const PAGE: &str = "PORTING.md";

/// What the page quotes beside the kernel: how a zone is made from a memory map.
const MAP: &str = "adapters/kernel/src/map.rs";

/// The lines that the kernel may have beside the adapters: of Rust and assembly, neither empty nor comments.
const MOST_LINES: usize = 150;

/// What no machine may take longer than, in seconds, the build included.
const LIMIT: &str = "240";

/// MiB of memory, and CPUs, of what the README runs.
const AS_IN_README: (usize, usize) = (128, 2);

/// The same of what is optimised as a whole. The second has one range of memory above 4 GiB, and a hole from 3 GiB on.
const SHORT: [(usize, usize); 3] = [(128, 1), (6 << 10, 2), (128, 4)];
const FULL: [(usize, usize); 5] = [(8, 1), (1 << 10, 2), (3 << 10, 8), (5 << 10, 3), (16 << 10, 2)];

/// The same for the kernel whose heap is mapped.
const SHORT_MAPPED: [(usize, usize); 1] = [(128, 4)];
const FULL_MAPPED: [(usize, usize); 3] = [(8, 1), (64, 2), (1 << 10, 8)];

/// MiB of a machine whose memory is too small for the DMA buffer, and what the kernel says there.
const TOO_SMALL: (usize, &str) = (4, "3 MiB below 16 MiB: OutOfMemory");

/// Says of what a kernel said whether it is true of a machine of so many MiB and CPUs.
type Judge = fn(&str, usize, usize) -> Result<(), String>;

/// Builds, counts and boots.
pub fn boot(length: Length) -> Result<Outcome, String> {
    let lines = count_lines()?;
    if lines > MOST_LINES {
        return Err(format!("{KERNEL} has {lines} lines, which may be {MOST_LINES}"));
    }
    quoted()?;
    if !succeeds(Command::new("qemu-system-x86_64").arg("--version")) {
        let why = format!("qemu-system-x86_64 is not there ({lines} of {MOST_LINES} lines)");
        return Outcome::missing(length, why);
    }
    let kernels: [(_, &[_], &[_], Judge); 2] =
        [("kernel", &SHORT, &FULL, judge), ("mapped", &SHORT_MAPPED, &FULL_MAPPED, judge_mapped)];
    let mut booted = 0;
    for (kernel, short, full, judge) in kernels {
        let full = if length.short { &[] } else { full };
        let released = short.iter().chain(full).map(|&machine| (machine, true));
        for ((mib, cpus), release) in once((AS_IN_README, false)).chain(released) {
            booted += 1;
            let said = capture(&mut run(kernel, release, mib, cpus))?;
            judge(&said, mib, cpus)
                .map_err(|why| format!("{kernel}, {mib} MiB, {cpus} CPUs: {why}\n{said}"))?;
        }
    }
    let (mib, says) = TOO_SMALL;
    booted += 1;
    match capture(&mut run("kernel", true, mib, 1)) {
        Err(why) if why.contains(says) => {}
        other => return Err(format!("{mib} MiB: the kernel should have said {says:?}: {other:?}")),
    }
    Ok(Outcome::Ran(format!("{lines} of {MOST_LINES} lines, {booted} machines booted")))
}

/// The README's command, with a time limit, or the same of what is optimised as a whole. Cargo looks for its configuration from where it
/// is run; here it is told.
fn run(kernel: &str, release: bool, mib: usize, cpus: usize) -> Command {
    let mut command = Command::new("timeout");
    command.arg(LIMIT).arg(this_cargo().get_program());
    command.args(["--config", &format!("{KERNEL}/.cargo/config.toml"), "run"]);
    command.args(release.then_some("--release"));
    command.args(["--bin", kernel, "--locked", "--manifest-path", &format!("{KERNEL}/Cargo.toml")]);
    command.env("MEM", format!("{mib}M")).env("CPUS", cpus.to_string());
    command
}

/// The lines of the kernel's sources.
fn count_lines() -> Result<usize, String> {
    let folder = root().join(KERNEL).join("src");
    let failed = |error| format!("{}: {error}", folder.display());
    let mut lines = 0;
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        // In a folder of its own is the other kernel.
        if path.is_dir() {
            continue;
        }
        let comment = if path.extension().is_some_and(|kind| kind == "rs") { "//" } else { "#" };
        lines += lines_of(&fs::read_to_string(&path).map_err(failed)?, comment);
    }
    Ok(lines)
}

/// Is every piece of code that PORTING.md quotes in the kernel, or in what makes its zone, as it stands?
fn quoted() -> Result<(), String> {
    let read = |path: &str| {
        fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))
    };
    let (page, kernel) = (read(PAGE)?, read(&format!("{KERNEL}/src/main.rs"))? + &read(MAP)?);
    let mut quotes = quotes(&page).peekable();
    quotes.peek().ok_or(format!("{PAGE} quotes nothing of the kernel"))?;
    match quotes.find(|quote| !kernel.contains(*quote)) {
        None => Ok(()),
        Some(quote) => {
            Err(format!("{PAGE} quotes what is neither in the kernel nor in {MAP}:\n{quote}"))
        }
    }
}

/// The pieces of code in a page that are marked as not to be compiled by themselves.
fn quotes(page: &str) -> impl Iterator<Item = &str> {
    let pieces = page.split("```rust,ignore\n").skip(1);
    pieces.map(|piece| piece.split("```").next().unwrap_or(piece))
}

/// Lines that are neither empty nor comments.
fn lines_of(text: &str, comment: &str) -> usize {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with(comment)).count()
}

/// Is what the kernel said true of such a machine?
fn judge(said: &str, mib: usize, cpus: usize) -> Result<(), String> {
    let [bytes, frames] = numbers(said, "metadata: ")?;
    let [first, end] = numbers(said, "dma: ")?;
    let [taken, on, free] = numbers(said, "frames: ")?;
    let [huge, lowest, highest] = numbers(said, "huge frames: ")?;
    let [pairs, lists, wrong] = numbers(said, "heap: ")?;
    let [inside, outside, refused] = numbers(said, "interrupts: ")?;
    let [had, told, passed] = numbers(said, "low memory: ")?;
    let [free_after, huge_after] = numbers(said, "after that: ")?;
    // The kernel and its stacks take less than 2 MiB, the firmware less than 1.
    let there = mib << 8;
    // Frames above 3 GiB begin at 4 GiB, where there is more memory than fits below.
    let span = if mib > 3 << 10 { there + (1 << 18) } else { there };
    // The heap keeps 16 bytes for each frame, the hole's among them, the kernel one more; and some slabs.
    let kept = span * 17 / 4096 + 32;
    let rules = [
        ("the frames of the machine are free", frames + 768 > there && frames < there),
        ("metadata are less than 1/20000 of the memory", bytes * 5 < frames || mib < 128),
        ("3 MiB below 16 MiB", end == first + 768 && end <= 4096),
        ("every frame is taken", taken < frames && taken + kept > frames),
        ("every frame is free again", free == taken),
        ("every CPU takes part", on == cpus),
        ("huge frames are left", huge < mib / 2 && huge + 7 + kept / 512 > mib / 2),
        ("huge frames lie in the memory", lowest < highest || huge == 1),
        ("a CPU's cache serves it", pairs >= 100 * cpus && lists * 20 < pairs),
        ("nobody else writes into a block", wrong == 0),
        // The trial goes on until each CPU has had ten of both.
        ("interrupts come inside of calls and outside", inside.min(outside) >= 10 * cpus),
        ("interrupts have memory while there is some", refused < outside),
        // What the kernel has of the heap lies in at most 8 pages that have other blocks; and at most the rest of a page
        // for each size that is asked for is left.
        ("the heap has all memory", had < (taken + 8) << 12 && had + (28 << 12) > taken << 12),
        ("the hook is called", told > 0),
        ("the last block goes to every CPU", passed == cpus),
        ("all memory is back, in huge frames", (free_after, huge_after) == (free, huge)),
    ];
    all_so(&rules)
}

/// Is what the kernel said whose heap is mapped true of such a machine?
fn judge_mapped(said: &str, mib: usize, cpus: usize) -> Result<(), String> {
    let [passed, on, wrong] = numbers(said, "passed: ")?;
    let [pages, wrong_after] = numbers(said, "scattered: ")?;
    let [made, returned, stuck] = numbers(said, "vmblks: ")?;
    let [free, before, lost] = numbers(said, "after that: ")?;
    let there = mib << 8;
    // Half of the memory, less what tables and descriptors take and the firmware; or what the kernel asks for.
    let half = (there * 15 / 32).saturating_sub(512 + 32).min(20_000);
    // Pages of tables: one for each 2 MiB of addresses, which are 1 GiB, and two above them.
    let tables = before.saturating_sub(free);
    let rules = [
        ("every CPU takes part", on == cpus),
        ("blocks go from CPU to CPU", passed == 500 * cpus),
        ("each page is where it was written to", (wrong, wrong_after) == (0, 0)),
        ("half of the memory is had in one piece", pages >= half.max(1)),
        ("vmblks are made, and go back", made > 0 && made == returned),
        ("every mapping ends", stuck == 0),
        ("all memory is back but for page tables", free <= before && (3..=514).contains(&tables)),
        ("all of it, where the tables are there", lost == 0),
    ];
    all_so(&rules)
}

/// The first rule that does not hold is an error.
fn all_so(rules: &[(&str, bool)]) -> Result<(), String> {
    match rules.iter().find(|rule| !rule.1) {
        None => Ok(()),
        Some((rule, _)) => Err(format!("not so: {rule}")),
    }
}

/// The numbers in the line that begins so, decimal or hexadecimal.
fn numbers<const N: usize>(said: &str, begin: &str) -> Result<[usize; N], String> {
    let line = said.lines().find_map(|line| line.strip_prefix(begin));
    let line = line.ok_or(format!("no line \"{begin}\""))?;
    let words = line.split(|c: char| !c.is_ascii_alphanumeric());
    let number = |word: &str| match word.strip_prefix("0x") {
        Some(hex) => usize::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    };
    let numbers: Vec<usize> = words.filter_map(number).collect();
    let count = numbers.len();
    numbers.try_into().map_err(|_| format!("{count} numbers, not {N}, in \"{begin}{line}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "metadata: 5632 bytes for 32454 frames\n\
                        dma: frames 0x1a2 to 0x4a2\n\
                        frames: 32317 taken by 1 CPUs, 32317 free\n\
                        huge frames: 62 free, from Some(HugeId(1)) to Some(HugeId(62))\n\
                        heap: 25944 pairs, 7 lists asked for, 0 wrong\n\
                        interrupts: 10 inside of calls, 105 outside, 2 without memory\n\
                        low memory: 132370368 bytes had, hook called 36 times, last block had by 1 CPUs\n\
                        after that: (32317, 62) free\n";

    #[test]
    fn what_is_not_so_is_found() {
        assert_eq!(judge(SAID, 128, 1), Ok(()));
        for (from, to, why) in [
            ("32454", "29000", "the frames of the machine are free"),
            ("5632", "7000", "metadata are less than 1/20000 of the memory"),
            ("0x4a2", "0x4a1", "3 MiB below 16 MiB"),
            ("dma: frames 0x1a2 to 0x4a2", "dma: frames 0x1000 to 0x1300", "3 MiB below 16 MiB"),
            ("32317 taken", "32000 taken", "every frame is taken"),
            ("32317 free", "32316 free", "every frame is free again"),
            ("by 1 CPUs", "by 2 CPUs", "every CPU takes part"),
            ("62 free", "50 free", "huge frames are left"),
            ("HugeId(1)", "HugeId(62)", "huge frames lie in the memory"),
            ("7 lists", "25000 lists", "a CPU's cache serves it"),
            ("0 wrong", "1 wrong", "nobody else writes into a block"),
            ("10 inside", "9 inside", "interrupts come inside of calls and outside"),
            ("2 without", "105 without", "interrupts have memory while there is some"),
            ("132370368 bytes", "132200000 bytes", "the heap has all memory"),
            ("called 36", "called 0", "the hook is called"),
            ("had by 1", "had by 0", "the last block goes to every CPU"),
            ("(32317, 62)", "(32316, 62)", "all memory is back, in huge frames"),
            ("(32317, 62)", "(32317, 61)", "all memory is back, in huge frames"),
        ] {
            let said = SAID.replace(from, to);
            assert_eq!(judge(&said, 128, 1), Err(format!("not so: {why}")), "{to}");
        }
        assert_eq!(judge("frames: 1\n", 128, 1), Err("no line \"metadata: \"".into()));
        let short = numbers::<3>("frames: 1 of 2\n", "frames: ");
        assert_eq!(short, Err("2 numbers, not 3, in \"frames: 1 of 2\"".into()));
    }

    #[test]
    fn what_is_not_so_of_a_mapped_heap_is_found() {
        const SAID: &str = "passed: 2000 blocks by 4 CPUs, 0 wrong\n\
                            scattered: 15866 pages in one piece, 0 wrong\n\
                            vmblks: 2 made, 2 returned, 0 pages stuck\n\
                            after that: 32413 of 32448 frames free, 0 lost the second time\n";
        assert_eq!(judge_mapped(SAID, 128, 4), Ok(()));
        for (from, to, why) in [
            ("by 4", "by 3", "every CPU takes part"),
            ("2000", "1999", "blocks go from CPU to CPU"),
            ("CPUs, 0 wrong", "CPUs, 1 wrong", "each page is where it was written to"),
            ("piece, 0 wrong", "piece, 1 wrong", "each page is where it was written to"),
            ("15866", "14000", "half of the memory is had in one piece"),
            ("2 returned", "1 returned", "vmblks are made, and go back"),
            ("2 made, 2 returned", "0 made, 0 returned", "vmblks are made, and go back"),
            ("0 pages", "1 pages", "every mapping ends"),
            ("32413", "31900", "all memory is back but for page tables"),
            ("32413", "32448", "all memory is back but for page tables"),
            ("0 lost", "1 lost", "all of it, where the tables are there"),
        ] {
            let said = SAID.replace(from, to);
            assert_eq!(judge_mapped(&said, 128, 4), Err(format!("not so: {why}")), "{to}");
        }
    }

    #[test]
    fn quotes_are_found() {
        let page = "a\n```rust\nb\n```\n```rust,ignore\nc\nd\n```\ne\n```rust,ignore\nf\n```\n";
        assert_eq!(quotes(page).collect::<Vec<_>>(), ["c\nd\n", "f\n"]);
    }

    #[test]
    fn lines_are_counted_without_comments_and_gaps() {
        assert_eq!(lines_of("// a\n\nb();\n    // c\n    d(); // e\n", "//"), 2);
        assert_eq!(lines_of("# a\n    mov $1, %eax # b\n", "#"), 1);
    }
}
