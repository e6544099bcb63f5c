//! How fast text is masked, in megabytes per second on one core: source code, JSON logs, random bytes, and texts that are
//! made to keep the rules busy. `cargo run --release -p shellkeep-redact --example speed [FILE…]`; with files, only those.
#![allow(clippy::unwrap_used, reason = "an example says what went wrong by panicking")]

#[path = "../tests/redact/busy.rs"]
mod busy;

use busy::BUSY;
use shellkeep_redact::{Config, Redactor};
use std::time::{Duration, Instant};

/// Size of a text: small enough that a round is over before another process gets the core.
const SIZE: usize = 128 << 10;
/// For how long a text is masked again and again; the best round counts, because others may use the machine.
const TIME: Duration = Duration::from_millis(800);
/// How many of the slow texts are shown.
const SLOWEST: usize = 25;
/// The same for each of many that are slow.
const SHORT_SIZE: usize = 16 << 10;
const SHORT_TIME: Duration = Duration::from_millis(150);

fn main() {
    let plain = Redactor::new(&Config::default()).unwrap();
    let values: Vec<String> = (0..100).map(|n| format!("registered-value-{n}-{}", n * 7919)).collect();
    let with_values = plain.with_secrets(&values).unwrap();
    let files: Vec<(String, Vec<u8>)> =
        std::env::args().skip(1).map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect();
    let ordinary = vec![
        ("source code".to_owned(), filled(include_bytes!("../src/scanner.rs"), SIZE)),
        ("JSON logs".to_owned(), logs()),
        ("random bytes".to_owned(), random()),
    ];
    println!("{:<28} {:>10} {:>22}", "", "MB/s", "with 100 values, MB/s");
    let only_files = !files.is_empty();
    for (name, text) in if only_files { files } else { ordinary } {
        println!("{name:<28} {:>10.0} {:>22.0}", speed(&plain, &text, TIME), speed(&with_values, &text, TIME));
    }
    if only_files {
        return;
    }
    println!("\nmade to be slow");
    let measured = |part: &&'static str| (speed(&plain, &filled(part.as_bytes(), SHORT_SIZE), SHORT_TIME), *part);
    let mut slow: Vec<(f64, &str)> = BUSY.iter().map(measured).collect();
    slow.sort_by(|a, b| a.0.total_cmp(&b.0));
    println!("{} texts, the slowest of them", slow.len());
    for (speed, part) in slow.into_iter().take(SLOWEST) {
        println!("{:<28} {speed:>10.0}", format!("{part:?}"));
    }
}

/// A part, over and over.
fn filled(part: &[u8], size: usize) -> Vec<u8> {
    part.iter().copied().cycle().take(size).collect()
}

fn logs() -> Vec<u8> {
    let mut text = Vec::new();
    for n in 0_u64.. {
        if text.len() >= SIZE {
            break;
        }
        let id = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let line = format!(
            "{{\"ts\":\"2024-01-{:02}T{:02}:{:02}:{:02}.{:03}Z\",\"level\":\"info\",\"target\":\"http::server\",\"msg\":\"GET /v1/items/{n} \
             took {} ms\",\"trace_id\":\"{id:016x}\",\"peer\":\"10.0.{}.{}:{}\",\"bytes\":{}}}\n",
            n % 28 + 1,
            n % 24,
            n % 60,
            n % 59,
            n % 1000,
            id % 900,
            n % 256,
            id % 256,
            1024 + id % 60_000,
            id % 1_000_000,
        );
        text.extend(line.into_bytes());
    }
    text
}

fn random() -> Vec<u8> {
    let mut state = 42_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..SIZE / 8).flat_map(|_| next()).collect()
}

/// Megabytes per second.
fn speed(redactor: &Redactor, text: &[u8], time: Duration) -> f64 {
    let begin = Instant::now();
    let mut best = Duration::MAX;
    let mut out = Vec::with_capacity(text.len() + text.len() / 2);
    while begin.elapsed() < time || best == Duration::MAX {
        let round = Instant::now();
        out.clear();
        let mut stream = redactor.stream();
        stream.push(text, &mut out);
        stream.finish(&mut out);
        best = best.min(round.elapsed());
    }
    text.len() as f64 / best.as_secs_f64() / 1e6
}
