//! Applies preferences, and reports which ones were applied (rest.md §3.11).

use basalt_pg::session::Access;

use super::Common;
use crate::config::RestConfig;
use crate::error::RestError;
use crate::parse::prefer::{Resolution, Transaction};
use crate::request::{Action, ApiRequest, RelationVerb};

impl Common {
    /// Defaults of every read.
    pub(super) fn reading(request: &ApiRequest, config: &RestConfig) -> Self {
        Self {
            access: Access::ReadOnly,
            isolation: None,
            settings: Vec::new(),
            applied: Vec::new(),
            legacy_names: Vec::new(),
            embeds: false,
            count: request.prefer.count,
            max_affected: None,
            rollback: rollback(request, config),
        }
    }

    /// Settings of the transaction for the root document.
    pub(crate) const fn document() -> Self {
        Self {
            access: Access::ReadOnly,
            isolation: None,
            settings: Vec::new(),
            applied: Vec::new(),
            legacy_names: Vec::new(),
            embeds: false,
            count: None,
            max_affected: None,
            rollback: None,
        }
    }

    /// Defaults of every write.
    pub(super) fn writing(request: &ApiRequest, config: &RestConfig) -> Self {
        let common = Self { access: Access::ReadWrite, ..Self::reading(request, config) };
        let limited = matches!(
            request.action,
            Action::Relation { verb: RelationVerb::Update | RelationVerb::Delete, .. } | Action::Call { .. }
        );
        Self {
            max_affected: request.prefer.max_affected.filter(|_| limited && request.prefer.is_strict()),
            ..common
        }
    }
}

/// Whether to roll the transaction back, if the caller chose and is allowed to.
fn rollback(request: &ApiRequest, config: &RestConfig) -> Option<bool> {
    let preferred = request.prefer.transaction.filter(|_| config.tx_end.allow_override)?;
    Some(preferred == Transaction::Rollback)
}

/// Rejects unknown preferences with strict handling.
///
/// # Errors
/// The request has unknown preferences (PGRST122).
pub(super) fn check(request: &ApiRequest) -> Result<(), RestError> {
    let prefer = &request.prefer;
    if prefer.is_strict() && !prefer.invalid.is_empty() {
        return Err(RestError::Preferences(prefer.invalid.clone()));
    }
    Ok(())
}

/// Entries of `Preference-Applied`; `resolution` is the one in effect for an insert.
pub(super) fn applied(
    request: &ApiRequest,
    config: &RestConfig,
    resolution: Option<Resolution>,
) -> Vec<String> {
    let prefer = &request.prefer;
    let verb = match &request.action {
        Action::Relation { verb, .. } => Some(*verb),
        Action::Call { .. } | Action::Root { .. } | Action::Info(_) => None,
    };
    let is_call = matches!(request.action, Action::Call { .. });
    let bodied = matches!(verb, Some(RelationVerb::Insert | RelationVerb::Update));
    let limited = is_call || matches!(verb, Some(RelationVerb::Update | RelationVerb::Delete));
    let mut applied: Vec<String> = Vec::new();
    let mut echo = |honoured: bool, text: Option<&str>| {
        applied.extend(text.filter(|_| honoured).map(str::to_owned));
    };
    echo(true, resolution.map(|p| p.as_str()));
    echo(bodied, prefer.missing.map(|p| p.as_str()));
    echo(request.action.is_write(), prefer.representation.map(|p| p.as_str()));
    echo(true, prefer.count.map(|p| p.as_str()));
    echo(config.tx_end.allow_override, prefer.transaction.map(|p| p.as_str()));
    echo(true, prefer.handling.map(|p| p.as_str()));
    echo(true, prefer.timezone.as_ref().map(|zone| format!("timezone={zone}")).as_deref());
    let max_affected = prefer.max_affected.map(|rows| format!("max-affected={rows}"));
    echo(limited && prefer.is_strict(), max_affected.as_deref());
    applied
}
