//! What a statement may look like, whatever the request was: the last line of defence, checked on the text itself.

/// Refuses text that is not one statement, or that holds anything but words, numbers and our operators outside quotes.
///
/// # Panics
/// It does.
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
                            // A backslash of a JSON key, and the line breaks of CSV.
                            let ours = matches!(chars.next(), Some('\\' | 'n'));
                            assert!(ours, "an escape that we do not write in {text}");
                        }
                        Some('\0') | None => panic!("a quote does not end in {text}"),
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
            // `$` numbers parameters; the grammar allows it in a cast's type, where PostgreSQL refuses it.
            '_' | '$' | '.' | ',' | ':' | '*' | '=' | '<' | '>' | '~' | '@' | '&' | '|' | '+' | '[' | ']'
            | ' ' => {}
            '-' => assert!(chars.peek() != Some(&'-'), "a comment in {text}"),
            c => assert!(c.is_alphanumeric(), "{c:?} in {text}"),
        }
        assert!(depth >= 0, "a parenthesis too many in {text}");
        before = c;
    }
    assert_eq!(depth, 0, "a parenthesis is open in {text}");
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn statements_as_we_write_them_pass() {
        check(
            r#"SELECT ("t"."a;""b"->'x--''y'->> E'\\') AS "n" FROM "s"."t" WHERE "a" -|- $1 AND NOT ("b" @> $2)"#,
        );
    }

    #[test]
    fn text_that_broke_out_does_not() {
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
