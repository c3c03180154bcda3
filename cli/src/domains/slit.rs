//! ACPI's System Locality Information Table: how far domains are from each other.
//!
//! ```text
//!   "SLIT" │ length u32 │ … 36 bytes of header │ localities u64 │ rows of one byte each
//! ```

use woodlot_domains::MAX_DOMAINS;

use super::firmware::Bad;

const HEADER: usize = 36;

/// Reads a table.
///
/// # Errors
/// It is none, or not whole.
pub fn table(bytes: &[u8]) -> Result<Vec<u8>, Bad> {
    if !bytes.starts_with(b"SLIT") {
        return Err(Bad::Byte(0, "this is no SLIT".into()));
    }
    let count = bytes.get(HEADER..).and_then(<[u8]>::first_chunk);
    let count = count.map(|count| u64::from_le_bytes(*count));
    let count =
        count.ok_or_else(|| Bad::Byte(HEADER, "the table ends before the localities".into()))?;
    let known = usize::try_from(count).ok().filter(|&count| count <= MAX_DOMAINS);
    let known = known.ok_or_else(|| {
        Bad::Byte(HEADER, format!("{count} localities, and there are {MAX_DOMAINS}"))
    })?;
    let rows = bytes.get(HEADER + 8..).and_then(|rows| rows.get(..known * known));
    let rows = rows.ok_or_else(|| {
        Bad::Byte(HEADER + 8, format!("{} distances are not there", known * known))
    })?;
    Ok(rows.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_or_refused() {
        let table_of =
            |count: u64, rows: &[u8]| [&b"SLIT"[..], &[0; 32], &count.to_le_bytes(), rows].concat();
        assert_eq!(table(&table_of(2, &[10, 21, 21, 10])), Ok(vec![10, 21, 21, 10]));
        let said = |bytes: &[u8]| table(bytes).unwrap_err().to_string();
        assert_eq!(said(b"SRAT"), "byte 0x0: this is no SLIT");
        assert_eq!(said(b"SLIT"), "byte 0x24: the table ends before the localities");
        assert_eq!(said(&table_of(2, &[10; 3])), "byte 0x2c: 4 distances are not there");
        assert_eq!(
            said(&table_of(u64::MAX, &[])),
            "byte 0x24: 18446744073709551615 localities, and there are 64"
        );
    }
}
