//! Parses connection strings like libpq: a URL or `key=value` pairs, completed from `PG*` variables, the password file and
//! libpq's defaults. The result is a string for our driver, whose own parser rejects some values
//! (`sslmode=verify-full`, `target_session_attrs=primary`, `passfile`) and ignores `PGPORT`.
//!
//! libpq checks certificates only for `sslmode=verify-ca` and `verify-full`; a connection string of PostgREST's means the
//! same here ([`Connection::verifies`]).

use std::path::{Path, PathBuf};

/// A parsed connection string.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Connection {
    /// `key='value'` pairs for the driver; includes the password.
    pub(super) text: String,
    /// Whether the server's certificate is checked.
    pub(super) verifies: bool,
    /// Requested parameters that have no effect.
    pub(super) warnings: Vec<String>,
}

/// Environment variables and the parameters they set.
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

/// Parameters that the driver accepts unchanged.
const UNCHANGED: &str = "host hostaddr port dbname user password options application_name channel_binding connect_timeout \
                    tcp_user_timeout keepalives keepalives_idle keepalives_interval load_balance_hosts";

/// Ignored parameters, which do not change the database. GoTrue's URLs set a search path; auth sets its own.
const IGNORED: &str = "passfile fallback_application_name client_encoding gssencmode krbsrvname gsslib gssdelegation \
                       sslcompression sslsni sslnegotiation ssl_min_protocol_version ssl_max_protocol_version search_path";

/// Folders of the server's socket; which one applies depends on how PostgreSQL was built.
const SOCKET_FOLDERS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// Parses `text`; `variable` returns the value of an environment variable.
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
    to_driver_string(&pairs)
}

/// Parameters. The last value of a name counts; an empty value counts as unset.
struct Pairs(Vec<(String, String)>);

impl Pairs {
    fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

fn to_driver_string(pairs: &Pairs) -> Result<Connection, &'static str> {
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
            name if UNCHANGED.split(' ').any(|known| known == name) => add(name, value),
            "keepalives_count" => add("keepalives_retries", value),
            "sslmode" => add("sslmode", ssl_mode(value)?),
            "target_session_attrs" => add("target_session_attrs", session_attributes(value)?),
            "sslrootcert" if value == "system" => {}
            "sslrootcert" | "sslcrl" | "sslcrldir" => warnings.push(format!(
                "{key} is ignored: certificates are checked against the system's trust store; add yours there"
            )),
            other if IGNORED.split(' ').any(|known| known == other) => {}
            other => warnings.push(format!("{other} is not supported and is ignored")),
        }
    }
    let verifies = pairs.get("sslmode").is_some_and(|mode| mode.starts_with("verify-"))
        || pairs.get("sslrootcert").is_some();
    Ok(Connection { text: text.trim_end().to_owned(), verifies, warnings })
}

fn ssl_mode(mode: &str) -> Result<&'static str, &'static str> {
    match mode {
        "disable" => Ok("disable"),
        // libpq's `allow` uses TLS only if the server requires it; ours uses it whenever the server offers it.
        "allow" | "prefer" => Ok("prefer"),
        "require" | "verify-ca" | "verify-full" => Ok("require"),
        _ => Err("has an unknown sslmode: use disable, prefer, require, verify-ca or verify-full"),
    }
}

fn session_attributes(wanted: &str) -> Result<&'static str, &'static str> {
    match wanted {
        "any" | "prefer-standby" => Ok("any"),
        "read-write" | "primary" => Ok("read-write"),
        "read-only" | "standby" => Ok("read-only"),
        _ => Err("has unknown target_session_attrs: use any, read-write or read-only"),
    }
}

/// The folder that contains the server's socket, or `localhost` for TCP.
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
    // A password may contain a question mark, so split off the login first.
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
        let (key, value) = pair.split_once('=').ok_or("has a query parameter without a value")?;
        match (key, value) {
            ("ssl", "true") => add("sslmode", "require")?,
            _ => add(key, value)?,
        }
    }
    Ok(pairs)
}

fn decoded(text: &str) -> Result<String, &'static str> {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    Ok(decoded.map_err(|_| "is not UTF-8 after percent-decoding")?.into_owned())
}

/// `host=a user='it''s'`: blanks around `=` are allowed, and a backslash escapes the next character.
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
            return Err("has a value without a closing quote");
        }
        pairs.push((key.trim().to_owned(), value));
        rest = chars.as_str().trim_start();
    }
    Ok(pairs)
}

/// The password from the first matching line of the password file (`host:port:database:user:password`).
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

/// Splits a line into five fields; a backslash escapes a colon.
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
    fn urls_pairs_and_variables_are_equivalent() {
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
    fn parses_several_hosts_and_unusual_parameters() {
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
    fn checks_certificates_like_libpq() {
        let none = |_: &str| None;
        let verifies = |mode: &str| connection(&format!("postgres://u@h/d?{mode}"), &none).unwrap().verifies;
        assert!(!verifies("sslmode=prefer") && !verifies("sslmode=require") && !verifies(""));
        assert!(verifies("sslmode=verify-full") && verifies("sslmode=require&sslrootcert=ca.pem"));
        let asked = connection("postgres://u@h/d?sslrootcert=ca.pem&sslcert=c.pem", &none).unwrap();
        assert_eq!(asked.warnings.len(), 2, "{:?}", asked.warnings);
    }

    #[test]
    fn reads_password_file_like_libpq() {
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
