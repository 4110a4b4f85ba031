//! Makes valid requests invalid or unusual.

use super::super::dice::Dice;

const JUNK: &[&str] = &[
    ",",
    ".",
    "(",
    ")",
    "!",
    "->",
    "->>",
    "::",
    ":",
    "\"",
    "..",
    "...",
    "not.",
    "*",
    " ",
    "and",
    "or",
    "()",
    "{",
    "}",
    "eq.",
    "\\",
    "'",
    "nope",
    "is.null",
    "[",
    "]",
    "$",
    "-",
    "1",
    "in.",
    "\t",
    "\u{e9}",
    "\u{1F600}",
    "\u{0}",
    "%",
    "null",
    "any",
    "(any)",
    "=",
    "count()",
    ".asc",
    "text",
];

/// One to three edits of keys and values.
pub(super) fn edit(dice: &mut Dice, parameters: &mut Vec<(String, String)>) {
    for _ in 0..=dice.below(3) {
        if parameters.is_empty() {
            parameters.push((String::new(), String::new()));
        }
        let index = dice.below(parameters.len());
        if dice.once_in(12) {
            let parameter = parameters[index].clone();
            match dice.below(3) {
                0 => parameters.push(parameter),
                1 => drop(parameters.remove(index)),
                _ => parameters[index] = (parameter.1, parameter.0),
            }
            continue;
        }
        let in_key = dice.once_in(4);
        let (key, value) = &mut parameters[index];
        let text = if in_key { key } else { value };
        let mut letters: Vec<char> = text.chars().collect();
        let place = dice.below(letters.len() + 1);
        match dice.below(4) {
            0 if place < letters.len() => drop(letters.remove(place)),
            1 if place + 1 < letters.len() => letters.swap(place, place + 1),
            2 if place < letters.len() => letters.truncate(place),
            _ => {
                let junk: Vec<char> = dice.pick(JUNK).chars().collect();
                letters.splice(place..place, junk);
            }
        }
        *text = letters.into_iter().collect();
    }
}

/// Another path: a letter less, more or in another place, or a slash where none belongs.
pub(super) fn misspell(dice: &mut Dice, path: &mut String) {
    let mut letters: Vec<char> = path.chars().collect();
    // The first slash stays.
    let place = 1 + dice.below(letters.len() - 1);
    match dice.below(4) {
        0 => drop(letters.remove(place)),
        1 if place + 1 < letters.len() => letters.swap(place, place + 1),
        2 => letters.push('/'),
        _ => letters.insert(place, dice.pick(&['s', '_', 'e', '/', '-'])),
    }
    *path = letters.into_iter().collect();
}
