//! The pages: the list with the selected mail beside it. They work without the script, which only refreshes the list.

use std::fmt::Write as _;

use super::store::Delivered;
use axum::response::{IntoResponse, Response};
use basalt_core::html::escape;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use jiff::Timestamp;

use super::api::snippet;
use super::html::{for_frame, linked};
use super::{Failure, Mailbox, NOT_FOUND, PageRequest, guarded, page};

/// Mails in the list; older ones can be found by search.
const LISTED: usize = 100;

impl Mailbox {
    pub(super) async fn list_page(&self, request: &PageRequest) -> Result<Response, Failure> {
        let query = request.parameter("query");
        let mails = self.found(query).await?;
        let main = "<p class=\"hint\">Choose a mail to read it here.</p>".to_owned();
        Ok(page(self.document(request, &mails, None, "Mailbox", &main)))
    }

    pub(super) async fn mail_page(&self, request: &PageRequest, id: &str) -> Result<Response, Failure> {
        let mails = self.found(request.parameter("query")).await?;
        let mail = match self.one(id).await {
            Ok(mail) => mail,
            Err(Failure::Status(StatusCode::NOT_FOUND, _)) => {
                let main = "<p class=\"hint\">This mail is no longer here.</p>".to_owned();
                let mut response = page(self.document(request, &mails, Some(0), "No such mail", &main));
                *response.status_mut() = StatusCode::NOT_FOUND;
                return Ok(response);
            }
            Err(error) => return Err(error),
        };
        let main = self.reading_pane(request, &mail);
        Ok(page(self.document(request, &mails, Some(mail.id), &mail.content.subject, &main)))
    }

    /// A mail's own document for the frame, `<id>.html`.
    pub(super) async fn view(&self, file: &str) -> Result<Response, Failure> {
        // The frame has the same sandbox; the header covers a document opened directly.
        const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data: http: https:; \
                              font-src data: https:; form-action 'none'; base-uri 'none'; frame-ancestors 'self'; \
                              sandbox allow-popups allow-popups-to-escape-sandbox";
        let mail = self.one(file.strip_suffix(".html").ok_or(NOT_FOUND)?).await?;
        let document = for_frame(&mail.content.html);
        Ok(guarded(([(CONTENT_TYPE, "text/html; charset=utf-8")], document).into_response(), POLICY))
    }

    fn reading_pane(&self, request: &PageRequest, mail: &Delivered) -> String {
        let PageRequest { base, .. } = request;
        let Delivered { id, to, created_at, content, .. } = mail;
        let is_text = request.parameter("view") == "text";
        let from = if self.sender.name.is_empty() {
            self.sender.address.clone()
        } else {
            format!("{} <{}>", self.sender.name, self.sender.address)
        };
        let tab = |name: &str, view: &str, is_current: bool| {
            let current = if is_current { " aria-current=\"page\"" } else { "" };
            format!("<a href=\"{base}/{id}?view={view}\"{current}>{name}</a>")
        };
        let body = if is_text {
            format!("<pre class=\"text\" tabindex=\"0\">{}</pre>", linked(&content.text))
        } else {
            format!(
                "<iframe title=\"The mail as HTML\" src=\"{base}/view/{id}.html\" \
                 sandbox=\"allow-popups allow-popups-to-escape-sandbox\" referrerpolicy=\"no-referrer\"></iframe>"
            )
        };
        format!(
            "<a class=\"back\" href=\"{base}/\">← All mails</a>\
             <h1 tabindex=\"-1\">{subject}</h1>\
             <dl><dt>To</dt><dd>{to}</dd><dt>From</dt><dd>{from}</dd><dt>Sent</dt><dd>{when}</dd></dl>\
             <nav class=\"tabs\" aria-label=\"Views of this mail\">{html}{text}</nav>{body}",
            subject = escape(&content.subject),
            to = escape(to),
            from = escape(&from),
            when = time(*created_at),
            html = tab("HTML", "html", !is_text),
            text = tab("Text", "text", is_text),
        )
    }

    fn document(
        &self,
        request: &PageRequest,
        mails: &[Delivered],
        current: Option<i64>,
        title: &str,
        main: &str,
    ) -> String {
        let PageRequest { base, .. } = request;
        let query = escape(request.parameter("query"));
        let class = if current.is_some() { "reading" } else { "listing" };
        let heading = if current.is_some() { "p" } else { "h1" };
        let label = if mails.len() == 1 { "mail" } else { "mails" };
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta name=\"color-scheme\" content=\"light dark\"><title>{title} – Basalt mailbox</title>\
             <link rel=\"stylesheet\" href=\"{base}/style.css\"><link rel=\"icon\" href=\"data:,\">\
             <script src=\"{base}/script.js\" defer></script></head>\
             <body class=\"{class}\" data-base=\"{base}\">\
             <a class=\"skip\" href=\"#main\">Skip to the mail</a>\
             <header><{heading} class=\"name\"><a href=\"{base}/\">Mailbox</a></{heading}>\
             <form role=\"search\" action=\"{base}/\" method=\"get\">\
             <label class=\"hidden\" for=\"query\">Search mails</label>\
             <input id=\"query\" name=\"query\" type=\"search\" value=\"{query}\" placeholder=\"to:ada@example.org\"></form>\
             <form action=\"{base}/delete\" method=\"post\"><button{disabled}>Delete all</button></form></header>\
             <p id=\"news\" class=\"hidden\" role=\"status\"></p>\
             <main class=\"columns\"><nav id=\"list\" aria-label=\"Mails\">\
             <p class=\"count\">{count} {label}</p>{list}</nav>\
             <section id=\"main\" tabindex=\"-1\">{main}</section></main></body></html>\n",
            title = escape(title),
            count = mails.len(),
            disabled = if mails.is_empty() { " disabled" } else { "" },
            list = list(base, mails, current, &query),
        )
    }
}

fn list(base: &str, mails: &[Delivered], current: Option<i64>, query: &str) -> String {
    if mails.is_empty() {
        let what = if query.is_empty() {
            "<p class=\"empty\">No mail yet. Mail that this server would send appears here.</p>"
        } else {
            "<p class=\"empty\">No mail matches.</p>"
        };
        return what.to_owned();
    }
    let search = if query.is_empty() {
        String::new()
    } else {
        format!("?query={}", url::form_urlencoded::byte_serialize(query.as_bytes()).collect::<String>())
    };
    let mut out = String::from("<ul>");
    for mail in mails.iter().take(LISTED) {
        let mark = if current == Some(mail.id) { " aria-current=\"true\"" } else { "" };
        // Writing to a string does not fail.
        let _written = write!(
            out,
            "<li><a href=\"{base}/{id}{search}\"{mark}><span class=\"to\">{to}</span>{when}\
             <span class=\"subject\">{subject}</span><span class=\"snippet\">{snippet}</span></a></li>",
            id = mail.id,
            to = escape(&mail.to),
            when = time(mail.created_at),
            subject = escape(&mail.content.subject),
            snippet = escape(&snippet(mail)),
        );
    }
    out.push_str("</ul>");
    out
}

/// In UTC; the script converts it to the reader's time zone.
fn time(at: Timestamp) -> String {
    let shown = at.strftime("%Y-%m-%d %H:%M UTC");
    format!("<time datetime=\"{}\">{shown}</time>", at.strftime("%Y-%m-%dT%H:%M:%SZ"))
}
