//! Filters of subscriptions: parsing (realtime.md 3.6) and evaluation.
//!
//! Values are compared here where their text is sufficient: numbers, booleans, dates and times, UUIDs, and
//! equality of text. PostgreSQL evaluates everything else as the subscriber's role: collation order,
//! patterns, types of extensions.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use super::types::{SqlType, TypeRow, base_type};

/// Most items of an `in` filter.
pub const MAX_ITEMS: usize = 100;
/// Most conditions of one filter: each may cost a statement per change.
const MAX_CONDITIONS: usize = 50;

/// Comparison operator of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// `=`
    Eq,
    /// `<>`
    Neq,
    /// `<`
    Lt,
    /// `<=`
    Lte,
    /// `>`
    Gt,
    /// `>=`
    Gte,
    /// `= any`
    In,
    /// `like`
    Like,
    /// `ilike`
    ILike,
    /// `~`
    Match,
    /// `~*`
    IMatch,
    /// `is null`, `is true`, `is false`, `is unknown`
    Is,
    /// `is distinct from`
    IsDistinct,
}

impl Operator {
    const ALL: [Self; 13] = [
        Self::Eq,
        Self::Neq,
        Self::Lt,
        Self::Lte,
        Self::Gt,
        Self::Gte,
        Self::In,
        Self::Like,
        Self::ILike,
        Self::Match,
        Self::IMatch,
        Self::Is,
        Self::IsDistinct,
    ];

    /// The name in filters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eq => "eq",
            Self::Neq => "neq",
            Self::Lt => "lt",
            Self::Lte => "lte",
            Self::Gt => "gt",
            Self::Gte => "gte",
            Self::In => "in",
            Self::Like => "like",
            Self::ILike => "ilike",
            Self::Match => "match",
            Self::IMatch => "imatch",
            Self::Is => "is",
            Self::IsDistinct => "isdistinct",
        }
    }

    /// PostgreSQL's operator. `is` has none; `in` and `isdistinct` use equality.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Eq | Self::In | Self::Is | Self::IsDistinct => "=",
            Self::Neq => "<>",
            Self::Lt => "<",
            Self::Lte => "<=",
            Self::Gt => ">",
            Self::Gte => ">=",
            Self::Like => "~~",
            Self::ILike => "~~*",
            Self::Match => "~",
            Self::IMatch => "~*",
        }
    }

    /// Whether the operator matches text against a pattern.
    #[must_use]
    pub const fn is_pattern(self) -> bool {
        matches!(self, Self::Like | Self::ILike | Self::Match | Self::IMatch)
    }
}

/// A parsed condition, not yet validated against a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Column name.
    pub column: String,
    /// Comparison operator.
    pub operator: Operator,
    /// Whether `not.` preceded the operator.
    pub is_negated: bool,
    /// Value; for `in` an array literal.
    pub value: String,
}

/// Parses a filter. Without conditions every row passes.
///
/// # Errors
/// The error text, as upstream words it.
pub fn parse(text: &str) -> Result<Vec<Condition>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let segments = split(text);
    if segments.iter().any(|segment| segment.trim().is_empty()) {
        return Err("filter must not contain empty segments (check for extra commas)".to_owned());
    }
    if segments.len() > MAX_CONDITIONS {
        return Err(format!("filter must not have more than {MAX_CONDITIONS} segments"));
    }
    segments.into_iter().map(|segment| condition(segment.trim())).collect()
}

/// Number of conditions in a filter, valid or not.
#[must_use]
pub fn count(text: &str) -> usize {
    if text.trim().is_empty() { 0 } else { split(text).len() }
}

/// Splits at commas outside parentheses and quoted values.
fn split(text: &str) -> Vec<&str> {
    let mut segments = Vec::new();
    let (mut depth, mut is_quoted, mut is_escaped, mut before, mut begin) = (0_usize, false, false, ',', 0);
    for (at, c) in text.char_indices() {
        if is_escaped {
            is_escaped = false;
        } else if is_quoted {
            match c {
                '\\' => is_escaped = true,
                '"' => is_quoted = false,
                _ => {}
            }
        } else {
            match c {
                '"' if matches!(before, '.' | '(' | ',') => is_quoted = true,
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                ',' if depth == 0 => {
                    segments.push(text.get(begin..at).unwrap_or_default());
                    begin = at + 1;
                }
                _ => {}
            }
        }
        before = c;
    }
    segments.push(text.get(begin..).unwrap_or_default());
    segments
}

