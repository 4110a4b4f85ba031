//! Templates of e-mails: the project's own, as text or from a URL, or the built-in ones.
//!
//! A template behind a URL is fetched by a background task ([`RemoteTemplate::refresh_periodically`]), never by a request,
//! which holds a row lock and a connection while it writes an e-mail (decision 0030). The built-in template is used until the
//! first successful fetch, and if the project's template fails to render.

mod builtin;
mod engine;
pub(crate) mod kind;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use basalt_core::http_client::{HttpClient, Reach};
use basalt_mail::plain_text;
use http::{HeaderMap, StatusCode};
use parking_lot::RwLock;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use url::Url;

use engine::{MAX_BYTES, Template, TemplateError};
use kind::EmailKind;

const FETCH_LIMIT: Duration = Duration::from_secs(10);
/// Interval after a successful fetch (auth.md §3.21).
const REFRESH_AFTER: Duration = Duration::from_secs(600);
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// The source of a configured body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateSource {
    /// An HTML template.
    Text(String),
    /// The URL of an HTML template.
    Url(Url),
}

/// Overrides of a built-in e-mail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EmailSettings {
    /// The subject, a text template; `None` for the built-in one.
    pub subject: Option<String>,
    /// The body; `None` for the built-in one.
    pub body: Option<TemplateSource>,
    /// Target of links: a path on the service's host, or a URL. Empty for this service's `/verify`.
    pub url_path: String,
}

/// A rendered e-mail.
pub(crate) struct RenderedEmail {
    pub(crate) subject: String,
    pub(crate) html: String,
    pub(crate) text: String,
}

/// All templates.
pub(crate) struct Templates {
    by_name: BTreeMap<&'static str, Entry>,
}

struct Entry {
    subject: Template,
    body: Body,
    builtin: Builtin,
}

struct Builtin {
    subject: Template,
    html: Template,
    text: Template,
}

enum Body {
    Builtin,
    Own(Arc<Template>),
    Remote(RemoteTemplate),
}

/// A template of text messages.
pub(crate) struct TextTemplate(Template);

impl TextTemplate {
    /// Syntax errors were reported when the configuration was read.
    pub(crate) fn new(source: &str) -> Self {
        let template = Template::text(source).or_else(|_error| Template::text("{{ .Code }}"));
        Self(template.unwrap_or_else(|error| unreachable!("the fallback template: {error}")))
    }

    /// The syntax error, if any.
    pub(crate) fn fault(source: &str) -> Option<String> {
        Template::text(source).err().map(|error| error.to_string())
    }

    /// A failed rendering falls back to the code alone.
    pub(crate) fn render(&self, values: &Value) -> String {
        self.0.render(values).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot render the template of text messages; sending the code alone");
            values.get("Code").and_then(Value::as_str).unwrap_or_default().to_owned()
        })
    }
}

/// A template behind a URL.
#[derive(Clone)]
pub(crate) struct RemoteTemplate {
    name: &'static str,
    url: Url,
    /// The last successfully fetched template.
    fetched: Arc<RwLock<Option<Arc<Template>>>>,
}

/// The distinct names of kinds.
fn names() -> impl Iterator<Item = &'static str> {
    let mut names: Vec<_> = EmailKind::ALL.iter().map(|kind| kind.name()).collect();
    names.dedup();
    names.into_iter()
}

impl EmailSettings {
    /// The syntax error of the subject, if any.
    #[must_use]
    pub fn subject_fault(&self) -> Option<String> {
        let error = Template::text(self.subject.as_deref()?).err()?;
        Some(error.to_string())
    }

    /// The syntax error of an inline body, if any.
    #[must_use]
    pub fn body_fault(&self) -> Option<String> {
        let Some(TemplateSource::Text(source)) = &self.body else { return None };
        Some(Template::html(source).err()?.to_string())
    }
}

