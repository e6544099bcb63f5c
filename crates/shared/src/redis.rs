//! A shared tier in Redis or Valkey. Everything that decides is a script, so that it is one step for all nodes.
//!
//! The keys of a session S share a hash slot, and a person can read all of them with `redis-cli`:
//!
//! - `sk:{S}:head`: hash with `owner` (the claim that may write), `seq` and `at` (the last record and its claim), `claims`
//!   (who wrote from which number on), `home`, `data`, `agent`, `files` (the newest checkpoint that all nodes can read);
//!   `removed` if the session was removed, `free` if its owner released it for good, `forks` (what other nodes wrote and is
//!   kept as sessions of their own, until the owner has recorded it). With an expiry, and `last` in place of `owner`, while
//!   nothing is recorded and nobody claims it.
//! - `sk:{S}:lease`: the claim of the node that works with it, with an expiry.
//! - `sk:{S}:log`: list of records, oldest first; `sk:{S}:base`: the record that stands for those before them;
//!   `sk:{S}:next`: the one that will replace it; `sk:{S}:packed`: the records before the log of a session that slept, with gzip.
//! - `sk:{S}:removed:T`: the session of this name that was created at T was removed; with an expiry.
//! - `sk:agent:{A}:sessions`, `sk:agent:{A}:services`: sorted sets of what agent A has on all nodes; the score is when it
//!   ends, in ms since 1970. That of a session is infinite once it has a record; a service is `SESSION/SERVICE`.
//! - `sk:tokens`: hash of tokens by id, without their secrets; `sk:tokens:version`: a number that changes with them.
//! - `sk:incarnation`: a name that lasts until the database is emptied.
//! - `sk:nodes`: names of nodes; `sk:node:N`: what node N tells of itself, with an expiry; `sk:left:N`: node N left by itself.

mod address;
mod answers;
mod calls;
mod failed;
mod pack;
mod pipe;

use crate::tier::{
    AgentService, Append, Appended, ClaimAnswer, ClaimRequest, CountAnswer, Down, ForkNote, Found, KeptFiles, Loaded,
    NodeEntry, OpenError, Pipe, REMEMBERED, RemovedSession, SharedToken, Tier, UNUSED, UsedByAgent,
};
use ::redis::{Cmd, Connection, FromRedisValue, Pipeline, RedisResult, cmd, pipe};
use address::Address;
use answers::{appended, claimed, head};
use calls::{PATIENCE, append_call, call, exchange, keys, mark, millis, text};
use failed::{down, is_worth_another, not_ours, unreadable};
use pipe::{RedisPipe, run_id_in};
use shellkeep_session::ownership::Claim;
use shellkeep_session::{ServiceId, SessionId};
use std::time::Duration;

/// All tokens, and the number that changes with them.
const TOKEN_KEYS: [&str; 2] = ["sk:tokens", "sk:tokens:version"];
/// The name of what there is.
const INCARNATION: &str = "sk:incarnation";
/// What a token begins with.
const VALID: char = '+';
const REVOKED: char = '-';
/// Tokens in one call: a script of Redis fails at some 8,000 arguments.
const TOKENS_AT_ONCE: usize = 1000;

/// The scripts.
#[derive(Debug, Clone, Copy)]
enum Script {
    Claim,
    Append,
    Rest,
    Release,
    Remove,
    Files,
    Fork,
    Forked,
    Tokens,
    Service,
    Used,
    Pack,
    Replace,
}

const SCRIPTS: [&str; 13] = [
    include_str!("redis/claim.lua"),
    include_str!("redis/append.lua"),
    include_str!("redis/rest.lua"),
    include_str!("redis/release.lua"),
    include_str!("redis/remove.lua"),
    include_str!("redis/files.lua"),
    include_str!("redis/fork.lua"),
    include_str!("redis/forked.lua"),
    include_str!("redis/tokens.lua"),
    include_str!("redis/service.lua"),
    include_str!("redis/used.lua"),
    include_str!("redis/pack.lua"),
    include_str!("redis/replace.lua"),
];

/// A connection to a server that knows the scripts.
struct Live {
    connection: Connection,
    /// Where it is, with its password.
    url: String,
    /// Their hashes, in the order of [`SCRIPTS`].
    hashes: Vec<String>,
}

impl Live {
    fn new((mut connection, url): (Connection, String)) -> RedisResult<Self> {
        let mut load = pipe();
        for text in SCRIPTS {
            load.cmd("SCRIPT").arg("LOAD").arg(text);
        }
        let hashes = exchange(&mut connection, &load)?;
        Ok(Self { connection, url, hashes })
    }

