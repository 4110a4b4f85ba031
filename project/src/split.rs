//! Splits a file into statements, so that an error can name its line and the history can list each statement. Handles every
//! construct that may contain a semicolon: strings, quoted names, dollar quotes, comments (block comments nest), parentheses
//! (rules), and `BEGIN ATOMIC … END` bodies; a line that begins with a backslash is a command of psql. It does not parse SQL:
//! PostgreSQL rejects invalid input.

/// One statement of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Statement<'a> {
    /// The text from the first word on, without preceding comments and the semicolon.
    pub(crate) text: &'a str,
    /// The one-based line of the first word.
    pub(crate) line: usize,
    /// Whether a semicolon follows; only the last statement may lack it.
    pub(crate) is_terminated: bool,
}

impl Statement<'_> {
    /// The first `N` words in lower case; missing words are empty.
    pub(crate) fn first_words<const N: usize>(&self) -> [String; N] {
        let mut words =
            self.text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        std::array::from_fn(|_| words.next().unwrap_or_default().to_lowercase())
    }
}

/// The statements of a file, in order, without empty ones (`;;`, or only a comment).
pub(crate) fn split(sql: &str) -> Vec<Statement<'_>> {
    let mut scanner = Scanner { bytes: sql.as_bytes(), at: 0 };
    let mut statements = Vec::new();
    let mut line = 1;
    let mut counted = 0;
    while let Some((start, end, is_terminated)) = scanner.statement() {
        line += newlines(sql, counted, start);
        counted = start;
        // Every boundary is an ASCII byte, so the slice is never inside a character.
        if let Some(text) = sql.get(start..end) {
            statements.push(Statement { text: text.trim_end(), line, is_terminated });
        }
    }
    statements
}

fn newlines(sql: &str, from: usize, to: usize) -> usize {
    sql.as_bytes().get(from..to).unwrap_or_default().iter().filter(|&&byte| byte == b'\n').count()
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    /// Start and end of the next statement, and whether a semicolon follows.
    fn statement(&mut self) -> Option<(usize, usize, bool)> {
        let mut start = None;
        let mut parentheses = 0_usize;
        // Depth of `BEGIN ATOMIC` and nested `CASE`, each of which ends with `END`.
        let mut blocks = 0_usize;
        let mut previous_was_begin = false;
        while let Some(byte) = self.peek(0) {
            if byte.is_ascii_whitespace() {
                self.at += 1;
                continue;
            }
            if self.skip_comment() {
                continue;
            }
            if byte == b';' && parentheses == 0 && blocks == 0 {
                let end = self.at;
                self.at += 1;
                match start {
                    Some(start) => return Some((start, end, true)),
                    None => continue,
                }
            }
            if byte == b'\\' && start.is_none() {
                return Some(self.psql_command());
            }
            start.get_or_insert(self.at);
            let mut is_begin = false;
            match byte {
                b'\'' => self.skip_string(false),
                b'"' => self.skip_until_doubled(b'"'),
                b'$' => self.skip_dollar_quote(),
                b'(' => {
                    parentheses += 1;
                    self.at += 1;
                }
                b')' => {
                    parentheses = parentheses.saturating_sub(1);
                    self.at += 1;
                }
                _ if is_word_start(byte) => {
                    let word = self.word().to_owned();
                    let is = |keyword: &str| word.eq_ignore_ascii_case(keyword.as_bytes());
                    is_begin = is("begin");
                    if is("e") && self.peek(0) == Some(b'\'') {
                        self.skip_string(true);
                    } else if (is("atomic") && previous_was_begin) || (blocks > 0 && is("case")) {
                        blocks += 1;
                    } else if blocks > 0 && is("end") {
                        blocks -= 1;
                    }
                }
                _ => self.at += 1,
            }
            previous_was_begin = is_begin;
        }
        start.map(|start| (start, self.at, false))
    }

    /// A line of psql's own, such as `\restrict` of dumps: it ends with the line.
    fn psql_command(&mut self) -> (usize, usize, bool) {
        let start = self.at;
        while self.peek(0).is_some_and(|byte| byte != b'\n') {
            self.at += 1;
        }
        (start, self.at, true)
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn skip_comment(&mut self) -> bool {
        match (self.peek(0), self.peek(1)) {
            (Some(b'-'), Some(b'-')) => {
                while self.peek(0).is_some_and(|byte| byte != b'\n') {
                    self.at += 1;
                }
                true
            }
            (Some(b'/'), Some(b'*')) => {
                let mut depth = 0_usize;
                loop {
                    match (self.peek(0), self.peek(1)) {
                        (Some(b'/'), Some(b'*')) => {
                            depth += 1;
                            self.at += 2;
                        }
                        (Some(b'*'), Some(b'/')) => {
                            depth -= 1;
                            self.at += 2;
                            if depth == 0 {
                                return true;
                            }
                        }
                        (Some(_), _) => self.at += 1,
                        (None, _) => return true,
                    }
                }
            }
            _ => false,
        }
    }

    /// Skips a string including both quotes.
    fn skip_string(&mut self, has_escapes: bool) {
        if !has_escapes {
            return self.skip_until_doubled(b'\'');
        }
        self.at += 1;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\\' => self.at += 2,
                b'\'' if self.peek(1) == Some(b'\'') => self.at += 2,
                b'\'' => {
                    self.at += 1;
                    return;
                }
                _ => self.at += 1,
            }
        }
        self.at = self.at.min(self.bytes.len());
    }

    /// Skips to the closing quote. A doubled quote reads as two adjacent strings, which ends at the same position.
    fn skip_until_doubled(&mut self, quote: u8) {
        self.at += 1;
        while self.peek(0).is_some_and(|byte| byte != quote) {
            self.at += 1;
        }
        self.at = (self.at + 1).min(self.bytes.len());
    }

    /// Skips `$$ … $$` or `$tag$ … $tag$`; a lone `$` (a parameter) is one byte.
    fn skip_dollar_quote(&mut self) {
        let mut length = 1;
        while self.peek(length).is_some_and(is_word_part) && self.peek(length) != Some(b'$') {
            length += 1;
        }
        let starts_with_digit = self.peek(1).is_some_and(|byte| byte.is_ascii_digit());
        if self.peek(length) != Some(b'$') || starts_with_digit {
            self.at += 1;
            return;
        }
        length += 1;
        let tag = self.bytes.get(self.at..self.at + length).unwrap_or_default();
        self.at += length;
        while self.at < self.bytes.len() {
            if self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(tag)) {
                self.at += length;
                return;
            }
            self.at += 1;
        }
    }

    fn word(&mut self) -> &[u8] {
        let start = self.at;
        // A name may contain a dollar sign, so `a$$b` does not start a quote.
        while self.peek(0).is_some_and(is_word_part) {
            self.at += 1;
        }
        self.bytes.get(start..self.at).unwrap_or_default()
    }
}

const fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

const fn is_word_part(byte: u8) -> bool {
    is_word_start(byte) || byte.is_ascii_digit() || byte == b'$'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(sql: &str) -> Vec<&str> {
        split(sql).iter().map(|statement| statement.text).collect()
    }

    #[test]
    fn semicolons_in_quotes_and_comments_do_not_split() {
        assert_eq!(texts("select 'a;''b;'; select \"c;\"\"d\""), ["select 'a;''b;'", "select \"c;\"\"d\""]);
        assert_eq!(
            texts(r"select e'a\';b'; select 'c\'; select 1"),
            [r"select e'a\';b'", r"select 'c\'", "select 1"]
        );
        assert_eq!(
            texts("select 1 -- a;b\n; /* c; /* d; */ ; */ select 2;"),
            ["select 1 -- a;b", "select 2"]
        );
        assert_eq!(
            texts("do $$ a; b $$; do $x$ $$ ; $x$; select $1; x"),
            ["do $$ a; b $$", "do $x$ $$ ; $x$", "select $1", "x"]
        );
        assert_eq!(texts("select a$$b; select c$$d"), ["select a$$b", "select c$$d"]);
    }

    #[test]
    fn rules_and_atomic_bodies_may_contain_semicolons() {
        assert_eq!(texts("create rule r as on insert to t do (select 1; select 2); x").len(), 2);
        let function =
            "create function f() returns int begin atomic select case when true then 1 end; select 2; end";
        assert_eq!(texts(&format!("{function}; select 3")), [function, "select 3"]);
        assert_eq!(texts("begin; select 1; end;"), ["begin", "select 1", "end"]);
    }

    #[test]
    fn statements_have_line_numbers() {
        let statements =
            split("-- head\n\nselect 1;\n/* two\nlines */ select\n2;;\n\nselect 'ä;\n'; select 4");
        let lines: Vec<usize> = statements.iter().map(|statement| statement.line).collect();
        assert_eq!(lines, [3, 5, 8, 9]);
    }

    #[test]
    fn unclosed_constructs_extend_to_the_end() {
        for open in
            ["select 'a;", "select \"a;", "do $$ a;", "/* a;", "select (1;", "select e'a\\", "select e'a\\'"]
        {
            assert!(texts(open).len() <= 1, "{open}");
        }
    }

    #[test]
    fn first_words_are_lower_case() {
        let [first, second, third] = split("COPY public.t FROM stdin").first().unwrap().first_words();
        assert_eq!([first, second, third], ["copy", "public", "t"]);
    }

    proptest! {
        #[test]
        fn never_panics_and_loses_only_separators(sql in "[ae';\"$()/*\\-\n ä1]{0,60}") {
            let mut rest = sql.as_str();
            for statement in split(&sql) {
                let at = rest.find(statement.text).expect("statements come in order");
                rest = rest.get(at + statement.text.len()..).expect("a boundary");
            }
        }
    }
}
