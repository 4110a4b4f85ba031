//! Inputs as text: one per line, every byte that is not printable ASCII escaped as in a Rust literal. A diff of such a
//! file can be reviewed, which a folder of some hundred files named by hashes cannot.

/// The corpus file of a target.
#[must_use]
pub fn path(target: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(format!("{target}.txt"))
}

/// The inputs of a file's text; `None` if a line holds an escape that [`print()`] does not write.
#[must_use]
pub fn parse(text: &str) -> Option<Vec<Vec<u8>>> {
    text.lines().map(unescape).collect()
}

/// The text of a file with these inputs, the shortest first.
#[must_use]
pub fn print(mut inputs: Vec<Vec<u8>>) -> String {
    inputs.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    inputs.dedup();
    inputs.iter().map(|input| input.escape_ascii().to_string() + "\n").collect()
}

fn unescape(line: &str) -> Option<Vec<u8>> {
    let mut bytes = line.bytes();
    let mut input = Vec::with_capacity(line.len());
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            input.push(byte);
            continue;
        }
        input.push(match bytes.next()? {
            b't' => b'\t',
            b'r' => b'\r',
            b'n' => b'\n',
            plain @ (b'\'' | b'"' | b'\\') => plain,
            b'x' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            _ => return None,
        });
    }
    Some(input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_round_trips() {
        let inputs: Vec<Vec<u8>> = vec![vec![], (0..=255).collect()];
        assert_eq!(parse(&print(inputs.clone())), Some(inputs));
        assert_eq!(parse("\\q"), None);
    }
}
