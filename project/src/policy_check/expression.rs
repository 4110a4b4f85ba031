//! A policy's condition as PostgreSQL prints it, read just far enough to see calls and comparisons.

/// Functions that answer the same for every row of a request.
const OF_THE_REQUEST: [&str; 7] =
    ["auth.uid", "auth.jwt", "auth.role", "auth.email", "current_setting", "is_admin", "public.is_admin"];

/// The words, strings and signs of a condition.
#[derive(Debug)]
pub(super) struct Expression<'a>(Vec<&'a str>);

impl<'a> Expression<'a> {
    pub(super) fn read(mut text: &'a str) -> Self {
        let mut tokens = Vec::new();
        loop {
            text = text.trim_start();
            let Some(first) = text.chars().next() else { return Self(tokens) };
            let is_word = |c: char| c.is_alphanumeric() || "_.$\"".contains(c);
            let end = match first {
                '\'' => {
                    text.char_indices().skip(1).find(|(_, c)| *c == '\'').map_or(text.len(), |(at, _)| at + 1)
                }
                c if is_word(c) => text.find(|c| !is_word(c)).unwrap_or(text.len()),
                '<' | '>' | '=' | '!' | '~' | ':' => {
                    text.find(|c| !"<>=!~:*".contains(c)).unwrap_or(text.len())
                }
                c => c.len_utf8(),
            };
            let (token, rest) = text.split_at(end.max(first.len_utf8()));
            tokens.push(token);
            text = rest;
        }
    }

    /// Functions of the request that are not alone in a `( SELECT … )`: PostgreSQL calls them for each row. A select with
    /// a FROM may depend on the row, so what it calls counts.
    pub(super) fn calls_per_row(&self) -> Vec<&'a str> {
        let mut found = Vec::new();
        for (at, name) in self.0.iter().enumerate() {
            let is_call = self.0.get(at + 1) == Some(&"(") && OF_THE_REQUEST.contains(name);
            if is_call && !self.is_in_lone_select(at) && !found.contains(name) {
                found.push(*name);
            }
        }
        found
    }

    /// Whether the innermost select around a token has no FROM.
    fn is_in_lone_select(&self, at: usize) -> bool {
        let mut depth = 0_i32;
        for (start, token) in self.0.iter().enumerate().take(at).rev() {
            match *token {
                ")" => depth += 1,
                "(" if depth > 0 => depth -= 1,
                "(" if self.0.get(start + 1) == Some(&"SELECT") => return !self.has_from(start + 1),
                _ => {}
            }
        }
        false
    }

    /// Whether the select that begins here has a FROM of its own.
    fn has_from(&self, start: usize) -> bool {
        let mut depth = 0_i32;
        for token in self.0.iter().skip(start) {
            match *token {
                "(" => depth += 1,
                ")" if depth == 0 => return false,
                ")" => depth -= 1,
                "FROM" if depth == 0 => return true,
                _ => {}
            }
        }
        false
    }

    /// Whether rows are found by this column: it is compared for equality, and not with a constant.
    pub(super) fn looks_up(&self, column: &str) -> bool {
        let is_column = |token: &&str| {
            let name = token.rsplit('.').next().unwrap_or(token);
            name == column || name.trim_matches('"') == column
        };
        let is_constant = |token: Option<&&str>| {
            token.is_some_and(|token| {
                token.starts_with('\'')
                    || token.starts_with(|c: char| c.is_ascii_digit())
                    || ["true", "false"].contains(token)
            })
        };
        self.0.iter().enumerate().any(|(at, token)| {
            is_column(token)
                && ((self.0.get(at + 1) == Some(&"=") && !is_constant(self.0.get(at + 2)))
                    || (at >= 2 && self.0.get(at - 1) == Some(&"=") && !is_constant(self.0.get(at - 2))))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_alone_in_a_select_is_made_once() {
        let calls = |text| Expression::read(text).calls_per_row().join(" ");
        for once in [
            "(user_id = ( SELECT auth.uid() AS uid))",
            "(plan_id = ANY (ARRAY( SELECT app_private.my_plans() AS my_plans)))",
            "((( SELECT (auth.jwt() ->> 'role'::text)) = 'x'::text) AND true)",
            "(note <> 'auth.uid()'::text)",
        ] {
            assert_eq!(calls(once), "", "{once}");
        }
        assert_eq!(calls("(auth.uid() = user_id)"), "auth.uid");
        assert_eq!(calls("((auth.jwt() ->> 'x'::text) = 'y'::text)"), "auth.jwt");
        assert_eq!(calls("(id IN ( SELECT m.id FROM members m WHERE (m.user_id = auth.uid())))"), "auth.uid");
        assert_eq!(
            calls("(id IN ( SELECT m.id FROM members m WHERE (m.user_id = ( SELECT auth.uid() AS uid))))"),
            ""
        );
        assert_eq!(calls("(id = ( SELECT 1)) AND (user_id = auth.uid())"), "auth.uid");
    }

    #[test]
    fn a_column_that_is_compared_with_a_value_of_the_request_looks_rows_up() {
        let looks_up = |text, column| Expression::read(text).looks_up(column);
        assert!(looks_up("(user_id = ( SELECT auth.uid() AS uid))", "user_id"));
        assert!(looks_up("(plan_id = ANY (ARRAY( SELECT f() AS f)))", "plan_id"));
        assert!(looks_up("(auth.uid() = m.user_id)", "user_id"), "from the right as well");
        assert!(!looks_up("(bucket_id = 'files'::text)", "bucket_id"));
        assert!(!looks_up("(active OR ( SELECT is_admin() AS is_admin))", "active"));
        assert!(!looks_up("(role <> 'owner'::text)", "role"));
    }
}
