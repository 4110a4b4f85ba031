//! `basalt service …`: runs the server under systemd, from this program and the project folder.

use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};

use crate::config::Config;

const UNIT: &str = include_str!("service/basalt.service");
const UNITS: &str = "/etc/systemd/system";

/// The subcommands of `basalt service`.
#[derive(Debug, Subcommand)]
pub(super) enum ServiceCommand {
    /// Writes a unit of systemd for this program and project, enables and starts it. Requires root.
    Install(Install),
    /// Shows whether the service runs.
    Status(Name),
    /// Shows the service's log.
    Logs {
        #[command(flatten)]
        name: Name,
        /// Waits for further lines.
        #[arg(long, short)]
        follow: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct Install {
    #[command(flatten)]
    name: Name,
    /// The user that runs the server [default: the owner of the project folder].
    #[arg(long)]
    user: Option<String>,
    /// Prints the unit and changes nothing.
    #[arg(long)]
    print: bool,
}

#[derive(Debug, Args)]
pub(super) struct Name {
    /// The name of the unit.
    #[arg(long, default_value = "basalt", value_parser = parse_name)]
    name: String,
}

fn parse_name(name: &str) -> Result<String, String> {
    const MAX_BYTES: usize = 64;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty()
        || name.len() > MAX_BYTES
        || !name.chars().all(is_plain)
        || name.starts_with(['-', '.'])
    {
        return Err("use letters, digits, `-`, `_` and `.`".to_owned());
    }
    Ok(name.to_owned())
}

/// Runs `basalt service`.
pub(super) fn run(config: &Config, command: &ServiceCommand) -> anyhow::Result<ExitCode> {
    match command {
        ServiceCommand::Install(install) => {
            install_unit(config, install)?;
            Ok(ExitCode::SUCCESS)
        }
        ServiceCommand::Status(Name { name }) => pass_on("systemctl", &["status", "--no-pager", name]),
        ServiceCommand::Logs { name: Name { name }, follow } => {
            let mut arguments = vec!["--unit", name.as_str(), "--lines", "200", "--no-pager"];
            arguments.extend(follow.then_some("--follow"));
            pass_on("journalctl", &arguments)
        }
    }
}

fn install_unit(config: &Config, install: &Install) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let project = config.project.dir.canonicalize().context("cannot resolve the project folder")?;
    let owner = std::fs::metadata(&project)?;
    let user = match &install.user {
        Some(user) => user.clone(),
        None => name_of("/etc/passwd", owner.uid())?,
    };
    if user == "root" {
        bail!(
            "the server must not run as root: make a user and the folder's owner, such as \
             `useradd --system basalt && chown -R basalt {}`, or use --user",
            project.display()
        );
    }
    let group = primary_group(&user)?;
    let text = unit(&program, &project, &user, &group)?;
    let mut out = io::stdout();
    if install.print {
        return Ok(out.write_all(text.as_bytes())?);
    }
    if !Path::new("/run/systemd/system").is_dir() {
        bail!("systemd does not run on this machine; `--print` shows the unit");
    }
    let path = PathBuf::from(UNITS).join(format!("{}.service", install.name.name));
    std::fs::write(&path, text)
        .with_context(|| format!("cannot write {}; run this as root", path.display()))?;
    writeln!(out, "wrote {}", path.display())?;
    for arguments in [&["daemon-reload"][..], &["enable", "--now", install.name.name.as_str()]] {
        if !Command::new("systemctl").args(arguments).status()?.success() {
            bail!("`systemctl {}` failed; `basalt service logs` shows why", arguments.join(" "));
        }
    }
    writeln!(out, "the server is running; `basalt service status` and `basalt service logs` show its state")?;
    Ok(())
}

/// The unit. systemd interprets quotes, spaces and `%` in paths, so these are not accepted.
fn unit(program: &Path, project: &Path, user: &str, group: &str) -> anyhow::Result<String> {
    let plain = |path: &Path| -> anyhow::Result<String> {
        let text =
            path.to_str().filter(|text| !text.contains(|c: char| c.is_whitespace() || "\"'\\%$".contains(c)));
        text.map(str::to_owned).with_context(|| {
            format!("{} has a character that systemd interprets: use another path", path.display())
        })
    };
    let is_below = |dir: &str| project.starts_with(dir) || program.starts_with(dir);
    let in_home = is_below("/home") || is_below("/root") || is_below("/run/user");
    Ok(UNIT
        .replace("{program}", &plain(program)?)
        .replace("{project}", &plain(project)?)
        .replace("{user}", user)
        .replace("{group}", group)
        .replace("{protect_home}", if in_home { "no" } else { "yes" }))
}

/// The name of an id in a file such as /etc/passwd.
fn name_of(file: &str, id: u32) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    let found = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then(|| name.to_owned())
    });
    found.with_context(|| format!("{file} has no entry for {id}; use --user"))
}

fn primary_group(user: &str) -> anyhow::Result<String> {
    let text = std::fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
    let id = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(user)).then(|| fields.nth(2)?.parse().ok()).flatten()
    });
    name_of("/etc/group", id.with_context(|| format!("there is no user {user}"))?)
}

/// Runs a program of systemd with this terminal; its exit code is ours.
fn pass_on(program: &str, arguments: &[&str]) -> anyhow::Result<ExitCode> {
    let status = Command::new(program)
        .args(arguments)
        .status()
        .with_context(|| format!("cannot run {program}, which belongs to systemd"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_is_filled_in_and_rejects_what_systemd_interprets() {
        let text = unit(Path::new("/opt/basalt"), Path::new("/home/ann/app"), "ann", "staff").unwrap();
        assert!(text.contains("ExecStart=/opt/basalt serve --project /home/ann/app\n"), "{text}");
        assert!(text.contains("User=ann\nGroup=staff\n") && text.contains("ProtectHome=no"), "{text}");
        assert!(!text.contains(['{', '}']), "{text}");
        assert!(
            unit(Path::new("/opt/b"), Path::new("/srv/app"), "a", "a").unwrap().contains("ProtectHome=yes")
        );
        for bad in ["/srv/my app", "/srv/100%", "/srv/\"x"] {
            assert!(unit(Path::new("/opt/b"), Path::new(bad), "a", "a").is_err(), "{bad}");
        }
    }

    #[test]
    fn unit_names_are_plain() {
        assert_eq!(parse_name("basalt-2").as_deref(), Ok("basalt-2"));
        for bad in ["", "../x", "a b", "-x", ".x"] {
            assert!(parse_name(bad).is_err(), "{bad}");
        }
    }
}
