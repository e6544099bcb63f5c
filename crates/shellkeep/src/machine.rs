//! What this machine supports: one check per function, each with what was found, what it costs if it is missing, and
//! how to get it.

use crate::config::Settings;
use rustix::fs::{Access, access, statvfs};
use rustix::process::{Resource, geteuid, getrlimit};
use serde::Serialize;
use shellkeep_process::machine::probe;
use shellkeep_process::{AgentUser, Fence, FenceSpec, Gap, NoFence, NoRoom, NoUser, RoomNetwork, UserTrial};
use shellkeep_runtime::users_of_machine;
use shellkeep_session::{Network, QuotaName};
use shellkeep_terminal::words;
use std::fs::read_to_string;
use std::path::Path;

/// Descriptors below which a daemon cannot keep its 200 shells live.
const ENOUGH_FILES: u64 = 4096;
/// Maximum pid below which pids are reused so soon that tools confuse processes.
const ENOUGH_PIDS: u64 = 32768;
/// Free bytes below which the first large output may fill the disk.
const ENOUGH_DISK: u64 = 1 << 30;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It is available.
    Ok,
    /// It works without, but less well.
    Warning,
    /// Nothing works without.
    Missing,
}

/// One check.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// What was checked.
    pub name: &'static str,
    /// How it came out.
    pub status: Status,
    /// What was found.
    pub found: String,
    /// What its absence costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<&'static str>,
    /// How to get it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<&'static str>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, found: found.into(), cost: None, fix: None }
    }
}

/// Checks the machine. Starts one bash and stops it again.
pub async fn checks(settings: &Settings) -> Vec<Check> {
    let machine = probe(&settings.bash.value, &std::env::temp_dir()).await;
    let bash = settings.bash.value.display();
    vec![
        match machine.bash {
            Ok(version) => Check::ok("bash", format!("{version} at {bash}")),
            Err(reason) => Check {
                name: "bash",
                status: Status::Missing,
                found: format!("{bash}: {reason}"),
                cost: Some("no session can run"),
                fix: Some("install bash 4.4 or newer, or name one with --bash PATH"),
            },
        },
        cgroups(machine.groups, machine.unified),
        if machine.process_limit {
            Check::ok("process limit", format!("{} per session", settings.quota(QuotaName::SessionProcesses)))
        } else {
            Check {
                name: "process limit",
                status: Status::Warning,
                found: "no usable pids controller".to_owned(),
                cost: Some("fork bombs are detected by polling and killed with a delay"),
                fix: Some(
                    "delegate the pids controller (systemd: Delegate=pids), or run in a container with --pids-limit",
                ),
            }
        },
        memory_limit(machine.memory_limit, settings),
        Check::ok("kernel", kernel()),
        user(settings),
        fence(settings),
        room(settings),
        open_files(),
        process_numbers(),
        disk(&settings.data.value),
    ]
}

fn memory_limit(is_there: bool, settings: &Settings) -> Check {
    if is_there {
        let quota = settings.quota(QuotaName::MemoryBytesPerAgent);
        return Check::ok("memory limit", format!("{} per agent, at most 3/4 of the machine", words::bytes(quota)));
    }
    Check {
        name: "memory limit",
        status: Status::Warning,
        found: "no usable memory controller".to_owned(),
        cost: Some(
            "an agent that uses too much memory is detected by polling, and its largest process is killed with a delay",
        ),
        fix: Some("delegate the memory controller (systemd: Delegate=memory), or run in a container with --memory"),
    }
}

fn cgroups(groups: bool, unified: Option<String>) -> Check {
    match (groups, unified) {
        (true, unified) => Check::ok("cgroups", unified.unwrap_or_else(|| "version 1 only".to_owned())),
        (false, unified) => Check {
            name: "cgroups",
            status: Status::Warning,
            found: unified.map_or_else(|| "not mounted".to_owned(), |path| format!("{path} is not writable")),
            cost: Some(
                "processes are found by process group and by scanning /proc, which is slower, and they cannot be frozen while they are killed",
            ),
            fix: Some(
                "start the daemon where it owns a group: systemd-run --user --scope -p Delegate=yes shellkeep serve",
            ),
        },
    }
}

