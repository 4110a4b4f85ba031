//! Parameters of a call: form fields with brackets (`line_items[0][price]`), stored under their full names. As at Stripe,
//! parameters that a call does not use are an error.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Result, StripeError};

/// Maximum fields per call.
const MAX_FIELDS: usize = 500;

/// Stripe's limits on metadata.
const MAX_METADATA: usize = 50;

/// Names and values that a client attaches to an object.
pub(crate) type Metadata = BTreeMap<String, String>;

/// The parameters that have not been read yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Params(BTreeMap<String, String>);

impl Params {
    /// Parses a query or a form body. `name[]` is numbered from 0.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut fields = BTreeMap::new();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for (name, value) in url::form_urlencoded::parse(text.as_bytes()) {
            let name = match name.strip_suffix("[]") {
                Some(list) => {
                    let count = counts.entry(list.to_owned()).or_default();
                    *count += 1;
                    format!("{list}[{}]", *count - 1)
                }
                None => name.into_owned(),
            };
            if fields.len() == MAX_FIELDS {
                return Err(StripeError::invalid("The request has too many parameters."));
            }
            fields.insert(name, value.into_owned());
        }
        Ok(Self(fields))
    }

    /// Names and values, sorted by name: equal for equal requests.
    pub(crate) fn as_map(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// The unchanged value, which may be empty.
    pub(crate) fn raw(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// A non-empty value.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>> {
        match self.raw(name) {
            Some(value) if value.is_empty() => {
                let text = format!("You passed an empty string for '{name}', which cannot be unset.");
                Err(StripeError::param(name, text).code("parameter_invalid_empty"))
            }
            Some(value) if value.len() > 5_000 => {
                let text = format!("Invalid string for '{name}': it must have 5000 characters at most.");
                Err(StripeError::param(name, text).code("parameter_invalid_string"))
            }
            value => Ok(value),
        }
    }

    pub(crate) fn required(&mut self, name: &str) -> Result<String> {
        self.text(name)?.ok_or_else(|| StripeError::missing_param(name))
    }

    pub(crate) fn boolean(&mut self, name: &str) -> Result<Option<bool>> {
        match self.text(name)?.as_deref() {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(other) => Err(StripeError::param(name, format!("Invalid boolean: {other}"))),
        }
    }

    pub(crate) fn integer(&mut self, name: &str) -> Result<Option<i64>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_error| {
            StripeError::param(name, format!("Invalid integer: {text}")).code("parameter_invalid_integer")
        })
    }

    /// One of the allowed values.
    pub(crate) fn one_of(&mut self, name: &str, allowed: &[&str]) -> Result<Option<String>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        if allowed.contains(&text.as_str()) {
            return Ok(Some(text));
        }
        Err(StripeError::param(name, format!("Invalid {name}: must be one of {}", allowed.join(", "))))
    }

    pub(crate) fn email(&mut self, name: &str) -> Result<Option<String>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        if is_email(&text) {
            return Ok(Some(text));
        }
        Err(StripeError::param(name, format!("Invalid email address: {text}")).code("email_invalid"))
    }

    /// An absolute `http` or `https` URL.
    pub(crate) fn url(&mut self, name: &str) -> Result<Option<String>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let is_web = url::Url::parse(&text)
            .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        if is_web {
            return Ok(Some(text));
        }
        Err(StripeError::param(name, "Not a valid URL").code("url_invalid"))
    }

    /// The indices of a list: `0` and `1` of `items[0][price]`, `items[1][id]`.
    pub(crate) fn indices(&self, name: &str) -> Vec<String> {
        let indices: BTreeSet<&str> = self
            .0
            .keys()
            .filter_map(|key| {
                key.strip_prefix(name)?.strip_prefix('[')?.split_once(']').map(|(index, _)| index)
            })
            .collect();
        indices.into_iter().map(str::to_owned).collect()
    }

    /// Whether there are fields nested in `name`.
    pub(crate) fn has_below(&self, name: &str) -> bool {
        !self.indices(name).is_empty()
    }

    /// The values of `name[0]`, `name[1]` …
    pub(crate) fn list(&mut self, name: &str) -> Vec<String> {
        self.indices(name).iter().filter_map(|index| self.raw(&format!("{name}[{index}]"))).collect()
    }

    /// Applies `name[key]=value` to `metadata`; an empty value removes the key, an empty `name` removes all.
    pub(crate) fn metadata(&mut self, name: &str, metadata: &mut Metadata) -> Result<()> {
        if let Some(all) = self.raw(name) {
            if !all.is_empty() {
                return Err(StripeError::param(name, "Invalid object"));
            }
            metadata.clear();
        }
        for key in self.indices(name) {
            let field = format!("{name}[{key}]");
            let Some(value) = self.raw(&field) else { continue };
            if key.chars().count() > 40 || value.chars().count() > 500 {
                let text = "Metadata keys have 40 characters at most, values 500.";
                return Err(StripeError::param(&field, text));
            }
            if value.is_empty() {
                metadata.remove(&key);
            } else {
                metadata.insert(key, value);
            }
        }
        if metadata.len() > MAX_METADATA {
            return Err(StripeError::param(name, format!("Metadata has {MAX_METADATA} keys at most.")));
        }
        Ok(())
    }

    /// Fails if a parameter has not been read.
    pub(crate) fn finish(&self) -> Result<()> {
        match self.0.keys().next() {
            Some(name) => Err(StripeError::unknown_param(name)),
            None => Ok(()),
        }
    }
}