    fn call(&self, script: Script, keys: &[String]) -> Cmd {
        call(&self.hashes[script as usize], keys)
    }
}

/// What there is of a session.
struct Records {
    owner: Option<String>,
    seq: Option<String>,
    base: Option<Vec<u8>>,
    packed: Vec<u8>,
    log: Vec<Vec<u8>>,
}

/// A shared tier in Redis.
pub struct RedisTier {
    address: Address,
    live: Option<Live>,
    connections: u64,
}

impl RedisTier {
    /// The tier that a URL names. Connects when it is first used.
    pub fn new(url: &str) -> Result<Self, OpenError> {
        Ok(Self { address: Address::parse(url)?, live: None, connections: 0 })
    }

    /// Asks the server. A connection that has broken since it was last used is replaced, and the question is put again:
    /// every script can be repeated.
    fn ask<T>(&mut self, mut question: impl FnMut(&mut Live) -> RedisResult<T>) -> Result<T, Down> {
        if let Some(live) = &mut self.live {
            match question(live) {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    self.live = None;
                    if !is_worth_another(&error) {
                        return Err(down(&self.address, &error));
                    }
                }
            }
        }
        let connected = self.address.connect(PATIENCE).and_then(Live::new);
        let mut live = connected.map_err(|error| down(&self.address, &error))?;
        let answer = question(&mut live).map_err(|error| down(&self.address, &error))?;
        self.live = Some(live);
        self.connections += 1;
        Ok(answer)
    }

    fn run<T: FromRedisValue>(
        &mut self,
        script: Script,
        keys: &[String],
        arguments: impl Fn(&mut Cmd),
    ) -> Result<T, Down> {
        self.ask(|live| {
            let mut call = live.call(script, keys);
            arguments(&mut call);
            call.query(&mut live.connection)
        })
    }

    /// What there is of a session at one moment.
    fn records(&mut self, session_id: &SessionId) -> Result<Records, Down> {
        let [head, base, packed, log] = keys(session_id, ["head", "base", "packed", "log"]);
        let mut all = pipe();
        all.cmd("MULTI").cmd("HMGET").arg(&head).arg(&["owner", "seq", "packed"]);
        all.cmd("GET").arg(&base).cmd("GET").arg(&packed).cmd("LRANGE").arg(&log).arg(0).arg(-1).cmd("EXEC");
        type Answer =
            ((Option<String>, Option<String>, Option<String>), Option<Vec<u8>>, Option<Vec<u8>>, Vec<Vec<u8>>);
        let (_, _, _, _, _, answer): ((), (), (), (), (), Answer) = self.query_all(&all)?;
        let ((owner, seq, is_packed), base, packed, log) = answer;
        // A build that does not know it leaves it behind when it removes a session.
        let packed = packed.filter(|_| is_packed.is_some()).unwrap_or_default();
        Ok(Records { owner, seq, base, packed, log })
    }

    /// Removes a session, and remembers that for a while.
    fn remove_for(&mut self, session_id: &SessionId, claim: &Claim, remembered: Duration) -> Result<(), Down> {
        let keys = keys(session_id, ["head", "lease", "log", "base", "next", "packed"]);
        let arguments = |call: &mut Cmd| {
            call.arg(claim.to_string()).arg(millis(remembered));
        };
        self.run::<i64>(Script::Remove, &keys, arguments).map(|_| ())
    }

    fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, Down> {
        self.ask(|live| command.query(&mut live.connection))
    }

    fn query_all<T: FromRedisValue>(&mut self, commands: &Pipeline) -> Result<T, Down> {
        self.ask(|live| exchange(&mut live.connection, commands))
    }
}

fn agent_key(agent: &str, of: &str) -> String {
    format!("sk:agent:{{{agent}}}:{of}")
}

/// A service in a sorted set.
fn member(service: &AgentService) -> String {
    format!("{}/{}", service.session_id, service.service_id)
}

fn service(agent: &str, member: &str) -> Option<AgentService> {
    let (session_id, service_id) = member.split_once('/')?;
    let (session_id, service_id) = (SessionId::parse(session_id).ok()?, ServiceId::parse(service_id).ok()?);
    Some(AgentService { agent: agent.to_owned(), session_id, service_id })
}

fn json<T: serde::Serialize>(value: &T) -> Result<String, Down> {
    serde_json::to_string(value).map_err(|error| Down::new(error.to_string()))
}

impl Tier for RedisTier {
    fn ping(&mut self) -> Result<(), Down> {
        self.query::<String>(&cmd("PING")).map(|_| ())
    }

    fn connections(&self) -> u64 {
        self.connections
    }

