//! The header and the crate say the same: every function by its name and type, every structure by its size,
//! offsets and members, every number by its value. What the crate has is written as C and compiled
//! against the header: a function that is declared twice with different types is an error of C.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use woodlot_capi::types::*;
use woodlot_capi::*;

use woodlot_capi::kmem::types::*;
use woodlot_capi::kmem::*;

const HEADER: &str = include_str!("../include/woodlot.h");
/// It includes the other one.
const KMEM_HEADER: &str = include_str!("../include/woodlot_kmem.h");

/// A type that C has, too.
trait CType {
    fn name() -> String;
}

macro_rules! types {
    ($($type:ty = $name:literal;)*) => {
        $(impl CType for $type {
            fn name() -> String {
                $name.into()
            }
        })*
    };
}

types! {
    c_int = "int";
    c_void = "void";
    u8 = "uint8_t";
    u32 = "uint32_t";
    u64 = "uint64_t";
    usize = "size_t";
    Text = "const char *";
    Zone = "struct woodlot_zone";
    Block = "struct woodlot_block";
    Run = "struct woodlot_run";
    Batch = "struct woodlot_batch";
    Count = "struct woodlot_count";
    Huge = "struct woodlot_huge";
    Map = "struct woodlot_map";
    Place = "struct woodlot_place";
    Classes = "struct woodlot_classes";
    Config = "struct woodlot_config";
    MetadataSizes = "struct woodlot_metadata_sizes";
    Metadata = "struct woodlot_metadata";
    Sizes = "struct woodlot_geometry_sizes";
    Info = "struct woodlot_zone_info";
    ClassCounts = "struct woodlot_class_counts";
    Counts = "struct woodlot_counts";
    Blocks = "struct woodlot_blocks";
    KmemHandle = "struct woodlot_kmem";
    ObjectsHandle = "struct woodlot_objects";
    KmemCpus = "struct woodlot_kmem_cpus";
    KmemConfig = "struct woodlot_kmem_config";
    KmemSizes = "struct woodlot_kmem_sizes";
    KmemMemory = "struct woodlot_kmem_memory";
    KmemCookie = "struct woodlot_kmem_cookie";
    KmemSeen = "struct woodlot_kmem_seen";
    KmemStats = "struct woodlot_kmem_stats";
    ObjectsConfig = "struct woodlot_objects_config";
    () = "void";
    // As an expression an array is a pointer to its first member.
    [[u8; 8]; 8] = "uint8_t (*)[8]";
}

impl<T: CType> CType for *const T {
    fn name() -> String {
        format!("const {} *", T::name())
    }
}

impl<T: CType> CType for *mut T {
    fn name() -> String {
        format!("{} *", T::name())
    }
}

/// A type whose arrays have an array's name in C.
trait Element: CType {}
impl Element for u8 {}
impl Element for usize {}
impl Element for u64 {}
impl Element for ClassCounts {}

impl<T: Element, const N: usize> CType for [T; N] {
    fn name() -> String {
        format!("{} *", T::name())
    }
}

/// A pointer to a function. One that is passed to a function is no null pointer in C either way.
macro_rules! pointers {
    ($($argument:ident)*) => {
        impl<R: CType, $($argument: CType),*> CType
            for Option<unsafe extern "C" fn($($argument),*) -> R>
        {
            fn name() -> String {
                let arguments: Vec<String> = vec![$($argument::name()),*];
                format!("{} (*)({})", R::name(), arguments.join(", "))
            }
        }
    };
}

pointers!(A);
pointers!(A B);
pointers!(A B C);
pointers!(A B C D);

/// A function that C has, too.
trait Prototype {
    fn declare(&self, name: &str) -> String;
}

