//! Compiles the XDP programs.

#[path = "../../bpf/compile.rs"]
mod compile;

use compile::compile;

fn main() {
    for (name, made, look) in [
        ("generator", "generator", "-UWEIR_BLIND"),
        // For kernels that let nobody read their structs.
        ("generator", "generator-blind", "-DWEIR_BLIND"),
        ("find", "find", "-UWEIR_BLIND"),
        ("receiver", "receiver", "-UWEIR_BLIND"),
        ("tap", "tap", "-UWEIR_BLIND"),
        ("endpoint", "endpoint", "-UWEIR_BLIND"),
    ] {
        compile(name, made, look);
    }
}
