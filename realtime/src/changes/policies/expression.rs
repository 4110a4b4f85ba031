//! Compiled expressions of policies and their evaluation, exactly as PostgreSQL evaluates them: in
//! three-valued logic, and without short cuts.
//!
//! A value that PostgreSQL might reject (a cast of arbitrary text) leaves the result undecided: PostgreSQL
//! evaluates the policies then.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

/// PostgreSQL has to evaluate the expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Undecided;

/// The types whose values are compared here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Int,
    Text,
    /// As PostgreSQL prints it: lower case, with hyphens.
    Uuid,
    /// Only within claims.
    Json,
}

impl Kind {
    /// The kind of a type by its object id.
    pub(super) const fn from_oid(oid: u32) -> Option<Self> {
        match oid {
            16 => Some(Self::Bool),
            20 | 21 | 23 => Some(Self::Int),
            25 | 1043 => Some(Self::Text),
            2950 => Some(Self::Uuid),
            _ => None,
        }
    }
}

/// A value other than NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Datum<'a> {
    Bool(bool),
    Int(i64),
    /// Text, or a UUID.
    Text(Cow<'a, str>),
}

impl<'a> Datum<'a> {
    /// Parses a value as PostgreSQL prints it.
    pub(super) fn from_printed(kind: Kind, text: &'a str) -> Result<Self, Undecided> {
        match kind {
            Kind::Bool => match text {
                "t" => Ok(Self::Bool(true)),
                "f" => Ok(Self::Bool(false)),
                _ => Err(Undecided),
            },
            Kind::Int => text.parse().map(Self::Int).map_err(|_| Undecided),
            Kind::Text => Ok(Self::Text(text.into())),
            Kind::Uuid if is_uuid(text) => Ok(Self::Text(text.into())),
            Kind::Uuid | Kind::Json => Err(Undecided),
        }
    }

    fn as_borrowed(&self) -> Datum<'_> {
        match self {
            Self::Bool(value) => Datum::Bool(*value),
            Self::Int(value) => Datum::Int(*value),
            Self::Text(text) => Datum::Text(Cow::Borrowed(text)),
        }
    }

    fn into_owned(self) -> Datum<'static> {
        match self {
            Self::Bool(value) => Datum::Bool(value),
            Self::Int(value) => Datum::Int(value),
            Self::Text(text) => Datum::Text(Cow::Owned(text.into_owned())),
        }
    }

    /// `None` for values of different kinds, which a compiled comparison does not have.
    fn compare(&self, other: &Datum<'_>) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(left), Datum::Bool(right)) => Some(left.cmp(right)),
            (Self::Int(left), Datum::Int(right)) => Some(left.cmp(right)),
            (Self::Text(left), Datum::Text(right)) => Some(left.cmp(right)),
            (Self::Bool(_) | Self::Int(_) | Self::Text(_), _) => None,
        }
    }
}

/// Whether the text is a UUID as PostgreSQL prints it.
fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
        })
}

/// The UUID that a text denotes. PostgreSQL accepts more spellings and rejects all others.
pub(super) fn uuid_from_text(text: &str) -> Result<String, Undecided> {
    let lower = text.to_ascii_lowercase();
    if is_uuid(&lower) { Ok(lower) } else { Err(Undecided) }
}

