//! The values that policies read from a subscriber's claims.

use basalt_core::claims::Claims;
use serde_json::Value;

use super::expression::{BoundValues, Claim, Parameters, Undecided, uuid_from_text};

/// Claims whose conversion to `jsonb` is certain to succeed with the same values; otherwise none.
#[derive(Debug)]
pub(in super::super) struct ClaimValues<'a>(Option<&'a Claims>);

impl<'a> ClaimValues<'a> {
    pub(in super::super) fn new(claims: &'a Claims) -> Self {
        let is_plain = !has_unusual_escapes(claims.as_text()) && claims.as_map().values().all(is_plain);
        Self(is_plain.then_some(claims))
    }

    fn value(&self, claim: &Claim) -> Result<Option<String>, Undecided> {
        let claims = self.0.ok_or(Undecided)?;
        let text = |name: &str| match claims.get(name) {
            None | Some(Value::Null) => Ok(None),
            // The functions differ in how they treat an empty text.
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
            Some(_) => Err(Undecided),
        };
        match claim {
            Claim::Uid => text("sub")?.map(|text| uuid_from_text(&text)).transpose(),
            Claim::Role => text("role"),
            Claim::Path(path) => {
                let Some((first, rest)) = path.split_first() else { return Err(Undecided) };
                let mut value = claims.get(first);
                for name in rest {
                    // Anything but an object has no members, an array included.
                    value = value.and_then(|value| value.as_object()?.get(name));
                }
                match value {
                    None | Some(Value::Null) => Ok(None),
                    Some(Value::String(text)) => Ok(Some(text.clone())),
                    Some(Value::Bool(value)) => Ok(Some(value.to_string())),
                    Some(Value::Number(number)) if !number.is_f64() => Ok(Some(number.to_string())),
                    Some(Value::Number(_) | Value::Array(_) | Value::Object(_)) => Err(Undecided),
                }
            }
        }
    }
}

impl BoundValues for ClaimValues<'_> {
    fn claim(&self, claim: &Claim) -> Result<Option<String>, Undecided> {
        self.value(claim)
    }

    fn parameters(&self, _subselect: usize) -> Result<Parameters, Undecided> {
        Err(Undecided)
    }
}

/// Whether the text contains escapes of NUL or surrogates: `jsonb` rejects the first and unpaired ones.
fn has_unusual_escapes(text: &str) -> bool {
    let mut escapes = text.split("\\u").skip(1);
    escapes.any(|after| {
        let code = after.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        code.is_none_or(|code| code == 0 || (0xd800..0xe000).contains(&code))
    })
}

/// Whether every number within the value is certain to be accepted by `numeric`.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => true,
        Value::Number(number) => {
            !number.is_f64() || number.as_f64().is_some_and(|number| (1e-9..1e18).contains(&number.abs()))
        }
        Value::Array(items) => items.iter().all(is_plain),
        Value::Object(members) => members.values().all(is_plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(claims: &str, claim: &Claim) -> Result<Option<String>, Undecided> {
        ClaimValues::new(&Claims::parse(claims.as_bytes().to_vec()).unwrap()).value(claim)
    }

    #[test]
    fn reads_claims_as_sql_does() {
        let path = |names: &[&str]| Claim::Path(names.iter().map(|name| (*name).to_owned()).collect());
        let claims = r#"{"sub":"7C9E6679-7425-40de-944b-e07fc1f90ae7","role":"a","n":12,"b":true,"z":null,
            "o":{"p":"x","q":{}},"list":[1],"text":"caf\u00e9"}"#;
        let some = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(value(claims, &Claim::Uid), some("7c9e6679-7425-40de-944b-e07fc1f90ae7"));
        assert_eq!(value(claims, &Claim::Role), some("a"));
        for (names, expected) in [
            (&["n"][..], some("12")),
            (&["b"], some("true")),
            (&["z"], Ok(None)),
            (&["none"], Ok(None)),
            (&["o", "p"], some("x")),
            (&["o", "none", "p"], Ok(None)),
            (&["list", "p"], Ok(None)),
            (&["text"], some("caf\u{e9}")),
            (&["o"], Err(Undecided)),
            (&["list"], Err(Undecided)),
        ] {
            assert_eq!(value(claims, &path(names)), expected, "{names:?}");
        }
    }

    #[test]
    fn leaves_unusual_claims_to_postgres() {
        for claims in [
            r#"{"sub":"me"}"#,
            r#"{"sub":""}"#,
            r#"{"sub":7}"#,
            r#"{"x":"\u0000"}"#,
            r#"{"x":"\ud83d\ude00"}"#,
            r#"{"x":1e-20000}"#,
            r#"{"x":[1e300]}"#,
        ] {
            assert_eq!(value(claims, &Claim::Uid), Err(Undecided), "{claims}");
        }
        assert_eq!(value(r#"{"exp":1700000000.5}"#, &Claim::Uid), Ok(None));
    }
}