fn condition(segment: &str) -> Result<Condition, String> {
    let Some((column, rest)) = segment.split_once('=') else { return Err(list(&[segment])) };
    let (is_negated, rest) = match rest.strip_prefix("not.") {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let Some((operator, value)) = rest.split_once('.') else { return Err(list(&[rest])) };
    let Some(operator) = Operator::ALL.into_iter().find(|known| known.name() == operator) else {
        return Err(list(&[operator, value]));
    };
    let value = if operator == Operator::In {
        let items = value.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        let items = items.ok_or("`in` filter value must be wrapped by parentheses")?;
        format!("{{{items}}}")
    } else {
        unquote(value)
    };
    Ok(Condition { column: column.to_owned(), operator, is_negated, value })
}

/// Removes double quotes if they enclose the complete value.
fn unquote(value: &str) -> String {
    let Some(inside) = value.strip_prefix('"') else { return value.to_owned() };
    let mut text = String::with_capacity(inside.len());
    let mut rest = inside.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => text.extend(rest.next()),
            '"' if rest.as_str().is_empty() => return text,
            '"' => break,
            c => text.push(c),
        }
    }
    value.to_owned()
}

/// A list of strings in upstream's notation.
fn list(items: &[&str]) -> String {
    let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
    format!("[{}]", items.join(", "))
}

/// A string in upstream's notation.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            '\n' => quoted.push_str("\\n"),
            c if c.is_control() => {
                let _written = write!(quoted, "\\x{:02X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// How values of a type can be compared by their text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `t`, `f`.
    Bool,
    /// Integers.
    Integer,
    /// `float4`, `float8`.
    Float,
    /// Decimal numbers of any precision.
    Numeric,
    /// Text order equals value order.
    Ordered,
    /// Dates and timestamps: years of any length, BC, and infinity.
    Date,
    /// Values are equal exactly if their texts are; the order is unknown.
    Equality,
    /// Only PostgreSQL can compare them.
    Postgres,
}

/// Comparison of a type. Text with a nondeterministic collation, in which different texts are equal, is left
/// to PostgreSQL.
#[must_use]
pub fn comparison_for(
    oid: u32,
    types: &HashMap<u32, TypeRow>,
    is_deterministic: bool,
    is_c: bool,
) -> Comparison {
    let oid = base_type(oid, types);
    match oid {
        16 => Comparison::Bool,
        20 | 21 | 23 | 26 => Comparison::Integer,
        700 | 701 => Comparison::Float,
        1700 => Comparison::Numeric,
        // uuid, time
        2950 | 1083 => Comparison::Ordered,
        // date, timestamp, timestamptz
        1082 | 1114 | 1184 => Comparison::Date,
        // text, varchar
        25 | 1043 if is_c => Comparison::Ordered,
        25 | 1043 if is_deterministic => Comparison::Equality,
        _ if types.get(&oid).is_some_and(|row| row.kind == b'e') => Comparison::Equality,
        _ => Comparison::Postgres,
    }
}

impl Comparison {
    /// Whether equal values have equal texts, so that they can be indexed by text.
    #[must_use]
    pub const fn has_unique_texts(self) -> bool {
        match self {
            Self::Bool | Self::Integer | Self::Ordered | Self::Date | Self::Equality => true,
            Self::Float | Self::Numeric | Self::Postgres => false,
        }
    }

    /// `None` if the order is unknown.
    fn compare(self, left: &str, right: &str) -> Option<Ordering> {
        match self {
            // `f` < `t`.
            Self::Bool | Self::Ordered => Some(left.cmp(right)),
            Self::Integer => Some(left.parse::<i64>().ok()?.cmp(&right.parse::<i64>().ok()?)),
            Self::Float => {
                let (left, right) = (left.parse::<f64>().ok()?, right.parse::<f64>().ok()?);
                // As in PostgreSQL, NaN equals itself and is greater than all other numbers.
                Some(match (left.is_nan(), right.is_nan()) {
                    (false, false) => left.partial_cmp(&right)?,
                    (left, right) => left.cmp(&right),
                })
            }
            Self::Numeric => numeric_key(left)?.partial_cmp(&numeric_key(right)?),
            Self::Date => date_key(left)?.partial_cmp(&date_key(right)?),
            Self::Equality => (left == right).then_some(Ordering::Equal),
            Self::Postgres => None,
        }
    }
}

/// Sort key of a number: class (−∞, negative, zero, positive, ∞, NaN), then for positive numbers the integer
/// digits by length and value, then the fraction; for negative numbers the same in reverse.
#[derive(PartialEq)]
struct NumericKey<'a> {
    class: i8,
    integer: &'a str,
    fraction: &'a str,
}

