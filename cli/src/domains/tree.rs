//! A flattened device tree: the Devicetree Specification, chapter 5.
//!
//! ```text
//!   header    magic, sizes, where the blocks are                 numbers are big-endian
//!   reserved  start u64 │ bytes u64, to a pair of zeros
//!   structure BEGIN name … PROP bytes, name … END                4 bytes and what they announce
//!
//!   memory@…              device_type = "memory", reg, numa-node-id
//!   reserved-memory/…     reg
//!   distance-map          compatible = "numa-distance-map-v1", distance-matrix: from, to, distance, …
//! ```
//!
//! It is read here and by no crate, since those there are panic at damaged trees.

use std::collections::BTreeMap;

use super::firmware::{Bad, Firmware, domain, span};

pub const MAGIC: [u8; 4] = 0xd00d_feed_u32.to_be_bytes();

const BEGIN: u32 = 1;
const END: u32 = 2;
const PROPERTY: u32 = 3;
const NOTHING: u32 = 4;
const LAST: u32 = 9;

/// The bytes of a tree.
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn part(self, at: usize, length: usize) -> Result<&'a [u8], Bad> {
        let part = at.checked_add(length).and_then(|end| self.0.get(at..end));
        part.ok_or_else(|| Bad::Byte(at, format!("the tree ends here, {length} bytes too early")))
    }

    fn word(self, at: usize) -> Result<u32, Bad> {
        self.part(at, 4)
            .map(|bytes| bytes.iter().fold(0, |word, &byte| word << 8 | u32::from(byte)))
    }

    fn long(self, at: usize) -> Result<u64, Bad> {
        Ok(u64::from(self.word(at)?) << 32 | u64::from(self.word(at + 4)?))
    }

    /// The text at an offset, up to a zero.
    fn text(self, at: usize) -> Result<&'a str, Bad> {
        let rest = self.0.get(at..).unwrap_or_default();
        let end = rest.iter().position(|&byte| byte == 0);
        let text = end.and_then(|end| str::from_utf8(rest.get(..end)?).ok());
        text.ok_or_else(|| Bad::Byte(at, "there is no name".into()))
    }
}

/// A node that is open: its name, its properties with their offsets, and how long numbers below it are.
#[derive(Default)]
struct Node<'a> {
    at: usize,
    name: &'a str,
    properties: BTreeMap<&'a str, (usize, &'a [u8])>,
    /// Of an address and a size, in words, for its children.
    cells: (usize, usize),
}

impl Node<'_> {
    fn is(&self, property: &str, value: &[u8]) -> bool {
        self.properties.get(property).is_some_and(|(_, bytes)| bytes.starts_with(value))
    }

    fn word(&self, property: &str) -> Option<u32> {
        let (_, bytes) = self.properties.get(property)?;
        bytes.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }
}

/// Numbers of four bytes each, as one.
fn number(bytes: &[u8]) -> Option<u64> {
    // What stands before the last eight is zero, or the number is too large.
    let (before, last) = bytes.split_at(bytes.len().saturating_sub(8));
    let number = last.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
    before.iter().all(|&byte| byte == 0).then_some(number)
}

/// Reads a tree.
///
/// # Errors
/// What is wrong with it, and where.
pub fn tree(bytes: &[u8]) -> Result<Firmware, Bad> {
    let bytes = Bytes(bytes);
    if bytes.part(0, 4)? != MAGIC {
        return Err(Bad::Byte(0, "this is no device tree".into()));
    }
    let [structure, strings, reserved] = [8, 12, 16].map(|at| bytes.word(at));
    let (strings, mut next) = (strings? as usize, reserved? as usize);
    let mut firmware = Firmware::default();
    loop {
        let (start, length) = (bytes.long(next)?, bytes.long(next + 8)?);
        if (start, length) == (0, 0) {
            break;
        }
        let wraps = || Bad::Byte(next, "the range wraps around".into());
        firmware.reserved.push(span(start, length).ok_or_else(wraps)?);
        next += 16;
    }
    let mut at = structure? as usize;
    let mut open = Vec::<Node<'_>>::new();
    loop {
        let token = bytes.word(at)?;
        match token {
            BEGIN => {
                let name = bytes.text(at + 4)?;
                open.push(Node { at, name, cells: (2, 1), ..Node::default() });
                at += 4 + (name.len() + 1).next_multiple_of(4);
            }
            PROPERTY => {
                let (length, name) = (bytes.word(at + 4)? as usize, bytes.word(at + 8)? as usize);
                let value = bytes.part(at + 12, length)?;
                let name = bytes.text(strings.saturating_add(name))?;
                let node = open.last_mut();
                let node = node.ok_or_else(|| Bad::Byte(at, "a property of no node".into()))?;
                node.properties.insert(name, (at + 12, value));
                let cells = node.word(name).map(|count| count as usize);
                match (name, cells) {
                    ("#address-cells", Some(count)) => node.cells.0 = count,
                    ("#size-cells", Some(count)) => node.cells.1 = count,
                    _ => {}
                }
                at += 12 + length.next_multiple_of(4);
            }
            END => {
                let node = open.pop().ok_or_else(|| Bad::Byte(at, "no node ends here".into()))?;
                let above: Vec<_> = open.iter().map(|node| node.name).collect();
                let cells = open.last().map_or((2, 1), |parent| parent.cells);
                close(&node, (&above, cells), &mut firmware)?;
                at += 4;
            }
            NOTHING => at += 4,
            LAST if open.is_empty() => return Ok(firmware),
            LAST => return Err(Bad::Byte(at, "the tree ends in a node".into())),
            _ => return Err(Bad::Byte(at, format!("{token:#x} begins nothing"))),
        }
    }
}

