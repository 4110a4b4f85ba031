//! Media types in `Accept` and `Content-Type` (rest.md §3.12).

use std::fmt;

/// A media type, as far as this service distinguishes them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MediaType {
    /// `*/*`: any type.
    Any,
    /// `application/json`, and `vnd.pgrst.array` without parameters: an array of rows.
    Json,
    /// `application/vnd.pgrst.array+json;nulls=stripped`: an array of rows without null keys.
    ArrayStripped,
    /// `application/vnd.pgrst.object+json`: a single row.
    Singular {
        /// Whether `nulls=stripped` is given, which omits null keys.
        stripped: bool,
    },
    /// `text/csv`: a header line, then one line per row.
    Csv,
    /// `application/geo+json`: a GeoJSON `FeatureCollection`.
    GeoJson,
    /// `application/openapi+json`: the root document.
    OpenApi,
    /// `application/vnd.pgrst.plan`: the execution plan.
    Plan(Box<PlanMedia>),
    /// `application/x-www-form-urlencoded`: a form body.
    UrlEncoded,
    /// `text/plain`: a text body or a scalar result.
    TextPlain,
    /// `text/xml`: an XML body or result.
    TextXml,
    /// `application/octet-stream`: a binary body or result.
    OctetStream,
    /// Any other type, in lower case.
    Other(String),
}

/// Parameters of `application/vnd.pgrst.plan`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PlanMedia {
    /// Whether the suffix is `+json` rather than `+text`.
    pub json: bool,
    /// `for="…"`: media type of the statement to explain.
    pub target: MediaType,
    /// `options=a|b`: options of EXPLAIN.
    pub options: Vec<PlanOption>,
}

/// An option of EXPLAIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "variants are named as in EXPLAIN")]
pub enum PlanOption {
    Analyze,
    Verbose,
    Settings,
    Buffers,
    Wal,
}

impl PlanOption {
    const ALL: [Self; 5] = [Self::Analyze, Self::Verbose, Self::Settings, Self::Buffers, Self::Wal];

    const fn word(self) -> &'static str {
        match self {
            Self::Analyze => "analyze",
            Self::Verbose => "verbose",
            Self::Settings => "settings",
            Self::Buffers => "buffers",
            Self::Wal => "wal",
        }
    }

    /// Option in the syntax of EXPLAIN, with a leading comma.
    #[must_use]
    pub const fn as_sql(self) -> &'static str {
        match self {
            Self::Analyze => ", ANALYZE",
            Self::Verbose => ", VERBOSE",
            Self::Settings => ", SETTINGS",
            Self::Buffers => ", BUFFERS",
            Self::Wal => ", WAL",
        }
    }
}

impl MediaType {
    /// Parses one media type with its parameters; unknown parameters are ignored.
    ///
    /// ```
    /// use basalt_rest::parse::media::MediaType;
    /// assert_eq!(MediaType::parse("Application/VND.pgrst.object"), MediaType::Singular { stripped: false });
    /// let plan = "application/vnd.pgrst.plan+text; for=\"application/json\"; options=analyze|verbose;";
    /// assert!(matches!(MediaType::parse(plan), MediaType::Plan(_)));
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut parts = split_outside_quotes(text, ';').into_iter().map(str::trim);
        let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
        let parameters: Vec<(String, &str)> = parts
            .filter_map(|part| part.split_once('='))
            .map(|(name, value)| (name.trim().to_ascii_lowercase(), unquoted(value)))
            .collect();
        let parameter =
            |name: &str| parameters.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
        let stripped = parameter("nulls") == Some("stripped");
        match essence.as_str() {
            "*/*" => Self::Any,
            "application/json" => Self::Json,
            "application/vnd.pgrst.object" | "application/vnd.pgrst.object+json" => {
                Self::Singular { stripped }
            }
            "application/vnd.pgrst.array" | "application/vnd.pgrst.array+json" => {
                if stripped {
                    Self::ArrayStripped
                } else {
                    Self::Json
                }
            }
            "text/csv" => Self::Csv,
            "application/geo+json" => Self::GeoJson,
            "application/openapi+json" => Self::OpenApi,
            "application/x-www-form-urlencoded" => Self::UrlEncoded,
            "text/plain" => Self::TextPlain,
            "text/xml" => Self::TextXml,
            "application/octet-stream" => Self::OctetStream,
            "application/vnd.pgrst.plan"
            | "application/vnd.pgrst.plan+text"
            | "application/vnd.pgrst.plan+json" => {
                let words: Vec<&str> = parameter("options").unwrap_or_default().split('|').collect();
                Self::Plan(Box::new(PlanMedia {
                    json: essence.ends_with("+json"),
                    target: parameter("for").map_or(Self::Json, Self::parse),
                    options: PlanOption::ALL
                        .into_iter()
                        .filter(|option| words.iter().any(|word| word.trim() == option.word()))
                        .collect(),
                }))
            }
            other => Self::Other(other.to_owned()),
        }
    }

    /// Parses an `Accept` header into media types by descending `q`, then in order. An empty header accepts any type.
    #[must_use]
    pub fn parse_accept(text: &str) -> Vec<Self> {
        let mut weighed: Vec<(u32, Self)> = split_outside_quotes(text, ',')
            .into_iter()
            .filter(|item| !item.trim().is_empty())
            .map(|item| (weight(item), Self::parse(item)))
            .collect();
        weighed.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        let types: Vec<Self> = weighed.into_iter().map(|(_, media)| media).collect();
        if types.is_empty() { vec![Self::Any] } else { types }
    }

    /// Value of the response's `Content-Type`.
    #[must_use]
    pub fn content_type(&self) -> String {
        match self {
            Self::OctetStream | Self::Any => "application/octet-stream".to_owned(),
            // For an unknown type it is also unknown whether it is text and needs a charset.
            Self::Other(other) => other.clone(),
            Self::Plan(_)
            | Self::Json
            | Self::ArrayStripped
            | Self::Singular { .. }
            | Self::Csv
            | Self::GeoJson
            | Self::OpenApi
            | Self::UrlEncoded
            | Self::TextPlain
            | Self::TextXml => format!("{self}; charset=utf-8"),
        }
    }

    /// Whether the response must contain exactly one row.
    #[must_use]
    pub fn is_singular(&self) -> bool {
        match self {
            Self::Singular { .. } => true,
            Self::Plan(plan) => plan.target.is_singular(),
            Self::Any
            | Self::Json
            | Self::ArrayStripped
            | Self::Csv
            | Self::GeoJson
            | Self::OpenApi
            | Self::UrlEncoded
            | Self::TextPlain
            | Self::TextXml
            | Self::OctetStream
            | Self::Other(_) => false,
        }
    }
}