impl PartialOrd for NumericKey<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let size = |key: &Self| (key.integer.len(), key.integer.to_owned(), key.fraction.to_owned());
        Some(self.class.cmp(&other.class).then_with(|| {
            let order = size(self).cmp(&size(other));
            if self.class < 0 { order.reverse() } else { order }
        }))
    }
}

fn numeric_key(text: &str) -> Option<NumericKey<'_>> {
    let special = |class| Some(NumericKey { class, integer: "", fraction: "" });
    match text {
        "NaN" => return special(3),
        "Infinity" => return special(2),
        "-Infinity" => return special(-2),
        _ => {}
    }
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (integer, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if digits.is_empty() || !integer.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (integer, fraction) = (integer.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let class = match (integer.is_empty() && fraction.is_empty(), is_negative) {
        (true, _) => 0,
        (false, true) => -1,
        (false, false) => 1,
    };
    Some(NumericKey { class, integer, fraction })
}

/// Year, and the rest, which sorts as text because the offset is always `+00`.
fn date_key(text: &str) -> Option<(i64, &str)> {
    match text {
        "infinity" => return Some((i64::MAX, "")),
        "-infinity" => return Some((i64::MIN, "")),
        _ => {}
    }
    let (is_before_christ, text) = match text.strip_suffix(" BC") {
        Some(text) => (true, text),
        None => (false, text),
    };
    let (year, rest) = text.split_once('-')?;
    let year: i64 = year.parse().ok()?;
    Some((if is_before_christ { 1 - year } else { year }, rest))
}

/// Operand of `is`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// `null`
    Null,
    /// `true`
    True,
    /// `false`
    False,
    /// `unknown`
    Unknown,
}

impl Truth {
    /// Parses the value of a condition.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "null" => Self::Null,
            "true" => Self::True,
            "false" => Self::False,
            "unknown" => Self::Unknown,
            _ => return None,
        })
    }
}

/// Right-hand side of a comparison, in PostgreSQL's text format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// One value.
    One(Arc<str>),
    /// Values of `in`, and their array literal.
    Many {
        /// Values except NULL, which equals nothing.
        items: Vec<Arc<str>>,
        /// Whether there was a NULL: values not among `items` are then neither in nor not in.
        has_null: bool,
        /// The array literal for PostgreSQL.
        literal: Arc<str>,
    },
    /// Operand of `is`.
    Truth(Truth),
}

/// A condition validated against its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// Column name.
    pub column: Arc<str>,
    /// Type of the column when validated; a changed type makes the test obsolete.
    pub type_oid: u32,
    /// The column's base type, in SQL.
    pub sql_type: Arc<SqlType>,
    /// Comparison operator.
    pub operator: Operator,
    /// Whether `not.` preceded the operator.
    pub is_negated: bool,
    /// Right-hand side.
    pub operand: Operand,
    /// How values of the column are compared.
    pub comparison: Comparison,
}

/// Result of evaluating a condition on a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The value passes.
    Yes,
    /// The value does not pass.
    No,
    /// PostgreSQL has to evaluate the condition.
    NeedsPostgres,
}