impl Templates {
    pub(crate) fn new(settings: &BTreeMap<String, EmailSettings>) -> Self {
        let entry = |name: &'static str| {
            let builtin = Builtin::new(name);
            let own = settings.get(name).cloned().unwrap_or_default();
            let subject = own.subject.as_deref().map(Template::text);
            let body = match own.body {
                None => Body::Builtin,
                Some(TemplateSource::Url(url)) => {
                    Body::Remote(RemoteTemplate { name, url, fetched: Arc::default() })
                }
                // Syntax errors were reported when the configuration was read.
                Some(TemplateSource::Text(source)) => {
                    Template::html(&source).map_or(Body::Builtin, |own| Body::Own(Arc::new(own)))
                }
            };
            let subject = subject.and_then(Result::ok).unwrap_or_else(|| builtin.subject.clone());
            (name, Entry { subject, body, builtin })
        };
        Self { by_name: names().map(entry).collect() }
    }

    /// The templates behind URLs.
    pub(crate) fn remote_templates(&self) -> impl Iterator<Item = RemoteTemplate> {
        self.by_name.values().filter_map(|entry| match &entry.body {
            Body::Remote(remote) => Some(remote.clone()),
            Body::Builtin | Body::Own(_) => None,
        })
    }

    /// Renders an e-mail of `kind`.
    pub(crate) fn render(&self, kind: EmailKind, values: &Value) -> Result<RenderedEmail, TemplateError> {
        let name = kind.name();
        let entry = self.by_name.get(name).unwrap_or_else(|| unreachable!("every kind has an entry"));
        let subject = entry.subject.render(values).or_else(|error| {
            tracing::warn!(template = name, %error, "cannot render the subject; using the built-in one");
            entry.builtin.subject.render(values)
        })?;
        let own = match &entry.body {
            Body::Builtin => None,
            Body::Own(template) => Some(Arc::clone(template)),
            Body::Remote(remote) => remote.fetched(),
        };
        let (html, text) = match own.map(|template| template.render(values)) {
            Some(Ok(html)) => {
                let text = plain_text::from_html(&html);
                (html, text)
            }
            failed => {
                if let Some(Err(error)) = failed {
                    tracing::warn!(template = name, %error, "cannot render the template; using the built-in one");
                }
                (entry.builtin.html.render(values)?, entry.builtin.text.render(values)?)
            }
        };
        Ok(RenderedEmail { subject: one_line(&subject), html, text })
    }
}

/// Folds the subject into one line: user data may contain line breaks.
fn one_line(subject: &str) -> String {
    subject.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Builtin {
    fn new(name: &str) -> Self {
        let email = builtin::email(name);
        let read = |result: Result<Template, TemplateError>| {
            result.unwrap_or_else(|error| unreachable!("auth/templates/{name}.txt: {error}"))
        };
        Self {
            subject: read(Template::text(&email.subject)),
            html: read(Template::html(&email.html)),
            text: read(Template::text(&email.text)),
        }
    }
}

impl RemoteTemplate {
    fn fetched(&self) -> Option<Arc<Template>> {
        self.fetched.read().clone()
    }

    /// Fetches the template periodically and never returns.
    #[expect(clippy::infinite_loop, reason = "ended from outside, by the shutdown token")]
    pub(crate) async fn refresh_periodically(self) {
        let client = HttpClient::new(Reach::Anywhere);
        loop {
            let pause = match self.fetch(&client).await {
                Ok(template) => {
                    *self.fetched.write() = Some(Arc::new(template));
                    REFRESH_AFTER
                }
                Err(error) => {
                    tracing::warn!(
                        template = self.name,
                        url = self.url.as_str(),
                        error,
                        "cannot fetch the template; using the last fetched or the built-in one"
                    );
                    RETRY_AFTER
                }
            };
            sleep(pause).await;
        }
    }

    async fn fetch(&self, client: &HttpClient) -> Result<Template, String> {
        let deadline = Instant::now() + FETCH_LIMIT;
        let answer = client.get(&self.url, HeaderMap::new(), MAX_BYTES, deadline).await;
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.status != StatusCode::OK {
            return Err(format!("status {}", answer.status.as_u16()));
        }
        let source = std::str::from_utf8(&answer.body).map_err(|_| "not UTF-8".to_owned())?;
        Template::html(source).map_err(|error| error.to_string())
    }
}
