//! The reset of a session: what code of one request leaves in it is not there for the next (docs/decisions/0050).
//!
//! Its commands are prepared once for each connection, because parsing them costs PostgreSQL more than running them does. That
//! brings a hazard: code of a request may `DEALLOCATE` one of them and `PREPARE` a query of its own under the name, which would
//! run as the login. So the first statement of a whole reset fails where SQL has prepared anything, and PostgreSQL skips the rest.
//! It is the unnamed statement, which SQL can neither name nor drop. Besides, PREPARE takes queries only, so that no query passes
//! for one of the commands: its tag tells.

use super::frontend::Outgoing;

/// A command, the name under which it is prepared, and the tag that tells of its end.
struct Command {
    name: &'static str,
    text: &'static str,
    tag: &'static str,
}

const fn command(name: &'static str, text: &'static str, tag: &'static str) -> Command {
    Command { name, text, tag }
}

/// The settings after RESET ALL are ours: whatever the database or the login role says, a transaction without BEGIN is what a
/// plain BEGIN of ours would be. Notices would travel here for nothing, a million of them for a loop that raises one. Not in the
/// startup packet: poolers refuse one with settings they do not know.
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

/// What a transaction that is READ ONLY from its first statement on cannot need: it makes no temporary object and advances no
/// sequence.
const AFTER_WRITES: [Command; 2] = [
    command("reset_tables", "discard temp", "DISCARD TEMP"),
    command("reset_sequences", "discard sequences", "DISCARD SEQUENCES"),
];

/// Gives advisory locks back.
const LOCKS: Command =
    command("reset_locks", "select where pg_catalog.pg_advisory_unlock_all() is null", "SELECT 0");

/// The same, and a division by zero where there is a statement that SQL has prepared. It runs before settings and role are reset:
/// so it has no operator, which a `search_path` could replace. A microsecond for each prepared statement there is.
const LOCKS_AND_LOOK: Command = command(
    "",
    "select where pg_catalog.pg_advisory_unlock_all() is null or (\
     select pg_catalog.int4div(1, pg_catalog.int4(not prepared.from_sql)) \
     from pg_catalog.pg_prepared_statement() as prepared where prepared.from_sql) is not null",
    "SELECT 0",
);

/// How much there may be to reset.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// What a read leaves where no code in it may PREPARE.
    Read,
    /// What a write leaves where no code in it may PREPARE.
    Write,
    /// What any statement can leave.
    Whole,
}

impl Extent {
    fn commands(self) -> impl Iterator<Item = &'static Command> {
        let (first, rest): (_, &[Command]) = match self {
            Self::Read => (None, &[LOCKS]),
            Self::Write => (Some(&LOCKS), &AFTER_WRITES),
            Self::Whole => (Some(&LOCKS_AND_LOOK), &AFTER_WRITES),
        };
        first.into_iter().chain(&COMMANDS).chain(rest)
    }

    #[cfg(test)]
    pub(super) fn tags(self) -> impl Iterator<Item = &'static str> {
        self.commands().map(|command| command.tag)
    }
}

/// The reset that is under way, and what is prepared for the next.
pub(super) struct Commands {
    /// False where a pooler gives each transaction another backend.
    has_names: bool,
    /// The unnamed statement is [`LOCKS_AND_LOOK`].
    is_look_prepared: bool,
    extent: Extent,
    /// How many commands of it are answered.
    answered: usize,
}

impl Commands {
    pub(super) const fn new(has_names: bool) -> Self {
        Self { has_names, is_look_prepared: false, extent: Extent::Whole, answered: 0 }
    }

    /// Prepares all that has a name.
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
            if name.is_empty() && !(self.has_names && self.is_look_prepared) {
                outgoing.prepare_command(name, command.text);
            }
            outgoing.run_command(name);
        }
        self.is_look_prepared |= self.has_names && extent == Extent::Whole;
    }

    /// A simple query has taken the place of the unnamed statement.
    pub(super) const fn lose_unnamed(&mut self) {
        self.is_look_prepared = false;
    }

    /// Takes note of the end of a command, by its tag. False when it is not the one that was due, or has found something.
    pub(super) fn answer(&mut self, tag: &[u8]) -> bool {
        let due = self.extent.commands().nth(self.answered);
        self.answered += 1;
        due.is_some_and(|due| due.tag.as_bytes() == tag)
    }

    pub(super) fn is_answered(&self) -> bool {
        self.extent.commands().nth(self.answered).is_none()
    }
}