    fn incarnation(&mut self, new: &str) -> Result<String, Down> {
        if let Some(name) = self.query::<Option<String>>(cmd("GET").arg(INCARNATION))? {
            return Ok(name);
        }
        // Another node may be faster.
        self.query::<Option<String>>(cmd("SET").arg(INCARNATION).arg(new).arg("NX"))?;
        self.query(cmd("GET").arg(INCARNATION))
    }

    fn pipe(&mut self) -> Result<Option<Box<dyn Pipe>>, Down> {
        let info: Option<String> = self.ask(|live| match cmd("INFO").arg("server").query(&mut live.connection) {
            // A server may keep this from its users; then the thread sends.
            Err(error) if !error.is_io_error() => Ok(None),
            info => info.map(Some),
        })?;
        let (Some(live), Some(run_id)) = (&self.live, info.as_deref().and_then(run_id_in)) else { return Ok(None) };
        let connected = RedisPipe::connect(&live.url, &self.address, run_id, SCRIPTS[Script::Append as usize]);
        let pipe = connected.map_err(|error| down(&self.address, &error))?;
        Ok(pipe.map(|pipe| Box::new(pipe) as Box<dyn Pipe>))
    }

    fn claim(&mut self, request: &ClaimRequest, lease: Duration) -> Result<ClaimAnswer, Down> {
        let ClaimRequest { session_id, ask, data_dir, agent, create } = request;
        let keys = keys(session_id, ["head", "lease", "log", "base", "next", "packed"]);
        let answer: Vec<String> = self.run(Script::Claim, &keys, |call| {
            call.arg(&ask.node).arg(&ask.nonce).arg(text(ask.mine.as_ref())).arg(millis(lease));
            call.arg(data_dir).arg(agent.as_deref().unwrap_or_default()).arg(u8::from(create.is_some()));
            call.arg(create.map_or(u64::MAX, |create| create.most_of_agent)).arg(ask.seen);
            call.arg(ask.claims.to_string());
        })?;
        claimed(&answer).map_err(|what| not_ours(&self.address, &what))
    }

    fn append(&mut self, appends: &[Append], lease: Duration) -> Result<Vec<Appended>, Down> {
        let answers: Vec<Vec<String>> = self.ask(|live| {
            let mut all = pipe();
            for append in appends {
                all.add_command(append_call(&live.hashes[Script::Append as usize], append, lease));
            }
            exchange(&mut live.connection, &all)
        })?;
        answers.iter().map(|answer| appended(answer).map_err(|what| not_ours(&self.address, &what))).collect()
    }

    fn rest(&mut self, session_id: &SessionId, claim: &Claim, seq: u64, line: &[u8]) -> Result<(), Down> {
        let keys = keys(session_id, ["head", "log", "base", "next", "packed"]);
        let arguments = |call: &mut Cmd| {
            call.arg(claim.to_string()).arg(seq).arg(line);
        };
        self.run::<i64>(Script::Rest, &keys, arguments).map(|_| ())
    }

    fn pack(&mut self, session_id: &SessionId, claim: &Claim) -> Result<(), Down> {
        let Records { owner, seq, base, packed, log } = self.records(session_id)?;
        if owner.as_ref() != Some(&claim.to_string()) || log.is_empty() {
            return Ok(());
        }
        let new: Vec<Vec<u8>> = base.into_iter().chain(log).collect();
        let Some(value) = pack::packed(&packed, &new).map_err(|error| unreadable(&self.address, &error))? else {
            return Ok(());
        };
        let keys = keys(session_id, ["head", "log", "base", "packed"]);
        let arguments = |call: &mut Cmd| {
            call.arg(claim.to_string()).arg(&seq).arg(&value);
        };
        self.run::<i64>(Script::Pack, &keys, arguments).map(|_| ())
    }

    fn replace(&mut self, session_id: &SessionId, claim: &Claim, seq: u64, lines: &[Vec<u8>]) -> Result<bool, Down> {
        let value = pack::value_of(lines).map_err(|error| unreadable(&self.address, &error))?;
        let keys = keys(session_id, ["head", "log", "base", "next", "packed"]);
        let arguments = |call: &mut Cmd| {
            call.arg(claim.to_string()).arg(seq).arg(&value);
        };
        self.run::<i64>(Script::Replace, &keys, arguments).map(|replaced| replaced == 1)
    }

    fn note_files(&mut self, session_id: &SessionId, claim: &Claim, files: &KeptFiles) -> Result<bool, Down> {
        let files = json(files)?;
        let arguments = |call: &mut Cmd| {
            call.arg(claim.to_string()).arg(&files);
        };
        self.run::<i64>(Script::Files, &keys(session_id, ["head"]), arguments).map(|noted| noted == 1)
    }

