//! Idempotency keys: the same key with the same parameters returns the first response for a day.

use std::collections::{BTreeMap, HashMap, VecDeque};

use http::StatusCode;
use serde_json::Value;

use crate::error::{Result, StripeError};
use crate::params::Params;
use crate::state::CAPACITY;

const DAY: i64 = 86_400;

/// The newest [`CAPACITY`] keys.
#[derive(Default)]
pub(crate) struct Keys {
    seen: HashMap<String, Seen>,
    order: VecDeque<String>,
}

struct Seen {
    path: String,
    params: BTreeMap<String, String>,
    at: i64,
    status: StatusCode,
    body: Value,
}

/// What to do for a key.
#[derive(Debug, PartialEq)]
pub(super) enum Begin {
    New,
    Replay(StatusCode, Value),
}

impl Keys {
    /// Looks up a key. Calls run under one lock, so two calls with the same key are never concurrent;
    /// `idempotency_key_in_use` only occurs as a fault requested by a test.
    pub(super) fn begin(&mut self, key: &str, path: &str, params: &Params, now: i64) -> Result<Begin> {
        if key.is_empty() || key.len() > 255 {
            let text = "Idempotency keys have 1 to 255 characters.".to_owned();
            return Err(StripeError::idempotency(StatusCode::BAD_REQUEST, text));
        }
        let seen = self.seen.get(key).filter(|seen| now.saturating_sub(seen.at) < DAY);
        let Some(seen) = seen else {
            self.forget(key);
            let seen = Seen {
                path: path.to_owned(),
                params: params.as_map().clone(),
                at: now,
                status: StatusCode::OK,
                body: Value::Null,
            };
            if self.order.len() == CAPACITY
                && let Some(oldest) = self.order.pop_front()
            {
                self.seen.remove(&oldest);
            }
            self.order.push_back(key.to_owned());
            self.seen.insert(key.to_owned(), seen);
            return Ok(Begin::New);
        };
        if seen.path != path || seen.params != *params.as_map() {
            let text = format!(
                "Keys for idempotent requests can only be used with the same parameters they were first used with. \
                 Use a key other than '{key}' for a different request."
            );
            return Err(StripeError::idempotency(StatusCode::BAD_REQUEST, text));
        }
        Ok(Begin::Replay(seen.status, seen.body.clone()))
    }

    /// Stores the response; `None` releases the key, because invalid parameters were rejected before anything happened.
    pub(super) fn end(&mut self, key: &str, answer: Option<(StatusCode, Value)>) {
        match (answer, self.seen.get_mut(key)) {
            (Some((status, body)), Some(seen)) => (seen.status, seen.body) = (status, body),
            _ => self.forget(key),
        }
    }

    fn forget(&mut self, key: &str) {
        if self.seen.remove(key).is_some() {
            self.order.retain(|other| other != key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_replays_first_response_for_a_day() {
        let mut keys = Keys::default();
        let params = Params::parse("a=1").unwrap();
        assert_eq!(keys.begin("k", "customers", &params, 0).unwrap(), Begin::New);
        keys.end("k", Some((StatusCode::OK, Value::from(7))));
        let replay = Begin::Replay(StatusCode::OK, Value::from(7));
        assert_eq!(keys.begin("k", "customers", &params, DAY - 1).unwrap(), replay);
        let other = Params::parse("a=2").unwrap();
        assert!(keys.begin("k", "customers", &other, 1).is_err(), "other parameters");
        assert!(keys.begin("k", "checkout/sessions", &params, 1).is_err(), "another call");
        assert_eq!(keys.begin("k", "customers", &other, DAY).unwrap(), Begin::New, "a day later");
    }

    #[test]
    fn invalid_parameter_releases_key() {
        let mut keys = Keys::default();
        let params = Params::default();
        assert_eq!(keys.begin("k", "customers", &params, 0).unwrap(), Begin::New);
        keys.end("k", None);
        assert_eq!(keys.begin("k", "customers", &Params::parse("a=1").unwrap(), 0).unwrap(), Begin::New);
    }
}
