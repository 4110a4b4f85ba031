//! The `select` parameter (rest.md §3.3): a tree of columns, embeds, spreads and aggregates.

use std::fmt;

use super::cursor::is_ident_char;
use super::{Cursor, Field, Name, Parameter, ParseError, Parsed, write_joined, write_quoted};

/// One item of a select list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SelectItem {
    /// `*`
    Star,
    /// `count()`, over all rows of the level.
    Count {
        /// Output key; `count` if absent.
        alias: Option<String>,
        /// Type that the count is cast to.
        cast: Option<CastType>,
    },
    /// A column.
    Column(SelectColumn),
    /// An embedded relation, as object or array, or spread into this level.
    Embed(SelectEmbed),
}

/// A selected column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectColumn {
    /// Output key, if it differs from the default.
    pub alias: Option<String>,
    /// Column with an optional path.
    pub field: Field,
    /// Type that the value is cast to before aggregation.
    pub cast: Option<CastType>,
    /// Aggregate over the value, and the type that its result is cast to.
    pub aggregate: Option<(Aggregate, Option<CastType>)>,
}

/// An embedded relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectEmbed {
    /// Whether `...` lifts its columns into the parent.
    pub spread: bool,
    /// Output key; a spread has none.
    pub alias: Option<String>,
    /// Relation, constraint, column or function that identifies the relationship.
    pub target: String,
    /// Disambiguates between several relationships.
    pub hint: Option<String>,
    /// `!inner` or `!left`.
    pub join: Option<JoinType>,
    /// Items to select; may be empty.
    pub select: Vec<SelectItem>,
}

/// Whether parents without a match are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinType {
    /// Keep them.
    Left,
    /// Drop them.
    Inner,
}

/// Supported aggregates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregate {
    /// `sum`
    Sum,
    /// `avg`
    Avg,
    /// `count`
    Count,
    /// `max`
    Max,
    /// `min`
    Min,
}

impl Aggregate {
    const ALL: [Self; 5] = [Self::Sum, Self::Avg, Self::Count, Self::Max, Self::Min];

    /// Name of the SQL function, which is also the output key.
    #[must_use]
    pub const fn as_sql(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Avg => "avg",
            Self::Count => "count",
            Self::Max => "max",
            Self::Min => "min",
        }
    }
}

/// A type name in a cast. It contains only identifier characters of the grammar (letters, digits, `_`, blank, `$`),
/// so it is safe to use as statement text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CastType(String);