/// A value of a row: a failure if it was not streamed.
pub(super) type RowValue<'a> = Result<Option<Datum<'a>>, Undecided>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Comparison {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Eq => order.is_eq(),
            Self::Ne => order.is_ne(),
            Self::Lt => order.is_lt(),
            Self::Le => order.is_le(),
            Self::Gt => order.is_gt(),
            Self::Ge => order.is_ge(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BooleanTest {
    True,
    False,
    Unknown,
}

/// A value taken from the claims.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Claim {
    /// `auth.uid()`
    Uid,
    /// `auth.role()`
    Role,
    /// `auth.jwt() -> … ->> …`
    Path(Vec<String>),
}

/// A compiled expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expr {
    /// Index in [`super::compile::Compiler::columns`].
    Column(usize, Kind),
    /// A column of a table in a sub-select: number of the table, name.
    Joined(usize, String, Kind),
    /// Index in [`super::compile::Compiler::subselects`], and the parameters of the subscriber once bound.
    Exists(usize, Option<Parameters>),
    Constant(Option<Datum<'static>>),
    Claim(Claim),
    /// A cast by way of text.
    Cast(Box<Expr>, Cast),
    Compare(Comparison, Box<Expr>, Box<Expr>),
    Distinct(Box<Expr>, Box<Expr>),
    /// `left = any (items)`, or with the second field false `left <> all (items)`.
    Among(Comparison, bool, Box<Expr>, Vec<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull(Box<Expr>),
    Is(BooleanTest, Box<Expr>),
}

/// Values of a subscriber in a sub-select, as text.
pub(super) type Parameters = Arc<[Option<String>]>;

/// What a subscriber's claims replace in an expression.
pub(super) trait BoundValues {
    /// The value of a claim as text.
    fn claim(&self, claim: &Claim) -> Result<Option<String>, Undecided>;
    /// The values that the sub-select with this index reads.
    fn parameters(&self, subselect: usize) -> Result<Parameters, Undecided>;
}

/// The row that is judged.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    pub(super) values: &'a [RowValue<'a>],
    /// Whether the sub-select with this index finds a row for these parameters.
    pub(super) exists: &'a dyn Fn(usize, &Parameters) -> Result<bool, Undecided>,
}

/// Target of a cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cast {
    Text,
    Uuid,
    Bool,
    /// The type's lowest and highest value.
    Int(i64, i64),
}

impl Cast {
    pub(super) fn to_type(oid: u32) -> Option<(Self, Kind)> {
        match oid {
            16 => Some((Self::Bool, Kind::Bool)),
            20 => Some((Self::Int(i64::MIN, i64::MAX), Kind::Int)),
            21 => Some((Self::Int(i16::MIN.into(), i16::MAX.into()), Kind::Int)),
            23 => Some((Self::Int(i32::MIN.into(), i32::MAX.into()), Kind::Int)),
            25 => Some((Self::Text, Kind::Text)),
            2950 => Some((Self::Uuid, Kind::Uuid)),
            _ => None,
        }
    }

    fn apply(self, value: Datum<'_>) -> RowValue<'static> {
        let cast = match (self, value) {
            (Self::Text, Datum::Int(number)) => Datum::Text(number.to_string().into()),
            (Self::Text, Datum::Text(text)) => Datum::Text(text.into_owned().into()),
            (Self::Uuid, Datum::Text(text)) => Datum::Text(uuid_from_text(&text)?.into()),
            (Self::Bool, Datum::Text(text)) => match &*text {
                "true" => Datum::Bool(true),
                "false" => Datum::Bool(false),
                _ => return Err(Undecided),
            },
            (Self::Int(low, high), Datum::Text(text)) => {
                let number: i64 = text.parse().map_err(|_| Undecided)?;
                // Other spellings, like `+1`, are left to PostgreSQL.
                if number < low || number > high || number.to_string() != *text {
                    return Err(Undecided);
                }
                Datum::Int(number)
            }
            (Self::Text | Self::Uuid | Self::Bool | Self::Int(..), _) => return Err(Undecided),
        };
        Ok(Some(cast))
    }
}

impl Expr {
    pub(super) fn and(mut items: Vec<Self>) -> Self {
        if items.len() > 1 { Self::And(items) } else { items.pop().unwrap_or(Self::boolean(true)) }
    }

    pub(super) fn or(mut items: Vec<Self>) -> Self {
        if items.len() > 1 { Self::Or(items) } else { items.pop().unwrap_or(Self::boolean(false)) }
    }

