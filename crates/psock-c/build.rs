//! Names the shared library by the version of its interface.

fn main() {
    // Another number for a change after which programs must be compiled anew.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libweirpsock.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