impl CastType {
    /// The type as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Parses a select list; empty text selects everything.
///
/// ```
/// use basalt_rest::parse::select::{SelectItem, parse};
/// assert_eq!(parse("").unwrap(), [SelectItem::Star]);
/// assert_eq!(parse("n:data->a->>b::int, author:users!fk!inner(*)").unwrap().len(), 2);
/// assert_eq!(parse("id,").unwrap_err().message(), r#""failed to parse select parameter (id,)" (line 1, column 4)"#);
/// ```
///
/// # Errors
/// Malformed text (PGRST100).
pub fn parse(text: &str) -> Result<Vec<SelectItem>, ParseError> {
    let items = Cursor::parse_all(Parameter::Select, text, |cursor| items(cursor, 0, &mut 0))?;
    Ok(if items.is_empty() { vec![SelectItem::Star] } else { items })
}

/// Maximum depth: every level is a recursion here, in the plan and in PostgreSQL.
const MAX_DEPTH: usize = 40;

/// Maximum number of embeds on all levels together. Each is a join, and the cost of planning them grows much faster
/// than their number. A URL has room for 7,000; PostgreSQL would neither honour its timeouts nor stop allocating
/// memory until the system kills it and all its sessions (docs/decisions/0020).
const MAX_EMBEDS: usize = 100;

/// Parses items up to the end or a `)`; `embeds` counts the embeds parsed so far.
fn items(cursor: &mut Cursor<'_>, depth: usize, embeds: &mut usize) -> Parsed<Vec<SelectItem>> {
    if depth > MAX_DEPTH {
        return cursor.fail("fewer levels of embedding");
    }
    let mut items = Vec::new();
    // Blanks are allowed around items, but do not form an empty list on their own.
    if matches!(cursor.peek(), None | Some(')')) {
        return Ok(items);
    }
    loop {
        cursor.skip_blanks();
        items.push(item(cursor, depth, embeds)?);
        cursor.skip_blanks();
        if !cursor.eat(",") {
            return Ok(items);
        }
    }
}

fn item(cursor: &mut Cursor<'_>, depth: usize, embeds: &mut usize) -> Parsed<SelectItem> {
    if cursor.eat("...") {
        let target = cursor.name()?;
        return match embed(cursor, depth, embeds, true, None, target)? {
            Some(embed) => Ok(embed),
            None => cursor.fail("\"!\" or \"(\""),
        };
    }
    if cursor.eat("*") {
        expect_item_end(cursor, "\")\", \",\" or end of input")?;
        return Ok(SelectItem::Star);
    }
    if !matches!(cursor.peek(), Some(c) if c == '"' || is_ident_char(c)) {
        return cursor.fail(ITEM);
    }
    let mut is_quoted = cursor.peek() == Some('"');
    let mut name = cursor.name()?;
    let mut alias = None;
    if cursor.peek() == Some(':') && !cursor.rest().starts_with("::") {
        cursor.eat(":");
        alias = Some(name);
        cursor.skip_blanks();
        is_quoted = cursor.peek() == Some('"');
        name = cursor.name()?;
    }
    // `"count"()` is an empty embed named count.
    if name == "count" && !is_quoted && cursor.rest().starts_with("()") {
        return count(cursor, alias);
    }
    if let Some(embed) = embed(cursor, depth, embeds, false, alias.as_ref(), name.clone())? {
        return Ok(embed);
    }
    let field = cursor.field_named(name)?;
    let cast_type = cast(cursor)?;
    let aggregate = aggregate(cursor)?;
    let expecting = match (&cast_type, &aggregate) {
        (None, None) => "\"::\", \".\", \")\", \",\" or end of input",
        (Some(_), None) => "\".\", \"::\", \")\", \",\" or end of input",
        (_, Some((_, None))) => "\"::\", \")\", \",\" or end of input",
        (_, Some((_, Some(_)))) => "\")\", \",\" or end of input",
    };
    expect_item_end(cursor, expecting)?;
    Ok(SelectItem::Column(SelectColumn { alias, field, cast: cast_type, aggregate }))
}

/// Description of what an item may start with.
const ITEM: &str = "\"...\", field name (* or [a..z0..9_$]), \"*\" or \"count()\"";

/// Checks that an item ends here.
fn expect_item_end(cursor: &Cursor<'_>, expecting: &'static str) -> Parsed<()> {
    let mut ahead = *cursor;
    ahead.skip_blanks();
    match ahead.peek() {
        None | Some(',' | ')') => Ok(()),
        Some(_) => cursor.fail_after_word(expecting),
    }
}

/// Parses `"()" [ "::" type ]` after `count`. If anything follows, `count` is a column, which cannot be followed by
/// parentheses.
fn count(cursor: &mut Cursor<'_>, alias: Option<String>) -> Parsed<SelectItem> {
    let mut ahead = *cursor;
    ahead.eat("()");
    if let Ok(cast) = cast(&mut ahead) {
        let end = ahead;
        ahead.skip_blanks();
        if matches!(ahead.peek(), None | Some(',' | ')')) {
            *cursor = end;
            return Ok(SelectItem::Count { alias, cast });
        }
    }
    cursor.fail("end of input")
}

/// Parses `*2( "!" param ) "(" select ")"` after the target; consumes nothing and returns `None` if this is not an
/// embed.
fn embed(
    cursor: &mut Cursor<'_>,
    depth: usize,
    embeds: &mut usize,
    spread: bool,
    alias: Option<&String>,
    target: String,
) -> Parsed<Option<SelectItem>> {
    let (mut hint, mut join) = (None, None);
    let mut ahead = *cursor;
    for _ in 0..2 {
        if !ahead.eat("!") {
            break;
        }
        let is_bare = ahead.peek() != Some('"');
        let Ok(param) = ahead.name() else { return Ok(None) };
        match param.as_str() {
            // If there are two join types or two hints, the first applies.
            "left" if is_bare => join = join.or(Some(JoinType::Left)),
            "inner" if is_bare => join = join.or(Some(JoinType::Inner)),
            _ => hint = hint.or(Some(param)),
        }
    }
    if !ahead.eat("(") {
        return Ok(None);
    }
    *cursor = ahead;
    *embeds += 1;
    if *embeds > MAX_EMBEDS {
        return cursor.fail("fewer embeds");
    }
    let select = items(cursor, depth + 1, embeds)?;
    cursor.skip_blanks();
    if !cursor.eat(")") {
        return match select.last() {
            None => cursor.fail("\"...\", field name (* or [a..z0..9_$]), \"*\", \"count()\" or \")\""),
            Some(_) => cursor.fail_after_word("\")\" or \",\""),
        };
    }
    Ok(Some(SelectItem::Embed(SelectEmbed { spread, alias: alias.cloned(), target, hint, join, select })))
}

fn cast(cursor: &mut Cursor<'_>) -> Parsed<Option<CastType>> {
    if cursor.eat("::") { Ok(Some(CastType(cursor.ident("letter or digit")?))) } else { Ok(None) }
}

fn aggregate(cursor: &mut Cursor<'_>) -> Parsed<Option<(Aggregate, Option<CastType>)>> {
    if !cursor.eat(".") {
        return Ok(None);
    }
    for function in Aggregate::ALL {
        if cursor.eat(function.as_sql()) {
            cursor.expect("()", "\"()\"")?;
            return Ok(Some((function, cast(cursor)?)));
        }
    }
    cursor.fail("\"sum\", \"avg\", \"count\", \"max\" or \"min\"")
}

impl fmt::Display for SelectItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Star => f.write_str("*"),
            Self::Count { alias, cast } => {
                write_alias(f, alias.as_ref())?;
                f.write_str("count()")?;
                write_cast(f, cast.as_ref())
            }
            Self::Column(column) => {
                write_alias(f, column.alias.as_ref())?;
                column.field.fmt(f)?;
                write_cast(f, column.cast.as_ref())?;
                if let Some((function, cast)) = &column.aggregate {
                    write!(f, ".{}()", function.as_sql())?;
                    write_cast(f, cast.as_ref())?;
                }
                Ok(())
            }
            Self::Embed(embed) => {
                if embed.spread {
                    f.write_str("...")?;
                }
                write_alias(f, embed.alias.as_ref())?;
                // Unquoted, an empty embed of this name would parse as the aggregate.
                if embed.target == "count" {
                    write_quoted(f, &embed.target)?;
                } else {
                    write!(f, "{}", Name(&embed.target))?;
                }
                match embed.hint.as_deref() {
                    // Unquoted, it would parse as a join type.
                    Some(hint @ ("left" | "inner")) => {
                        f.write_str("!")?;
                        write_quoted(f, hint)?;
                    }
                    Some(hint) => write!(f, "!{}", Name(hint))?,
                    None => {}
                }
                match embed.join {
                    Some(JoinType::Left) => f.write_str("!left")?,
                    Some(JoinType::Inner) => f.write_str("!inner")?,
                    None => {}
                }
                f.write_str("(")?;
                write_joined(f, &embed.select, ",")?;
                f.write_str(")")
            }
        }
    }
}

fn write_alias(f: &mut fmt::Formatter<'_>, alias: Option<&String>) -> fmt::Result {
    match alias {
        Some(alias) => write!(f, "{}:", Name(alias)),
        None => Ok(()),
    }
}

fn write_cast(f: &mut fmt::Formatter<'_>, cast: Option<&CastType>) -> fmt::Result {
    match cast {
        Some(cast) => write!(f, "::{}", cast.0),
        None => Ok(()),
    }
}