macro_rules! prototypes {
    ($($argument:ident)*) => {
        impl<R: CType, $($argument: CType),*> Prototype for unsafe extern "C" fn($($argument),*) -> R {
            fn declare(&self, name: &str) -> String {
                let arguments: Vec<String> = vec![$($argument::name()),*];
                let none = arguments.is_empty().then(|| "void".into());
                let arguments: Vec<_> = arguments.into_iter().chain(none).collect();
                format!("{} {name}({});\n", R::name(), arguments.join(", "))
            }
        }
    };
}

prototypes!();
prototypes!(A);
prototypes!(A B);
prototypes!(A B C);
prototypes!(A B C D);
prototypes!(A B C D E);
prototypes!(A B C D E F);
prototypes!(A B C D E F G H);

/// The functions with their arguments, declared as C; and their names.
macro_rules! functions {
    ($($name:ident($($argument:tt)*);)*) => {
        [$((
            stringify!($name),
            ($name as unsafe extern "C" fn($($argument)*) -> _).declare(stringify!($name)),
        )),*]
    };
}

fn functions() -> Vec<(&'static str, String)> {
    functions! {
        woodlot_metadata_size(_, _);
        woodlot_init(_, _, _, _);
        woodlot_info(_, _);
        woodlot_sizes(_, _);
        woodlot_shipped_classes(_);
        woodlot_alloc(_, _, _, _);
        woodlot_alloc_placed(_, _, _, _, _);
        woodlot_alloc_range(_, _, _, _, _, _);
        woodlot_alloc_batch(_, _, _, _, _, _, _, _);
        woodlot_free(_, _, _, _);
        woodlot_free_range(_, _, _, _);
        woodlot_free_batch(_, _, _, _, _);
        woodlot_can_free(_, _, _, _);
        woodlot_drain(_, _);
        woodlot_offline(_, _, _);
        woodlot_online(_, _, _);
        woodlot_is_available(_, _);
        woodlot_is_free(_, _, _);
        woodlot_free_frames(_);
        woodlot_free_in_huge(_, _);
        woodlot_free_map(_, _);
        woodlot_next_free_run(_, _, _);
        woodlot_next_free_huge(_, _);
        woodlot_last_free_huge(_, _);
        woodlot_stats(_, _);
        woodlot_free_blocks(_, _);
        woodlot_version();
        woodlot_error_message(_);
        woodlot_engine_name(_);
        woodlot_geometry_name(_);
        woodlot_class_name(_);
        woodlot_order_containing(_);
        woodlot_order_frames(_);
        woodlot_frame_address(_, _);
        woodlot_frame_containing(_, _);
        woodlot_frames_inside(_, _, _);
        woodlot_huge_containing(_, _);
        woodlot_huge_first(_, _);
        woodlot_kmem_memory_size(_, _);
        woodlot_kmem_init(_, _, _);
        woodlot_kmem_alloc(_, _);
        woodlot_kmem_free(_, _, _);
        woodlot_kmem_alloc_aligned(_, _, _);
        woodlot_kmem_free_aligned(_, _, _, _);
        woodlot_kmem_cookie(_);
        woodlot_kmem_alloc_cookie(_, _);
        woodlot_kmem_free_cookie(_, _, _);
        woodlot_kmem_free_any(_, _);
        woodlot_kmem_usable(_, _);
        woodlot_kmem_flush_cpu(_, _);
        woodlot_kmem_flush_unused(_, _, _);
        woodlot_kmem_flush_unused_global(_, _);
        woodlot_kmem_flush(_);
        woodlot_kmem_size(_, _, _);
        woodlot_objects_init(_, _, _, _);
        woodlot_objects_alloc(_);
        woodlot_objects_free(_, _);
        woodlot_objects_flush_cpu(_, _);
        woodlot_objects_flush_unused(_, _, _);
        woodlot_objects_flush_unused_global(_, _);
        woodlot_objects_flush(_);
    }
    .into()
}

/// The name of a member's type.
fn member<S, T: CType>(_: impl Fn(&S) -> &T) -> String {
    T::name()
}

