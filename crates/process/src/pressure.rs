//! How busy the machine is: the kernel's pressure stall information, or, without it, an estimate from the load and the
//! free memory.

use std::fs;
use std::thread::available_parallelism;

/// With this share of memory or more at hand, nothing waits for any; see [`stall_from_free`].
const FREE_ENOUGH: f64 = 0.15;

/// How busy the machine is. Each figure is from 0 to 1; one that cannot be read counts as no pressure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pressure {
    /// Share of time in which a task waited for a CPU, over about ten seconds.
    pub cpu: f64,
    /// Share of time in which a task waited for memory, over about ten seconds.
    pub memory: f64,
    /// Share of memory that is available.
    pub memory_free: f64,
    pub source: PressureSource,
}

/// The source of the pressure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PressureSource {
    /// The kernel measures stalls.
    Stall,
    /// Estimated from the load, which is an average over a minute, and from the free memory.
    Load,
}

impl Pressure {
    /// Reads a few short files of `/proc`; never blocks.
    pub fn read() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let memory_free = parse_free(&read("/proc/meminfo")).unwrap_or(1.0);
        let stalls = (parse_stall(&read("/proc/pressure/cpu")), parse_stall(&read("/proc/pressure/memory")));
        if let (Some(cpu), Some(memory)) = stalls {
            return Self { cpu, memory, memory_free, source: PressureSource::Stall };
        }
        let cores = available_parallelism().map_or(1, usize::from);
        let cpu = parse_load(&read("/proc/loadavg")).map_or(0.0, |load| stall_from_load(load, cores));
        Self { cpu, memory: stall_from_free(memory_free), memory_free, source: PressureSource::Load }
    }
}

/// The share of the last ten seconds in which something stalled: `some avg10=12.34 …` in percent.
fn parse_stall(text: &str) -> Option<f64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let percent = some.split(' ').find_map(|field| field.strip_prefix("avg10="))?;
    share(percent.parse::<f64>().ok()? / 100.0)
}

/// The average over the last minute of tasks that run or want to: the first field.
fn parse_load(text: &str) -> Option<f64> {
    let load = text.split(' ').next()?.parse::<f64>().ok()?;
    (load.is_finite() && load >= 0.0).then_some(load)
}

/// The share of memory that is available; the kernel's own estimate, which counts caches it can drop.
fn parse_free(text: &str) -> Option<f64> {
    let kibibytes = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        rest.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()
    };
    share(kibibytes("MemAvailable")? / kibibytes("MemTotal")?)
}

fn share(value: f64) -> Option<f64> {
    value.is_finite().then(|| value.clamp(0.0, 1.0))
}

/// Of `load` tasks that want a CPU all but one for each core wait. As long as there is a core for each, none does.
fn stall_from_load(load: f64, cores: usize) -> f64 {
    let for_each = load / cores.max(1) as f64;
    if for_each <= 1.0 { 0.0 } else { 1.0 - 1.0 / for_each }
}

/// Nothing reports how long tasks wait for memory; that they do is certain only when there is none left, so this grows
/// from none at [`FREE_ENOUGH`] to all of the time at nothing free.
fn stall_from_free(free: f64) -> f64 {
    ((FREE_ENOUGH - free) / FREE_ENOUGH).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_read_as_the_kernel_writes_them() {
        let text =
            "some avg10=12.34 avg60=0.48 avg300=2.31 total=24041019\nfull avg10=99.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(parse_stall(text), Some(0.1234));
        assert_eq!(parse_stall("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"), Some(0.0));
        assert_eq!(parse_stall("some avg10=250.00\n"), Some(1.0));
        for not_a_stall in ["", "full avg10=1.00\n", "some avg60=1.00\n", "some avg10=x\n", "some avg10=NaN\n"] {
            assert_eq!(parse_stall(not_a_stall), None, "{not_a_stall:?}");
        }
    }

    #[test]
    fn the_load_is_the_first_field() {
        assert_eq!(parse_load("3.25 1.58 0.75 2/345 12345\n"), Some(3.25));
        for not_a_load in ["", "x 1 2", "-1 2 3", "inf 0 0", "NaN"] {
            assert_eq!(parse_load(not_a_load), None, "{not_a_load:?}");
        }
    }

    #[test]
    fn free_memory_is_what_is_available() {
        let text = "MemTotal:       16000000 kB\nMemFree:          100000 kB\nMemAvailable:    4000000 kB\n";
        assert_eq!(parse_free(text), Some(0.25));
        for not_told in
            ["", "MemTotal: 100 kB\n", "MemTotal: 0 kB\nMemAvailable: 0 kB\n", "MemTotal: 9\nMemAvailable: 3\n"]
        {
            assert_eq!(parse_free(not_told), None, "{not_told:?}");
        }
    }

    #[test]
    fn tasks_wait_when_there_are_more_of_them_than_cores() {
        assert_eq!(stall_from_load(0.0, 2), 0.0);
        assert_eq!(stall_from_load(2.0, 2), 0.0);
        assert_eq!(stall_from_load(4.0, 2), 0.5);
        assert_eq!(stall_from_load(20.0, 2), 0.9);
        assert_eq!(stall_from_load(1.0, 0), 0.0);
    }

    #[test]
    fn memory_stalls_as_it_runs_out() {
        assert_eq!(stall_from_free(1.0), 0.0);
        assert_eq!(stall_from_free(FREE_ENOUGH), 0.0);
        assert_eq!(stall_from_free(0.0), 1.0);
        assert!(stall_from_free(0.05) > 0.6);
    }

    #[test]
    fn this_machine_can_be_read() {
        let pressure = Pressure::read();
        for figure in [pressure.cpu, pressure.memory, pressure.memory_free] {
            assert!((0.0..=1.0).contains(&figure), "{pressure:?}");
        }
        assert!(pressure.memory_free > 0.0, "a machine that runs this has some memory: {pressure:?}");
        let kernel_measures = fs::read_to_string("/proc/pressure/cpu").is_ok_and(|text| parse_stall(&text).is_some());
        assert_eq!(pressure.source == PressureSource::Stall, kernel_measures);
    }
}
