//! `[auth]`: signing keys, providers, hooks, captchas and text messages.

use std::collections::BTreeMap;

use basalt_core::settings::{Source, Value};
use basalt_project::supabase::FOLDER;

use super::super::sections::setting;
use super::ConfigReader;
use super::variables::read_bounded;

/// Sections of sign-in providers.
pub(super) const PROVIDERS: &str = "auth.external.";
/// Sections of hooks.
pub(super) const HOOKS: &str = "auth.hook.";

impl ConfigReader<'_> {
    /// `[auth] signing_keys_path`, relative to `supabase/`: a JSON array of JWKs, of which the first signs.
    pub(super) fn read_keys(&mut self, path: &str, source: &Source) {
        let keys =
            read_bounded(&self.file.project_dir.join(FOLDER).join(path)).map_err(|error| error.to_string());
        let keys = keys.and_then(|text| {
            serde_json::from_str::<Vec<serde_json::Value>>(&text).map_err(|error| error.to_string())
        });
        match keys {
            Ok(keys) if keys.is_empty() => {}
            Ok(keys) => {
                let json = serde_json::Value::from(keys).to_string();
                self.write("jwt.keys", Value::Text(json), source);
            }
            Err(error) => {
                self.out.warnings.push(format!("{source}: cannot use {path} ({error}); ignored"));
            }
        }
    }

    /// `[auth.external.NAME]`. A provider that lacks its client id stays off, with a warning.
    pub(super) fn read_providers(&mut self, parts: &BTreeMap<String, (String, Source)>) {
        let keys = parts.iter().filter_map(|(name, part)| {
            let (provider, key) = name.strip_prefix(PROVIDERS)?.split_once('.')?;
            Some((provider, key, part))
        });
        for (provider, key, (text, source)) in keys {
            let part = |key: &str| parts.get(&format!("{PROVIDERS}{provider}.{key}"));
            let is_set = |key: &str| part(key).is_some_and(|(text, _)| !text.is_empty());
            let Some(setting) = setting(&format!("auth.external_{provider}_{key}")) else {
                if key == "enabled" {
                    self.out
                        .warnings
                        .push(format!("{source}: not available yet (sign-in with {provider}); ignored"));
                }
                continue;
            };
            if key == "enabled" && !(is_set("client_id") && (provider != "keycloak" || is_set("url"))) {
                self.out.warnings.push(format!(
                    "{source}: sign-in with {provider} needs client_id (and keycloak its url) and stays off"
                ));
            } else if !text.is_empty() {
                self.write(setting.key, Value::Bare(text.clone()), source);
            }
        }
    }

    /// `[auth.hook.NAME]`. A hook without a valid address stays off, with a warning.
    pub(super) fn read_hooks(&mut self, parts: &BTreeMap<String, (String, Source)>) {
        for (name, (flag, source)) in parts {
            let Some(hook) = name.strip_prefix(HOOKS).and_then(|name| name.strip_suffix(".enabled")) else {
                continue;
            };
            if flag != "true" {
                continue;
            }
            let part = |key: &str| parts.get(&format!("{HOOKS}{hook}.{key}"));
            let text = |key: &str| part(key).map(|(text, _)| text.as_str()).unwrap_or_default();
            if let Some(fault) = basalt_auth::hook_fault(text("uri"), text("secrets")) {
                self.out
                    .warnings
                    .push(format!("{source}: the hook {hook} stays off: its uri or secrets {fault}"));
                continue;
            }
            for key in ["enabled", "uri", "secrets"] {
                let Some((text, source)) = part(key).filter(|(text, _)| !text.is_empty()) else { continue };
                let Some(setting) = setting(&format!("auth.hook_{hook}_{key}")) else {
                    self.out.warnings.push(format!("{source}: not available yet (the hook {hook}); ignored"));
                    break;
                };
                self.write(setting.key, Value::Bare(text.clone()), source);
            }
        }
    }

    /// `[auth.captcha]`. Without a secret it stays off, with a warning.
    pub(super) fn read_captcha(&mut self, parts: &BTreeMap<String, (String, Source)>) {
        let part = |key: &str| parts.get(&format!("auth.captcha.{key}")).filter(|(text, _)| !text.is_empty());
        let Some((flag, source)) = part("enabled") else { return };
        let is_known =
            part("provider").is_none_or(|(name, _)| matches!(name.as_str(), "hcaptcha" | "turnstile"));
        if flag != "true" {
            return;
        }
        if part("secret").is_none() || !is_known {
            self.out.warnings.push(format!(
                "{source}: captchas need a secret, and the provider hcaptcha or turnstile, and stay off"
            ));
            return;
        }
        for (key, ours) in [
            ("enabled", "auth.security_captcha_enabled"),
            ("provider", "auth.security_captcha_provider"),
            ("secret", "auth.security_captcha_secret"),
        ] {
            if let Some((text, source)) = part(key) {
                self.write(ours, Value::Bare(text.clone()), source);
            }
        }
    }

    /// `[auth.sms.twilio]` and `[auth.sms.test_otp]`.
    pub(super) fn read_sms(&mut self, parts: &BTreeMap<String, (String, Source)>) {
        let mut codes = Vec::new();
        let mut codes_source = None;
        for (name, (text, source)) in parts {
            if let Some(phone) = name.strip_prefix("auth.sms.test_otp.") {
                let is_number = |text: &str, most: usize| {
                    (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
                };
                if is_number(phone.trim_start_matches('+'), 15) && is_number(text, 10) {
                    codes.push((phone.to_owned(), Value::Text(text.clone())));
                    codes_source = Some(source.clone());
                } else {
                    self.out.warnings.push(format!("{source}: must be a phone number with a code; ignored"));
                }
            }
        }
        if let Some(source) = codes_source {
            self.write("auth.sms_test_otp", Value::Pairs(codes), &source);
        }
        let part =
            |key: &str| parts.get(&format!("auth.sms.twilio.{key}")).filter(|(text, _)| !text.is_empty());
        let Some((_flag, source)) = part("enabled").filter(|(flag, _)| flag == "true") else { return };
        self.write("auth.sms_provider", Value::Text("twilio".to_owned()), source);
        for (key, ours) in [
            ("account_sid", "auth.sms_twilio_account_sid"),
            ("auth_token", "auth.sms_twilio_auth_token"),
            ("message_service_sid", "auth.sms_twilio_message_service_sid"),
            ("content_sid", "auth.sms_twilio_content_sid"),
        ] {
            if let Some((text, source)) = part(key) {
                self.write(ours, Value::Text(text.clone()), source);
            }
        }
    }
}