/// Assertions on a structure: its size and alignment, and each member's offset, size and type.
macro_rules! structure {
    ($out:ident, $type:ident { $($member:ident),* }) => {
        let name = <$type as CType>::name();
        let (size, align) = (size_of::<$type>(), align_of::<$type>());
        assert_that(&mut $out, format!("sizeof({name}) == {size}"));
        assert_that(&mut $out, format!("_Alignof({name}) == {align}"));
        // All members are named here: Rust would refuse a pattern that lacks one.
        let _ = |all: &$type| { let $type { $($member: _),* } = all; };
        let mut end = 0;
        $(
            let (member, offset) = (stringify!($member), core::mem::offset_of!($type, $member));
            assert_that(&mut $out, format!("offsetof({name}, {member}) == {offset}"));
            let of = member_type!($type, $member);
            assert_that(&mut $out, format!("_Generic((({name} *)0)->{member}, {of}: 1, default: 0)"));
            let bytes = size_of_member(|all: &$type| &all.$member);
            assert_that(&mut $out, format!("sizeof((({name} *)0)->{member}) == {bytes}"));
            end = end.max(offset + bytes);
        )*
        assert!(size - end < align, "{name} has members that are not looked at");
    };
}

macro_rules! member_type {
    ($type:ident, $member:ident) => {
        member(|all: &$type| &all.$member)
    };
}

fn size_of_member<S, T>(_: impl Fn(&S) -> &T) -> usize {
    size_of::<T>()
}

fn assert_that(out: &mut String, fact: String) {
    writeln!(out, "_Static_assert({fact}, \"\");").expect("memory");
}

fn structures() -> String {
    let mut out = String::new();
    structure!(out, Block { frame, error });
    structure!(out, Run { start, end, error });
    structure!(out, Batch { count, frame, error });
    structure!(out, Count { count, error });
    structure!(out, Huge { huge, error });
    structure!(out, Map { map, error });
    structure!(out, Place { kind, start, end });
    structure!(out, Classes { count, fills, turns });
    structure!(out, Config { start, frames, slots, engine, geometry, classes });
    structure!(out, MetadataSizes { durable_size, volatile_size });
    structure!(out, Metadata { durable_start, durable_size, volatile_start, volatile_size });
    structure!(out, Sizes { base_shift, huge_order, max_order, tree_huge });
    structure!(
        out,
        Info {
            start,
            frames,
            slots,
            first_huge,
            end_huge,
            engine,
            geometry,
            unsupported,
            sizes,
            classes
        }
    );
    structure!(out, ClassCounts { trees, free_frames, free_huge });
    structure!(out, Counts { free_frames, free_huge, offline_huge, classes });
    structure!(out, Blocks { counts, largest_run });
    structure!(out, KmemCpus { cpus, context, enter, leave, call });
    structure!(out, KmemConfig { zone, base, cpus, misuse, reclaim });
    structure!(out, KmemSizes { caches_size, descriptors_size });
    structure!(out, KmemMemory { caches_start, caches_size, descriptors_start, descriptors_size });
    structure!(out, KmemCookie { number, error });
    structure!(out, KmemSeen { signs });
    structure!(
        out,
        KmemStats {
            bytes,
            target,
            lists,
            pages,
            global_blocks,
            slab_blocks,
            allocs,
            frees,
            takes,
            take_misses,
            puts,
            put_misses,
            slabs_made,
            slabs_freed
        }
    );
    structure!(out, ObjectsConfig { cpus, make, unmake });
    handle::<Zone>(&mut out);
    handle::<KmemHandle>(&mut out);
    handle::<ObjectsHandle>(&mut out);
    out
}

/// Assertions on a handle, whose members are nobody's business.
fn handle<T: CType>(out: &mut String) {
    let name = T::name();
    assert_that(out, format!("sizeof({name}) == {}", size_of::<T>()));
    assert_that(out, format!("_Alignof({name}) == {}", align_of::<T>()));
}

