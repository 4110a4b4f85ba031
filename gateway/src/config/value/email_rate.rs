//! The mails a server may send in a time, as [`basalt_auth`] reads them.

use basalt_auth::EmailRate;

use super::{Setting, Value, quote};

impl Setting for EmailRate {
    fn expected() -> String {
        "a number of mails for each hour such as 30, or with the time they are for such as \"30/10m\""
            .to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Bare(text) | Value::Text(text) => text.parse().ok(),
            Value::Integer(mails) => mails.to_string().parse().ok(),
            Value::Boolean(_) | Value::List(_) | Value::Pairs(_) | Value::Other(_) => None,
        }
    }

    fn show(&self) -> String {
        let text = self.to_string();
        if text.contains('/') { quote(&text) } else { text }
    }
}
