//! Compares the tables of the pages with the saved lines from which they are made.

use std::path::Path;

use annealed::{Error, Result};

use crate::claims;
use crate::grosse_figures::{exact_samples_table, shortfalls_table};
use crate::machines::{Folders, Machine};
use crate::perfect;
use crate::rows::Saved;
use crate::tables::{self, Markdown};

/// Recomputes all cells of the tables of both pages and of the claims, and prints the lines that differ.
///
/// # Errors
/// A page that cannot be read, or a table that differs.
pub fn run(folders: &Folders, saved: &Saved<'_>, pages: &Path) -> Result<()> {
    let lines = saved.rows;
    let untitled = |lines| Markdown {
        heading: String::new(),
        lines,
    };
    let mut grosse = tables::grosse(folders, lines)?;
    grosse.push(untitled(tables::searched(lines)?));
    let figure = exact_samples_table(Machine::Pcd20, folders, saved.points)?;
    grosse.push(untitled(figure));
    let shortfalls = shortfalls_table(Machine::Pcd20, folders, saved.points)?;
    grosse.push(untitled(shortfalls));
    let mut kiwaki = tables::kiwaki(folders, lines)?;
    kiwaki.extend(perfect::tables(saved)?.map(untitled));
    let (mut cells, mut differ) = (0, 0);
    for (page, tables) in [
        ("reproduction.md", kiwaki),
        ("reproduction-grosse.md", grosse),
        ("../claims.md", claims::tables(folders, saved)?),
    ] {
        let file = pages.join(page);
        let text = std::fs::read_to_string(&file).map_err(|error| Error::io(&file, error))?;
        for table in tables.iter().filter(|table| !table.lines.is_empty()) {
            let found = table_of(&text, table);
            for i in 0..found.len().max(table.lines.len()) {
                let [page, lines] =
                    [&found, &table.lines].map(|lines| lines.get(i).map_or("", |x| x));
                cells += lines.matches('|').count().saturating_sub(1);
                if page != lines {
                    differ += 1;
                    println!("{}\npage:  {page}\nlines: {lines}", table.heading);
                }
            }
        }
    }
    println!("{cells} cells, {differ} lines differ");
    match differ {
        0 => Ok(()),
        _ => Err(Error::file(
            pages,
            format!("{differ} lines of tables differ"),
        )),
    }
}

/// Returns the lines of the page's table below the heading, or without one of the table with the same first line.
fn table_of(page: &str, table: &Markdown) -> Vec<String> {
    let lines = page.lines().map(str::trim);
    let heading = format!("### {}", table.heading);
    let titled = !table.heading.is_empty();
    let lines = lines.skip_while(|&line| titled && line != heading);
    let begins = |line: &str| line.starts_with('|') && (titled || line == table.lines[0]);
    let lines = lines.skip_while(|&line| !begins(line));
    let lines = lines.take_while(|line| line.starts_with('|'));
    lines.map(Into::into).collect()
}
