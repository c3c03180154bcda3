//! What Linux says of a machine that runs, below `/sys`.
//!
//! ```text
//!   firmware/memmap/N/{start,end,type}             what firmware said; root may read it
//!   devices/system/memory/block_size_bytes         if not: the blocks of each node
//!   devices/system/node/nodeN/{memoryK,distance}
//! ```

use std::fs;
use std::path::Path;

use super::firmware::{Bad, Firmware, domain, span};

/// Reads a folder that looks like `/sys`.
///
/// # Errors
/// What cannot be read, or is not as it is to be.
pub fn read(root: &Path) -> Result<Firmware, Bad> {
    let mut firmware = Firmware::default();
    let block = text(&root.join("devices/system/memory/block_size_bytes")).ok();
    let block = block.map(|text| hexadecimal(&text)).transpose()?;
    let mut rows = Vec::new();
    for (number, node) in numbered(&root.join("devices/system/node"), "node") {
        let of = domain(number).map_err(Bad::All)?;
        for (index, _) in numbered(&node, "memory").into_iter().filter(|_| block.is_some()) {
            let block = block.unwrap_or(0);
            let range = index.checked_mul(block).and_then(|start| span(start, block));
            let range = range.ok_or_else(|| Bad::all(format!("memory{index} wraps around")))?;
            firmware.nodes.push((range, of));
        }
        let row = text(&node.join("distance"))?;
        let row: Result<Vec<u8>, _> = row.split_whitespace().map(str::parse).collect();
        rows.push((of, row.map_err(|_| Bad::all(format!("node{number}/distance: no distances")))?));
    }
    // Linux says how far those are that are there: with gaps between them, nothing is said of the rest.
    if rows
        .iter()
        .enumerate()
        .all(|(at, (of, row))| at == usize::from(*of) && row.len() == rows.len())
    {
        firmware.distances = rows.into_iter().flat_map(|(_, row)| row).collect();
    }
    for (number, entry) in numbered(&root.join("firmware/memmap"), "") {
        let [start, last] = ["start", "end"].map(|name| hexadecimal(&text(&entry.join(name))?));
        let (start, last) = (start?, last?);
        let range = last.checked_sub(start).and_then(|more| span(start, more.checked_add(1)?));
        let range =
            range.ok_or_else(|| Bad::all(format!("memmap/{number} ends before it begins")))?;
        let usable = text(&entry.join("type"))?.trim() == "System RAM";
        if usable { &mut firmware.usable } else { &mut firmware.reserved }.push(range);
    }
    if firmware.usable.is_empty() {
        firmware.usable = firmware.nodes.iter().map(|(range, _)| range.clone()).collect();
    }
    match firmware.usable.is_empty() {
        true => {
            Err(Bad::all("there is neither firmware/memmap nor devices/system/node/node*/memory*"))
        }
        false => Ok(firmware),
    }
}

fn text(path: &Path) -> Result<String, Bad> {
    fs::read_to_string(path).map_err(|cause| Bad::All(format!("{}: {cause}", path.display())))
}

fn hexadecimal(text: &str) -> Result<u64, Bad> {
    let digits = text.trim();
    let number = u64::from_str_radix(digits.strip_prefix("0x").unwrap_or(digits), 16);
    number.map_err(|_| Bad::All(format!("{digits:?} is no number in hexadecimal")))
}

/// What is called so in a folder, with a number behind it, by number.
fn numbered(folder: &Path, name: &str) -> Vec<(u64, std::path::PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let number =
        |entry: &fs::DirEntry| entry.file_name().to_str()?.strip_prefix(name)?.parse::<u64>().ok();
    let mut found: Vec<_> =
        entries.filter_map(|entry| Some((number(&entry)?, entry.path()))).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn nodes_and_firmware_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert!(read(root).unwrap_err().to_string().contains("neither"));
        write(root, "devices/system/memory/block_size_bytes", "8000000\n");
        for (node, block, row) in [(0, 0, "10 21\n"), (1, 32, "21 10\n")] {
            write(root, &format!("devices/system/node/node{node}/memory{block}/state"), "");
            write(root, &format!("devices/system/node/node{node}/distance"), row);
        }
        let firmware = read(root).unwrap();
        assert_eq!(firmware.nodes, [(0..0x800_0000, 0), (1 << 32..(1 << 32) + 0x800_0000, 1)]);
        assert_eq!(firmware.usable.len(), 2);
        assert_eq!(firmware.distances, [10, 21, 21, 10]);
        write(root, "firmware/memmap/0/start", "0x1000\n");
        write(root, "firmware/memmap/0/end", "0x9fff\n");
        write(root, "firmware/memmap/0/type", "System RAM\n");
        assert_eq!(read(root).unwrap().usable, std::slice::from_ref(&(0x1000..0xa000)));
        write(root, "firmware/memmap/0/end", "0x9ffg\n");
        assert_eq!(read(root).unwrap_err().to_string(), "\"0x9ffg\" is no number in hexadecimal");
        write(root, "firmware/memmap/0/end", "0xf\n");
        assert_eq!(read(root).unwrap_err().to_string(), "memmap/0 ends before it begins");
    }
}