/// Tries what a process of an agent's user must not be able to do. Only root can have such processes, and nobody needs them
/// where there are fences.
fn user(settings: &Settings) -> Check {
    let data = &settings.data.value;
    // One that is made later is closed to others until an agent has a user; what it is made in must let them pass now.
    let above = || data.ancestors().find(|place| place.exists()).unwrap_or(Path::new("/")).join(".");
    let data = &if data.exists() { data.clone() } else { above() };
    let (range, taken) = (settings.sandbox_users.value, users_of_machine(settings.sandbox_users.value));
    let is_free = |user: &u32| !taken.as_ref().is_ok_and(|taken| taken.contains(user));
    let free = (range.first()..=range.last()).find(is_free).and_then(AgentUser::new);
    let (scratch, secrets) = (&std::env::temp_dir(), &settings.secret_files());
    let proof = free.map(|user| UserTrial { user, data, scratch, secrets }.prove());
    match (proof, taken) {
        (Some(Err(reason @ NoUser::NotRoot)), _) => {
            Check::ok("user", format!("agents cannot run as users of their own: {reason}"))
        }
        (_, Err(reason)) => user_missing(&reason),
        (Some(Ok(proof)), _) => {
            Check::ok("user", format!("holds against {} attempts to break out", proof.attempts.len()))
        }
        (Some(Err(reason)), _) => user_missing(&reason.to_string()),
        (None, _) => user_missing("all of sandbox_users are users of the machine"),
    }
}

fn user_missing(reason: &str) -> Check {
    Check {
        name: "user",
        status: Status::Warning,
        found: format!("agents cannot run as users of their own: {reason}"),
        cost: Some("`--sandbox-agents user` is rejected"),
        fix: Some(
            "use a data directory that all users can reach, users that this machine has and nobody else, files with secrets that only \
         root can read, and fs.protected_hardlinks=1; or `--sandbox fence`",
        ),
    }
}

fn fence_of(settings: &Settings) -> Result<Fence, NoFence> {
    Fence::new(&FenceSpec {
        data: settings.data.value.clone(),
        hidden: settings.secret_files(),
        read: settings.sandbox_read.value.clone(),
        write: settings.sandbox_write.value.clone(),
        memory: None,
    })
}

/// Tries to break out of a fence, instead of asking the kernel what it supports.
fn fence(settings: &Settings) -> Check {
    match fence_of(settings).and_then(|fence| fence.prove(&std::env::temp_dir())) {
        Ok(proof) if proof.gaps().is_empty() => {
            Check::ok("sandbox", format!("fence holds against {} attempts to break out", proof.attempts.len()))
        }
        Ok(proof) => {
            let gaps: Vec<&str> = proof.gaps().into_iter().map(Gap::as_str).collect();
            Check {
                name: "sandbox",
                status: Status::Warning,
                found: format!("fence holds, but does not stop {}", gaps.join(", ")),
                cost: Some(
                    "a confined command can signal other processes of the same user, or connect to their abstract sockets",
                ),
                fix: Some("use Linux 6.12 or newer"),
            }
        }
        Err(reason) => Check {
            name: "sandbox",
            status: Status::Warning,
            found: format!("no fence: {reason}"),
            cost: Some(
                "the host's sessions run with all permissions of the daemon's user; sessions of agents with tokens, and `--sandbox fence`, are rejected",
            ),
            fix: Some(instead_of_fence(settings)),
        },
    }
}

/// What to do without a fence where agents can have users.
const USERS_FOR_FENCE: &str = "use Linux 6.2 or newer with `landlock` in the lsm= list of its command line, and a \
    container that allows it; or run each agent as a user of its own, with `--sandbox-agents user`";
