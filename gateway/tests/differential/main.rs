//! The oracle: the real PostgREST 12.0.2 and `basalt serve --only rest` on one database, asked the same things.
//!
//! Answers for the whole wire of `/rest/v1` as far as PostgREST can tell: status, every header and the body of each
//! answer are compared. What the contract says has changed between 12.0.2 and the version we mirror, or is ours on
//! purpose, is written down one by one in [`explained`]; everything else fails the test. The list [`known`] holds what
//! is still wrong, so that neither a new difference nor a mended one goes unseen.
//!
//! The surprise: an explanation is no permission to differ. It turns PostgREST 12's answer into the one the contract
//! asks for, and that has to be ours to the letter.
//!
//! The requests lie in `requests/*.http` (see [`case`] for the notation) and come out of [`generator`]. A report of
//! every difference is written to `target/tmp/differential.md`.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking and tells by printing"
)]

mod answer;
mod case;
mod connection;
mod explained;
mod generator;
mod known;
mod report;
mod servers;

use case::Case;
use servers::{Pair, Settings};

/// Enough for each rule of the grammar to meet each other one several times, and still under half a minute.
const GENERATED: usize = 2500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn basalt_answers_as_postgrest_does() {
    let mut cases = case::read_all(&[
        ("select", include_str!("requests/select.http")),
        ("filter", include_str!("requests/filter.http")),
        ("order", include_str!("requests/order.http")),
        ("embed", include_str!("requests/embed.http")),
        ("write", include_str!("requests/write.http")),
        ("rpc", include_str!("requests/rpc.http")),
        ("protocol", include_str!("requests/protocol.http")),
    ]);
    cases.extend(generator::cases(GENERATED));
    let strict = case::read_all(&[("strict", include_str!("requests/strict.http"))]);

    let mut exchanges = ask(Settings::open(), cases).await;
    exchanges.extend(ask(Settings::strict(), strict).await);
    report::judge(&exchanges);
}

/// Asks both servers everything: reads side by side, then the writes one after another.
async fn ask(settings: Settings, cases: Vec<Case>) -> Vec<answer::Exchange> {
    let pair = Pair::start(settings).await;
    let (writes, reads): (Vec<_>, Vec<_>) = cases.into_iter().partition(Case::is_write);
    let mut exchanges = pair.ask_reads(reads).await;
    exchanges.extend(pair.ask_writes(writes).await);
    pair.stop().await;
    exchanges
}
