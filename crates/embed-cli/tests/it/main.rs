//! The program from outside: exit code, standard output and standard error together.

mod bench;
mod command;
mod files;
mod model;
mod serve;
mod text;
