//! Connection strings as libpq reads them: a URL or `key=value` pairs, what they leave out taken from `PG*` variables
//! and the password file, then from libpq's own defaults. The result is a string that our driver understands. The
//! driver's own parser refuses what it does not know (`sslmode=verify-full`, `target_session_attrs=primary`,
//! `passfile`), and it gives a host without a port 5432 where `PGPORT` says otherwise.
//!
//! libpq checks certificates for `sslmode=verify-ca` and `verify-full` only, so that is what a connection string of
//! PostgREST's means here, too ([`Connection::verifies`]).

use std::path::{Path, PathBuf};

/// How to reach the database.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Connection {
    /// `key='value'` pairs for the driver; holds the password.
    pub(super) text: String,
    /// Whether certificates are checked.
    pub(super) verifies: bool,
    /// What was asked for and is not done.
    pub(super) warnings: Vec<String>,
}

/// Variables that stand in for parameters.
const VARIABLES: [(&str, &str); 14] = [
    ("PGHOST", "host"),
    ("PGHOSTADDR", "hostaddr"),
    ("PGPORT", "port"),
    ("PGDATABASE", "dbname"),
    ("PGUSER", "user"),
    ("PGPASSWORD", "password"),
    ("PGPASSFILE", "passfile"),
    ("PGOPTIONS", "options"),
    ("PGAPPNAME", "application_name"),
    ("PGSSLMODE", "sslmode"),
    ("PGCHANNELBINDING", "channel_binding"),
    ("PGCONNECT_TIMEOUT", "connect_timeout"),
    ("PGTARGETSESSIONATTRS", "target_session_attrs"),
    ("PGLOADBALANCEHOSTS", "load_balance_hosts"),
];

/// Parameters that the driver takes as they are.
const SAME: &str = "host hostaddr port dbname user password options application_name channel_binding connect_timeout \
                    tcp_user_timeout keepalives keepalives_idle keepalives_interval load_balance_hosts";

/// Parameters without which the same database is reached. GoTrue's URLs name a search path; auth sets its own.
const IGNORED: &str = "passfile fallback_application_name client_encoding gssencmode krbsrvname gsslib gssdelegation \
                       sslcompression sslsni sslnegotiation ssl_min_protocol_version ssl_max_protocol_version search_path";

/// Where libpq looks for the server's socket; which of them depends on who built it.
const SOCKET_FOLDERS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// Reads `text`; `variable` looks up an environment variable.
pub(super) fn connection(
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Connection, &'static str> {
    let mut pairs = Pairs(if is_url(text) { from_url(text)? } else { from_pairs(text)? });
    for (name, key) in VARIABLES {
        if pairs.get(key).is_none()
            && let Some(value) = variable(name).filter(|value| !value.is_empty())
        {
            pairs.0.push((key.to_owned(), value));
        }
    }
    if pairs.get("host").is_none() && pairs.get("hostaddr").is_none() {
        pairs.0.push(("host".to_owned(), default_host(pairs.get("port").unwrap_or("5432"))));
    }
    if pairs.get("user").is_none() {
        let user = variable("USER").or_else(|| variable("LOGNAME"));
        pairs
            .0
            .push(("user".to_owned(), user.ok_or("names no user: write postgresql://user@host/database")?));
    }
    if pairs.get("password").is_none()
        && let Some(password) = stored_password(&pairs, variable)
    {
        pairs.0.push(("password".to_owned(), password));
    }
    translated(&pairs)
}

/// Parameters; of several with one name the last counts, and an empty one is none.
struct Pairs(Vec<(String, String)>);

impl Pairs {
    fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

fn translated(pairs: &Pairs) -> Result<Connection, &'static str> {
    let mut text = String::new();
    let mut add = |key: &str, value: &str| {
        let value = value.replace('\\', "\\\\").replace('\'', "\\'");
        text.push_str(&format!("{key}='{value}' "));
    };
    let mut warnings = Vec::new();
    for (index, (key, value)) in pairs.0.iter().enumerate() {
        let is_last = !pairs.0.iter().skip(index + 1).any(|(later, _)| later == key);
        if value.is_empty() || !is_last {
            continue;
        }
        match key.as_str() {
            same if SAME.split(' ').any(|known| known == same) => add(same, value),
            "keepalives_count" => add("keepalives_retries", value),
            "sslmode" => add("sslmode", ssl_mode(value)?),
            "target_session_attrs" => add("target_session_attrs", session_attributes(value)?),
            "sslrootcert" if value == "system" => {}
            "sslrootcert" | "sslcrl" | "sslcrldir" => warnings.push(format!(
                "{key} is not read: certificates are checked against those the system trusts; add yours there"
            )),
            other if IGNORED.split(' ').any(|known| known == other) => {}
            other => warnings.push(format!("{other} is not supported and left out")),
        }
    }
    let verifies = pairs.get("sslmode").is_some_and(|mode| mode.starts_with("verify-"))
        || pairs.get("sslrootcert").is_some();
    Ok(Connection { text: text.trim_end().to_owned(), verifies, warnings })
}

