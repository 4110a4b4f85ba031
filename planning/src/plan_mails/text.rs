//! The text of a mail about a plan.

use basalt_core::html::escape;
use basalt_mail::plain_text;
use jiff::civil::Date;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::MailKind;
use crate::layout::{Page, one_line};

const SUBJECT_CHARS: usize = 200;

/// The app, as mails name it.
pub(super) struct Site {
    /// Without a trailing slash.
    pub(super) url: String,
    pub(super) name: String,
}

/// What `app_private.plan_mail` returns.
pub(super) struct PlanMail {
    pub(super) kind: MailKind,
    pub(super) person: Uuid,
    pub(super) plan: Uuid,
    pub(super) occasion: String,
    pub(super) recipient: String,
    plan_title: String,
    parts: Parts,
    comment: Option<Comment>,
    total: u64,
    completed: u64,
}

#[derive(Deserialize)]
struct Row {
    kind: String,
    user: Uuid,
    plan: Uuid,
    occasion: String,
    recipient: String,
    plan_title: String,
    #[serde(default)]
    parts: Option<Parts>,
    #[serde(default)]
    comment: Option<Comment>,
    total: u64,
    completed: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Parts {
    due: Part,
    overdue: Part,
    week: Part,
    done: Part,
}

#[derive(Default, Deserialize)]
struct Part {
    count: usize,
    tasks: Vec<Task>,
}

#[derive(Deserialize)]
struct Task {
    id: Uuid,
    title: String,
    due: Option<Date>,
    mine: bool,
}

#[derive(Deserialize)]
struct Comment {
    body: String,
    task_id: Uuid,
    title: String,
    author: String,
}

/// The rendered mail.
pub(super) struct Written {
    pub(super) subject: String,
    pub(super) html: String,
    pub(super) text: String,
}

impl PlanMail {
    /// `None` if the row is of another version of the app.
    pub(super) fn read(content: &Value) -> Option<Self> {
        let row = Row::deserialize(content).ok()?;
        Some(Self {
            kind: MailKind::ALL.into_iter().find(|kind| kind.as_str() == row.kind)?,
            person: row.user,
            plan: row.plan,
            occasion: row.occasion,
            recipient: row.recipient,
            plan_title: row.plan_title,
            parts: row.parts.unwrap_or_default(),
            comment: row.comment,
            total: row.total,
            completed: row.completed,
        })
    }
}

/// Writes the mail. `token` is that of the link which stops mails of this kind.
pub(super) fn write(mail: &PlanMail, site: &Site, token: &str) -> Written {
    let plan_url = format!("{}/plan/{}", site.url, mail.plan);
    let title = escape(&mail.plan_title);
    let (subject, content, what) = match (&mail.kind, &mail.comment) {
        (MailKind::Mention, Some(comment)) => {
            let author = name_in_text(&comment.author);
            let subject = format!("{author} mentioned you on “{}”", comment.title);
            let body = escape(comment.body.trim()).replace('\n', "<br>");
            let content = format!(
                "<p>{} mentioned you in a comment on <strong>{}</strong>, a task of the plan {title}:</p>\
<blockquote style=\"margin:0 0 20px;padding:2px 0 2px 14px;border-left:3px solid #66aea4;\">{body}</blockquote>{}",
                escape(&author),
                escape(&comment.title),
                button(&format!("{plan_url}?comments={}", comment.task_id), "Open the comment"),
            );
            (subject, content, "mentions in this plan")
        }
        (MailKind::Reminder, _) => {
            let due = &mail.parts.due;
            let day = mail.occasion.parse().map_or_else(|_| mail.occasion.clone(), shown_day);
            let subject = match due.tasks.first() {
                Some(task) if due.count == 1 => format!("Due {day}: {}", task.title),
                _ => format!("{} tasks are due {day}: {}", due.count, mail.plan_title),
            };
            let lead = if due.count == 1 { "This task is" } else { "These tasks are" };
            let content = format!(
                "<p>{lead} due on <strong>{day}</strong> in the plan {title}:</p>{}{}",
                list(due, &plan_url, false),
                button(&plan_url, "Open the plan")
            );
            (subject, content, "reminders of this plan")
        }
        (MailKind::Digest | MailKind::Mention, _) => {
            let Parts { overdue, week, done, .. } = &mail.parts;
            let mut facts = Vec::new();
            if overdue.count > 0 {
                facts.push(format!("{} overdue", overdue.count));
            }
            if week.count > 0 {
                facts.push(format!("{} due this week", week.count));
            }
            if facts.is_empty() {
                facts.push(format!("{} completed last week", done.count));
            }
            let subject = format!("{}: {}", mail.plan_title, facts.join(", "));
            let mut content = format!(
                "<p>The week ahead in <strong>{title}</strong>. {} of {} tasks are completed.</p>",
                mail.completed, mail.total
            );
            for (heading, part) in
                [("Overdue", overdue), ("Due this week", week), ("Completed last week", done)]
            {
                if part.count > 0 {
                    content.push_str(&format!(
                        "<p style=\"margin:22px 0 6px;\"><strong>{heading} ({})</strong></p>{}",
                        part.count,
                        list(part, &plan_url, true)
                    ));
                }
            }
            content.push_str(&button(&plan_url, "Open the plan"));
            (subject, content, "the Monday digest of this plan")
        }
    };
    let subject: String = one_line(&subject).chars().take(SUBJECT_CHARS).collect();
    let (name, recipient) = (escape(&site.name), escape(&mail.recipient));
    let footer = format!(
        "This mail was sent to {recipient} because you are on the team of this plan at {name}.<br>\
<a class=\"link\" style=\"color:#0f5c55;\" href=\"{0}/mails/stop?token={token}\">Stop {what}</a> · \
<a class=\"link\" style=\"color:#0f5c55;\" href=\"{0}/account#mails\">All mail settings</a>",
        site.url
    );
    let page = Page {
        subject: &subject,
        preview: &mail.plan_title,
        app_name: &site.name,
        content: &content,
        footer: &footer,
    };
    let html = page.render();
    Written { subject, text: plain_text::from_html(&html), html }
}

/// `MMM d, yyyy`, as the app shows days.
fn shown_day(day: Date) -> String {
    day.strftime("%b %-d, %Y").to_string()
}

fn button(url: &str, label: &str) -> String {
    format!("<p style=\"margin:26px 0 0;\"><a class=\"button\" href=\"{url}\">{label}</a></p>")
}

/// The tasks as links, and how many there are beyond them.
fn list(part: &Part, plan_url: &str, with_days: bool) -> String {
    let mut out = "<ul style=\"margin:0 0 8px;padding-left:20px;\">".to_owned();
    for Task { id, title, due, mine } in &part.tasks {
        let mut facts = Vec::new();
        if let Some(day) = due.filter(|_| with_days) {
            facts.push(shown_day(day));
        }
        if *mine && with_days {
            facts.push("yours".to_owned());
        }
        let facts = if facts.is_empty() {
            String::new()
        } else {
            format!(" <span class=\"quiet\" style=\"color:#56646a;\">({})</span>", facts.join(", "))
        };
        out.push_str(&format!(
            "<li style=\"margin:0 0 6px;\"><a class=\"link\" style=\"color:#0f5c55;\" href=\"{plan_url}?comments={id}\">{}</a>{facts}</li>",
            escape(title)
        ));
    }
    out.push_str("</ul>");
    let more = part.count.saturating_sub(part.tasks.len());
    if more > 0 {
        out.push_str(&format!(
            "<p class=\"quiet\" style=\"margin:0 0 8px;color:#56646a;\">and {more} more</p>"
        ));
    }
    out
}

/// The name, unless it could pass for an address or a link.
fn name_in_text(name: &str) -> String {
    let name = one_line(name);
    if name.contains(['@', '/', '<', '>', ':', '"']) { "A member".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(content: &Value) -> Written {
        let site = Site { url: "https://app.example".to_owned(), name: "Plans & more".to_owned() };
        write(&PlanMail::read(content).unwrap(), &site, "abc")
    }

    fn content(kind: &str, parts: &Value) -> Value {
        json!({
            "kind": kind, "user": Uuid::nil(), "plan": Uuid::nil(), "occasion": "2026-11-30", "plan_title": "<b>2027</b>\r\nBcc: x",
            "recipient": "ada@example.org", "name": "Ada", "parts": parts, "comment": null, "total": 9, "completed": 4,
        })
    }

    fn part(count: usize, titles: &[&str]) -> Value {
        let tasks = titles
            .iter()
            .map(|title| json!({"id": Uuid::nil(), "title": title, "due": "2026-11-30", "mine": true}));
        json!({"count": count, "tasks": tasks.collect::<Vec<_>>()})
    }

    #[test]
    fn reminder_names_its_task() {
        let mail = written(&content("reminder", &json!({"due": part(1, &["Sign <the> lease"])})));
        assert_eq!(mail.subject, "Due Nov 30, 2026: Sign <the> lease");
        assert!(mail.html.contains("Sign &lt;the&gt; lease</a>"), "{}", mail.html);
        assert!(mail.html.contains("https://app.example/mails/stop?token=abc"), "{}", mail.html);
        assert!(mail.text.contains("https://app.example/plan/"), "{}", mail.text);
        let mail = written(&content("reminder", &json!({"due": part(2, &["One", "Two"])})));
        assert_eq!(mail.subject, "2 tasks are due Nov 30, 2026: <b>2027</b>  Bcc: x");
    }

    #[test]
    fn digest_counts_what_it_does_not_list() {
        let mail =
            written(&content("digest", &json!({"overdue": part(12, &["One"]), "done": part(1, &["Two"])})));
        assert_eq!(mail.subject, "<b>2027</b>  Bcc: x: 12 overdue");
        assert!(mail.text.contains("and 11 more"), "{}", mail.text);
        assert!(mail.text.contains("4 of 9 tasks"), "{}", mail.text);
        let mail = written(&content("digest", &json!({"done": part(1, &["Two"])})));
        assert!(mail.subject.ends_with("1 completed last week"), "{}", mail.subject);
    }

    #[test]
    fn mention_quotes_the_comment_as_text() {
        let mut row = content("mention", &Value::Null);
        row["comment"] = json!({"body": "Hi <script>\nsecond", "task_id": Uuid::nil(), "title": "Lease", "author": "evil.example/x"});
        let mail = written(&row);
        assert_eq!(mail.subject, "A member mentioned you on “Lease”");
        assert!(mail.html.contains("Hi &lt;script&gt;<br>second"), "{}", mail.html);
    }
}
