//! Headers around a request: usual ones, rare ones and nonsense.

use super::{Draft, Generator};

const PREFER: &[&str] = &[
    "count=exact",
    "count=exact",
    "count=exact",
    "count=exact",
    "count=none",
    "return=representation",
    "return=minimal",
    "return=headers-only",
    "handling=lenient",
    "handling=strict",
    "missing=default",
    "missing=null",
    "resolution=merge-duplicates",
    "resolution=ignore-duplicates",
    "count=planned",
    "count=estimated",
    "tx=rollback",
    "timezone=America/Lima",
    "timezone=UTC",
    "timezone=Asia/Kolkata",
    "max-affected=1",
    "max-affected=100",
    "count=",
    "nonsense",
    "count=exact; x=y",
    "COUNT=exact",
    "return = minimal",
];

const ACCEPT: &[&str] = &[
    "text/csv",
    "text/csv",
    "application/vnd.pgrst.object+json",
    "application/vnd.pgrst.object+json",
    "application/vnd.pgrst.object",
    "application/vnd.pgrst.array+json;nulls=stripped",
    "application/vnd.pgrst.object+json;nulls=stripped",
    "application/vnd.pgrst.array+json",
    "application/vnd.pgrst.array",
    "*/*",
    "text/*",
    "application/*",
    "text/html, */*;q=0.1",
    "text/plain",
    "text/xml",
    "application/octet-stream",
    "application/x-lines",
    "image/gif",
    "application/json;q=0.5, text/csv;q=0.9",
    "text/csv;q=0, application/json",
    "application/json; charset=utf-8",
    "nonsense",
    "a/b, c/d",
    "application/json, text/csv",
    "text/csv, application/json",
    "application/geo+json",
    "application/openapi+json",
    "application/vnd.pgrst.plan+json",
    "application/vnd.pgrst.plan; for=\"text/csv\"; options=verbose",
    ";",
    ",",
    "text/csv;header=absent",
];

const RANGE: &[&str] = &[
    "0-1",
    "1-",
    "0-0",
    "2-1",
    "1-2",
    "bytes=0-1",
    "items=0-1",
    "-1",
    "0-",
    "100-200",
    "x-y",
    "1-1,2-2",
    " 0-1",
    "0 - 1",
];

impl Generator<'_> {
    pub(super) fn dress(&mut self, draft: &mut Draft) {
        let dice = &mut self.dice;
        if dice.once_in(5) {
            let preferences = dice.some(PREFER, 1, 3);
            if dice.once_in(6) {
                for preference in preferences {
                    draft.header("Prefer", preference);
                }
            } else {
                draft.header("Prefer", &preferences.join(if dice.once_in(2) { ", " } else { "," }));
            }
        }
        if dice.once_in(5) {
            let accept = dice.pick(ACCEPT);
            draft.header("Accept", accept);
        }
        if dice.once_in(20) {
            let range = dice.pick(RANGE);
            draft.header("Range", range);
            if dice.once_in(2) {
                draft.header("Range-Unit", "items");
            }
        }
        if dice.once_in(25) {
            let name = dice.pick(&["Accept-Profile", "Content-Profile"]);
            let schema = dice.pick(&["bazaar", "annex", "harbour", "yard", "tools", "nope", "public", ""]);
            draft.header(name, schema);
        }
        if dice.once_in(8) {
            let role = dice.pick(&[
                "authenticated",
                "authenticated ines",
                "authenticated jon",
                "service_role",
                "harbour_master",
                "harbour_stranger",
            ]);
            draft.header("Authorization", &super::super::case::as_role(role));
        }
        if draft.method == "GET" && dice.once_in(30) {
            let options = if draft.path.starts_with("/rpc/") { "HEAD" } else { "OPTIONS" };
            draft.method = dice.pick(&["HEAD", "HEAD", options]);
        }
        if dice.once_in(40) {
            draft.header("Origin", "http://origin.test");
        }
    }
}