impl Test {
    /// Evaluates the condition; the inner `None` is NULL. An unavailable value does not pass.
    #[must_use]
    pub fn evaluate(&self, value: Option<Option<&str>>) -> Verdict {
        let Some(value) = value else { return Verdict::No };
        let truth = match (&self.operand, value) {
            (Operand::Truth(truth), value) => Some(match truth {
                Truth::Null | Truth::Unknown => value.is_none(),
                Truth::True => value == Some("t"),
                Truth::False => value == Some("f"),
            }),
            // NULL is distinct from every value.
            (Operand::One(_), None) if self.operator == Operator::IsDistinct => Some(true),
            (Operand::One(_) | Operand::Many { .. }, None) => return Verdict::No,
            (Operand::One(operand), Some(value)) => match self.compare(value, operand) {
                Some(truth) => Some(truth),
                None => return Verdict::NeedsPostgres,
            },
            (Operand::Many { items, has_null, .. }, Some(value)) => {
                if !self.comparison.has_unique_texts() {
                    return Verdict::NeedsPostgres;
                }
                let is_among = items.iter().any(|item| &**item == value);
                if !is_among && *has_null { None } else { Some(is_among) }
            }
        };
        // Unknown negated is unknown.
        match truth {
            Some(truth) if truth != self.is_negated => Verdict::Yes,
            Some(_) | None => Verdict::No,
        }
    }

    fn compare(&self, value: &str, operand: &str) -> Option<bool> {
        let order = |test: fn(Ordering) -> bool| self.comparison.compare(value, operand).map(test);
        let is_equal = || {
            if self.comparison.has_unique_texts() { Some(value == operand) } else { order(Ordering::is_eq) }
        };
        match self.operator {
            Operator::Eq => is_equal(),
            Operator::Neq | Operator::IsDistinct => is_equal().map(|is_equal| !is_equal),
            Operator::Lt | Operator::Lte | Operator::Gt | Operator::Gte
                if self.comparison == Comparison::Equality =>
            {
                None
            }
            Operator::Lt => order(Ordering::is_lt),
            Operator::Lte => order(Ordering::is_le),
            Operator::Gt => order(Ordering::is_gt),
            Operator::Gte => order(Ordering::is_ge),
            Operator::In
            | Operator::Like
            | Operator::ILike
            | Operator::Match
            | Operator::IMatch
            | Operator::Is => None,
        }
    }