fn ssl_mode(mode: &str) -> Result<&'static str, &'static str> {
    match mode {
        "disable" => Ok("disable"),
        // A client that asks for TLS only where the server insists gets it where it is offered.
        "allow" | "prefer" => Ok("prefer"),
        "require" | "verify-ca" | "verify-full" => Ok("require"),
        _ => Err("has an unknown sslmode: take disable, prefer, require, verify-ca or verify-full"),
    }
}

fn session_attributes(wanted: &str) -> Result<&'static str, &'static str> {
    match wanted {
        "any" | "prefer-standby" => Ok("any"),
        "read-write" | "primary" => Ok("read-write"),
        "read-only" | "standby" => Ok("read-only"),
        _ => Err("has unknown target_session_attrs: take any, read-write or read-only"),
    }
}

/// The folder with the server's socket, else this machine by TCP.
fn default_host(port: &str) -> String {
    let has_socket = |folder: &&str| Path::new(folder).join(format!(".s.PGSQL.{port}")).exists();
    SOCKET_FOLDERS.into_iter().find(has_socket).unwrap_or("localhost").to_owned()
}

fn is_url(text: &str) -> bool {
    text.starts_with("postgresql://") || text.starts_with("postgres://")
}

/// `postgresql://user:password@host:port,host:port/database?key=value`
fn from_url(text: &str) -> Result<Vec<(String, String)>, &'static str> {
    let (_, rest) = text.split_once("://").unwrap_or(("", text));
    // A password may hold a question mark, so the login goes first.
    let authority = rest.split('/').next().unwrap_or_default();
    let login = authority.rsplit_once('@').map_or("", |(login, _)| login);
    let rest = rest.strip_prefix(login).unwrap_or(rest).trim_start_matches('@');
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let mut pairs = Vec::new();
    let mut add = |key: &str, value: &str| {
        pairs.push((key.to_owned(), decoded(value)?));
        Ok::<_, &'static str>(())
    };
    add("user", user)?;
    add("password", password)?;
    add("dbname", database)?;
    let (mut names, mut ports) = (Vec::new(), Vec::new());
    for host in hosts.split(',') {
        let after_bracket = host.strip_prefix('[').and_then(|inner| inner.split_once(']'));
        let (name, port) = match after_bracket {
            Some((address, port)) => (address, port.strip_prefix(':').unwrap_or(port)),
            None => host.rsplit_once(':').unwrap_or((host, "")),
        };
        names.push(name);
        ports.push(port);
    }
    if names.iter().any(|name| !name.is_empty()) {
        add("host", &names.join(","))?;
    }
    if ports.iter().any(|port| !port.is_empty()) {
        let ports: Vec<&str> = ports.iter().map(|port| if port.is_empty() { "5432" } else { port }).collect();
        add("port", &ports.join(","))?;
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or("has a parameter without a value behind its ?")?;
        match (key, value) {
            ("ssl", "true") => add("sslmode", "require")?,
            _ => add(key, value)?,
        }
    }
    Ok(pairs)
}

fn decoded(text: &str) -> Result<String, &'static str> {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    Ok(decoded.map_err(|_| "is not UTF-8 once its %XX are decoded")?.into_owned())
}

/// `host=a user='it''s'`: blanks may stand around `=`, and a backslash protects what follows it.
fn from_pairs(text: &str) -> Result<Vec<(String, String)>, &'static str> {
    let mut pairs = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (key, after) =
            rest.split_once('=').ok_or("is neither postgresql://user@host/database nor key=value pairs")?;
        let mut chars = after.trim_start().chars();
        let is_quoted = chars.as_str().starts_with('\'');
        if is_quoted {
            let _quote = chars.next();
        }
        let mut value = String::new();
        let mut is_closed = !is_quoted;
        while let Some(c) = chars.next() {
            match c {
                '\\' => value.extend(chars.next()),
                '\'' if is_quoted => {
                    is_closed = true;
                    break;
                }
                blank if !is_quoted && blank.is_whitespace() => break,
                other => value.push(other),
            }
        }
        if !is_closed {
            return Err("has a value without its closing quote");
        }
        pairs.push((key.trim().to_owned(), value));
        rest = chars.as_str().trim_start();
    }
    Ok(pairs)
}

