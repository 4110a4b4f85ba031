//! Parser for `postgrest.conf`: `name = value` lines with `#` comments, where a value is a double-quoted string, a number or
//! a boolean. Strings may interpolate variables, `$(HOME)`, and earlier settings; `$$` is a dollar sign. The format also has
//! `import "file"` and groups, `app.settings { name = "value" }`.
//!
//! Reports every mistake with its line and continues after it. [`super`] interprets the names.

use std::path::{Path, PathBuf};

use basalt_core::settings::{Fault, Source};

use crate::config::foreign::Entry;

/// Limits recursive imports.
const MAX_DEPTH: usize = 8;

/// Parses the file at `path` in order. `shown` shortens a path for messages; `variable` reads an environment variable.
pub(super) fn read(
    path: &Path,
    shown: &dyn Fn(&Path) -> PathBuf,
    variable: &dyn Fn(&str) -> Option<String>,
) -> (Vec<Entry>, Vec<Fault>) {
    let mut reader = Reader { shown, variable, entries: Vec::new(), faults: Vec::new() };
    reader.file(path, &Source::Flag("the configuration file"), 0);
    (reader.entries, reader.faults)
}

struct Reader<'a> {
    shown: &'a dyn Fn(&Path) -> PathBuf,
    variable: &'a dyn Fn(&str) -> Option<String>,
    entries: Vec<Entry>,
    faults: Vec<Fault>,
}

impl Reader<'_> {
    fn file(&mut self, path: &Path, imported_by: &Source, depth: usize) {
        let name = (self.shown)(path);
        let text = match std::fs::read(path).map(String::from_utf8) {
            Ok(Ok(text)) => text,
            Ok(Err(_)) => {
                return self
                    .fault(imported_by, format!("{} is not UTF-8 text: save it as UTF-8", name.display()));
            }
            Err(error) => {
                return self.fault(
                    imported_by,
                    format!(
                        "cannot read {} ({error}): check the path and the file's permissions",
                        name.display()
                    ),
                );
            }
        };
        let mut cursor = Cursor { rest: &text, line: 1, path: name };
        self.block(&mut cursor, "", path, depth, false);
    }

    fn fault(&mut self, source: &Source, message: String) {
        self.faults.push(Fault { source: source.clone(), message });
    }

    /// Parses settings up to the end of the file or group.
    fn block(&mut self, cursor: &mut Cursor<'_>, prefix: &str, path: &Path, depth: usize, in_group: bool) {
        loop {
            cursor.skip_space();
            let source = cursor.source();
            if cursor.rest.is_empty() {
                if in_group {
                    self.fault(&source, format!("the group {prefix} is not closed: add a closing brace"));
                }
                return;
            }
            if in_group && cursor.take('}') {
                return;
            }
            if let Err(problem) = self.item(cursor, prefix, path, depth, &source) {
                self.fault(&source, problem);
                cursor.skip_line();
            }
        }
    }

    fn item(
        &mut self,
        cursor: &mut Cursor<'_>,
        prefix: &str,
        path: &Path,
        depth: usize,
        source: &Source,
    ) -> Result<(), String> {
        let name = cursor.name().ok_or("is not a setting: write name = value, or # before a comment")?;
        cursor.skip_space();
        if name == "import" && cursor.rest.starts_with('"') {
            let file = self.text(cursor)?;
            if depth == MAX_DEPTH {
                return Err(format!("imports are nested too deeply, perhaps in a cycle: {file}"));
            }
            let base = path.parent().unwrap_or(Path::new("."));
            self.file(&base.join(file), source, depth + 1);
            return cursor.end_of_item("import");
        }
        let whole = format!("{prefix}{name}");
        if cursor.take('{') {
            self.block(cursor, &format!("{whole}."), path, depth, true);
            return Ok(());
        }
        if !cursor.take('=') {
            return Err(format!("{whole} has no value: write {whole} = \"…\""));
        }
        cursor.skip_space();
        let value = self.value(cursor, &whole)?;
        cursor.end_of_item(&whole)?;
        self.entries.push(Entry { name: whole, value, source: source.clone() });
        Ok(())
    }

    fn value(&self, cursor: &mut Cursor<'_>, name: &str) -> Result<String, String> {
        if cursor.rest.starts_with('"') {
            return self.text(cursor).map_err(|problem| format!("{name} {problem}"));
        }
        if cursor.rest.starts_with('[') {
            return Err(format!("{name} is a list: write it as one string, {name} = \"a, b\""));
        }
        let word = cursor.take_while(|c| !c.is_whitespace() && !matches!(c, '#' | '}'));
        match word {
            "true" | "on" => Ok("true".to_owned()),
            "false" | "off" => Ok("false".to_owned()),
            "" => Err(format!("{name} has no value: write {name} = \"…\"")),
            number if number.parse::<f64>().is_ok() && number.starts_with(|c: char| c.is_ascii_digit()) => {
                Ok(number.to_owned())
            }
            _ => Err(format!("{name}: put the value in double quotes, {name} = \"…\"")),
        }
    }

    /// Parses a double-quoted string and resolves escapes and interpolations.
    fn text(&self, cursor: &mut Cursor<'_>) -> Result<String, String> {
        let mut text = String::new();
        cursor.take('"');
        loop {
            match cursor.next().ok_or("has no closing double quote: add one at the end of the value")? {
                '"' => return self.interpolated(&text),
                '\\' => text.push(
                    cursor.escape().ok_or("has a \\ that is not followed by n, r, t, \", \\ or uXXXX")?,
                ),
                other => text.push(other),
            }
        }
    }

    fn interpolated(&self, text: &str) -> Result<String, String> {
        let mut whole = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            whole.push_str(before);
            if let Some(after) = after.strip_prefix('$') {
                whole.push('$');
                rest = after;
                continue;
            }
            let inner = after.strip_prefix('(').and_then(|after| after.split_once(')'));
            let (name, after) =
                inner.ok_or("has a $ that is not part of $(VARIABLE): write $$ for a dollar sign")?;
            let earlier = self.entries.iter().rev().find(|entry| entry.name == name);
            let value = earlier.map(|entry| entry.value.clone()).or_else(|| (self.variable)(name));
            whole.push_str(&value.ok_or_else(|| {
                format!("uses $({name}), but this variable is not set: set it, or write $$ for a dollar sign")
            })?);
            rest = after;
        }
        whole.push_str(rest);
        Ok(whole)
    }
}

