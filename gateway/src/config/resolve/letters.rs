//! How letters differ from the built-in ones. A body is the HTML itself, a file of it, or a URL; which of them is told by
//! its looks: HTML has `<`, `{{` or a line break, a URL its scheme.

use std::collections::BTreeMap;

use basalt_auth::{EmailSettings, TemplateSource};

use crate::config::keys;
use crate::config::reader::Reader;

/// Longest file of a template, in bytes (auth.md §3.21).
const LONGEST: u64 = 1_048_576;

/// The letters that anything is set about.
pub(super) fn letters(r: &mut Reader) -> BTreeMap<String, EmailSettings> {
    let mut letters = BTreeMap::new();
    for (name, subject_key, body_key, path_key) in keys::LETTERS {
        let body = r.given(body_key).filter(|text| !text.is_empty()).and_then(|text| match body(r, &text) {
            Ok(body) => Some(body),
            Err(fault) => {
                r.fault(&body_key.row, &fault);
                None
            }
        });
        let settings = EmailSettings {
            subject: r.given(subject_key).filter(|subject| !subject.is_empty()),
            body,
            url_path: path_key.and_then(|key| r.given(key)).unwrap_or_default(),
        };
        if let Some(fault) = settings.subject_fault() {
            r.fault(&subject_key.row, &format!("is no template: {fault}"));
        }
        if let Some(fault) = settings.body_fault() {
            r.fault(&body_key.row, &format!("is no template: {fault}"));
        }
        if settings != EmailSettings::default() {
            letters.insert((*name).to_owned(), settings);
        }
    }
    letters
}

fn body(r: &Reader, text: &str) -> Result<TemplateSource, String> {
    let is_url = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
    if is_url && !text.contains(char::is_whitespace) {
        let url = url::Url::parse(text).map_err(|error| format!("is no URL: {error}"))?;
        return Ok(TemplateSource::Url(url));
    }
    if text.contains(['<', '\n']) || text.contains("{{") {
        return Ok(TemplateSource::Text(text.to_owned()));
    }
    let path = r.raw.project_dir.join(text);
    let size = std::fs::metadata(&path).map(|file| file.len());
    if size.is_ok_and(|size| size > LONGEST) {
        return Err(format!("names {}, which is longer than 1 MB", path.display()));
    }
    match std::fs::read_to_string(&path) {
        Ok(source) => Ok(TemplateSource::Text(source)),
        Err(error) => Err(format!("names {}, which cannot be read: {error}", path.display())),
    }
}
