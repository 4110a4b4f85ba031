//! Whatever a request holds, it does not become statement text.

use proptest::prelude::*;

use super::{plan, statements};

/// Text that would be seen in a statement if it got there.
fn marked() -> impl Strategy<Value = String> {
    "[a-z'\"; )(*$-]{0,6}".prop_map(|text| format!("mark{text}er"))
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

proptest! {
    #[test]
    fn values_are_parameters(value in marked(), operator in prop_oneof![Just("eq"), Just("like"), Just("cs"), Just("fts"), Just("isdistinct"), Just("eq(any)")]) {
        let value = encoded(&value);
        for request in [
            format!("GET /projects?name={operator}.{value}"),
            format!("GET /projects?select=tasks(id)&tasks.name={operator}.{value}"),
            format!("GET /projects?name=in.(%22{value}%22)"),
            format!("PATCH /projects?name={operator}.{value}\n\n{{\"name\":\"{value}\"}}"),
            format!("DELETE /projects?name={operator}.{value}"),
            format!("GET /rpc/hello?name={value}"),
            format!("POST /rpc/hello\n\n{{\"name\":\"{value}\"}}"),
        ] {
            if let Ok(plan) = plan(&request) {
                prop_assert!(!statements(&plan).main.text.contains("mark"), "{request}");
            }
        }
    }

    #[test]
    fn names_are_quoted(name in marked()) {
        let quoted = encoded(&format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")));
        for request in [
            format!("GET /projects?select={quoted}"),
            format!("GET /projects?select=x:meta->{quoted}"),
            format!("GET /projects?select={quoted}:name"),
            format!("GET /projects?{quoted}=eq.1"),
            format!("GET /projects?order={quoted}"),
        ] {
            let text = statements(&plan(&request).unwrap()).main.text.to_string();
            let identifier = format!("\"{}\"", name.replace('"', "\"\""));
            let literal = format!("'{}'", name.replace('\'', "''"));
            let rest = text.replace(&identifier, "").replace(&literal, "");
            prop_assert!(!rest.contains("mark"), "{request}: {text}");
        }
    }
}