impl fmt::Display for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "*/*",
            Self::Json => "application/json",
            Self::ArrayStripped => "application/vnd.pgrst.array+json;nulls=stripped",
            Self::Singular { stripped: false } => "application/vnd.pgrst.object+json",
            Self::Singular { stripped: true } => "application/vnd.pgrst.object+json;nulls=stripped",
            Self::Csv => "text/csv",
            Self::GeoJson => "application/geo+json",
            Self::OpenApi => "application/openapi+json",
            Self::UrlEncoded => "application/x-www-form-urlencoded",
            Self::TextPlain => "text/plain",
            Self::TextXml => "text/xml",
            Self::OctetStream => "application/octet-stream",
            Self::Other(other) => other,
            Self::Plan(plan) => {
                let format = if plan.json { "json" } else { "text" };
                write!(f, "application/vnd.pgrst.plan+{format}; for=\"{}\"", plan.target)?;
                for (index, option) in plan.options.iter().enumerate() {
                    f.write_str(if index == 0 { "; options=" } else { "|" })?;
                    f.write_str(option.word())?;
                }
                return Ok(());
            }
        })
    }
}

/// Weight `q` in thousandths; 1000 if absent or malformed.
fn weight(item: &str) -> u32 {
    split_outside_quotes(item, ';')
        .into_iter()
        .filter_map(|part| part.trim().strip_prefix("q=").or_else(|| part.trim().strip_prefix("Q=")))
        .find_map(|q| q.trim().parse::<f32>().ok())
        .filter(|q| (0.0..=1.0).contains(q))
        .map_or(1000, thousandths)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the caller checked 0.0..=1.0")]
fn thousandths(q: f32) -> u32 {
    (q * 1000.0) as u32
}

/// Value of a parameter without quotes; a quote in the middle ends it.
fn unquoted(value: &str) -> &str {
    let value = value.trim();
    value.strip_prefix('"').unwrap_or(value).split('"').next().unwrap_or_default()
}

fn split_outside_quotes(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut quoted) = (0, false);
    for (at, c) in text.char_indices() {
        if c == '"' {
            quoted = !quoted;
        } else if c == separator && !quoted {
            parts.extend(text.get(start..at));
            start = at + c.len_utf8();
        }
    }
    parts.extend(text.get(start..));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_sorts_by_weight_then_position() {
        assert_eq!(
            MediaType::parse_accept("text/csv;q=0.5, text/unknown, */*;q=0.1, application/json"),
            [MediaType::Other("text/unknown".to_owned()), MediaType::Json, MediaType::Csv, MediaType::Any]
        );
        assert_eq!(MediaType::parse_accept(""), [MediaType::Any]);
    }

    #[test]
    fn parses_client_plan_type_with_empty_options() {
        let text = "application/vnd.pgrst.plan+text; for=\"application/vnd.pgrst.object+json; charset=utf-8\"; options=;";
        let MediaType::Plan(plan) = MediaType::parse(text) else { panic!("no plan") };
        assert_eq!(plan.target, MediaType::Singular { stripped: false });
        assert!(plan.options.is_empty() && !plan.json);
    }
}
