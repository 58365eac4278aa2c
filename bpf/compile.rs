//! Compiles BPF programs with clang, once per build; part of the build scripts of the crates that load them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles `bpf/NAME.bpf.c` to `$OUT_DIR/MADE.o`, with an option of clang.
pub fn compile(name: &str, made: &str, option: &str) {
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo:rerun-if-changed={}", bpf.display());
    println!("cargo:rerun-if-env-changed=CLANG");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let source = bpf.join(format!("{name}.bpf.c"));
    // The headers of the build machine's architecture: asm/types.h lives there on Debian.
    let arch = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    // There, stores become visible in order; elsewhere the programs have to ensure it.
    let order = match std::env::consts::ARCH {
        "x86_64" => "-DWEIR_TOTAL_STORE_ORDER",
        _ => "-UWEIR_TOTAL_STORE_ORDER",
    };
    let status = Command::new(&clang)
        .args([order, option, "-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3"])
        .args(["-isystem", &arch, "-c"])
        .arg(&source)
        .arg("-o")
        .arg(out.join(format!("{made}.o")))
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} failed on {} ({status})", source.display()),
        Err(e) => panic!("cannot run {clang} ({e}): install clang and libbpf-dev, or set CLANG"),
    }
}