/// Whether the text has one `@`, something before it, and a domain after it.
pub(crate) fn is_email(text: &str) -> bool {
    let Some((user, host)) = text.rsplit_once('@') else { return false };
    let is_plain =
        |part: &str| !part.is_empty() && !part.chars().any(|c| c.is_whitespace() || c.is_control());
    text.len() <= 512 && is_plain(user) && is_plain(host) && !user.contains('@') && !host.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_parameter_is_named() {
        let mut params = Params::parse("mode=subscription&line_items[0][price]=p&foo[bar]=1").unwrap();
        assert_eq!(params.required("mode").unwrap(), "subscription");
        assert_eq!(params.indices("line_items"), ["0"]);
        assert_eq!(params.required("line_items[0][price]").unwrap(), "p");
        assert_eq!(params.finish().unwrap_err(), StripeError::unknown_param("foo[bar]"));
    }

    #[test]
    fn lists_accept_both_index_forms() {
        let mut params = Params::parse("expand[]=a&expand[]=b").unwrap();
        assert_eq!(params.list("expand"), ["a", "b"]);
        assert_eq!(Params::parse("expand%5B0%5D=a").unwrap().list("expand"), ["a"]);
    }

    #[test]
    fn empty_metadata_value_removes_key() {
        let mut metadata = Metadata::from([("a".to_owned(), "1".to_owned())]);
        let mut params = Params::parse("metadata[a]=&metadata[b]=2").unwrap();
        params.metadata("metadata", &mut metadata).unwrap();
        assert_eq!(metadata, Metadata::from([("b".to_owned(), "2".to_owned())]));
        params.finish().unwrap();
    }

    #[test]
    fn types_are_checked() {
        let code = |text: &str, read: fn(&mut Params) -> Result<()>| {
            read(&mut Params::parse(text).unwrap()).unwrap_err().body()["error"]["code"].clone()
        };
        assert_eq!(code("a=", |p| p.boolean("a").map(drop)), "parameter_invalid_empty");
        assert_eq!(code("a=x", |p| p.integer("a").map(drop)), "parameter_invalid_integer");
        assert_eq!(code("a=ftp://x", |p| p.url("a").map(drop)), "url_invalid");
        assert_eq!(code("a=me", |p| p.email("a").map(drop)), "email_invalid");
    }
}
