//! The Metal kernels against the definition, on any machine with a C++ compiler.
//!
//! The file that ships is compiled as C++ behind a header of our own, `gpu/host/metal_stdlib`, and
//! `gpu/host/driver.cpp` runs it with one thread of the host for each thread of a group. That proves its
//! arithmetic and its barriers, not that Metal's compiler accepts it.

use std::env;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::test_cases::{Case, cases};
use super::{Kind, normalize_code};

/// Threads of a group: alone, with columns and partial sums left over, and as on a device.
const THREADS: [u32; 4] = [1, 5, 32, 64];

#[test]
#[expect(clippy::print_stderr, reason = "says what was not tested")]
fn the_kernels_give_the_rows_of_the_definition() {
    let Some(compiler) = compiler() else {
        eprintln!("SKIPPED: no C++ compiler: neither $CXX nor g++, clang++, c++ can be started");
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("pool_rows");
    compile(&compiler, &program);
    let mut driver = Driver::start(&program);
    for (case, threads) in cases().iter().zip(THREADS.into_iter().cycle()) {
        case.check(&driver.run(case, threads));
    }
    driver.stop();
}

/// The first C++ compiler that can be started.
fn compiler() -> Option<String> {
    let chosen = env::var("CXX").ok();
    let usual = ["g++", "clang++", "c++"].map(str::to_owned);
    chosen.into_iter().chain(usual).find(|name| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    })
}

fn compile(compiler: &str, program: &Path) {
    let gpu = Path::new(env!("CARGO_MANIFEST_DIR")).join("gpu");
    let host = gpu.join("host");
    let output = Command::new(compiler)
        .args(["-std=c++20", "-O2", "-ffp-contract=off", "-pthread"])
        // Attributes and pragmas that only Metal knows.
        .args(["-Wall", "-Wextra", "-Wno-attributes", "-Wno-unknown-pragmas", "-I"])
        .arg(&host)
        .arg(format!("-DKERNELS=\"{}\"", gpu.join("pool_rows.metal").display()))
        .arg(host.join("driver.cpp"))
        .arg("-o")
        .arg(program)
        .output()
        .expect("the compiler was started before");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler}: {messages}");
}

/// The compiled kernels, waiting for cases.
struct Driver {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Driver {
    fn start(program: &Path) -> Self {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("what was compiled can be started");
        let input = child.stdin.take().expect("it is piped");
        let output = child.stdout.take().expect("it is piped");
        Self { child, input, output }
    }

    /// Pools the bags of a case with so many threads a group.
    fn run(&mut self, case: &Case, threads: u32) -> Vec<f32> {
        let number = |count: usize| u32::try_from(count).expect("cases are small");
        let factors = case.factors.as_deref().unwrap_or_default();
        let mapping = case.mapping.as_deref().unwrap_or_default();
        let head = [
            match case.kind {
                Kind::F32 => 0,
                Kind::F16 => 1,
                Kind::I8 => 2,
            },
            threads,
            number(case.table().rows),
            number(case.dim),
            number(case.columns),
            normalize_code(case.normalize),
            number(case.bags.ids().len()),
            number(case.bags.len()),
            number(factors.len()),
            number(mapping.len()),
        ];
        for bytes in [
            bytemuck::cast_slice(&head),
            &case.table,
            bytemuck::cast_slice(case.bags.ids()),
            bytemuck::cast_slice(case.bags.offsets()),
            bytemuck::cast_slice(factors),
            bytemuck::cast_slice(mapping),
        ] {
            self.input.write_all(bytes).expect("the program reads its input");
        }
        self.input.flush().expect("the program reads its input");
        let mut rows = vec![f32::NAN; case.bags.len() * case.columns];
        self.output
            .read_exact(bytemuck::cast_slice_mut(&mut rows))
            .expect("an answer before the alarm");
        rows
    }

    fn stop(self) {
        let Self { mut child, input, output } = self;
        drop((input, output));
        assert!(child.wait().expect("it was started").success());
    }
}
