//! Signatures of HTTP hooks: Standard Webhooks with symmetric secrets (auth.md §3.20).

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A signing secret. No `Debug`, so that no log can show it.
pub(crate) struct Secret(hmac::Key);

impl Secret {
    /// Parses secrets of the form `v1,whsec_<base64>`, separated by `|`.
    ///
    /// # Errors
    /// There is none, or one has another form; the sentence continues after the setting's name.
    pub(crate) fn parse_all(text: &str) -> Result<Vec<Self>, String> {
        let secrets: Vec<&str> = text.split('|').map(str::trim).filter(|part| !part.is_empty()).collect();
        if secrets.is_empty() {
            return Err("is required for a hook over HTTP: generate a secret with \
                        `echo v1,whsec_$(openssl rand -base64 32)`"
                .to_owned());
        }
        let key = |secret: &str| {
            let bytes = STANDARD.decode(secret.strip_prefix("v1,whsec_")?).ok()?;
            (!bytes.is_empty()).then(|| Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
        };
        let keys: Option<Vec<Self>> = secrets.into_iter().map(key).collect();
        keys.ok_or_else(|| "must be secrets of the form v1,whsec_<base64>, separated by |".to_owned())
    }

    /// The header `webhook-signature`: one signature for each secret.
    pub(crate) fn sign(secrets: &[Self], id: &str, timestamp: i64, body: &[u8]) -> String {
        let mut signed = format!("{id}.{timestamp}.").into_bytes();
        signed.extend_from_slice(body);
        let sign = |secret: &Self| format!("v1,{}", STANDARD.encode(hmac::sign(&secret.0, &signed)));
        secrets.iter().map(sign).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_the_example_of_standard_webhooks() {
        let secrets = Secret::parse_all("v1,whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap_or_default();
        let body = br#"{"test": 2432232314}"#;
        let signature = Secret::sign(&secrets, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let two =
            Secret::parse_all("v1,whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw|v1,whsec_AAAA").unwrap_or_default();
        let both = Secret::sign(&two, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert!(both.starts_with(&format!("{signature}, v1,")), "{both}");
    }

    #[test]
    fn rejects_other_secrets() {
        for text in ["", " | ", "whsec_AAAA", "v1,whsec_", "v1,whsec_?", "v1,whsec_AAAA|x", "v1a,whsk_AAAA"] {
            assert!(Secret::parse_all(text).is_err(), "{text}");
        }
    }
}
