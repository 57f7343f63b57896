//! Builds the library with the primitives of the scheduler.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=shuttle");
    println!("cargo::rustc-check-cfg=cfg(feature, values(any()))");
}