    const fn boolean(value: bool) -> Self {
        Self::Constant(Some(Datum::Bool(value)))
    }

    /// Whether a bound expression holds for every row; `None` if that depends on the row.
    pub(super) const fn constant(&self) -> Option<bool> {
        // NULL hides the row.
        if let Self::Constant(Some(Datum::Bool(value))) = self {
            Some(*value)
        } else if let Self::Constant(None) = self {
            Some(false)
        } else {
            None
        }
    }

    /// Replaces claims by their values.
    pub(super) fn bind(&self, values: &dyn BoundValues) -> Result<Self, Undecided> {
        let bind = |inner: &Self| inner.bind(values).map(Box::new);
        let bind_all = |items: &[Self]| items.iter().map(|item| item.bind(values)).collect::<Result<_, _>>();
        let bound = match self {
            Self::Column(..) | Self::Joined(..) | Self::Constant(_) => self.clone(),
            Self::Exists(index, _) => Self::Exists(*index, Some(values.parameters(*index)?)),
            Self::Claim(claim) => Self::Constant(values.claim(claim)?.map(|text| Datum::Text(text.into()))),
            Self::Cast(inner, cast) => Self::Cast(bind(inner)?, *cast),
            Self::Compare(comparison, left, right) => Self::Compare(*comparison, bind(left)?, bind(right)?),
            Self::Distinct(left, right) => Self::Distinct(bind(left)?, bind(right)?),
            Self::Among(comparison, is_any, left, items) => {
                Self::Among(*comparison, *is_any, bind(left)?, bind_all(items)?)
            }
            Self::And(items) => Self::And(bind_all(items)?),
            Self::Or(items) => Self::Or(bind_all(items)?),
            Self::Not(inner) => Self::Not(bind(inner)?),
            Self::IsNull(inner) => Self::IsNull(bind(inner)?),
            Self::Is(test, inner) => Self::Is(*test, bind(inner)?),
        };
        if matches!(bound, Self::Constant(_)) || bound.reads_columns() {
            return Ok(bound);
        }
        let nothing = Input { values: &[], exists: &|_, _| Err(Undecided) };
        let value = bound.evaluate(nothing)?.map(Datum::into_owned);
        Ok(Self::Constant(value))
    }

    pub(super) fn reads_columns(&self) -> bool {
        match self {
            Self::Column(..) | Self::Joined(..) | Self::Exists(..) => true,
            Self::Constant(_) | Self::Claim(_) => false,
            Self::Cast(inner, _) | Self::Not(inner) | Self::IsNull(inner) | Self::Is(_, inner) => {
                inner.reads_columns()
            }
            Self::Compare(_, left, right) | Self::Distinct(left, right) => {
                left.reads_columns() || right.reads_columns()
            }
            Self::Among(_, _, left, items) => left.reads_columns() || items.iter().any(Self::reads_columns),
            Self::And(items) | Self::Or(items) => items.iter().any(Self::reads_columns),
        }
    }

    /// Adds the parameters of a bound expression for the sub-select with this index.
    pub(super) fn parameters(&self, subselect: usize, found: &mut Vec<Parameters>) {
        match self {
            Self::Exists(index, Some(parameters)) if *index == subselect => {
                found.push(Arc::clone(parameters))
            }
            Self::Column(..) | Self::Joined(..) | Self::Exists(..) | Self::Constant(_) | Self::Claim(_) => {}
            Self::Cast(inner, _) | Self::Not(inner) | Self::IsNull(inner) | Self::Is(_, inner) => {
                inner.parameters(subselect, found);
            }
            Self::Compare(_, left, right) | Self::Distinct(left, right) => {
                left.parameters(subselect, found);
                right.parameters(subselect, found);
            }
            Self::Among(_, _, left, items) => {
                left.parameters(subselect, found);
                items.iter().for_each(|item| item.parameters(subselect, found));
            }
            Self::And(items) | Self::Or(items) => {
                items.iter().for_each(|item| item.parameters(subselect, found));
            }
        }
    }