    /// Right-hand side as text, for PostgreSQL.
    #[must_use]
    pub fn operand_text(&self) -> &str {
        match &self.operand {
            Operand::One(text) | Operand::Many { literal: text, .. } => text,
            Operand::Truth(_) => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(text: &str) -> Condition {
        let mut conditions = parse(text).unwrap();
        assert_eq!(conditions.len(), 1, "{text}");
        conditions.remove(0)
    }

    #[test]
    fn parses_column_operator_and_value() {
        let condition = one("plan_id=eq.7");
        assert_eq!(
            (condition.column.as_str(), condition.operator, condition.value.as_str()),
            ("plan_id", Operator::Eq, "7")
        );
        assert_eq!(one("a=eq.x.y=z ").value, "x.y=z");
    }

    #[test]
    fn splits_at_top_level_commas() {
        let values = |text: &str| parse(text).unwrap().into_iter().map(|c| c.value).collect::<Vec<_>>();
        assert_eq!(values("a=in.(1,2,3),b=eq.4"), ["{1,2,3}", "4"]);
        assert_eq!(values("a=eq.\"x,y\",b=gt.4"), ["x,y", "4"]);
        assert_eq!(values("a=in.(\"x,y\",z)"), ["{\"x,y\",z}"]);
        assert_eq!(values("a=eq.say \"hi\" , b=lt.1"), ["say \"hi\"", "1"]);
        assert_eq!(values("a=eq.\"say \\\"hi\\\"\""), ["say \"hi\""]);
        assert_eq!(values("  "), [""; 0]);
    }

    #[test]
    fn errors_use_upstream_wording() {
        let reason = |text: &str| parse(text).unwrap_err();
        assert_eq!(reason("wrong"), r#"["wrong"]"#);
        assert_eq!(reason("a=foo.hey"), r#"["foo", "hey"]"#);
        assert_eq!(
            reason("a=eq.1,,b=eq.2"),
            "filter must not contain empty segments (check for extra commas)"
        );
        assert_eq!(reason("a=in.1,2"), r#"`in` filter value must be wrapped by parentheses"#);
    }

    #[test]
    fn not_negates() {
        let condition = one("a=not.in.(1,2)");
        assert!(condition.is_negated && condition.operator == Operator::In);
    }

    fn sql_type() -> Arc<SqlType> {
        Arc::new(SqlType { name: "t".into(), array: None, operators: "pg_catalog".into() })
    }

    fn test(operator: Operator, comparison: Comparison, operand: &str) -> Test {
        Test {
            column: "c".into(),
            type_oid: 0,
            sql_type: sql_type(),
            operator,
            is_negated: false,
            operand: Operand::One(operand.into()),
            comparison,
        }
    }

    #[test]
    fn compares_values_by_type() {
        use Comparison::{Date, Equality, Float, Integer, Numeric, Ordered, Postgres};
        use Operator::{Eq, Gt, IsDistinct, Lt, Lte, Neq};
        use Verdict::{NeedsPostgres, No, Yes};
        for (operator, comparison, value, operand, verdict) in [
            (Gt, Integer, "10", "9", Yes),
            (Lt, Integer, "-10", "9", Yes),
            (Eq, Float, "1", "1", Yes),
            (Gt, Float, "NaN", "Infinity", Yes),
            (Eq, Float, "-0", "0", Yes),
            (Eq, Numeric, "1.50", "1.5", Yes),
            (Lt, Numeric, "-10", "-9.5", Yes),
            (Gt, Numeric, "10", "9.999", Yes),
            (Eq, Numeric, "0.0", "-0", Yes),
            (Lt, Date, "0044-03-15 BC", "0001-01-01", Yes),
            (Lt, Date, "9999-12-31", "10000-01-01", Yes),
            (Gt, Date, "infinity", "10000-01-01", Yes),
            (Lte, Date, "2024-02-03 04:05:06+00", "2024-02-03 04:05:06.5+00", Yes),
            (Neq, Ordered, "a", "b", Yes),
            (Eq, Equality, "a", "A", No),
            (Lt, Equality, "a", "b", NeedsPostgres),
            (Eq, Postgres, "a", "a", NeedsPostgres),
            (IsDistinct, Equality, "a", "a", No),
        ] {
            let verdict_for = test(operator, comparison, operand).evaluate(Some(Some(value)));
            assert_eq!(verdict_for, verdict, "{value} {operator:?} {operand}");
        }
    }

    #[test]
    fn null_passes_only_is_null_and_is_distinct() {
        let null = Some(None);
        assert_eq!(test(Operator::Neq, Comparison::Integer, "1").evaluate(null), Verdict::No);
        assert_eq!(test(Operator::IsDistinct, Comparison::Postgres, "1").evaluate(null), Verdict::Yes);
        let mut negated = test(Operator::Eq, Comparison::Integer, "1");
        negated.is_negated = true;
        assert_eq!(negated.evaluate(null), Verdict::No);
        assert_eq!(negated.evaluate(Some(Some("2"))), Verdict::Yes);
        let is = |truth| Test { operand: Operand::Truth(truth), ..test(Operator::Is, Comparison::Bool, "") };
        assert_eq!(is(Truth::Null).evaluate(null), Verdict::Yes);
        assert_eq!(is(Truth::True).evaluate(Some(Some("t"))), Verdict::Yes);
        assert_eq!(is(Truth::False).evaluate(null), Verdict::No);
        assert_eq!(is(Truth::Null).evaluate(None), Verdict::No);
    }

    #[test]
    fn null_among_items_makes_others_unknown() {
        let mut test = test(Operator::In, Comparison::Integer, "");
        test.operand = Operand::Many { items: vec!["1".into()], has_null: true, literal: "{1,null}".into() };
        assert_eq!(test.evaluate(Some(Some("1"))), Verdict::Yes);
        assert_eq!(test.evaluate(Some(Some("2"))), Verdict::No);
        test.is_negated = true;
        assert_eq!(test.evaluate(Some(Some("2"))), Verdict::No);
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in ".{0,60}") {
            let _read = parse(&text);
        }

        #[test]
        fn numeric_text_order_equals_numeric_order(left in -1_000_000_i64..1_000_000, right in -1_000_000_i64..1_000_000) {
            let text = |number: i64| format!("{}{}.{:03}", if number < 0 { "-" } else { "" }, number.abs() / 1000, number.abs() % 1000);
            prop_assert_eq!(Comparison::Numeric.compare(&text(left), &text(right)), Some(left.cmp(&right)));
        }
    }
}
