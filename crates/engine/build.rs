//! Compiles the XDP programs with clang, once per build.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo:rerun-if-changed={}", bpf.display());
    println!("cargo:rerun-if-env-changed=CLANG");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let programs = [
        ("generator", "generator", "-UWEIR_BLIND"),
        // For kernels that let nobody read their structs.
        ("generator", "generator-blind", "-DWEIR_BLIND"),
        ("find", "find", "-UWEIR_BLIND"),
        ("receiver", "receiver", "-UWEIR_BLIND"),
        ("tap", "tap", "-UWEIR_BLIND"),
    ];
    for (name, made, look) in programs {
        let source = bpf.join(format!("{name}.bpf.c"));
        // The headers of the build machine's architecture: asm/types.h lives there on Debian.
        let arch = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
        // There, stores are seen in their order; elsewhere the programs have to see to it.
        let order = match std::env::consts::ARCH {
            "x86_64" => "-DWEIR_TOTAL_STORE_ORDER",
            _ => "-UWEIR_TOTAL_STORE_ORDER",
        };
        let status = Command::new(&clang)
            .args([order, look, "-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3"])
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
}
