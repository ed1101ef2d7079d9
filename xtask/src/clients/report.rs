//! The table of clients and cells.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Map, Value};

/// What was seen.
pub(super) struct Report {
    /// The program and its version.
    pub(super) program: String,
    pub(super) columns: Vec<Column>,
}

/// A client.
pub(super) struct Column {
    pub(super) name: String,
    versions: String,
    cells: Vec<Cell>,
}

struct Cell {
    name: String,
    holds: bool,
    text: String,
}

/// The rows: a cell's name, and what the document says of it.
const ROWS: [(&str, &str); 17] = [
    ("command line", "all texts, beside `embed text`"),
    ("one", "one string"),
    ("list", "a list of strings, in order"),
    ("sends", "what it sends by itself"),
    ("base64", "the other encoding"),
    ("dimensions", "half of the dimensions"),
    ("at once", "many requests at once"),
    ("other routes", "`/embeddings`, `/api/embed`, `/api/embeddings`, `/embed`"),
    ("older route", "`/api/embeddings`"),
    ("models", "the list of models"),
    ("key", "a server with a key"),
    ("wrong model", "a model that is not served: 404"),
    ("empty text", "an empty text: 400"),
    ("wrong key", "a wrong key: 401"),
    ("busy", "no room at the moment: 429"),
    ("too large", "a body over the limit: 413"),
    ("no token ids", "`--token-ids reject`: 400 for ids, and text as ever"),
];

impl Column {
    pub(super) fn new(name: &str, versions: &Map<String, Value>) -> Self {
        let version = |(name, version): (&String, &Value)| {
            format!("{name} {}", version.as_str().unwrap_or_default())
        };
        let versions: Vec<String> = versions.iter().map(version).collect();
        Self { name: name.to_owned(), versions: versions.join(", "), cells: Vec::new() }
    }

    /// Adds the cell that a line of a script is about.
    pub(super) fn add(&mut self, line: &Value) -> Result<()> {
        let name = line["cell"].as_str().context("a cell without a name")?.to_owned();
        ROWS.iter().find(|(row, _)| *row == name).with_context(|| format!("no row {name}"))?;
        let holds = line["ok"].as_bool().context("a cell without a result")?;
        let text = line["text"].as_str().unwrap_or_default().to_owned();
        self.cells.push(Cell { name, holds, text });
        Ok(())
    }

    fn cell(&self, row: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.name == row)
    }
}

impl Report {
    /// Whether no cell failed.
    pub(super) fn all_hold(&self) -> bool {
        self.cells().all(|(_, cell)| cell.holds)
    }

    fn cells(&self) -> impl Iterator<Item = (&str, &Cell)> {
        self.columns.iter().flat_map(|column| column.cells.iter().map(|cell| (&*column.name, cell)))
    }

    pub(super) fn print(&self) {
        for (client, cell) in self.cells() {
            let holds = if cell.holds { "ok    " } else { "FAILED" };
            println!("{holds} {client:24} {:14} {}", cell.name, cell.text);
        }
        let failed = self.cells().filter(|(_, cell)| !cell.holds).count();
        println!("== {} cells, {failed} failed", self.cells().count());
    }

    /// Writes the document.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let mut text = String::from(INTRODUCTION);
        let _ = writeln!(text, "Seen with {}:\n", self.program);
        for Column { name, versions, .. } in &self.columns {
            let _ = writeln!(text, "- {name}: {versions}");
        }
        text.push('\n');
        let names: Vec<&str> = self.columns.iter().map(|column| &*column.name).collect();
        let _ = writeln!(text, "| | {} |", names.join(" | "));
        let _ = writeln!(text, "| --- |{}", " --- |".repeat(names.len()));
        for (row, says) in ROWS {
            let cells: Vec<String> =
                self.columns.iter().map(|column| shown(column.cell(row))).collect();
            let _ = writeln!(text, "| {says} | {} |", cells.join(" | "));
        }
        text.push_str(NOTES);
        fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }
}

fn shown(cell: Option<&Cell>) -> String {
    match cell {
        None => String::new(),
        Some(cell) if cell.holds => cell.text.clone(),
        Some(_) => "**failed**".to_owned(),
    }
}

const INTRODUCTION: &str = "\
# Clients

`cargo xtask clients` writes this page. It starts `embed serve` as it is built, several times with different settings,
and drives it with the packages that people install, over loopback. \"Equal\" means: each value is, in every bit, the
32-bit float that curl gets as a decimal number, and curl's are those of `embed text`. For a refusal the table has the
exception that the client raises, or the status; that its message names what is wrong is checked too. Clients do not
retry here.

";

const NOTES: &str = "
- The model is asked for as `text-embedding-3-small`, an alias (`--alias text-embedding-3-small=NAME`), because some clients
  take the names of OpenAI's models only.
- LangChain's `OpenAIEmbeddings` sends the token ids of `cl100k_base` by itself. The server turns them back into text, and
  the rows are those of the text. With `--token-ids reject` it says which switch makes the client send text:
  `check_embedding_ctx_length=False`, the second column of LangChain. The client cuts texts of more than 8,191 tokens into
  several and takes the mean of their rows, which no server can know of.
- openai of Node asks for base64 by itself and would store zeros if it were given numbers; openai of Python asks for base64
  as well.
- llama-index turns line ends into blanks before it sends a text.
";
