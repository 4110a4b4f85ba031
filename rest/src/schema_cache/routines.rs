//! Functions, and which overload a call means (rest.md §3.10).

use super::QualifiedName;

/// A function that can be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routine {
    /// Schema and name.
    pub name: QualifiedName,
    /// Parameters in order.
    pub params: Vec<RoutineParam>,
    /// What comes back.
    pub returns: Returns,
    /// Whether it may write.
    pub volatility: Volatility,
    /// `default_transaction_isolation` declared with it.
    pub isolation: Option<String>,
    /// Other settings declared with it that are hoisted to the transaction.
    pub settings: Vec<(String, String)>,
    /// `COMMENT ON`.
    pub comment: Option<String>,
}

/// A parameter of a function.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct RoutineParam {
    /// Name; empty if it has none.
    pub name: String,
    /// Type, quoted by PostgreSQL, for messages and the OpenAPI document.
    pub type_name: String,
    /// Type values are converted to: as `type_name`, but never cutting them.
    pub wide_type: String,
    /// It has no default.
    pub required: bool,
    /// The last, collecting one.
    pub variadic: bool,
}

/// What a function returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Returns {
    /// SETOF or TABLE.
    pub set: bool,
    /// Of what.
    pub row: RowShape,
    /// The media type that the returned domain is named after.
    pub media: Option<String>,
}

/// What one returned row is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowShape {
    /// Nothing.
    Void,
    /// One value; `record` without OUT parameters too, since its columns are unknown to SQL.
    Scalar,
    /// Columns; the type may be a relation's.
    Composite(QualifiedName),
}

/// How much a function promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in PostgreSQL")]
pub enum Volatility {
    Immutable,
    Stable,
    Volatile,
}

/// How a body of a call may reach a function's single unnamed parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RawBody {
    /// Not at all: GET, HEAD, forms.
    None,
    /// `application/json`, for json and jsonb.
    Json,
    /// `text/plain`
    Text,
    /// `text/xml`
    Xml,
    /// `application/octet-stream`
    Bytes,
}

impl RawBody {
    /// The parameter it would go to, in the words of PGRST202.
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

    /// Whether the body is no set of named arguments at all.
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

/// What a call means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice<'a> {
    /// This function, with named arguments.
    Named(&'a Routine),
    /// This function, with the whole body.
    Unnamed(&'a Routine),
    /// No function.
    None,
    /// Several.
    Ambiguous(Vec<&'a Routine>),
}

/// Chooses among the overloads by the argument names, which the caller gives without doubles.
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

/// All required parameters are there, and nothing that is no parameter. A body that is no set of arguments has none of
/// them: a function whose parameters are all optional is called without it, one without parameters is not meant by it.
fn takes(routine: &Routine, arguments: &[&str], raw: RawBody) -> bool {
    if routine.params.is_empty() {
        return arguments.is_empty() && !raw.is_opaque();
    }
    routine.params.iter().filter(|p| p.required).all(|p| arguments.contains(&p.name.as_str()))
        && arguments.iter().all(|name| routine.params.iter().any(|p| p.name == *name))
        // The empty key of a JSON body means an unnamed parameter, which takes the whole body.
        && (raw == RawBody::Json || !arguments.contains(&""))
}

impl Routine {
    /// `public.f(a => integer, b => text)`, for PGRST203.
    #[must_use]
    pub fn signature(&self) -> String {
        format!("{}({})", self.name, self.parameters())
    }

    /// `a => integer, b => text`
    #[must_use]
    pub fn parameters(&self) -> String {
        let params: Vec<String> =
            self.params.iter().map(|p| format!("{} => {}", p.name, p.type_name)).collect();
        params.join(", ")
    }

    /// Whether its one parameter has no name: then that is the whole body.
    #[must_use]
    pub fn is_unnamed(&self) -> bool {
        matches!(self.params.as_slice(), [param] if param.name.is_empty())
    }

    /// The variadic parameter, if it has one.
    #[must_use]
    pub fn variadic(&self) -> Option<&RoutineParam> {
        self.params.iter().find(|p| p.variadic)
    }
}
