//! The kernels as the driver gets them: PTX text that ships with the program.
//!
//! The text is made from `gpu/pool_rows.cu` by `cargo xtask ptx` and lies beside it. The driver
//! compiles it for its device when a table is uploaded, and remembers the result between processes. A
//! driver that is too old for this text may still have a compiler (NVRTC) of its own age at its side:
//! then the source, which ships too, is compiled.

use std::error::Error;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, CudaModule, DriverError};
use cudarc::nvrtc::{self, CompileError, CompileOptions, Ptx};

use super::shape::{Shape, THREADS};
use crate::device::Kind;

/// The source of the kernels.
pub const SOURCE: &str = include_str!("../../../gpu/pool_rows.cu");

/// What `cargo xtask ptx` made of it.
pub(in crate::device) const PTX: &str = include_str!("../../../gpu/pool_rows.ptx");

/// The oldest devices that the kernels are made for.
const ARCHITECTURE: &str = "compute_75";

/// Why the source could not be compiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodeError {
    /// There is no compiler.
    #[error(
        "no NVRTC library here: install the CUDA toolkit, or name its folder in the library path"
    )]
    NoCompiler,
    /// The compiler found an error.
    #[error("NVRTC refused the source")]
    Refused(#[from] CompileError),
}

/// Compiles the source to PTX; `defines` are macros, as `NAME=VALUE`, to try variants.
///
/// # Errors
///
/// [`CodeError`]: there is no compiler, or it refused.
pub fn compile(defines: &[String]) -> Result<String, CodeError> {
    if !has_compiler() {
        return Err(CodeError::NoCompiler);
    }
    let options = CompileOptions {
        fmad: Some(false),
        arch: Some(ARCHITECTURE),
        name: Some("pool_rows.cu".to_owned()),
        options: defines.iter().map(|define| format!("--define-macro={define}")).collect(),
        ..CompileOptions::default()
    };
    Ok(nvrtc::compile_ptx_with_opts(SOURCE, options)?.to_src())
}

#[cfg(not(feature = "candle-cuda"))]
#[expect(unsafe_code, reason = "the library that is looked for runs code when it is loaded")]
fn has_compiler() -> bool {
    // SAFETY: loading runs nothing but the initialization of the vendor's library.
    unsafe { nvrtc::sys::is_culib_present() }
}

/// Candle's backend links it.
#[cfg(feature = "candle-cuda")]
fn has_compiler() -> bool {
    true
}

/// The kernels on a device.
#[derive(Debug)]
pub(super) struct Code {
    module: Arc<CudaModule>,
    threads: u32,
}

impl Code {
    /// Loads what ships with the program, or compiles the source where the driver refuses it.
    pub(super) fn load(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        let load = |ptx: &str| context.load_module(Ptx::from_src(ptx));
        let module = load(PTX).or_else(|refused| match compile(&[]) {
            Ok(ptx) => load(&ptx),
            // The driver's word says more than that of a fallback.
            Err(_) => Err(refused),
        })?;
        Ok(Self { module, threads: THREADS })
    }

    /// Compiles a variant of the source.
    pub(super) fn variant(
        context: &Arc<CudaContext>,
        defines: &[String],
    ) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let number = |name: &str, default: u32| {
            let given = defines.iter().find_map(|define| define.strip_prefix(name));
            given.map_or(Ok(default), |value| value.strip_prefix('=').unwrap_or(value).parse())
        };
        let (threads, ahead) = (number("THREADS", THREADS)?, number("VECTORS_AHEAD", 4)?);
        if threads == 0 || !threads.is_multiple_of(32) || threads > 1024 {
            return Err(format!("THREADS={threads}: expected whole warps, up to 1024").into());
        }
        if ahead < 2 || !ahead.is_power_of_two() {
            return Err(format!("VECTORS_AHEAD={ahead}: expected a power of two from 2 on").into());
        }
        let module = context.load_module(Ptx::from_src(compile(defines)?))?;
        Ok(Self { module, threads })
    }

    /// Threads of a block.
    pub(super) fn threads(&self) -> u32 {
        self.threads
    }

    /// The kernels for one kind of table.
    pub(super) fn kernels(&self, kind: Kind) -> Result<Kernels, DriverError> {
        let load = |shape: Shape| Ok((shape, self.module.load_function(&shape.kernel(kind))?));
        Shape::ALL.into_iter().map(load).collect::<Result<_, _>>().map(Kernels)
    }
}

/// The kernels for one kind of table.
#[derive(Debug)]
pub(super) struct Kernels(Vec<(Shape, CudaFunction)>);

impl Kernels {
    /// The kernel of a shape.
    pub(super) fn get(&self, shape: Shape) -> &CudaFunction {
        let kernel = self.0.iter().find(|(found, _)| *found == shape);
        &kernel.expect("every shape was loaded").1
    }
}