    fn note_fork(&mut self, session_id: &SessionId, fork: &ForkNote) -> Result<(), Down> {
        let note = json(fork)?;
        let arguments = |call: &mut Cmd| {
            call.arg(&note);
        };
        self.run::<i64>(Script::Fork, &keys(session_id, ["head"]), arguments).map(|_| ())
    }

    fn forks_recorded(&mut self, session_id: &SessionId, claim: &Claim, forks: &[ForkNote]) -> Result<(), Down> {
        let notes: Vec<String> = forks.iter().map(json).collect::<Result<_, _>>()?;
        let arguments = |call: &mut Cmd| {
            call.arg(claim.to_string()).arg(&notes);
        };
        self.run::<i64>(Script::Forked, &keys(session_id, ["head"]), arguments).map(|_| ())
    }

    fn release(&mut self, session_id: &SessionId, claim: &Claim, for_good: bool) -> Result<(), Down> {
        let keys = keys(session_id, ["lease", "head"]);
        let arguments = |call: &mut Cmd| {
            call.arg(claim.to_string()).arg(u8::from(for_good)).arg(millis(UNUSED));
        };
        self.run::<i64>(Script::Release, &keys, arguments).map(|_| ())
    }

    fn remove(&mut self, session_id: &SessionId, claim: &Claim) -> Result<(), Down> {
        self.remove_for(session_id, claim, REMEMBERED)
    }

    fn drop_session(&mut self, session_id: &SessionId, claim: &Claim) -> Result<(), Down> {
        self.remove_for(session_id, claim, Duration::ZERO)
    }

    fn mark_removed(&mut self, removed: &[RemovedSession]) -> Result<(), Down> {
        if removed.is_empty() {
            return Ok(());
        }
        let mut all = pipe();
        for removed in removed {
            all.cmd("SET").arg(mark(removed)).arg("1").arg("PX").arg(millis(REMEMBERED));
        }
        self.query_all(&all)
    }

    fn is_marked(&mut self, session: &RemovedSession) -> Result<bool, Down> {
        self.query(cmd("EXISTS").arg(mark(session)))
    }

    fn removed(&mut self, sessions: &[SessionId]) -> Result<Vec<SessionId>, Down> {
        let mut all = pipe();
        for session_id in sessions {
            let [head] = keys(session_id, ["head"]);
            all.cmd("HEXISTS").arg(head).arg("removed");
        }
        let removed: Vec<bool> = if sessions.is_empty() { Vec::new() } else { self.query_all(&all)? };
        Ok(sessions.iter().zip(removed).filter(|(_, removed)| *removed).map(|(id, _)| id.clone()).collect())
    }

    fn find(&mut self, session_id: &SessionId) -> Result<Option<Found>, Down> {
        let [head_key, lease] = keys(session_id, ["head", "lease"]);
        let mut both = pipe();
        let fields = ["owner", "seq", "at", "claims", "data", "agent", "removed", "files", "free", "forks", "last"];
        both.cmd("HMGET").arg(&head_key).arg(&fields).cmd("GET").arg(&lease);
        let (fields, lease): (Vec<Option<String>>, Option<String>) = self.query_all(&both)?;
        let [owner, seq, at, claims, data, agent, removed, files, free, forks, last] =
            fields.try_into().unwrap_or_default();
        let (Some(owner), Some(seq), None) = (owner.or(last), seq, removed) else { return Ok(None) };
        let found = || {
            let head = head(&owner, &seq, at.as_deref().unwrap_or_default(), claims.as_deref().unwrap_or_default())?;
            let lease = lease.map(|lease| lease.parse()).transpose()?;
            // A note of a later version that cannot be read is as good as none.
            let files = files.and_then(|files| serde_json::from_str(&files).ok());
            let (data_dir, is_free) = (data.unwrap_or_default(), free.is_some());
            let forks = ForkNote::all_of(forks.as_deref().unwrap_or_default());
            Ok(Some(Found { head, lease, data_dir, agent, files, is_free, forks }))
        };
        found().map_err(|what| not_ours(&self.address, &what))
    }

    fn load(&mut self, session_id: &SessionId) -> Result<Loaded, Down> {
        let Records { base, packed, log, .. } = self.records(session_id)?;
        let packed = pack::unpacked(&packed).map_err(|error| unreadable(&self.address, &error))?;
        Ok(Loaded { lines: base.into_iter().chain(packed).chain(log).collect() })
    }

