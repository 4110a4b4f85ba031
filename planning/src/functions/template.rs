//! The invitation mail: an administrator's template filled with values (functions.md 3.21), within the site's layout.

use basalt_core::html;
use basalt_mail::plain_text;

use crate::layout::{Page, fill, one_line};

const SUBJECT: &str = "You've been invited to collaborate on {{planTitle}}";
const BODY: &str = "\
<p>{{inviterEmail}} has invited you to work on the strategic plan <strong>{{planTitle}}</strong> as {{role}}.</p>\
<p><a class=\"button\" href=\"{{inviteUrl}}\">Accept the invitation</a></p>";
/// Follows a body that is not a whole document.
const INVITATION: &str = include_str!("invitation.html");
const SUBJECT_CHARS: usize = 200;

/// The values for the placeholders.
pub(crate) struct Values<'a> {
    pub(crate) plan_title: &'a str,
    pub(crate) inviter_email: &'a str,
    pub(crate) role: &'a str,
    pub(crate) invite_url: &'a str,
    /// The name of the person who invites.
    pub(crate) inviter: &'a str,
    pub(crate) recipient: &'a str,
    pub(crate) app_name: &'a str,
    /// Whole days until the invitation expires, at least 1.
    pub(crate) days_left: i64,
}

/// The rendered mail.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) subject: String,
    pub(crate) html: String,
    pub(crate) text: String,
}

/// Fills the template; `None` uses the default template.
pub(crate) fn render(subject: Option<&str>, body: Option<&str>, values: &Values<'_>) -> Rendered {
    let subject = fill(subject.unwrap_or(SUBJECT), |name| match name {
        "planTitle" => Some(one_line(values.plan_title)),
        _ => None,
    });
    let html = fill(body.unwrap_or(BODY), |name| {
        let value = match name {
            "planTitle" => values.plan_title,
            "inviterEmail" => values.inviter_email,
            "role" => values.role,
            "inviteUrl" => values.invite_url,
            _ => return None,
        };
        Some(html::escape(value))
    });
    let subject: String = one_line(&subject).chars().take(SUBJECT_CHARS).collect();
    let html =
        if html.to_ascii_lowercase().contains("<html") { html } else { laid_out(&html, &subject, values) };
    Rendered { subject, text: plain_text::from_html(&html), html }
}

/// The body within the layout, which states who invites and when the invitation expires.
fn laid_out(body: &str, subject: &str, values: &Values<'_>) -> String {
    let days = match values.days_left {
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    };
    let link = fill(INVITATION, |name| {
        let value = match name {
            "inviter" => values.inviter,
            "recipient" => values.recipient,
            "inviteUrl" => values.invite_url,
            "days" => &days,
            _ => return None,
        };
        Some(html::escape(value))
    });
    let footer = format!(
        "This mail was sent to {} because of an invitation at {}.",
        html::escape(values.recipient),
        html::escape(values.app_name)
    );
    Page {
        subject,
        preview: &format!("{} invites you. The invitation expires in {days}.", values.inviter),
        app_name: values.app_name,
        content: &format!("{body}\n{link}"),
        footer: &footer,
    }
    .render()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: Values<'static> = Values {
        plan_title: "<b>2027</b> {{role}}\r\nBcc: eve@example.org",
        inviter_email: "ada@example.org",
        role: "viewer",
        invite_url: "https://app.example/invite?token=1&plan=2",
        inviter: "Ada <script>",
        recipient: "bob@example.org",
        app_name: "Plans & more",
        days_left: 12,
    };

    #[test]
    fn values_are_escaped_and_not_expanded_again() {
        let body = "<a href='{{ inviteUrl }}'>{planTitle}</a> {{unknown}} {{inviteUrl {x} {{role}}";
        let mail = render(Some("On {{planTitle}}, {{role}}"), Some(body), &VALUES);
        assert_eq!(mail.subject, "On <b>2027</b> {{role}}  Bcc: eve@example.org, {{role}}");
        let body = "<a href='https://app.example/invite?token=1&amp;plan=2'>&lt;b&gt;2027&lt;/b&gt; {{role}}\r\nBcc: \
             eve@example.org</a> {{unknown}} {{inviteUrl {x} viewer";
        assert!(mail.html.contains(body), "{}", mail.html);
        assert!(mail.text.contains("https://app.example/invite?token=1&plan=2"), "{}", mail.text);
    }

    #[test]
    fn layout_names_inviter_and_expiry() {
        let mail = render(None, Some("<p>Join us</p>"), &VALUES);
        for part in [
            "Ada &lt;script&gt; invited you. The invitation is for bob@example.org only and expires in 12 days.",
            "Plans &amp; more</td>",
            "<p>Join us</p>",
        ] {
            assert!(mail.html.contains(part), "{part} in {}", mail.html);
        }
        assert!(mail.text.contains("expires in 12 days"), "{}", mail.text);
        assert!(render(None, None, &Values { days_left: 1, ..VALUES }).text.contains("expires in 1 day."));
        // A template that is a whole document is sent as it is.
        assert_eq!(
            render(None, Some("<HTML><p>{{role}}</p></HTML>"), &VALUES).html,
            "<HTML><p>viewer</p></HTML>"
        );
    }

    #[test]
    fn default_template_uses_all_values() {
        let mail = render(None, None, &VALUES);
        assert!(mail.html.contains("<a class=\"button\" style="), "{}", mail.html);
        assert!(mail.subject.starts_with("You've been invited to collaborate on <b>2027</b>"));
        for part in ["ada@example.org", "viewer", "https://app.example/invite?token=1&plan=2"] {
            assert!(mail.text.contains(part), "{part} in {}", mail.text);
        }
        assert_eq!(render(Some(&"x".repeat(300)), None, &VALUES).subject.len(), 200);
    }
}
