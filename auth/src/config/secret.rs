//! Secrets in settings.

use std::path::Path;

use basalt_core::settings::{InvalidValue, Kind, Value};
use secrecy::{ExposeSecret, SecretString};

/// A secret that can be compared, because whole configurations are.
#[derive(Debug, Clone, Default)]
pub struct SecretSetting(SecretString);

impl SecretSetting {
    /// The secret itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl PartialEq for SecretSetting {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl Kind<Self> for SecretSetting {
    const HOLDS_SECRET: bool = true;

    fn expected() -> String {
        SecretString::expected()
    }

    fn read(value: &Value, base: &Path) -> Result<(Self, String), InvalidValue> {
        SecretString::read(value, base).map(|(secret, shown)| (Self(secret), shown))
    }
}
