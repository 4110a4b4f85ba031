//! Terminal input and output of commands: tables, confirmations, hidden password prompts.

use std::io::{self, BufRead, IsTerminal, Write};

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

/// Formats rows as a table with a header and aligned columns.
pub(super) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = header
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let cells = rows.iter().filter_map(|row| row.get(index)).map(|cell| cell.chars().count());
            cells.chain([name.chars().count()]).max().unwrap_or_default()
        })
        .collect();
    let mut text = String::new();
    let names: Vec<String> = header.iter().map(|name| (*name).to_owned()).collect();
    for row in std::iter::once(&names).chain(rows) {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Formats a time as `2026-01-02 03:04` in UTC; `-` for `None`.
pub(super) fn time(at: Option<jiff::Timestamp>) -> String {
    at.map_or_else(|| "-".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M").to_string())
}

/// Succeeds with `--yes` or after confirmation at the terminal.
pub(super) fn confirm(question: &str, is_confirmed: bool) -> anyhow::Result<()> {
    if is_confirmed {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        anyhow::bail!("{question} Confirm with --yes");
    }
    write!(io::stderr(), "{question} [y/N] ")?;
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") { Ok(()) } else { anyhow::bail!("nothing was changed") }
}

/// Reads a password: twice from the terminal without echo, or the first line of standard input.
pub(super) fn read_password() -> anyhow::Result<String> {
    let password = if io::stdin().is_terminal() {
        let first = prompt_hidden("New password: ")?;
        if prompt_hidden("Repeat it: ")? != first {
            anyhow::bail!("the passwords differ; nothing was changed");
        }
        first
    } else {
        first_line()?
    };
    if password.is_empty() {
        anyhow::bail!("the password is empty: type it, or pipe it in as one line");
    }
    Ok(password)
}

fn prompt_hidden(prompt: &str) -> anyhow::Result<String> {
    write!(io::stderr(), "{prompt}")?;
    io::stderr().flush()?;
    let terminal = io::stdin();
    let before = tcgetattr(&terminal)?;
    let mut hidden = before.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&terminal, OptionalActions::Now, &hidden)?;
    let line = first_line();
    tcsetattr(&terminal, OptionalActions::Now, &before)?;
    writeln!(io::stderr())?;
    line
}

fn first_line() -> anyhow::Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_their_widest_cell() {
        let rows = [vec!["a".to_owned(), "bb".to_owned()], vec!["längst".to_owned(), String::new()]];
        assert_eq!(table(&["NAME", "KEY"], &rows), "NAME    KEY\na       bb\nlängst\n");
    }
}