/// What to do without a fence where they cannot.
const NONE_FOR_FENCE: &str = "use Linux 6.2 or newer with `landlock` in the lsm= list of its command line, and a \
    container that allows it; or run agents with tokens unconfined, with `--sandbox-agents none`";

fn instead_of_fence(settings: &Settings) -> &'static str {
    let has_users = geteuid().is_root() && user(settings).status == Status::Ok;
    match has_users && !shellkeep_shared::is_shared(&settings.store.value) {
        true => USERS_FOR_FENCE,
        false => NONE_FOR_FENCE,
    }
}

/// Tries to break out of a room.
fn room(settings: &Settings) -> Check {
    let network = match settings.sandbox_network.value {
        Network::None => RoomNetwork::Own,
        Network::Full => RoomNetwork::Host,
    };
    let proof =
        fence_of(settings).map_err(NoRoom::from).and_then(|fence| fence.prove_room(network, &std::env::temp_dir()));
    match proof {
        Ok(proof) => Check::ok("room", format!("holds against {} attempts to break out", proof.attempts.len())),
        Err(reason) => Check {
            name: "room",
            status: Status::Warning,
            found: format!("no room: {reason}"),
            cost: Some(
                "a session cannot have its own processes, root directory and network; `--sandbox room` is rejected",
            ),
            fix: Some("allow user namespaces, and Linux 6.2 or newer with Landlock; or use `--sandbox fence`"),
        },
    }
}

fn open_files() -> Check {
    let limit = getrlimit(Resource::Nofile).maximum;
    let found = limit.map_or_else(|| "no limit".to_owned(), |limit| format!("up to {limit}"));
    if limit.is_none_or(|limit| limit >= ENOUGH_FILES) {
        return Check::ok("open files", found);
    }
    Check {
        name: "open files",
        status: Status::Warning,
        found,
        cost: Some("fewer sessions can have a shell at a time"),
        fix: Some("raise the hard limit: ulimit -Hn 65536, or LimitNOFILE=65536 in a unit"),
    }
}

fn process_numbers() -> Check {
    let most = number("/proc/sys/kernel/pid_max").unwrap_or(0);
    if most >= ENOUGH_PIDS {
        return Check::ok("process numbers", format!("up to {most}"));
    }
    Check {
        name: "process numbers",
        status: Status::Warning,
        found: format!("up to {most}"),
        cost: Some("only few processes can run at a time, and their numbers are soon used again"),
        fix: Some("sysctl kernel.pid_max=4194304"),
    }
}

fn disk(data: &Path) -> Check {
    let place = data.ancestors().find(|place| place.exists()).unwrap_or(Path::new("/"));
    if let Err(error) = access(place, Access::WRITE_OK) {
        return Check {
            name: "data directory",
            status: Status::Missing,
            found: format!("{} is not writable: {error}", place.display()),
            cost: Some("the daemon cannot start"),
            fix: Some("choose another with --data DIR or SHELLKEEP_DATA"),
        };
    }
    let free = statvfs(place).map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize));
    let found = format!("{}, {} free", data.display(), words::bytes(free));
    if free >= ENOUGH_DISK {
        return Check::ok("data directory", found);
    }
    Check {
        name: "data directory",
        status: Status::Warning,
        found,
        cost: Some("output beyond what fits is dropped and new sessions may be refused"),
        fix: Some("free some space, or choose another disk with --data DIR"),
    }
}

fn kernel() -> String {
    read_to_string("/proc/sys/kernel/osrelease").map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

fn number(path: &str) -> Option<u64> {
    read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_without_a_fence_is_a_sentence() {
        for told in [USERS_FOR_FENCE, NONE_FOR_FENCE] {
            assert!(told.contains("; or run ") && !told.contains("  "), "{told}");
        }
    }
}
