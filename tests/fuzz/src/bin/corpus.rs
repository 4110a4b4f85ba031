//! `corpus unpack TARGET DIR` writes a target's inputs as files for the engine; `corpus pack TARGET DIR` takes them back;
//! `corpus` lists the targets.
#![expect(clippy::print_stdout, reason = "a tool for the command line")]

use std::fs;
use std::io::{Error, Result};
use std::path::Path;

use basalt_fuzz::{TARGETS, corpus};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => {
            for target in TARGETS {
                println!("{}", target.name);
            }
            Ok(())
        }
        ["unpack", target, dir] => unpack(target, Path::new(dir)),
        ["pack", target, dir] => pack(target, Path::new(dir)),
        _ => Err(Error::other("usage: corpus [unpack|pack TARGET DIR]")),
    }
}

fn unpack(target: &str, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir)?;
    let file = corpus::path(target);
    if basalt_fuzz::target(target).is_none() {
        return Err(Error::other(format!("there is no target `{target}`")));
    }
    if !file.exists() {
        return Ok(());
    }
    let inputs = corpus::parse(&fs::read_to_string(&file)?)
        .ok_or_else(|| Error::other(format!("{}: a line is not escaped", file.display())))?;
    for (index, input) in inputs.iter().enumerate() {
        fs::write(dir.join(index.to_string()), input)?;
    }
    Ok(())
}

fn pack(target: &str, dir: &Path) -> Result<()> {
    let inputs = fs::read_dir(dir)?.map(|entry| fs::read(entry?.path())).collect::<Result<Vec<_>>>()?;
    fs::write(corpus::path(target), corpus::print(inputs))
}
