//! Operators of filters: keyword in the URL grammar and SQL (rest.md §3.4).

/// Binary operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "variants are named as in the URL grammar; see as_sql")]
pub enum Operator {
    Eq,
    Neq,
    Gt,
    Gte,
    Lt,
    Lte,
    Like,
    Ilike,
    Match,
    Imatch,
    Cs,
    Cd,
    Ov,
    Sl,
    Sr,
    Nxr,
    Nxl,
    Adj,
}

impl Operator {
    pub(super) const ALL: [Self; 18] = [
        Self::Eq,
        Self::Neq,
        Self::Gte,
        Self::Gt,
        Self::Lte,
        Self::Lt,
        Self::Like,
        Self::Ilike,
        Self::Match,
        Self::Imatch,
        Self::Cs,
        Self::Cd,
        Self::Ov,
        Self::Sl,
        Self::Sr,
        Self::Nxr,
        Self::Nxl,
        Self::Adj,
    ];

    /// Keyword in the URL grammar.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Eq => "eq",
            Self::Neq => "neq",
            Self::Gt => "gt",
            Self::Gte => "gte",
            Self::Lt => "lt",
            Self::Lte => "lte",
            Self::Like => "like",
            Self::Ilike => "ilike",
            Self::Match => "match",
            Self::Imatch => "imatch",
            Self::Cs => "cs",
            Self::Cd => "cd",
            Self::Ov => "ov",
            Self::Sl => "sl",
            Self::Sr => "sr",
            Self::Nxr => "nxr",
            Self::Nxl => "nxl",
            Self::Adj => "adj",
        }
    }

    /// SQL operator, with surrounding blanks.
    #[must_use]
    pub const fn as_sql(self) -> &'static str {
        match self {
            Self::Eq => " = ",
            Self::Neq => " <> ",
            Self::Gt => " > ",
            Self::Gte => " >= ",
            Self::Lt => " < ",
            Self::Lte => " <= ",
            Self::Like => " LIKE ",
            Self::Ilike => " ILIKE ",
            Self::Match => " ~ ",
            Self::Imatch => " ~* ",
            Self::Cs => " @> ",
            Self::Cd => " <@ ",
            Self::Ov => " && ",
            Self::Sl => " << ",
            Self::Sr => " >> ",
            Self::Nxr => " &< ",
            Self::Nxl => " &> ",
            Self::Adj => " -|- ",
        }
    }

    /// Whether `(any)` and `(all)` are supported.
    #[must_use]
    pub const fn is_quantifiable(self) -> bool {
        matches!(
            self,
            Self::Eq
                | Self::Gt
                | Self::Gte
                | Self::Lt
                | Self::Lte
                | Self::Like
                | Self::Ilike
                | Self::Match
                | Self::Imatch
        )
    }

    /// Whether `*` in the operand stands for `%`.
    #[must_use]
    pub const fn is_pattern(self) -> bool {
        matches!(self, Self::Like | Self::Ilike)
    }
}

/// Quantifier over an array operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantifier {
    /// At least one element matches.
    Any,
    /// Every element matches.
    All,
}

impl Quantifier {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::All => "all",
        }
    }
}

/// Operand of `is.`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "variants are named as in the URL grammar")]
pub enum IsValue {
    Null,
    NotNull,
    True,
    False,
    Unknown,
}

impl IsValue {
    pub(super) const ALL: [Self; 5] = [Self::NotNull, Self::Null, Self::True, Self::False, Self::Unknown];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::NotNull => "not_null",
            Self::True => "true",
            Self::False => "false",
            Self::Unknown => "unknown",
        }
    }

    /// SQL operator, with a leading blank.
    #[must_use]
    pub const fn as_sql(self) -> &'static str {
        match self {
            Self::Null => " IS NULL",
            Self::NotNull => " IS NOT NULL",
            Self::True => " IS TRUE",
            Self::False => " IS FALSE",
            Self::Unknown => " IS UNKNOWN",
        }
    }
}

/// Query syntaxes of full-text search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextSearch {
    /// `fts`: syntax of `to_tsquery`.
    Query,
    /// `plfts`: syntax of `plainto_tsquery`.
    Plain,
    /// `phfts`: syntax of `phraseto_tsquery`.
    Phrase,
    /// `wfts`: syntax of `websearch_to_tsquery`.
    Web,
}

impl TextSearch {
    pub(super) const ALL: [Self; 4] = [Self::Query, Self::Plain, Self::Phrase, Self::Web];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Query => "fts",
            Self::Plain => "plfts",
            Self::Phrase => "phfts",
            Self::Web => "wfts",
        }
    }

    /// Match operator and opening of the query function.
    #[must_use]
    pub const fn as_sql(self) -> &'static str {
        match self {
            Self::Query => " @@ to_tsquery(",
            Self::Plain => " @@ plainto_tsquery(",
            Self::Phrase => " @@ phraseto_tsquery(",
            Self::Web => " @@ websearch_to_tsquery(",
        }
    }
}
