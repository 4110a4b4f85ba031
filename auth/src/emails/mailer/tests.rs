use super::*;
use crate::templates::{EmailSettings, TemplateSource};

const LINK: &str =
    "http://localhost:8000/auth/v1/verify?token=5f3a&type=signup&redirect_to=http://localhost:8000";

fn metadata() -> Map<String, Value> {
    Map::from_iter([("name".to_owned(), "Ada <b>".into()), ("many".to_owned(), vec![0; 400].into())])
}

fn config() -> AuthConfig {
    AuthConfig { mailer_sender_name: "Bread & Butter".to_owned(), ..AuthConfig::default() }
}

fn written(config: &AuthConfig, kind: EmailKind) -> RenderedEmail {
    let metadata = metadata();
    let profile = Profile { email: "ada@example.org", phone: "15550100", metadata: &metadata };
    let is_new = kind == EmailKind::EmailChangeNew;
    let email = Email {
        code: "123456",
        token_hash: "5f3a",
        redirect_to: "http://localhost:8000",
        details: Details {
            new_email: "ada@new.example",
            old_email: "ada@old.example",
            provider: "google",
            factor_type: "totp",
            old_phone: "15550199",
            phone: "",
        },
        ..Email::notification(
            kind,
            profile,
            if is_new { "ada@new.example" } else { profile.email },
            Details::default(),
        )
    };
    let link = kind.verification_type().map(|_| LINK);
    let templates = Templates::new(&config.mailer_letters);
    templates.render(kind, &values(config, &email, link)).unwrap()
}

#[test]
fn each_kind_has_subject_html_and_text() {
    for (kind, subject) in [
        (EmailKind::Confirmation, "Confirm your email address"),
        (EmailKind::Invite, "You've been invited"),
        (EmailKind::MagicLink, "Your sign-in link"),
        (EmailKind::Recovery, "Reset your password"),
        (EmailKind::EmailChangeCurrent, "Confirm your new email address"),
        (EmailKind::EmailChangeNew, "Confirm your new email address"),
        (EmailKind::Reauthentication, "123456 is your verification code"),
        (EmailKind::PasswordChanged, "Your password was changed"),
        (EmailKind::EmailChanged, "Your email address was changed"),
        (EmailKind::PhoneChanged, "Your phone number was changed"),
        (EmailKind::IdentityLinked, "A new sign-in method was linked to your account"),
        (EmailKind::IdentityUnlinked, "A sign-in method was removed from your account"),
        (EmailKind::MfaFactorEnrolled, "A new verification method was added to your account"),
        (EmailKind::MfaFactorUnenrolled, "A verification method was removed from your account"),
    ] {
        let RenderedEmail { subject: own, html, text } = written(&config(), kind);
        assert_eq!(own, subject);
        // Content that mail clients truncate, block or show verbatim.
        assert!(html.len() < 20_000, "{subject}: {} bytes", html.len());
        for foreign in ["[[", "{{", "src=", "url(", "<script", "@import", "\n\n[", "#refused"] {
            assert!(!html.contains(foreign), "{subject}: {foreign}");
        }
        assert!(html.contains("Bread &amp; Butter") && html.contains("color-scheme"));
        let has_link = kind.verification_type().is_some();
        assert_eq!(
            html.matches(&LINK.replace('&', "&amp;")).count(),
            if has_link { 3 } else { 0 },
            "{subject}"
        );
        assert_eq!(text.matches(LINK).count(), usize::from(has_link));
        let has_code = has_link || kind == EmailKind::Reauthentication;
        assert_eq!(text.lines().any(|line| line == "123456"), has_code, "{text}");
        assert!(!text.contains('<') && !text.contains("{{"), "{text}");
    }
}

#[test]
fn plain_text_parts_match_snapshot() {
    let mut all = String::new();
    for kind in EmailKind::ALL {
        let RenderedEmail { subject, text, .. } = written(&config(), kind);
        all += &format!("== {subject}\n{text}\n");
    }
    insta::assert_snapshot!(all);
}

#[test]
fn project_template_gets_a_plain_text_part() {
    let mut config = config();
    let own = EmailSettings {
        subject: Some("{{ .Data.name }}:\n{{ .Token }}".to_owned()),
        body: Some(TemplateSource::Text(
            "<h2>Hi {{ .Data.name }}</h2><p><a href=\"{{ .ConfirmationURL }}\">Go</a></p>{{ .SiteURL }}"
                .to_owned(),
        )),
        url_path: String::new(),
    };
    assert_eq!((own.subject_fault(), own.body_fault()), (None, None));
    config.mailer_letters.insert("recovery".to_owned(), own);
    let RenderedEmail { subject, html, text } = written(&config, EmailKind::Recovery);
    assert_eq!(subject, "Ada <b>: 123456");
    assert!(html.starts_with("<h2>Hi Ada &lt;b&gt;</h2>"), "{html}");
    assert_eq!(text, format!("Hi Ada <b>\n\nGo\n{LINK}\n\nhttp://localhost:8000\n"));
    assert_eq!(written(&config, EmailKind::Invite).subject, "You've been invited");
}

#[test]
fn built_in_template_replaces_one_that_fails() {
    let mut config = config();
    let endless = "{{ range .Data.many }}{{ range $.Data.many }}x{{ end }}{{ end }}";
    let own = EmailSettings {
        subject: Some(endless.to_owned()),
        body: Some(TemplateSource::Text(endless.to_owned())),
        url_path: String::new(),
    };
    config.mailer_letters.insert("recovery".to_owned(), own);
    let RenderedEmail { subject, html, .. } = written(&config, EmailKind::Recovery);
    assert_eq!(subject, "Reset your password");
    assert!(html.contains("Choose a new password"));
}

#[test]
fn reports_faults_of_settings() {
    let settings = EmailSettings {
        subject: Some("{{ .Token".to_owned()),
        body: Some(TemplateSource::Text("a\n{{ nope 1 }}".to_owned())),
        url_path: String::new(),
    };
    assert_eq!(settings.subject_fault().as_deref(), Some("line 1: {{ without }}"));
    assert_eq!(
        settings.body_fault().as_deref(),
        Some(
            "line 2: {{ nope }} is not supported: templates may use .variables, if, else, range, end, and the functions \
             eq, ne, and, or, not, index"
        )
    );
}