/// The position of the parser in a file.
struct Cursor<'a> {
    rest: &'a str,
    line: usize,
    path: PathBuf,
}

impl<'a> Cursor<'a> {
    fn source(&self) -> Source {
        Source::File { path: self.path.clone(), line: self.line }
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next()?;
        self.rest = chars.as_str();
        self.line += usize::from(next == '\n');
        Some(next)
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.rest.starts_with(wanted);
        if found {
            let _wanted = self.next();
        }
        found
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    /// Skips blanks, empty lines and comments.
    fn skip_space(&mut self) {
        loop {
            if self.rest.starts_with('#') {
                let _comment = self.take_while(|c| c != '\n');
            } else if !self.rest.starts_with(char::is_whitespace) {
                return;
            } else {
                let _blank = self.next();
            }
        }
    }

    fn skip_line(&mut self) {
        let _rest_of_line = self.take_while(|c| c != '\n');
    }

    fn name(&mut self) -> Option<String> {
        if !self.rest.starts_with(char::is_alphabetic) {
            return None;
        }
        Some(self.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.')).to_owned())
    }

    /// Parses the character after a backslash.
    fn escape(&mut self) -> Option<char> {
        match self.next()? {
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            same @ ('"' | '\\') => Some(same),
            'u' => {
                let first = self.code_unit()?;
                if !(0xD800..0xDC00).contains(&first) {
                    return char::from_u32(first);
                }
                // The second half of a surrogate pair.
                let second = (self.take('\\') && self.take('u')).then(|| self.code_unit())??;
                let low = second.checked_sub(0xDC00).filter(|low| *low < 0x400)?;
                char::from_u32(0x1_0000 + ((first - 0xD800) << 10) + low)
            }
            _ => None,
        }
    }

    fn code_unit(&mut self) -> Option<u32> {
        let (digits, rest) = self.rest.split_at_checked(4)?;
        let unit = u32::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?;
        self.rest = rest;
        Some(unit)
    }

    /// Checks that only a comment follows on the line.
    fn end_of_item(&mut self, name: &str) -> Result<(), String> {
        let _blanks = self.take_while(|c| matches!(c, ' ' | '\t' | '\r'));
        if self.rest.is_empty() || self.rest.starts_with(['\n', '#', '}']) {
            return Ok(());
        }
        Err(format!(
            "{name}: unexpected text after the value; start a comment with #, and put the value in double quotes"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (Vec<(String, String)>, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("postgrest.conf"), text).unwrap();
        std::fs::write(dir.path().join("more.conf"), "db-pool = 7").unwrap();
        let shown = |path: &Path| path.strip_prefix(dir.path()).unwrap_or(path).to_path_buf();
        let variable = |name: &str| (name == "THERE").then(|| "here".to_owned());
        let (entries, faults) = read(&dir.path().join("postgrest.conf"), &shown, &variable);
        let entries = entries.into_iter().map(|entry| (entry.name, entry.value)).collect();
        (entries, faults.into_iter().map(|fault| format!("{}: {}", fault.source, fault.message)).collect())
    }

    #[test]
    fn parses_every_form_of_a_value() {
        let text = "# a comment\n\
            db-uri = \"postgres://a:b@c/d\" # behind\n\
            db-pool=5\ndb-plan-enabled = on\n db-config = false\n\
            jwt-secret = \"a$$b\\\"c\\\\\\u0041\\ud83d\\ude00\\n\"\n\
            app.settings.place = \"$(THERE) $(db-pool)\"\n\
            app.settings {\none = \"1\"\ntwo=2 }\nimport \"more.conf\"\n\
            db-anon-role\n =\n \"guest\"\n";
        let (entries, faults) = parsed(text);
        assert_eq!(faults, Vec::<String>::new());
        let expected = [
            ("db-uri", "postgres://a:b@c/d"),
            ("db-pool", "5"),
            ("db-plan-enabled", "true"),
            ("db-config", "false"),
            ("jwt-secret", "a$b\"c\\A😀\n"),
            ("app.settings.place", "here 5"),
            ("app.settings.one", "1"),
            ("app.settings.two", "2"),
            ("db-pool", "7"),
            ("db-anon-role", "guest"),
        ];
        assert_eq!(entries, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn truncated_files_do_not_panic() {
        let whole =
            "a = \"$(THERE) $$ \\u00e9\\ud83d\\ude00\" # x\nb { c = [1] d=-1 }\nimport \"more.conf\"\n";
        for end in 0..=whole.len() {
            let _result = parsed(whole.get(..end).unwrap());
        }
    }

    #[test]
    fn reports_line_of_each_fault_and_continues() {
        for (wrong, expected) in [
            ("db-anon-role = anon", "in double quotes"),
            ("db-anon-role = \"anon\" x", "unexpected text after the value"),
            ("db-anon-role \"anon\"", "has no value"),
            ("db-anon-role =", "in double quotes"),
            ("= \"anon\"", "is not a setting"),
            ("db-schemas = [\"a\", \"b\"]", "is a list"),
            ("jwt-secret = \"a$b\"", "write $$"),
            ("jwt-secret = \"$(NOT_THERE)\"", "this variable is not set"),
            ("jwt-secret = \"\\x41\"", "has a \\ that is not"),
            ("import \"missing.conf\"", "cannot read"),
            ("db-pool = -5", "in double quotes"),
        ] {
            let (entries, faults) = parsed(&format!("\n# first\n{wrong}\ndb-pool = 3\n"));
            let first = faults.first().map(String::as_str).unwrap_or_default();
            assert!(
                first.starts_with("postgrest.conf:3: ") && first.contains(expected),
                "{wrong}: {faults:?}"
            );
            let is_swallowed = wrong == "db-anon-role =";
            assert_eq!(entries.len(), usize::from(!is_swallowed), "{wrong}: {entries:?}");
        }
        let (_, faults) = parsed("a = \"unclosed\nb = 1\n");
        assert!(faults[0].contains("has no closing double quote"), "{faults:?}");
        let (_, faults) = parsed("app {\n a = 1\n");
        assert!(faults[0].contains("closing brace"), "{faults:?}");
    }
}