/// The name of an error in C: `OutOfMemory` is `WOODLOT_E_OUT_OF_MEMORY`.
fn c_name(error: Error) -> String {
    let mut name = String::from("WOODLOT_E");
    for letter in format!("{error:?}").chars() {
        if letter.is_uppercase() {
            name.push('_');
        }
        name.extend(letter.to_uppercase());
    }
    name
}

/// Every number that the header names, and its value.
fn numbers() -> Vec<(String, i64)> {
    use woodlot_capi::zone::{
        BASE_4K, BASE_16K, BASE_64K, LLFREE, NBBS, ONEWRITE, ZONE_ALIGN, ZONE_SIZE,
    };
    let errors = Error::ALL.iter().map(|&error| (c_name(error), i64::from(error as c_int)));
    let plain = [
        ("OK", 0),
        ("LLFREE", LLFREE.into()),
        ("NBBS", NBBS.into()),
        ("ONEWRITE", ONEWRITE.into()),
        ("4K", BASE_4K.into()),
        ("16K", BASE_16K.into()),
        ("64K", BASE_64K.into()),
        ("MOVABLE", woodlot_frame::Class::MOVABLE.0.into()),
        ("IMMOVABLE", woodlot_frame::Class::IMMOVABLE.0.into()),
        ("HUGE", woodlot_frame::Class::HUGE.0.into()),
        ("LONG_LIVED", woodlot_frame::Class::LONG_LIVED.0.into()),
        // The tests of the contract use these by their values.
        ("INIT_FREE", 0),
        ("INIT_ALLOCATED", 1),
        ("INIT_RECOVER", 2),
        ("ALL", 0),
        ("UP_TO", 1),
        ("ANYWHERE", 0),
        ("AT", 1),
        ("WITHIN", 2),
        ("NO_EXACT_FRAME", 1),
        ("NO_PARTIAL_FREE", 2),
        ("NO_CLASSES", 4),
        ("NO_OFFLINE", 8),
        ("NO_RECOVERY", 16),
        ("NO_EXACT_EXHAUSTION", 32),
        ("ZONE_SIZE", ZONE_SIZE as i64),
        ("ZONE_ALIGN", ZONE_ALIGN as i64),
        ("METADATA_ALIGN", woodlot_frame::METADATA_ALIGN as i64),
        ("MAX_CLASSES", woodlot_frame::MAX_CLASSES as i64),
        ("ORDERS", ORDERS as i64),
        // The tests of misuse use these by their values.
        ("KMEM_FOREIGN", 1),
        ("KMEM_INTERIOR", 2),
        ("KMEM_WRONG_SIZE", 3),
        ("KMEM_DOUBLE_FREE", 4),
        ("KMEM_SIZE", KMEM_SIZE as i64),
        ("OBJECTS_SIZE", OBJECTS_SIZE as i64),
        ("KMEM_ALIGN", KMEM_ALIGN as i64),
        ("KMEM_CACHE_SIZE", CACHE_SIZE as i64),
        ("KMEM_MAX_SIZE", woodlot_kmem::MAX_SIZE as i64),
        ("OBJECTS_TARGET", OBJECTS_TARGET as i64),
        ("KMEM_SEEN", SEEN as i64),
    ];
    let plain = plain.into_iter().map(|(name, value)| (format!("WOODLOT_{name}"), value));
    errors.chain(plain).collect()
}

/// Both headers without their comments.
fn code() -> String {
    let both = [HEADER, KMEM_HEADER].concat();
    let mut code = String::new();
    let mut rest = both.as_str();
    while let Some((before, after)) = rest.split_once("/*") {
        code.push_str(before);
        rest = after.split_once("*/").expect("a comment ends").1;
    }
    code + rest
}

/// The words of the header that begin so and are followed so.
fn words<'a>(code: &'a str, begin: &str, follow: char) -> BTreeSet<&'a str> {
    let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts = code.match_indices(begin).map(|(at, _)| at);
    let whole = starts.filter(|&at| !code[..at].ends_with(name));
    let ended = whole.filter_map(|at| {
        let len = code[at..].find(|c| !name(c))?;
        code[at + len..].trim_start().starts_with(follow).then_some(&code[at..at + len])
    });
    ended.collect()
}

