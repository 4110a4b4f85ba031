//! Functions, and resolution of the overload that a call names (rest.md §3.10).

use super::QualifiedName;

/// A function that requests may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routine {
    /// Schema and name.
    pub name: QualifiedName,
    /// Parameters in order.
    pub params: Vec<RoutineParam>,
    /// Type of the result.
    pub returns: Returns,
    /// Volatility category.
    pub volatility: Volatility,
    /// Value of `default_transaction_isolation` declared on the function.
    pub isolation: Option<String>,
    /// Other settings declared on the function that apply to the transaction.
    pub settings: Vec<(String, String)>,
    /// Text of `COMMENT ON`.
    pub comment: Option<String>,
}

/// A parameter of a function.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct RoutineParam {
    /// Parameter name; may be empty.
    pub name: String,
    /// Type as quoted by PostgreSQL, for messages and the OpenAPI document.
    pub type_name: String,
    /// Type that values are cast to: `type_name` without a length that would truncate them.
    pub wide_type: String,
    /// Whether it has no default.
    pub required: bool,
    /// Whether it is variadic.
    pub variadic: bool,
}

/// Result type of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Returns {
    /// Whether the result is a set (`SETOF` or `TABLE`).
    pub set: bool,
    /// Shape of one row.
    pub row: RowShape,
    /// Media type, if the result's domain is named after one.
    pub media: Option<String>,
}

/// Shape of one returned row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowShape {
    /// `void`.
    Void,
    /// A single value. Includes `record` without OUT parameters, whose columns are unknown to SQL.
    Scalar,
    /// Columns of a composite type, which may be that of a relation.
    Composite(QualifiedName),
}

/// Volatility category of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "variants are named as in PostgreSQL")]
pub enum Volatility {
    Immutable,
    Stable,
    Volatile,
}

/// Type of a body that a single unnamed parameter could accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RawBody {
    /// No such body: GET, HEAD and forms.
    None,
    /// `application/json`, for `json` and `jsonb`.
    Json,
    /// `text/plain`, for `text`.
    Text,
    /// `text/xml`, for `xml`.
    Xml,
    /// `application/octet-stream`, for `bytea`.
    Bytes,
}

impl RawBody {
    /// Type of the parameter, as worded in PGRST202.
    #[must_use]
    pub const fn parameter(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Json => Some("json/jsonb"),
            Self::Text => Some("text"),
            Self::Xml => Some("xml"),
            Self::Bytes => Some("bytea"),
        }
    }

    /// Whether the body cannot contain named arguments.
    #[must_use]
    pub const fn is_opaque(self) -> bool {
        matches!(self, Self::Text | Self::Xml | Self::Bytes)
    }

    fn fits(self, routine: &Routine) -> bool {
        let [param] = routine.params.as_slice() else { return false };
        param.name.is_empty()
            && match self {
                Self::None => false,
                Self::Json => matches!(param.type_name.as_str(), "json" | "jsonb"),
                Self::Text => param.type_name == "text",
                Self::Xml => param.type_name == "xml",
                Self::Bytes => param.type_name == "bytea",
            }
    }
}

/// Result of overload resolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice<'a> {
    /// One function, called with named arguments.
    Named(&'a Routine),
    /// One function, called with the entire body.
    Unnamed(&'a Routine),
    /// No function matches.
    None,
    /// Several functions match.
    Ambiguous(Vec<&'a Routine>),
}

/// Resolves a call among overloads by its argument names, which must be distinct.
#[must_use]
pub fn choose<'a>(overloads: &'a [Routine], arguments: &[&str], raw: RawBody) -> Choice<'a> {
    let named: Vec<&Routine> = overloads.iter().filter(|routine| takes(routine, arguments, raw)).collect();
    match named.as_slice() {
        [] => {}
        [one] => return Choice::Named(one),
        _ => return Choice::Ambiguous(named),
    }
    let unnamed: Vec<&Routine> = overloads.iter().filter(|routine| raw.fits(routine)).collect();
    match unnamed.as_slice() {
        [] => Choice::None,
        [one] => Choice::Unnamed(one),
        _ => Choice::Ambiguous(unnamed),
    }
}

/// Whether all required parameters are given, and no others. An opaque body contains no arguments: it may be ignored
/// by a function whose parameters are all optional, but not by one without parameters.
fn takes(routine: &Routine, arguments: &[&str], raw: RawBody) -> bool {
    if routine.params.is_empty() {
        return arguments.is_empty() && !raw.is_opaque();
    }
    routine.params.iter().filter(|p| p.required).all(|p| arguments.contains(&p.name.as_str()))
        && arguments.iter().all(|name| routine.params.iter().any(|p| p.name == *name))
        // The empty key of a JSON body denotes an unnamed parameter, which takes the entire body.
        && (raw == RawBody::Json || !arguments.contains(&""))
}

impl Routine {
    /// Signature for PGRST203: `public.f(a => integer, b => text)`.
    #[must_use]
    pub fn signature(&self) -> String {
        format!("{}({})", self.name, self.parameters())
    }

    /// Parameters with their types: `a => integer, b => text`.
    #[must_use]
    pub fn parameters(&self) -> String {
        let params: Vec<String> =
            self.params.iter().map(|p| format!("{} => {}", p.name, p.type_name)).collect();
        params.join(", ")
    }

    /// Whether the only parameter is unnamed, so that it takes the entire body.
    #[must_use]
    pub fn is_unnamed(&self) -> bool {
        matches!(self.params.as_slice(), [param] if param.name.is_empty())
    }

    /// The variadic parameter, if there is one.
    #[must_use]
    pub fn variadic(&self) -> Option<&RoutineParam> {
        self.params.iter().find(|p| p.variadic)
    }
}
