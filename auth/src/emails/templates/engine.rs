//! Templates of e-mails in the part of Go's `html/template` that templates of mails use (auth.md §3.21): variables,
//! pipelines, `if`, `range`, `with`, variables of one's own, `eq` and its kin, `index`. What projects wrote for
//! upstream renders here.
//!
//! A value is escaped for the place it lands in: text, attribute, address, style. That place is known when the template is
//! read, so that a template whose branches disagree about it is refused then. Rendering is bounded in steps, depth
//! and output: `range` runs over what users say of themselves.
//!
//! Not a crate, because the ones there are port `text/template`: they know no HTML, and no bounds.

mod escape;
mod parse;
mod place;
mod run;

use serde_json::Value;

/// Longest source, and longest result, in bytes (auth.md §3.21).
pub(crate) const LONGEST: usize = 1_048_576;

/// A template, read and checked.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    nodes: Vec<parse::Node>,
}

/// Why a text is no template, or why it did not render.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error("line {line}: {problem}")]
    Syntax { line: usize, problem: String },
    #[error("it is longer than 1 MB")]
    TooLong,
    #[error("the values end in different places of HTML in the branches of {{{{ {0} }}}}")]
    Branches(&'static str),
    #[error("values inside scripts are not supported")]
    Script,
    #[error("{0} does not take these values")]
    Call(&'static str),
    #[error("it takes too many steps")]
    Steps,
}

impl Template {
    /// A template of HTML.
    pub(crate) fn html(source: &str) -> Result<Self, TemplateError> {
        let mut template = Self::text(source)?;
        place::assign(&mut template.nodes)?;
        Ok(template)
    }

    /// A template of plain text, where nothing is escaped.
    pub(crate) fn text(source: &str) -> Result<Self, TemplateError> {
        if source.len() > LONGEST {
            return Err(TemplateError::TooLong);
        }
        Ok(Self { nodes: parse::parse(source)? })
    }

    /// Fills it in. `values` is an object; what it lacks reads as empty.
    pub(crate) fn render(&self, values: &Value) -> Result<String, TemplateError> {
        run::render(&self.nodes, values)
    }
}

#[cfg(test)]
mod tests;
