//! The built-in e-mails: turns the files in `auth/templates` into templates.
//!
//! A file contains the plain text part. Its first line is the subject, its second the preview text of mail clients. Blocks
//! follow, separated by empty lines: `# ` is a heading, `[code]` the code, `[Label]` the link with a button label, `> ` a
//! footnote, anything else a paragraph. The HTML part puts the same content into `layout.html`, which is made for mail clients:
//! tables, inline styles, no images, no external resources.

use basalt_core::html::escape;

/// The template sources of an e-mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Email {
    pub(super) subject: String,
    pub(super) html: String,
    pub(super) text: String,
}

const LAYOUT: &str = include_str!("../../templates/layout.html");

const FONT: &str =
    "font-family:-apple-system,BlinkMacSystemFont,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;";

/// The e-mail of a kind, by [`crate::templates::kind::EmailKind::name`].
pub(super) fn email(name: &str) -> Email {
    typeset(match name {
        "confirmation" => include_str!("../../templates/confirmation.txt"),
        "invite" => include_str!("../../templates/invite.txt"),
        "magic_link" => include_str!("../../templates/magic_link.txt"),
        "recovery" => include_str!("../../templates/recovery.txt"),
        "email_change" => include_str!("../../templates/email_change.txt"),
        "reauthentication" => include_str!("../../templates/reauthentication.txt"),
        "password_changed" => include_str!("../../templates/password_changed.txt"),
        "email_changed" => include_str!("../../templates/email_changed.txt"),
        "phone_changed" => include_str!("../../templates/phone_changed.txt"),
        "identity_linked" => include_str!("../../templates/identity_linked.txt"),
        "identity_unlinked" => include_str!("../../templates/identity_unlinked.txt"),
        "mfa_factor_enrolled" => include_str!("../../templates/mfa_factor_enrolled.txt"),
        _ => include_str!("../../templates/mfa_factor_unenrolled.txt"),
    })
}

fn typeset(source: &str) -> Email {
    let mut lines = source.lines();
    let subject = lines.next().unwrap_or_default();
    let preheader = lines.next().unwrap_or_default();
    let body: Vec<&str> = lines.collect();
    let body = body.join("\n");
    let blocks: Vec<&str> = body.split("\n\n").map(str::trim).filter(|block| !block.is_empty()).collect();
    let content: String = blocks.iter().map(|block| html_block(block)).collect();
    let text: Vec<String> = blocks.iter().map(|block| text_block(block)).collect();
    Email {
        subject: subject.to_owned(),
        html: LAYOUT
            .replace("[[subject]]", &escape_words(subject))
            .replace("[[preheader]]", &escape_words(preheader))
            .replace("[[content]]", &content),
        text: text.join("\n\n") + "\n",
    }
}

/// Escapes the text between template actions.
fn escape_words(text: &str) -> String {
    let mut out = String::new();
    for (index, part) in text.split("{{").enumerate() {
        match part.split_once("}}") {
            Some((action, words)) if index > 0 => {
                out.push_str("{{");
                out.push_str(action);
                out.push_str("}}");
                out.push_str(&escape(words));
            }
            _ => out.push_str(&escape(part)),
        }
    }
    out
}

fn label(block: &str) -> Option<&str> {
    block.strip_prefix('[')?.strip_suffix(']')
}

fn text_block(block: &str) -> String {
    match label(block) {
        Some("code") => "{{ .Token }}".to_owned(),
        Some(label) => format!("{label}:\n{{{{ .ConfirmationURL }}}}"),
        None => block.trim_start_matches("# ").trim_start_matches("> ").to_owned(),
    }
}

fn html_block(block: &str) -> String {
    if let Some(heading) = block.strip_prefix("# ") {
        return format!(
            "<h1 class=\"ink\" style=\"margin:0 0 16px;{FONT}font-size:24px;line-height:32px;font-weight:700;color:#161a22;\">{}</h1>\n",
            escape_words(heading)
        );
    }
    if let Some(note) = block.strip_prefix("> ") {
        return format!(
            "<p class=\"quiet rule\" style=\"margin:28px 0 0;padding:20px 0 0;border-top:1px solid #e2e5eb;{FONT}font-size:14px;line-height:22px;color:#6a7383;\">{}</p>\n",
            escape_words(note)
        );
    }
    match label(block) {
        Some("code") => "<p class=\"code\" style=\"margin:0 0 20px;padding:14px 16px;background-color:#f3f4f7;border:1px solid #e2e5eb;border-radius:8px;font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:26px;line-height:34px;font-weight:600;email-spacing:5px;text-align:center;color:#161a22;\">{{ .Token }}</p>\n".to_owned(),
        Some(label) => button(label),
        None => format!(
            "<p class=\"body\" style=\"margin:0 0 20px;{FONT}font-size:16px;line-height:25px;color:#3b4352;\">{}</p>\n",
            escape_words(block)
        ),
    }
}

/// The button and, below it, the URL as text.
fn button(label: &str) -> String {
    format!(
        "<table role=\"presentation\" class=\"wide\" cellpadding=\"0\" cellspacing=\"0\" border=\"0\" style=\"margin:0 0 20px;\"><tr>\
         <td class=\"button\" align=\"center\" bgcolor=\"#1d4fd7\" style=\"border-radius:8px;background-color:#1d4fd7;\">\
         <a class=\"button\" href=\"{{{{ .ConfirmationURL }}}}\" target=\"_blank\" style=\"display:inline-block;padding:13px 28px;border-radius:8px;background-color:#1d4fd7;{FONT}font-size:16px;line-height:22px;font-weight:600;color:#ffffff;text-decoration:none;\">{label}</a>\
         </td></tr></table>\n\
         <p class=\"quiet\" style=\"margin:0 0 24px;{FONT}font-size:13px;line-height:20px;color:#6a7383;\">If the button does not work, open this address:<br>\
         <a class=\"link\" href=\"{{{{ .ConfirmationURL }}}}\" target=\"_blank\" style=\"color:#1d4fd7;word-break:break-all;overflow-wrap:anywhere;\">{{{{ .ConfirmationURL }}}}</a></p>\n",
        label = escape_words(label)
    )
}
