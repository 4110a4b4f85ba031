//! `storage`: downloads compared with nginx, uploads compared with copy and fsync, small objects, images, and the effect of uploads on
//! other requests.

mod beside;
mod images;
mod nginx;
mod requests;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Map, Value, json};

use crate::basalt::{self, Basalt};
use crate::http::{self, Load, Until};
use crate::options::UnderTest;
use crate::process;
use crate::report::{self, median, megabytes, rounded};
use nginx::Nginx;
use requests::BUCKET;

const LARGE: usize = 10_000_000;
const SMALL: usize = 1024;
const CONNECTIONS: [usize; 2] = [1, 16];
/// Small uploads of one measurement, more than any server takes in its time.
const SMALL_UPLOADS: usize = 3_000;
/// Copies of one measurement.
const COPIES: usize = 20;

/// Downloads compared with nginx, uploads compared with copy and fsync on the same disk, small objects, images; REST during a long
/// upload, and the memory of many uploads.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Leaves out the 20 clients that upload 4 GB together.
    #[arg(long)]
    without_memory: bool,
    #[command(flatten)]
    under_test: UnderTest,
    /// The output file.
    #[arg(long, default_value = "target/bench/storage.json")]
    json: PathBuf,
}

/// Figures by name, one of each round.
#[derive(Default)]
struct Figures(Vec<(String, Vec<f64>)>);

impl Figures {
    fn add(&mut self, name: &str, figure: f64) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, figures)) => figures.push(figure),
            None => self.0.push((name.to_owned(), vec![figure])),
        }
    }

    fn median(&self, name: &str) -> f64 {
        let figures = self.0.iter().find(|(known, _)| known == name).map(|(_, figures)| figures.clone());
        median(figures.unwrap_or_default())
    }

    /// The median of the ratios of each round, because a shared machine's speed changes within half a minute.
    fn ratio(&self, name: &str, reference: &str) -> f64 {
        let of = |name: &str| {
            let found = self.0.iter().find(|(known, _)| known == name);
            found.map(|(_, figures)| figures.clone()).unwrap_or_default()
        };
        median(of(name).into_iter().zip(of(reference)).map(|(figure, reference)| figure / reference))
    }
}

/// Measures and reports.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let program = &options.under_test.server;
    let work = basalt::work_folder(program)?;
    let circumstances = report::circumstances();
    let mut basalt = Basalt::start(program, work).await?;
    let folder = basalt.folder().to_owned();
    let (large, small) = (vec![b'a'; LARGE], vec![b'a'; SMALL]);
    for request in
        [requests::make_bucket(), requests::upload("large", &large), requests::upload("small", &small)]
    {
        let (status, response) = http::once(basalt.port, &request).await?;
        ensure!(status == 200, "status {status}: {response}");
    }
    let nginx = Nginx::start(&folder).await?;
    match &nginx {
        None => report::print("nginx is not installed: downloads are not compared (Debian: nginx-light)"),
        Some(nginx) => {
            std::fs::write(nginx.root.join("large"), &large)?;
            std::fs::write(nginx.root.join("small"), &small)?;
        }
    }
    let mut figures = Figures::default();
    for round in 1..=options.under_test.rounds {
        self::round(options, &basalt, nginx.as_ref(), &folder, &mut figures).await?;
        basalt.running.check()?;
        report::print(&format!("round {round} of {} done", options.under_test.rounds));
    }
    let table = table(&figures);
    let time = Duration::from_secs(options.seconds);
    let rest = beside::rest(&basalt, time).await?;
    let memory = if options.without_memory { Value::Null } else { beside::memory(&basalt).await? };
    // Last, because cached images would count as memory of uploads.
    let images = images::run(&basalt).await.context("images")?;
    let resident = megabytes(process::resident_bytes(basalt.running.pid()));
    report::print(&format!("server: {resident:.0} MB resident at the end"));
    let figures = json!({
        "circumstances": circumstances,
        "seconds": options.seconds,
        "rounds": options.under_test.rounds,
        "postgresql": basalt.database_version,
        "transfers": table,
        "images": images,
        "rest_beside_upload": rest,
        "memory_of_uploads": memory,
    });
    report::write(&options.json, &figures)
}