    /// Whether a bound expression holds for a row. NULL hides the row.
    pub(super) fn holds(&self, row: Input<'_>) -> Result<bool, Undecided> {
        Ok(self.truth(row)?.unwrap_or_default())
    }

    fn truth(&self, row: Input<'_>) -> Result<Option<bool>, Undecided> {
        match self.evaluate(row)? {
            None => Ok(None),
            Some(Datum::Bool(value)) => Ok(Some(value)),
            Some(Datum::Int(_) | Datum::Text(_)) => Err(Undecided),
        }
    }

    pub(super) fn evaluate<'a>(&'a self, row: Input<'a>) -> RowValue<'a> {
        let truth = match self {
            Self::Column(index, _) => {
                return match row.values.get(*index) {
                    Some(Ok(value)) => Ok(value.as_ref().map(Datum::as_borrowed)),
                    Some(Err(Undecided)) | None => Err(Undecided),
                };
            }
            Self::Constant(value) => return Ok(value.as_ref().map(Datum::as_borrowed)),
            Self::Exists(index, Some(parameters)) => Some((row.exists)(*index, parameters)?),
            Self::Claim(_) | Self::Joined(..) | Self::Exists(_, None) => return Err(Undecided),
            Self::Cast(inner, cast) => {
                return match inner.evaluate(row)? {
                    Some(value) => cast.apply(value),
                    None => Ok(None),
                };
            }
            Self::Compare(comparison, left, right) => match (left.evaluate(row)?, right.evaluate(row)?) {
                (Some(left), Some(right)) => Some(comparison.holds(left.compare(&right).ok_or(Undecided)?)),
                (None, _) | (_, None) => None,
            },
            Self::Distinct(left, right) => match (left.evaluate(row)?, right.evaluate(row)?) {
                (Some(left), Some(right)) => Some(left.compare(&right).ok_or(Undecided)?.is_ne()),
                (None, None) => Some(false),
                (Some(_), None) | (None, Some(_)) => Some(true),
            },
            Self::Among(comparison, is_any, left, items) => {
                let left = left.evaluate(row)?;
                let results = items.iter().map(|item| match (&left, item.evaluate(row)?) {
                    (Some(left), Some(item)) => {
                        Ok(Some(comparison.holds(left.compare(&item).ok_or(Undecided)?)))
                    }
                    (None, _) | (_, None) => Ok(None),
                });
                if *is_any { any(results)? } else { all(results)? }
            }
            Self::And(items) => all(items.iter().map(|item| item.truth(row)))?,
            Self::Or(items) => any(items.iter().map(|item| item.truth(row)))?,
            Self::Not(inner) => inner.truth(row)?.map(|value| !value),
            Self::IsNull(inner) => Some(inner.evaluate(row)?.is_none()),
            Self::Is(test, inner) => {
                let value = inner.truth(row)?;
                Some(match test {
                    BooleanTest::True => value == Some(true),
                    BooleanTest::False => value == Some(false),
                    BooleanTest::Unknown => value.is_none(),
                })
            }
        };
        Ok(truth.map(Datum::Bool))
    }
}

/// AND. Evaluates every item: PostgreSQL does not define the order, so any of them may raise.
fn all(items: impl Iterator<Item = Result<Option<bool>, Undecided>>) -> Result<Option<bool>, Undecided> {
    items.into_iter().try_fold(Some(true), |before, item| {
        Ok(match (before, item?) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (None, _) | (_, None) => None,
            (Some(true), Some(true)) => Some(true),
        })
    })
}

/// OR. Evaluates every item, like [`all`].
fn any(items: impl Iterator<Item = Result<Option<bool>, Undecided>>) -> Result<Option<bool>, Undecided> {
    let negated = items.map(|item| item.map(|value| value.map(|value| !value)));
    Ok(all(negated)?.map(|value| !value))
}