/// The password of the first line that fits in the password file: `host:port:database:user:password`.
fn stored_password(pairs: &Pairs, variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let home = || variable("HOME").map(|home| Path::new(&home).join(".pgpass"));
    let file = pairs.get("passfile").map(PathBuf::from).or_else(home)?;
    let text = std::fs::read_to_string(file).ok()?;
    let user = pairs.get("user")?;
    let wanted = [
        pairs.get("host").filter(|host| !host.starts_with('/')).unwrap_or("localhost"),
        pairs.get("port").unwrap_or("5432"),
        pairs.get("dbname").unwrap_or(user),
        user,
    ];
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = password_fields(line);
        let fits = fields.iter().zip(wanted).all(|(field, wanted)| field == "*" || field == wanted);
        fields.get(4).filter(|_| fits).cloned()
    })
}

/// Five fields; a backslash protects a colon.
fn password_fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ':' if fields.len() < 5 => fields.push(String::new()),
            other => {
                let plain = if other == '\\' { chars.next() } else { Some(other) };
                if let Some(field) = fields.last_mut() {
                    field.extend(plain);
                }
            }
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(given: &str, variables: &[(&str, &str)]) -> String {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        match connection(given, &variable) {
            Ok(connection) => {
                assert!(connection.text.parse::<tokio_postgres::Config>().is_ok(), "{}", connection.text);
                connection.text
            }
            Err(problem) => format!("error: {problem}"),
        }
    }

    #[test]
    fn urls_pairs_and_variables_mean_the_same() {
        let expected = "user='u' password='p w' dbname='d' host='h' port='6000'";
        assert_eq!(text("postgresql://u:p%20w@h:6000/d", &[]), expected);
        assert_eq!(text("user = u password='p w' dbname=d host=h port=6000", &[]), expected);
        let variables = [
            ("PGUSER", "u"),
            ("PGPASSWORD", "p w"),
            ("PGDATABASE", "d"),
            ("PGHOST", "h"),
            ("PGPORT", "6000"),
        ];
        let from_variables = text("postgresql://", &variables);
        assert_eq!(from_variables, "host='h' port='6000' dbname='d' user='u' password='p w'");
        assert_eq!(
            text("postgres://other@/x", &variables),
            "user='other' dbname='x' host='h' port='6000' password='p w'"
        );
        assert_eq!(
            text("user=a\\'b password='c\\\\d' host=h", &[]),
            "user='a\\'b' password='c\\\\d' host='h'"
        );
    }

    #[test]
    fn several_hosts_and_odd_parameters() {
        assert_eq!(
            text(
                "postgres://u@[::1]:5,b/d?target_session_attrs=primary&sslmode=allow&gssencmode=disable&ssl=true",
                &[]
            ),
            "user='u' dbname='d' host='::1,b' port='5,5432' target_session_attrs='read-write' sslmode='require'"
        );
        assert_eq!(
            text("postgres://u@h/d?keepalives_count=3", &[]),
            "user='u' dbname='d' host='h' keepalives_retries='3'"
        );
        assert_eq!(
            text("postgres://u:p?#@h?sslmode=disable", &[]),
            "user='u' password='p?#' host='h' sslmode='disable'"
        );
        assert!(text("postgres://u@h/d?sslmode=sometimes", &[]).contains("sslmode"));
        assert!(text("nonsense", &[]).starts_with("error: is neither"));
        assert!(text("host=h", &[]).starts_with("error: names no user"));
        assert_eq!(text("host=h", &[("USER", "me")]), "host='h' user='me'");
        assert!(text("host='h", &[]).contains("closing quote"));
    }

    #[test]
    fn certificates_are_checked_where_libpq_would() {
        let none = |_: &str| None;
        let verifies = |mode: &str| connection(&format!("postgres://u@h/d?{mode}"), &none).unwrap().verifies;
        assert!(!verifies("sslmode=prefer") && !verifies("sslmode=require") && !verifies(""));
        assert!(verifies("sslmode=verify-full") && verifies("sslmode=require&sslrootcert=ca.pem"));
        let asked = connection("postgres://u@h/d?sslrootcert=ca.pem&sslcert=c.pem", &none).unwrap();
        assert_eq!(asked.warnings.len(), 2, "{:?}", asked.warnings);
    }

    #[test]
    fn the_password_file_is_read_as_libpq_does() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pass");
        std::fs::write(&file, "# mine\nother:*:*:u:no\nh:5432:*:u:a\\:b:c\n").unwrap();
        let file = file.display().to_string();
        let variables = [("PGPASSFILE", file.as_str())];
        assert!(text("postgres://u@h/d", &variables).ends_with("password='a:b:c'"));
        assert!(!text("postgres://v@h/d", &variables).contains("password"));
        assert!(text("postgres://u:given@h/d", &variables).contains("password='given'"));
    }
}
