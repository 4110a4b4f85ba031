//! Checks that a statement's text is safe, whatever the request was.

/// Rejects text that is not one statement, or that has anything but words, numbers and our operators outside quotes.
///
/// # Panics
/// If the text is rejected.
pub(crate) fn check(text: &str) {
    let mut depth = 0_i32;
    let mut chars = text.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        match c {
            '"' | '\'' => {
                let escapes = c == '\'' && before == 'E';
                loop {
                    match chars.next() {
                        Some('\\') if escapes => {
                            // A backslash in a JSON key, and line breaks of CSV.
                            let ours = matches!(chars.next(), Some('\\' | 'n'));
                            assert!(ours, "unexpected escape in {text}");
                        }
                        Some('\0') | None => panic!("unterminated quote in {text}"),
                        Some(end) if end == c => {
                            if chars.peek() != Some(&c) {
                                break;
                            }
                            chars.next();
                        }
                        Some(_) => {}
                    }
                }
            }
            '(' => depth += 1,
            ')' => depth -= 1,
            // `$` numbers parameters; the grammar allows it in a type name, which PostgreSQL rejects.
            '_' | '$' | '.' | ',' | ':' | '*' | '=' | '<' | '>' | '~' | '@' | '&' | '|' | '+' | '[' | ']'
            | ' ' => {}
            '-' => assert!(chars.peek() != Some(&'-'), "a comment in {text}"),
            c => assert!(c.is_alphanumeric(), "{c:?} in {text}"),
        }
        assert!(depth >= 0, "unmatched `)` in {text}");
        before = c;
    }
    assert_eq!(depth, 0, "unmatched `(` in {text}");
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn accepts_generated_statements() {
        check(
            r#"SELECT ("t"."a;""b"->'x--''y'->> E'\\') AS "n" FROM "s"."t" WHERE "a" -|- $1 AND NOT ("b" @> $2)"#,
        );
    }

    #[test]
    fn rejects_text_outside_quotes() {
        for broken in [
            "select 1; drop table t",
            "select 1 -- x",
            "select 'a",
            "select \"a",
            "select (1",
            "select 1)",
            "/* */",
            r"select E'\''",
        ] {
            assert!(std::panic::catch_unwind(|| check(broken)).is_err(), "{broken}");
        }
    }
}
