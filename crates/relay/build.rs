//! Compiles the BPF programs.

#[path = "../../bpf/compile.rs"]
mod compile;

fn main() {
    compile::compile("connect", "connect", "-O2");
}
