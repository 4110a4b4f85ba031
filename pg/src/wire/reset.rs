//! Session reset: no state that the code of one request leaves in a session is visible to the next
//! (docs/decisions/0050).
//!
//! The commands are prepared once per connection, because parsing them costs PostgreSQL more than running them. That
//! creates a risk: code of a request may `DEALLOCATE` one of them and `PREPARE` a query under its name, which would
//! run as the login. The first statement of a full reset therefore fails if SQL has prepared anything, and PostgreSQL
//! skips the rest. It is the unnamed statement, which SQL can neither refer to nor drop. Moreover PREPARE accepts
//! only queries, whose command tag differs from that of the commands.

use super::frontend::Outgoing;

/// A command, the name of its prepared statement, and its command tag.
struct Command {
    name: &'static str,
    text: &'static str,
    tag: &'static str,
}

const fn command(name: &'static str, text: &'static str, tag: &'static str) -> Command {
    Command { name, text, tag }
}

/// The settings after RESET ALL are ours: whatever the database or login role defines, a transaction without BEGIN
/// behaves like a plain BEGIN of ours. Notices are suppressed because nothing reads them, and a loop can raise a
/// million. They are not in the startup packet, because poolers reject one with unknown settings.
const COMMANDS: [Command; 7] = [
    command("reset_authorization", "reset session authorization", "RESET"),
    command("reset_role", "reset role", "RESET"),
    command("reset_settings", "reset all", "RESET"),
    command(
        "reset_transactions",
        "set session characteristics as transaction isolation level read committed, read write, not deferrable",
        "SET",
    ),
    command("reset_messages", "set client_min_messages = error", "SET"),
    command("reset_cursors", "close all", "CLOSE CURSOR ALL"),
    command("reset_channels", "unlisten *", "UNLISTEN"),
];

/// Commands that a transaction that was READ ONLY from its first statement does not need: it can create no temporary
/// objects and advance no sequences.
const AFTER_WRITES: [Command; 2] = [
    command("reset_tables", "discard temp", "DISCARD TEMP"),
    command("reset_sequences", "discard sequences", "DISCARD SEQUENCES"),
];

/// Releases advisory locks.
const LOCKS: Command =
    command("reset_locks", "select where pg_catalog.pg_advisory_unlock_all() is null", "SELECT 0");

/// Releases advisory locks, and divides by zero if SQL has prepared a statement. It runs before settings and role are
/// reset, so it contains no operator, which a `search_path` could replace. Costs a microsecond per prepared
/// statement.
const LOCKS_AND_CHECK: Command = command(
    "",
    "select where pg_catalog.pg_advisory_unlock_all() is null or (\
     select pg_catalog.int4div(1, pg_catalog.int4(not prepared.from_sql)) \
     from pg_catalog.pg_prepared_statement() as prepared where prepared.from_sql) is not null",
    "SELECT 0",
);

/// What needs to be reset.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// State that a read can leave if its code may not PREPARE.
    Read,
    /// State that a write can leave if its code may not PREPARE.
    Write,
    /// State that any statement can leave.
    Full,
}

impl Extent {
    fn commands(self) -> impl Iterator<Item = &'static Command> {
        let (first, rest): (_, &[Command]) = match self {
            Self::Read => (None, &[LOCKS]),
            Self::Write => (Some(&LOCKS), &AFTER_WRITES),
            Self::Full => (Some(&LOCKS_AND_CHECK), &AFTER_WRITES),
        };
        first.into_iter().chain(&COMMANDS).chain(rest)
    }

    #[cfg(test)]
    pub(super) fn tags(self) -> impl Iterator<Item = &'static str> {
        self.commands().map(|command| command.tag)
    }
}

/// The current reset, and the commands prepared for the next.
pub(super) struct Commands {
    /// False if statements have no names, because a pooler assigns each transaction another backend.
    has_names: bool,
    /// Whether the unnamed statement is [`LOCKS_AND_CHECK`].
    is_check_prepared: bool,
    extent: Extent,
    /// Number of its commands that have completed.
    answered: usize,
}

impl Commands {
    pub(super) const fn new(has_names: bool) -> Self {
        Self { has_names, is_check_prepared: false, extent: Extent::Full, answered: 0 }
    }

    /// Prepares all named commands.
    pub(super) fn prepare(&self, outgoing: &mut Outgoing) {
        if self.has_names {
            for command in COMMANDS.iter().chain(&AFTER_WRITES).chain([&LOCKS]) {
                outgoing.prepare_command(command.name, command.text);
            }
        }
    }

    /// Adds a reset to the batch.
    pub(super) fn write(&mut self, outgoing: &mut Outgoing, extent: Extent) {
        (self.extent, self.answered) = (extent, 0);
        for command in extent.commands() {
            let name = if self.has_names { command.name } else { "" };
            if name.is_empty() && !(self.has_names && self.is_check_prepared) {
                outgoing.prepare_command(name, command.text);
            }
            outgoing.run_command(name);
        }
        self.is_check_prepared |= self.has_names && extent == Extent::Full;
    }

    /// Records that a simple query has replaced the unnamed statement.
    pub(super) const fn invalidate_unnamed(&mut self) {
        self.is_check_prepared = false;
    }

    /// Records the completion of a command by its tag. False if it is not the expected one, or the check found
    /// something.
    pub(super) fn answer(&mut self, tag: &[u8]) -> bool {
        let due = self.extent.commands().nth(self.answered);
        self.answered += 1;
        due.is_some_and(|due| due.tag.as_bytes() == tag)
    }

    pub(super) fn is_answered(&self) -> bool {
        self.extent.commands().nth(self.answered).is_none()
    }
}