    fn count_service(&mut self, asked: &AgentService, limit: u64, lease: Duration) -> Result<CountAnswer, Down> {
        let agent = &asked.agent;
        let answer: Option<Vec<String>> = self.run(Script::Service, &[agent_key(agent, "services")], |call| {
            call.arg(member(asked)).arg(limit).arg(millis(lease));
        })?;
        let all = |counted: Vec<String>| counted.iter().filter_map(|member| service(agent, member)).collect();
        Ok(answer.map_or(Ok(()), |counted| Err(all(counted))))
    }

    fn renew_services(&mut self, services: &[AgentService], lease: Duration) -> Result<(), Down> {
        if services.is_empty() {
            return Ok(());
        }
        self.ask(|live| {
            let mut all = pipe();
            for service in services {
                let mut call = live.call(Script::Service, &[agent_key(&service.agent, "services")]);
                call.arg(member(service)).arg(u64::MAX).arg(millis(lease));
                all.add_command(call);
            }
            exchange(&mut live.connection, &all)
        })
    }

    fn uncount_service(&mut self, service: &AgentService) -> Result<(), Down> {
        let key = agent_key(&service.agent, "services");
        self.query::<i64>(cmd("ZREM").arg(key).arg(member(service))).map(|_| ())
    }

    fn used_by(&mut self, agent: &str) -> Result<UsedByAgent, Down> {
        let keys = ["sessions", "services"].map(|of| agent_key(agent, of));
        let (sessions, services) = self.run(Script::Used, &keys, |_| ())?;
        Ok(UsedByAgent { sessions, services })
    }

    fn put_tokens(&mut self, tokens: &[SharedToken]) -> Result<(), Down> {
        for tokens in tokens.chunks(TOKENS_AT_ONCE) {
            self.run::<i64>(Script::Tokens, &TOKEN_KEYS.map(str::to_owned), |call| {
                for SharedToken { id, is_revoked, record } in tokens {
                    call.arg(id).arg(format!("{}{record}", if *is_revoked { REVOKED } else { VALID }));
                }
            })?;
        }
        Ok(())
    }

    fn tokens(&mut self) -> Result<Vec<SharedToken>, Down> {
        let all: Vec<(String, String)> = self.query(cmd("HGETALL").arg(TOKEN_KEYS[0]))?;
        let token = |(id, text): (String, String)| {
            let (is_revoked, record) = match text.strip_prefix(REVOKED) {
                Some(record) => (true, record),
                None => (false, text.strip_prefix(VALID)?),
            };
            Some(SharedToken { id, is_revoked, record: record.to_owned() })
        };
        Ok(all.into_iter().filter_map(token).collect())
    }

    fn tokens_version(&mut self) -> Result<u64, Down> {
        let version: Option<u64> = self.query(cmd("GET").arg(TOKEN_KEYS[1]))?;
        Ok(version.unwrap_or(0))
    }

    fn beat(&mut self, node: &NodeEntry, lease: Duration) -> Result<(), Down> {
        let told = json(node)?;
        let mut all = pipe();
        all.cmd("SET").arg(format!("sk:node:{}", node.name)).arg(told).arg("PX").arg(millis(lease));
        all.cmd("SADD").arg("sk:nodes").arg(&node.name);
        all.cmd("DEL").arg(format!("sk:left:{}", node.name));
        self.query_all(&all)
    }

    fn leave(&mut self, name: &str) -> Result<(), Down> {
        let mut all = pipe();
        all.cmd("DEL").arg(format!("sk:node:{name}")).cmd("SREM").arg("sk:nodes").arg(name);
        all.cmd("SET").arg(format!("sk:left:{name}")).arg("1").arg("PX").arg(millis(REMEMBERED));
        self.query_all(&all)
    }

    fn has_left(&mut self, name: &str) -> Result<bool, Down> {
        self.query(cmd("EXISTS").arg(format!("sk:left:{name}")))
    }

    fn node(&mut self, name: &str) -> Result<Option<NodeEntry>, Down> {
        let told: Option<String> = self.query(cmd("GET").arg(format!("sk:node:{name}")))?;
        Ok(told.and_then(|told| serde_json::from_str(&told).ok()))
    }

    fn nodes(&mut self) -> Result<Vec<NodeEntry>, Down> {
        let mut names: Vec<String> = self.query(cmd("SMEMBERS").arg("sk:nodes"))?;
        names.sort_unstable();
        let keys: Vec<String> = names.iter().map(|name| format!("sk:node:{name}")).collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let told: Vec<Option<String>> = self.query(cmd("MGET").arg(&keys))?;
        Ok(told.into_iter().flatten().filter_map(|told| serde_json::from_str(&told).ok()).collect())
    }
}
