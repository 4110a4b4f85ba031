//! Mails: the server, the subjects and the templates.

use std::collections::BTreeMap;

use basalt_core::settings::{Source, Value};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::super::sections::setting;
use super::ConfigReader;

impl ConfigReader<'_> {
    /// `[auth.email.smtp]`, `[auth.email.template.*]`, `[auth.email.notification.*]`, `[auth.rate_limit] email_sent`.
    pub(super) fn read_mail(&mut self, parts: &BTreeMap<String, (String, Source)>) {
        let part = |name: &str| parts.get(name).filter(|(text, _)| !text.is_empty()).cloned();
        let smtp = |name: &str| part(&format!("auth.email.smtp.{name}"));
        let is_on = smtp("enabled").is_none_or(|(flag, _)| flag == "true");
        if let Some((host, source)) = smtp("host").filter(|_| is_on) {
            let escaped = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
            let port = smtp("port").map_or_else(|| "587".to_owned(), |(port, _)| port);
            let login = match (smtp("user"), smtp("pass")) {
                (Some((user, _)), Some((password, _))) => {
                    format!("{}:{}@", escaped(&user), escaped(&password))
                }
                _ => String::new(),
            };
            let scheme = if port == "465" { "smtps" } else { "smtp" };
            self.write("mail.smtp_url", Value::Text(format!("{scheme}://{login}{host}:{port}")), &source);
            for (name, key) in [("admin_email", "mail.from"), ("sender_name", "mail.sender_name")] {
                if let Some((text, source)) = smtp(name) {
                    self.write(key, Value::Text(text), &source);
                }
            }
            // Without a mail server the mails go to the mailbox, which needs no limit.
            if let Some((rate, source)) = part("auth.rate_limit.email_sent") {
                self.write("auth.rate_limit_email_sent", Value::Bare(rate), &source);
            }
        }
        for (name, (text, source)) in parts {
            let Some(rest) = name.strip_prefix("auth.email.") else { continue };
            let Some((kind, key)) = rest
                .strip_prefix("template.")
                .or_else(|| rest.strip_prefix("notification."))
                .and_then(|rest| rest.split_once('.'))
            else {
                continue;
            };
            let (prefix, suffix) = match key {
                "subject" => ("auth.mailer_subjects_", ""),
                "content_path" | "content" => ("auth.mailer_templates_", ""),
                "enabled" => ("auth.mailer_notifications_", "_enabled"),
                _ => continue,
            };
            let Some(setting) = setting(&format!("{prefix}{kind}{suffix}")) else {
                self.out.warnings.push(format!("{source}: unknown mail {kind}; ignored"));
                continue;
            };
            if key == "content_path" && !self.file.project_dir.join(text).is_file() {
                self.out
                    .warnings
                    .push(format!("{source}: the file {text} does not exist; the built-in template is used"));
                continue;
            }
            self.write(setting.key, Value::Bare(text.clone()), source);
        }
    }
}
