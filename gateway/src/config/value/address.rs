//! Where something is reached: public URLs, PostgreSQL, blocks of IP addresses.

use std::fmt::{self, Debug};

use secrecy::{ExposeSecret, SecretString};

use basalt_http::address::{BaseUrl, IpRange};

use super::{Setting, Value, quote, show_list};

impl Setting for BaseUrl {
    fn expected() -> String {
        "a URL such as https://example.org, without query or password".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        value.text()?.parse().ok()
    }

    fn show(&self) -> String {
        quote(self.as_str())
    }
}

/// How to reach a PostgreSQL; holds a password.
#[derive(Clone)]
pub struct DatabaseUrl(SecretString);

impl DatabaseUrl {
    /// The whole URL, password included.
    #[must_use]
    pub fn expose_secret(&self) -> &str {
        self.0.expose_secret()
    }
}

impl Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.show())
    }
}

impl DatabaseUrl {
    fn driver(&self) -> Option<tokio_postgres::Config> {
        self.expose_secret().parse().ok()
    }
}

impl Setting for DatabaseUrl {
    fn expected() -> String {
        "a URL such as postgresql://user:password@host:5432/database (special characters in the password as %XX)"
            .to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        let url = Self(SecretString::from(value.text()?.trim()));
        let names_a_host = url.driver().is_some_and(|driver| !driver.get_hosts().is_empty());
        names_a_host.then_some(url)
    }

    // Built anew from the parts that are no secret, so that no spelling of a password can slip through.
    fn show(&self) -> String {
        let Some(driver) = self.driver() else {
            return "(set)".to_owned();
        };
        let host = match driver.get_hosts().first() {
            Some(tokio_postgres::config::Host::Tcp(name)) => name.clone(),
            Some(tokio_postgres::config::Host::Unix(path)) => path.display().to_string(),
            None => String::new(),
        };
        let port = driver.get_ports().first().copied().unwrap_or(5432);
        let user = driver.get_user().unwrap_or_default();
        let password = if driver.get_password().is_some() { ":(set)" } else { "" };
        let database = driver.get_dbname().unwrap_or(user);
        quote(&format!("postgresql://{user}{password}@{host}:{port}/{database}"))
    }
}

impl Setting for Vec<IpRange> {
    const EMPTY_MEANS: bool = true;

    fn expected() -> String {
        "a list of addresses or blocks such as 10.0.0.0/8".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        Vec::<String>::read(value)?.iter().map(|item| item.parse().ok()).collect()
    }

    fn show(&self) -> String {
        let items: Vec<String> = self.iter().map(ToString::to_string).collect();
        show_list(items.iter())
    }
}
