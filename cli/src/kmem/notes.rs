//! The notes that lead to heaps, found in the memory of a process.
//!
//! ```text
//!   begin of a file ─► ELF header ─► PT_NOTE segments ─► note "Woodlot" ─► page
//! ```
//!
//! What is mapped is read, and no file: it may have been replaced since, or lie in a container.

use object::Endianness;
use object::elf::{FileHeader64, NoteType, PT_LOAD, PT_NOTE, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use woodlot_bench::Failure;
use woodlot_malloc::outside::{Memory, NOTE_NAME, NOTE_TYPE};

use super::process::Process;

/// Bytes of a file that have its headers, as linkers write them.
const HEADERS: usize = 4096;
/// Notes above this are not looked through.
const LONGEST: usize = 1 << 20;

/// The addresses that notes lead to, of all programs and libraries of a process. What cannot be read has none.
///
/// # Errors
/// No memory of the process can be read.
pub fn pages(process: &Process) -> Result<Vec<usize>, Failure> {
    let (mut pages, mut refused) = (Vec::new(), None);
    let mut is_read = false;
    for &begin in &process.files {
        let mut headers = [0; HEADERS];
        match process.read(begin, &mut headers) {
            Ok(()) => {
                is_read = true;
                pages.extend(pages_of(process, begin, &headers));
            }
            Err(cause) => refused = Some(cause),
        }
    }
    match refused {
        Some(cause) if !is_read => Err(process.cannot_be_read(&cause)),
        _ => Ok(pages),
    }
}

/// The addresses that the notes of one file lead to.
fn pages_of(process: &Process, begin: usize, headers: &[u8]) -> Vec<usize> {
    let Some((endian, segments)) = segments(headers) else { return Vec::new() };
    // Where address 0 of the file lies.
    let first = segments
        .iter()
        .find(|segment| segment.p_type(endian) == PT_LOAD && segment.p_offset(endian) == 0);
    let Some(first) = first else { return Vec::new() };
    let zero = begin.wrapping_sub(first.p_vaddr(endian) as usize);
    let notes = segments.iter().filter(|segment| segment.p_type(endian) == PT_NOTE);
    notes.flat_map(|segment| pages_in(process, zero, endian, segment)).collect()
}

fn segments(headers: &[u8]) -> Option<(Endianness, &[ProgramHeader64<Endianness>])> {
    let header = FileHeader64::<Endianness>::parse(headers).ok()?;
    let endian = header.endian().ok()?;
    Some((endian, header.program_headers(endian, headers).ok()?))
}

/// The addresses that the notes of a segment lead to, if it is one of notes.
fn pages_in(
    process: &Process,
    zero: usize,
    endian: Endianness,
    segment: &ProgramHeader64<Endianness>,
) -> Vec<usize> {
    let address = zero.wrapping_add(segment.p_vaddr(endian) as usize);
    let mut bytes = vec![0; (segment.p_memsz(endian) as usize).min(LONGEST)];
    if process.read(address, &mut bytes).is_err() {
        return Vec::new();
    }
    // As a segment of the bytes that were read.
    let mut here = *segment;
    here.p_offset.set(endian, 0);
    here.p_filesz.set(endian, bytes.len() as u64);
    let Ok(Some(mut notes)) = here.notes(endian, &*bytes) else { return Vec::new() };
    let mut pages = Vec::new();
    // Notes behind one that is damaged are not found.
    while let Ok(Some(note)) = notes.next() {
        let [name, number] = [note.name_bytes(), note.desc()];
        if name == NOTE_NAME
            && note.n_type(endian) == NoteType(NOTE_TYPE)
            && let Ok(offset) = number.try_into().map(usize::from_ne_bytes)
        {
            let place = number.as_ptr().addr() - bytes.as_ptr().addr();
            pages.push(address.wrapping_add(place).wrapping_add(offset));
        }
    }
    pages
}