/// What a node says of memory.
fn close(
    node: &Node<'_>,
    (above, cells): (&[&str], (usize, usize)),
    firmware: &mut Firmware,
) -> Result<(), Bad> {
    let node_id = node.word("numa-node-id").map_or(0, u64::from);
    let of = || domain(node_id).map_err(|what| Bad::Byte(node.at, what));
    match above {
        [_] if node.is("device_type", b"memory\0") => {
            for range in ranges(node, cells)? {
                firmware.nodes.push((range.clone(), of()?));
                firmware.usable.push(range);
            }
        }
        [_, "reserved-memory"] => firmware.reserved.extend(ranges(node, cells)?),
        [_] if node.is("compatible", b"numa-distance-map-v1\0") => {
            let Some((at, matrix)) = node.properties.get("distance-matrix") else { return Ok(()) };
            firmware.distances = distances(*at, matrix)?;
        }
        _ => {}
    }
    Ok(())
}

/// The ranges of a node's `reg`.
fn ranges(node: &Node<'_>, cells: (usize, usize)) -> Result<Vec<std::ops::Range<u64>>, Bad> {
    let Some((at, bytes)) = node.properties.get("reg") else { return Ok(Vec::new()) };
    let bad = |what: &str| Bad::Byte(*at, format!("{}: {what}", node.name));
    let [address, size] = [cells.0, cells.1].map(|count| count.saturating_mul(4));
    let entry = address.saturating_add(size);
    if size == 0 || !bytes.len().is_multiple_of(entry) {
        return Err(bad("reg has no whole number of ranges"));
    }
    let range = |entry: &[u8]| {
        let (address, size) = entry.split_at_checked(address)?;
        span(number(address)?, number(size)?)
    };
    bytes
        .chunks(entry)
        .map(|entry| range(entry).ok_or_else(|| bad("the range wraps around")))
        .collect()
}

/// The rows of a distance map: what is not said is 20, and 10 of a domain itself.
fn distances(at: usize, bytes: &[u8]) -> Result<Vec<u8>, Bad> {
    let words: Vec<u64> = bytes.chunks(4).filter_map(number).collect();
    let bad = |what: String| Bad::Byte(at, what);
    let (triples, rest) = words.as_chunks::<3>();
    if !rest.is_empty() {
        return Err(bad("the distances are no triples".into()));
    }
    let most = triples.iter().flat_map(|[from, to, _]| [*from, *to]).max();
    let count = usize::from(domain(most.unwrap_or(0)).map_err(bad)?) + 1;
    let same = |at: usize| at / count == at % count;
    let mut rows: Vec<u8> = (0..count * count).map(|at| if same(at) { 10 } else { 20 }).collect();
    for [from, to, far] in triples {
        let far = u8::try_from(*far).map_err(|_| bad(format!("{far} is no distance")))?;
        // The way back is as long, unless it is said.
        for (from, to) in [(*from, *to), (*to, *from)] {
            rows.get_mut(from as usize * count + to as usize)
                .into_iter()
                .for_each(|place| *place = far);
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree from its structure block and its strings.
    fn made(words: &[u32], strings: &[u8]) -> Vec<u8> {
        let structure = 40 + 16;
        let strings_at = structure + 4 * words.len() as u32;
        let total = strings_at + strings.len() as u32;
        let header = [0xd00d_feed, total, structure, strings_at, 40, 17, 16, 0, 0, 0];
        let blank = [0; 4];
        let words = header.iter().chain(&blank).chain(words);
        words.flat_map(|word| word.to_be_bytes()).chain(strings.iter().copied()).collect()
    }

    const STRINGS: &[u8] = b"device_type\0reg\0numa-node-id\0#size-cells\0";
    const MEMORY: u32 = u32::from_be_bytes(*b"memo");

    fn small() -> Vec<u32> {
        let name = [MEMORY, u32::from_be_bytes(*b"ry@1"), 0];
        let kind = [PROPERTY, 7, 0, MEMORY, u32::from_be_bytes(*b"ry\0\0")];
        let reg = [PROPERTY, 32, 12, 1, 0, 0, 0x10_0000, 2, 0, 0, 0x20_0000];
        let node = [PROPERTY, 4, 16, 5];
        let cells = [PROPERTY, 4, 29, 2];
        [&[BEGIN, 0][..], &cells, &[BEGIN], &name, &kind, &reg, &node, &[END, END, LAST]].concat()
    }

    #[test]
    fn a_tree_is_read() {
        let firmware = tree(&made(&small(), STRINGS)).unwrap();
        let (one, two) = (1 << 32, 2 << 32);
        let expected = [one..one + 0x10_0000, two..two + 0x20_0000];
        assert_eq!(firmware.usable, expected);
        assert_eq!(firmware.nodes, expected.map(|range| (range, 5)));
    }

    #[test]
    fn distances_are_symmetric_and_full() {
        let words = [0u32, 0, 10, 0, 2, 31].map(u32::to_be_bytes).concat();
        assert_eq!(distances(0, &words), Ok(vec![10, 20, 31, 20, 10, 20, 31, 20, 10]));
        assert!(distances(0, &words[..20]).is_err());
    }

    #[test]
    fn damaged_trees_are_refused_or_read_and_never_panic() {
        let whole = made(&small(), STRINGS);
        for end in 0..whole.len() - STRINGS.len() {
            assert!(tree(&whole[..end]).is_err(), "{end} bytes");
        }
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..20_000 {
            let mut damaged = whole.clone();
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(..damaged.len());
                damaged[at] = if rng.bool() { rng.u8(..) } else { damaged[at] ^ 1 << rng.u8(..8) };
            }
            let _ = tree(&damaged).map(|firmware| firmware.present());
        }
    }
}
