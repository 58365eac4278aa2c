//! Programs in C, compiled with cc as an installation has the library, over loopback.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::{env, fs, process, thread};

const WARNINGS: [&str; 5] = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g"];

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where the library is installed for these tests.
fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let built = env::current_exe().unwrap().parent().unwrap().to_owned();
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("psock-c");
        let _ = fs::remove_dir_all(&prefix);
        run(Command::new(here().join("install")).args([&built, &prefix]));
        prefix
    })
}

fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output.stdout
}

/// What pkg-config says.
fn flags(arguments: &[&str]) -> Vec<String> {
    let pkg_config = Command::new("pkg-config")
        .args(arguments)
        .arg("weirpsock")
        .env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"))
        .output()
        .unwrap();
    assert!(pkg_config.status.success(), "{}", String::from_utf8_lossy(&pkg_config.stderr));
    String::from_utf8(pkg_config.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

fn compile(source: &str, name: &str, libraries: &[String]) -> PathBuf {
    let compiler = env::var_os("CC").unwrap_or_else(|| OsString::from("cc"));
    compile_by(&compiler, source, name, libraries)
}

fn compile_by(compiler: &OsStr, source: &str, name: &str, libraries: &[String]) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", process::id()));
    let mut cc = Command::new(compiler);
    cc.args(WARNINGS).args(flags(&["--cflags"])).arg(here().join(source)).arg("-o").arg(&program);
    run(cc.args(libraries));
    program
}

fn shared() -> Vec<String> {
    let mut libraries = flags(&["--libs"]);
    libraries.push(format!("-Wl,-rpath,{}", prefix().join("lib").display()));
    libraries
}

fn bytes(len: usize) -> Vec<u8> {
    let mut state = 7_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

struct Receiver {
    child: Child,
    said: BufReader<process::ChildStderr>,
    port: String,
}

fn receiver(program: &Path, address: &str) -> Receiver {
    let mut child = Command::new(program)
        .args(["receive", address, "0"])
        .env("COPY_TOKEN", "a token of tests")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let port = line.trim().strip_prefix("port ").unwrap_or_else(|| panic!("{line}")).to_owned();
    Receiver { child, said, port }
}

/// Copies `data` from one process to another, and checks that they arrive.
fn copy(program: &Path, address: &str, data: &[u8]) {
    let mut receiver = receiver(program, address);
    let mut sender = Command::new(program)
        .args(["send", address, &receiver.port])
        .env("COPY_TOKEN", "a token of tests")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = receiver.child.stdout.take().unwrap();
    let reading = thread::spawn(move || {
        let mut came = Vec::new();
        out.read_to_end(&mut came).unwrap();
        came
    });
    sender.stdin.take().unwrap().write_all(data).unwrap();
    let sent = sender.wait_with_output().unwrap();
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    assert!(reading.join().unwrap() == data, "what was received is not what was sent");
    let mut rest = String::new();
    receiver.said.read_to_string(&mut rest).unwrap();
    assert!(receiver.child.wait().unwrap().success(), "{rest}");
}

#[test]
fn the_example_copies_bytes_over_ipv4_and_ipv6() {
    let program = compile("examples/copy.c", "copy", &shared());
    copy(&program, "127.0.0.1", &bytes(3_000_001));
    copy(&program, "::1", &bytes(100_001));
    copy(&program, "127.0.0.1", b"");
    fs::remove_file(program).unwrap();
}

#[test]
fn a_program_can_hold_the_library_itself() {
    let mut libraries = vec![prefix().join("lib/libweirpsock.a").display().to_string()];
    libraries.extend(
        flags(&["--libs", "--static"])
            .into_iter()
            .filter(|flag| !flag.starts_with("-L") && flag != "-lweirpsock"),
    );
    let program = compile("examples/copy.c", "copy-static", &libraries);
    copy(&program, "127.0.0.1", &bytes(300_001));
    fs::remove_file(program).unwrap();
}

#[test]
fn another_token_is_refused_and_the_example_says_so() {
    let program = compile("examples/copy.c", "copy-refused", &shared());
    let mut receiver = receiver(&program, "127.0.0.1");
    let sent = Command::new(&program)
        .args(["send", "127.0.0.1", &receiver.port])
        .env("COPY_TOKEN", "another")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&sent.stderr);
    assert!(!sent.status.success());
    assert!(said.contains("Permission denied") && said.contains("secrets of both ends differ"), "{said}");
    receiver.child.kill().unwrap();
    receiver.child.wait().unwrap();
    fs::remove_file(program).unwrap();
}

#[test]
fn every_call_does_what_the_bsd_call_does() {
    let program = compile("tests/calls.c", "calls", &shared());
    run(&mut Command::new(&program));
    fs::remove_file(program).unwrap();
}

/// A port whose five successors are free as well.
fn six_free_ports() -> u16 {
    (20_000..30_000_u16)
        .step_by(6)
        .skip(process::id() as usize % 1000)
        .find(|first| (0..6).all(|offset| TcpListener::bind(("127.0.0.1", first + offset)).is_ok()))
        .unwrap()
}

#[test]
fn the_published_example_runs_with_its_errors_mended() {
    let program = compile("tests/published.c", "published", &shared());
    let port = six_free_ports().to_string();
    let mut server = Command::new(&program).args(["server", &port]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "listening\n");
    let came = run(Command::new(&program).args(["client", &port]));
    assert_eq!(String::from_utf8(came).unwrap(), "Hello over parallel sockets\n");
    assert!(server.wait().unwrap().success());
    fs::remove_file(program).unwrap();
}

/// Forked processes included; what a process does not free is an error as well.
#[test]
fn every_call_passes_the_address_and_undefined_behaviour_sanitizers_of_gcc_and_clang() {
    let of_clang = format!("libclang_rt.asan-{}.a", std::env::consts::ARCH);
    for (compiler, runtime) in [("gcc", "libasan.so"), ("clang", &*of_clang)] {
        let place = run(Command::new(compiler).arg(format!("-print-file-name={runtime}")));
        if !place.starts_with(b"/") {
            eprintln!("skipped: {compiler} has no {runtime}");
            continue;
        }
        let mut libraries = shared();
        libraries.extend(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"].map(str::to_owned));
        let name = format!("calls-{compiler}");
        let program = compile_by(OsStr::new(compiler), "tests/calls.c", &name, &libraries);
        run(Command::new(&program).env("ASAN_OPTIONS", "detect_leaks=1"));
        fs::remove_file(program).unwrap();
    }
}

#[test]
fn every_symbol_has_a_version_and_nothing_else_is_visible() {
    let library = prefix().join("lib/libweirpsock.so");
    let symbols = run(Command::new("nm").args(["--dynamic", "--defined-only"]).arg(library));
    let symbols = String::from_utf8(symbols).unwrap();
    let mut found: Vec<_> = symbols.lines().filter_map(|line| line.split(" T ").nth(1)).collect();
    found.sort_unstable();
    let header = fs::read_to_string(here().join("include/psock.h")).unwrap();
    let mut expected: Vec<_> = header
        .lines()
        .filter_map(|line| line.strip_prefix("int ").or_else(|| line.strip_prefix("ssize_t ")))
        .filter_map(|line| line.split_once('('))
        .map(|(name, _)| format!("{name}@@PSOCK_0"))
        .collect();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn the_page_shows_the_example_as_it_is() {
    let page = fs::read_to_string(here().join("../../docs/psock-c.md")).unwrap();
    let example = fs::read_to_string(here().join("examples/copy.c")).unwrap();
    assert!(page.contains(&format!("```c\n{example}```\n")));
}
