//! Ranges of rows: `limit`, `offset` and the `Range` header (rest.md §3.6).

use std::fmt;

/// A range of rows. The numbers may exceed PostgreSQL's range, so that its error (22003) shows them as they were
/// sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowRange {
    /// Number of rows to skip.
    pub offset: u128,
    /// Maximum number of rows to return.
    pub limit: Option<u128>,
}

impl RowRange {
    /// Every row.
    pub const ALL: Self = Self { offset: 0, limit: None };

    /// Whether the range includes all rows.
    #[must_use]
    pub const fn is_all(self) -> bool {
        self.offset == 0 && self.limit.is_none()
    }

    /// The same range, limited to `cap` rows.
    #[must_use]
    pub fn capped(self, cap: Option<u64>) -> Self {
        match (self.limit, cap.map(u128::from)) {
            (Some(limit), Some(cap)) => Self { limit: Some(limit.min(cap)), ..self },
            (None, cap) => Self { limit: cap, ..self },
            (Some(_), None) => self,
        }
    }

    /// Rows in both ranges; `None` if there are none.
    #[must_use]
    pub fn intersect(self, other: Self) -> Option<Self> {
        let end = |range: Self| range.limit.map(|limit| range.offset.saturating_add(limit));
        let offset = self.offset.max(other.offset);
        let last = match (end(self), end(other)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        match last {
            Some(last) if last <= offset => None,
            Some(last) => Some(Self { offset, limit: Some(last - offset) }),
            None => Some(Self { offset, limit: None }),
        }
    }
}

impl fmt::Display for RowRange {
    /// Formats the range as a `Range` header. An empty range cannot be expressed: its upper bound would be below the
    /// lower.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-", self.offset)?;
        match self.limit {
            Some(limit) => write!(f, "{}", self.offset.saturating_add(limit.saturating_sub(1))),
            None => Ok(()),
        }
    }
}

/// Reason why a range is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeError {
    /// The limit is negative, or the `Range` header excludes all rows within the limit.
    NegativeLimit,
    /// The lower bound of the `Range` header is above the upper.
    LowerAboveUpper,
}

/// Parses `limit=`; text that is not a number is ignored.
///
/// ```
/// use basalt_rest::parse::range::parse_limit;
/// assert_eq!(parse_limit("ten"), Ok(None));
/// // PostgreSQL rejects a number that is too large, and its error shows the number.
/// assert_eq!(parse_limit("99999999999999999999"), Ok(Some(99_999_999_999_999_999_999)));
/// ```
///
/// # Errors
/// The limit is negative.
pub fn parse_limit(text: &str) -> Result<Option<u128>, RangeError> {
    match text.trim().strip_prefix('-') {
        Some(digits) if number(digits).is_some_and(|limit| limit > 0) => Err(RangeError::NegativeLimit),
        Some(digits) => Ok(number(digits)),
        None => Ok(number(text.trim())),
    }
}

/// Parses `offset=`; negative numbers and text that is not a number count as 0.
#[must_use]
pub fn parse_offset(text: &str) -> u128 {
    number(text.trim()).unwrap_or(0)
}

/// Parses digits only. A number too large for the type is also too large for PostgreSQL, which rejects it (22003).
fn number(digits: &str) -> Option<u128> {
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u128::MAX))
}

/// Parses the `Range` header: `a-b` or `a-`, zero-based and inclusive. A malformed header is ignored.
///
/// ```
/// use basalt_rest::parse::range::{RangeError, RowRange, parse_header};
/// assert_eq!(parse_header("0-9"), Ok(RowRange { offset: 0, limit: Some(10) }));
/// assert_eq!(parse_header("5-"), Ok(RowRange { offset: 5, limit: None }));
/// assert_eq!(parse_header("9-0"), Err(RangeError::LowerAboveUpper));
/// assert_eq!(parse_header("bytes=0-9"), Ok(RowRange::ALL));
/// ```
///
/// # Errors
/// The lower bound is above the upper.
pub fn parse_header(text: &str) -> Result<RowRange, RangeError> {
    let Some((from, to)) = text.trim().split_once('-') else { return Ok(RowRange::ALL) };
    let Some(offset) = number(from) else { return Ok(RowRange::ALL) };
    if to.is_empty() {
        return Ok(RowRange { offset, limit: None });
    }
    match number(to) {
        Some(to) if to < offset => Err(RangeError::LowerAboveUpper),
        Some(to) => Ok(RowRange { offset, limit: Some((to - offset).saturating_add(1)) }),
        None => Ok(RowRange::ALL),
    }
}