/// Compiles what the crate has against both headers; what the compiler says against it.
fn compile(headers: [&str; 2], name: &str) -> Result<(), String> {
    let mut program = String::from("#include \"woodlot_kmem.h\"\n");
    functions().iter().for_each(|(_, declared)| program.push_str(declared));
    program.push_str(&structures());
    for (name, value) in numbers() {
        assert_that(&mut program, format!("{name} == {value}"));
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let write = |file: &str, text: &str| std::fs::write(folder.join(file), text);
    let written = std::fs::create_dir_all(&folder)
        .and_then(|()| write("woodlot.h", headers[0]))
        .and_then(|()| write("woodlot_kmem.h", headers[1]))
        .and_then(|()| write("header.c", &program));
    written.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let compiled = Command::new(&compiler)
        .args(["-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "header.c"])
        .current_dir(&folder)
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    match compiled.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&compiled.stderr).into_owned()),
    }
}

#[test]
fn what_the_crate_has_compiles_against_the_header() {
    compile([HEADER, KMEM_HEADER], "header").unwrap_or_else(|said| panic!("{said}"));
}

/// The check bites: a header with one type, member or number changed is refused.
#[test]
fn another_header_is_refused() {
    for (index, (from, to)) in [
        ("int woodlot_online(", "long woodlot_online("),
        ("int woodlot_drain(const struct", "int woodlot_drain(struct"),
        ("size_t frame; /* the first", "unsigned long long frame; /* the first"),
        ("    uint32_t base_shift;", "    uint32_t huge_order2, base_shift;"),
        ("uint8_t fills[", "int8_t fills["),
        ("WOODLOT_E_IN_USE = -7,", "WOODLOT_E_IN_USE = -77,"),
        ("int woodlot_kmem_free(const", "long woodlot_kmem_free(const"),
        ("size_t (*enter)(void *context, size_t *", "size_t (*enter)(void *context, int *"),
        ("uint64_t puts;", "int64_t puts;"),
        ("WOODLOT_KMEM_SIZE = 65536", "WOODLOT_KMEM_SIZE = 32768"),
    ]
    .into_iter()
    .enumerate()
    {
        let changed = [HEADER, KMEM_HEADER].map(|header| header.replace(from, to));
        assert_ne!(changed, [HEADER, KMEM_HEADER], "no header has {from:?}");
        let [frames, kmem] = changed.each_ref().map(String::as_str);
        compile([frames, kmem], &format!("changed-{index}")).expect_err(to);
    }
}

#[test]
fn the_header_has_nothing_else() {
    let code = code();
    let functions: BTreeSet<_> = functions().iter().map(|&(name, _)| name).collect();
    let inline = ["woodlot_anywhere", "woodlot_at", "woodlot_within", "woodlot_kmem_cookie_of"];
    let inline = BTreeSet::from(inline);
    let declared = words(&code, "woodlot_", '(');
    assert_eq!(declared, functions.union(&inline).copied().collect());
    let numbers = numbers();
    let numbers: BTreeSet<_> = numbers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(words(&code, "WOODLOT_", '='), numbers);
}

#[test]
fn the_header_is_of_this_version() {
    let version = concat!("#define WOODLOT_VERSION \"", env!("CARGO_PKG_VERSION"), "\"");
    assert!(HEADER.contains(version), "the header does not say: {version}");
}

#[test]
fn words_are_found() {
    let code = "int woodlot_a(void);\nxwoodlot_b(int); enum { WOODLOT_C = 1 , WOODLOT_D=2};";
    assert_eq!(words(code, "woodlot_", '('), BTreeSet::from(["woodlot_a"]));
    assert_eq!(words(code, "WOODLOT_", '='), BTreeSet::from(["WOODLOT_C", "WOODLOT_D"]));
}
