//! Which numbers of users and groups the machine has given to somebody, as its files say. A directory service is not asked.

use shellkeep_session::UserRange;
use std::collections::HashSet;
use std::io;
use std::path::Path;

/// Where these files are.
const ETC: &str = "/etc";
/// Which fields of a file's lines are numbers of users or groups.
const NUMBERED: [(&str, &[usize]); 2] = [("passwd", &[2, 3]), ("group", &[2])];
/// Files whose lines give a range of numbers to somebody, who has it in containers.
const SUBORDINATE: [&str; 2] = ["subuid", "subgid"];

/// The numbers in a range that are taken on this machine; why the range cannot be used for agents, if part of it was given
/// to somebody as a whole.
pub fn users_of_machine(range: UserRange) -> Result<HashSet<u32>, String> {
    taken_in(range, Path::new(ETC))
}

fn taken_in(range: UserRange, etc: &Path) -> Result<HashSet<u32>, String> {
    for name in SUBORDINATE {
        let text = read(etc, name)?;
        if let Some(who) = text.lines().find_map(|line| holder_in(line, range)) {
            return Err(format!(
                "{} gives users of {range} to '{who}'; name others in the setting `sandbox_users`",
                etc.join(name).display()
            ));
        }
    }
    let mut taken = HashSet::new();
    for (name, fields) in NUMBERED {
        let text = read(etc, name)?;
        let numbers = text.lines().flat_map(|line| fields.iter().filter_map(|field| line.split(':').nth(*field)));
        taken.extend(numbers.filter_map(|number| number.parse().ok()).filter(|number| range.contains(*number)));
    }
    Ok(taken)
}

/// Who has numbers of this range, by a line with a name, the first number and how many there are.
fn holder_in(line: &str, range: UserRange) -> Option<&str> {
    let mut fields = line.split(':');
    let who = fields.next()?;
    let (first, count) = (fields.next()?.trim().parse::<u64>().ok()?, fields.next()?.trim().parse::<u64>().ok()?);
    let is_met =
        count > 0 && first <= u64::from(range.last()) && first.saturating_add(count) > u64::from(range.first());
    is_met.then_some(who)
}

/// A file of the machine; empty if there is none.
fn read(etc: &Path, name: &str) -> Result<String, String> {
    let path = etc.join(name);
    match std::fs::read(&path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_the_machine_are_nobody_elses() {
        let etc = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(etc.path().join(name), text).unwrap();
        let taken = |range: &str| {
            taken_in(range.parse().unwrap(), etc.path()).map(|taken| {
                let mut taken: Vec<u32> = taken.into_iter().collect();
                taken.sort_unstable();
                taken
            })
        };
        assert_eq!(taken("2000-2100"), Ok(vec![]));
        write("passwd", "root:x:0:0::/root:/bin/sh\nann:x:2001:2002::/home/ann:/bin/sh\nodd\n+::::::\n");
        write("group", "wheel:x:10:ann\nshared:x:2050:ann,bob\n");
        write("subuid", "ann:100000:65536\nbob:300000:0\n");
        assert_eq!(taken("2000-2100"), Ok(vec![2001, 2002, 2050]));
        assert_eq!(taken("2003-2049"), Ok(vec![]));
        for range in ["90000-100000", "165535-170000", "120000-120001", "90000-200000"] {
            assert!(taken(range).is_err_and(|why| why.contains("'ann'") && why.contains("`sandbox_users`")), "{range}");
        }
        assert_eq!((taken("90000-99999"), taken("165536-170000")), (Ok(vec![]), Ok(vec![])));
        assert_eq!(taken("299999-300001"), Ok(vec![]));
        write("subgid", "1000:70000:1\n");
        assert!(taken("70000-70001").is_err_and(|why| why.contains("subgid")));
    }
}
