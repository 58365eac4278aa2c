//! Compiles the BPF programs.

#[path = "../../bpf/compile.rs"]
mod compile;

fn main() {
    compile::compile("events", "events", "-O2");
    compile::compile("samples", "samples", "-O2");
}
