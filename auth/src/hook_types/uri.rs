//! Where a hook runs.

use url::{Host, Url};

/// Longest name of a schema or function, as in PostgreSQL.
const NAME_BYTES: usize = 63;

/// A validated address of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HookUri {
    /// A function of the project's database.
    Function { schema: String, name: String },
    /// An endpoint that gets a signed POST.
    Http(Url),
}

impl HookUri {
    /// # Errors
    /// The sentence continues after the setting's name.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|_error| {
            "must be pg-functions://postgres/<schema>/<function> or an https URL".to_owned()
        })?;
        match url.scheme() {
            "pg-functions" => function(text).ok_or_else(|| {
                "must have the form pg-functions://postgres/<schema>/<function>, with names of letters, digits and _"
                    .to_owned()
            }),
            "https" if url.has_host() => Ok(Self::Http(url)),
            "http" if is_local(&url) => Ok(Self::Http(url)),
            "http" => Err("must be an https URL; http is allowed for localhost only".to_owned()),
            _ => Err("must begin with pg-functions:// or https://".to_owned()),
        }
    }
}

fn function(text: &str) -> Option<HookUri> {
    let (schema, name) = text.strip_prefix("pg-functions://postgres/")?.split_once('/')?;
    (is_name(schema) && is_name(name))
        .then(|| HookUri::Function { schema: schema.to_owned(), name: name.to_owned() })
}

fn is_name(text: &str) -> bool {
    text.len() <= NAME_BYTES
        && text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// `host.docker.internal` is the host of a container.
fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            name == "localhost" || name.ends_with(".localhost") || name == "host.docker.internal"
        }
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_functions_and_endpoints() {
        let function = HookUri::Function { schema: "public".to_owned(), name: "my_Hook2".to_owned() };
        assert_eq!(HookUri::parse("pg-functions://postgres/public/my_Hook2"), Ok(function));
        for url in [
            "https://hooks.example.org/a?b=c",
            "http://localhost:9000/",
            "http://127.0.0.1/",
            "http://[::1]/",
        ] {
            assert!(matches!(HookUri::parse(url), Ok(HookUri::Http(_))), "{url}");
        }
    }

    #[test]
    fn rejects_other_addresses() {
        for text in [
            "",
            "hook",
            "http://hooks.example.org/",
            "http://169.254.169.254/",
            "ftp://localhost/",
            "pg-functions://postgres/public",
            "pg-functions://other/public/hook",
            "pg-functions://postgres/public/hook/more",
            "pg-functions://postgres/public/ho\"ok",
            "pg-functions://postgres/public/1hook",
            "pg-functions://postgres/public/hook?x=1",
        ] {
            assert!(HookUri::parse(text).is_err(), "{text}");
        }
    }
}
