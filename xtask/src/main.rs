//! The project's own tasks: `cargo xtask TASK`. One task a file.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer's tool prints its results"
)]

mod bench;
#[cfg(feature = "cuda")]
mod bench_device;
mod bench_server;
mod check_metal;
mod ci;
mod clients;
mod hostile;
mod load;
mod parity;
mod ptx;
mod random;
mod schema;
mod serve;
mod soak;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of the project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Proves the batched forward equal to the sequential reference, to the padded one, and to Python
    Parity(parity::Args),
    /// Plays many random cases against the batcher, with and without its deliberate faults
    Soak(soak::Args),
    /// Measures the embedder beside other libraries, against the targets, and writes docs/bench-cpu.md
    Bench(bench::Args),
    /// Compares a GPU with the definition, measures it beside PyTorch, and writes docs/bench-cuda.md
    #[cfg(feature = "cuda")]
    BenchDevice(bench_device::Args),
    /// Drives a real server with real clients of OpenAI and Ollama, and writes docs/clients.md
    Clients(clients::Args),
    /// Puts the description of the server's routes to the test with schemathesis
    Schema(schema::Args),
    /// Sends a server what no client should send, and bounds its answers, its time and its memory
    Hostile(hostile::Args),
    /// Ends a server under load, overloads it, and lets its model panic
    Load(load::Args),
    /// Measures the server beside others, against the targets, and writes docs/bench-server.md
    BenchServer(bench_server::Args),
    /// Makes the PTX text of the CUDA kernels from their source, or checks that it was made
    Ptx(ptx::Args),
    /// Runs every check of the project: formatting, lints, docs, features, tests
    Ci(ci::Args),
    /// Type-checks the Metal code, on a Mac or elsewhere
    CheckMetal,
    /// Checks what compilers do not: crate edges, licenses, documents, blanks
    Tidy,
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Parity(args) => parity::run(&args),
        Task::Soak(args) => Ok(soak::run(&args)),
        Task::Bench(args) => bench::run(&args),
        #[cfg(feature = "cuda")]
        Task::BenchDevice(args) => bench_device::run(&args),
        Task::Clients(args) => clients::run(&args),
        Task::Schema(args) => schema::run(&args),
        Task::Hostile(args) => hostile::run(&args),
        Task::Load(args) => load::run(&args),
        Task::BenchServer(args) => bench_server::run(&args),
        Task::Ptx(args) => ptx::run(&args),
        Task::Ci(args) => ci::run(&args),
        Task::CheckMetal => check_metal::run(),
        Task::Tidy => tidy::run(),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
