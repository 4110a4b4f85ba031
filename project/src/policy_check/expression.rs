//! Tokenises a policy's condition, as printed by PostgreSQL, enough to find calls and comparisons.

/// Functions whose result is the same for every row of a request.
const CONSTANT_PER_REQUEST: [&str; 7] =
    ["auth.uid", "auth.jwt", "auth.role", "auth.email", "current_setting", "is_admin", "public.is_admin"];

/// The tokens of a condition.
#[derive(Debug)]
pub(super) struct Expression<'a>(Vec<&'a str>);

impl<'a> Expression<'a> {
    pub(super) fn parse(mut text: &'a str) -> Self {
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

    /// Calls of functions that are constant per request outside of a lone `( SELECT … )`: PostgreSQL evaluates these for each row. A
    /// select with a FROM may depend on the row, so calls in it count.
    pub(super) fn calls_per_row(&self) -> Vec<&'a str> {
        let mut found = Vec::new();
        for (at, name) in self.0.iter().enumerate() {
            let is_call = self.0.get(at + 1) == Some(&"(") && CONSTANT_PER_REQUEST.contains(name);
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

    /// Whether the select that starts here has its own FROM.
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

    /// Whether the condition searches rows by this column: it compares the column for equality with a value that is not a constant.
    pub(super) fn searches_by(&self, column: &str) -> bool {
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
    fn call_in_lone_select_is_evaluated_once() {
        let calls = |text| Expression::parse(text).calls_per_row().join(" ");
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
    fn equality_with_a_request_value_searches_by_column() {
        let searches_by = |text, column| Expression::parse(text).searches_by(column);
        assert!(searches_by("(user_id = ( SELECT auth.uid() AS uid))", "user_id"));
        assert!(searches_by("(plan_id = ANY (ARRAY( SELECT f() AS f)))", "plan_id"));
        assert!(searches_by("(auth.uid() = m.user_id)", "user_id"), "on the right side as well");
        assert!(!searches_by("(bucket_id = 'files'::text)", "bucket_id"));
        assert!(!searches_by("(active OR ( SELECT is_admin() AS is_admin))", "active"));
        assert!(!searches_by("(role <> 'owner'::text)", "role"));
    }
}