async fn round(
    options: &Options,
    basalt: &Basalt,
    nginx: Option<&Nginx>,
    folder: &Path,
    figures: &mut Figures,
) -> Result<()> {
    let time = Until::Time(Duration::from_secs(options.seconds));
    let ours = format!("/storage/v1/object/public/{BUCKET}");
    for (key, size) in [("large", LARGE), ("small", SMALL)] {
        for connections in CONNECTIONS {
            let of = |load: &Load| figure(load, size);
            let load = |port, prefix: &str| {
                http::load(port, Rc::new(vec![requests::download(prefix, key)]), 200, connections, time)
            };
            let name = format!("download {}, {connections} connections", shown(size));
            let load_of_ours = load(basalt.port, &ours).await.context("downloads")?;
            figures.add(&name, of(&load_of_ours));
            figures.add(&format!("{name}, p99 ms"), load_of_ours.quantile_ms(0.99));
            if let Some(nginx) = nginx {
                figures.add(&format!("{name}, nginx"), of(&load(nginx.port, "").await.context("nginx")?));
            }
        }
    }
    for connections in CONNECTIONS {
        let bytes = vec![b'a'; LARGE];
        let uploads: Vec<Vec<u8>> =
            (0..connections).map(|number| requests::upload(&format!("up/{number}"), &bytes)).collect();
        let load =
            http::load(basalt.port, Rc::new(uploads), 200, connections, time).await.context("uploads")?;
        figures.add(&format!("upload 10 MB, {connections} connections"), figure(&load, LARGE));
    }
    figures.add("copy and fsync 10 MB", copies(folder, LARGE)?);
    let bytes = vec![b'a'; SMALL];
    for connections in CONNECTIONS {
        let uploads: Vec<Vec<u8>> = (0..SMALL_UPLOADS)
            .map(|number| requests::upload(&format!("{connections}/{number}"), &bytes))
            .collect();
        let load =
            http::load(basalt.port, Rc::new(uploads), 200, connections, time).await.context("uploads")?;
        let name = format!("upload 1 KiB, {connections} connections");
        figures.add(&name, figure(&load, SMALL));
        figures.add(&format!("{name}, p99 ms"), load.quantile_ms(0.99));
    }
    figures.add("copy and fsync 1 KiB", copies(folder, SMALL)?);
    Ok(())
}

fn shown(size: usize) -> &'static str {
    if size == LARGE { "10 MB" } else { "1 KiB" }
}

/// MB/s of large objects, objects per second of small ones.
fn figure(load: &Load, size: usize) -> f64 {
    if size == LARGE { load.rate() * 10.0 } else { load.rate() }
}

/// A program that copies a file, and another, and waits for the disk each time: MB/s, or files per second.
fn copies(folder: &Path, size: usize) -> Result<f64> {
    let source = folder.join("source");
    std::fs::write(&source, vec![b'a'; size])?;
    let folder = folder.join("copies");
    std::fs::create_dir_all(&folder)?;
    let start = Instant::now();
    let mut buffer = vec![0; 256 * 1024];
    for number in 0..COPIES {
        let mut from = File::open(&source)?;
        let mut to = File::create(folder.join(number.to_string()))?;
        loop {
            let read = from.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            to.write_all(buffer.get(..read).unwrap_or_default())?;
        }
        to.sync_all()?;
        File::open(&folder)?.sync_all()?;
    }
    let rate = f64::from(u32::try_from(COPIES)?) / start.elapsed().as_secs_f64();
    std::fs::remove_dir_all(&folder)?;
    Ok(if size == LARGE { rate * 10.0 } else { rate })
}

/// What is compared with what, and what is aimed for.
const AIMS: [(&str, &str, f64); 4] = [
    ("download 10 MB, 1 connections", "download 10 MB, 1 connections, nginx", 0.8),
    ("download 10 MB, 16 connections", "download 10 MB, 16 connections, nginx", 0.8),
    ("upload 10 MB, 1 connections", "copy and fsync 10 MB", 0.7),
    ("upload 10 MB, 16 connections", "copy and fsync 10 MB", 0.7),
];

fn table(figures: &Figures) -> Value {
    report::print("\n10 MB in MB/s, 1 KiB in objects per second");
    let mut table = Map::new();
    for (name, _) in &figures.0 {
        let figure = figures.median(name);
        report::print(&format!("{name:<44}  {figure:>9.1}"));
        table.insert(name.clone(), rounded(figure));
    }
    report::print("");
    let mut ratios = Map::new();
    for (name, reference, aim) in AIMS {
        let ratio = figures.ratio(name, reference);
        if ratio.is_nan() {
            continue;
        }
        report::print(&format!("{name:<44}  {ratio:>9.2} of {reference} (aim {aim})"));
        ratios.insert(name.to_owned(), json!({"of": reference, "ratio": rounded(ratio), "aim": aim}));
    }
    json!({"figures": table, "ratios": ratios})
}
