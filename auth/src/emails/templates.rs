//! Which template an e-mail is written with: the project's own, given as text or by URL, or ours.
//!
//! A template by URL is fetched when an e-mail first needs it, and again after ten minutes (auth.md §3.21), by the one
//! e-mail that finds it old; it waits for that no longer than [`FETCH_LIMIT`]. When it cannot be had or is broken, the last
//! good one holds, else ours: an e-mail is never lost to its looks.

mod builtin;
mod engine;
mod plain_text;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use basalt_core::http_client::HttpClient;
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;
use url::Url;

use crate::emails::kind::EmailKind;
use engine::{LONGEST, Template, TemplateError};

const FETCH_LIMIT: Duration = Duration::from_secs(3);
const FRESH: Duration = Duration::from_secs(600);

/// The body of a kind of e-mail, as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateSource {
    /// HTML in the syntax of templates.
    Text(String),
    /// Where such HTML is fetched from.
    Url(Url),
}

/// How e-mails of a kind differ from ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EmailSettings {
    /// The subject, a template of text; `None` = ours.
    pub subject: Option<String>,
    /// The body; `None` = ours.
    pub body: Option<TemplateSource>,
    /// Where links lead; empty = this service's `/verify`. A path is one of the service's host, a URL is taken whole.
    pub url_path: String,
}

/// An e-mail, written.
pub(super) struct RenderedEmail {
    pub(super) subject: String,
    pub(super) html: String,
    pub(super) text: String,
}

/// All templates.
pub(super) struct Templates {
    by_name: BTreeMap<&'static str, Entry>,
    client: HttpClient,
}

struct Entry {
    subject: Template,
    body: Body,
    ours: Ours,
}

struct Ours {
    subject: Template,
    html: Template,
    text: Template,
}

enum Body {
    Ours,
    Own(Template),
    Remote(Remote),
}

struct Remote {
    url: Url,
    /// Held while it is fetched, so that e-mails of one moment fetch it once.
    state: Mutex<Fetched>,
}

#[derive(Default)]
struct Fetched {
    template: Option<Arc<Template>>,
    at: Option<Instant>,
}

/// The names of kinds, each once.
fn names() -> impl Iterator<Item = &'static str> {
    let mut names: Vec<_> = EmailKind::ALL.iter().map(|kind| kind.name()).collect();
    names.dedup();
    names.into_iter()
}

impl EmailSettings {
    /// Why the subject is no template, if it is none.
    #[must_use]
    pub fn subject_fault(&self) -> Option<String> {
        let error = Template::text(self.subject.as_deref()?).err()?;
        Some(error.to_string())
    }

    /// Why the body is no template, if it stands here and is none.
    #[must_use]
    pub fn body_fault(&self) -> Option<String> {
        let Some(TemplateSource::Text(source)) = &self.body else { return None };
        Some(Template::html(source).err()?.to_string())
    }
}

impl Templates {
    pub(super) fn new(settings: &BTreeMap<String, EmailSettings>) -> Self {
        let entry = |name: &'static str| {
            let ours = Ours::new(name);
            let own = settings.get(name).cloned().unwrap_or_default();
            let subject = own.subject.as_deref().map(Template::text);
            let body = match own.body {
                None => Body::Ours,
                Some(TemplateSource::Url(url)) => Body::Remote(Remote { url, state: Mutex::default() }),
                // Refused when the configuration was read.
                Some(TemplateSource::Text(source)) => Template::html(&source).map_or(Body::Ours, Body::Own),
            };
            let subject = subject.and_then(Result::ok).unwrap_or_else(|| ours.subject.clone());
            (name, Entry { subject, body, ours })
        };
        Self { by_name: names().map(entry).collect(), client: HttpClient::default() }
    }

    /// Writes an e-mail; ours when the project's own does not render.
    pub(super) async fn write(&self, name: &str, values: &Value) -> Result<RenderedEmail, TemplateError> {
        let Some(entry) = self.by_name.get(name) else { return Err(TemplateError::Steps) };
        let subject = entry.subject.render(values).or_else(|error| {
            tracing::warn!(template = name, %error, "a subject does not render; using the default");
            entry.ours.subject.render(values)
        })?;
        let own = match &entry.body {
            Body::Ours => None,
            Body::Own(template) => Some(template.render(values)),
            Body::Remote(remote) => {
                remote.get(name, &self.client).await.map(|template| template.render(values))
            }
        };
        let (html, text) = match own {
            Some(Ok(html)) => {
                let text = plain_text::text(&html);
                (html, text)
            }
            other => {
                if let Some(Err(error)) = other {
                    tracing::warn!(template = name, %error, "a template does not render; using the default");
                }
                (entry.ours.html.render(values)?, entry.ours.text.render(values)?)
            }
        };
        Ok(RenderedEmail { subject: one_line(&subject), html, text })
    }
}

/// A subject is one line, whatever somebody's name holds.
fn one_line(subject: &str) -> String {
    subject.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Ours {
    fn new(name: &str) -> Self {
        let email = builtin::email(name);
        let ours = |result: Result<Template, TemplateError>| {
            result.unwrap_or_else(|error| unreachable!("auth/templates/{name}.txt: {error}"))
        };
        Self {
            subject: ours(Template::text(&email.subject)),
            html: ours(Template::html(&email.html)),
            text: ours(Template::text(&email.text)),
        }
    }
}

impl Remote {
    async fn get(&self, name: &str, client: &HttpClient) -> Option<Arc<Template>> {
        let mut state = self.state.lock().await;
        if state.at.is_none_or(|at| at.elapsed() > FRESH) {
            state.at = Some(Instant::now());
            match self.fetch(client).await {
                Ok(template) => state.template = Some(Arc::new(template)),
                Err(error) => {
                    let url = self.url.as_str();
                    tracing::warn!(
                        template = name,
                        url,
                        error,
                        "a template cannot be had; using the one before, or the default"
                    );
                }
            }
        }
        state.template.clone()
    }

    async fn fetch(&self, client: &HttpClient) -> Result<Template, String> {
        let deadline = Instant::now() + FETCH_LIMIT;
        let answer = client.get(&self.url, HeaderMap::new(), LONGEST, deadline).await;
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.status != StatusCode::OK {
            return Err(format!("status {}", answer.status.as_u16()));
        }
        let source = std::str::from_utf8(&answer.body).map_err(|_| "it is not UTF-8 text".to_owned())?;
        Template::html(source).map_err(|error| error.to_string())
    }
}
