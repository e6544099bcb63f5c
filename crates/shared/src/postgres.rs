//! A shared tier in PostgreSQL. It calls the decisions themselves, each in a transaction that has locked the session's row, so
//! that it is one step for all nodes. Times are the server's. `postgres/schema.sql` has the tables, which a person can read.

mod connection;
mod removed;
mod rows;

use crate::tier::{
    AgentService, Append, Appended, ClaimAnswer, ClaimRequest, CountAnswer, Down, ForkNote, Found, KeptFiles, Loaded,
    NoClaim, NodeEntry, OpenError, REMEMBERED, RemovedSession, SharedToken, Tier, UsedByAgent,
};
use connection::{Failed, Server};
use rows::{entry, found, head, json, lease, millis, number};
use shellkeep_session::ownership::{self, Ask, Claim, Claimed, Head};
use shellkeep_session::{ServiceId, SessionId};
use std::collections::HashMap;
use std::time::Duration;
use tokio_postgres::{GenericClient, Row, Transaction};

/// The columns of a head, with its lease unless that has ended.
const HEAD: &str = "session_id, owner, seq, at, claims, home, data, agent, files, forks, is_free, \
                    CASE WHEN lease_until > clock_timestamp() THEN lease END AS lease";

/// A session that was not removed, and is known to more than the one who creates it.
const EXISTS: &str = "removed_at IS NULL AND owner IS NOT NULL";

/// A shared tier in PostgreSQL.
pub struct PostgresTier {
    server: Server,
}

impl PostgresTier {
    /// The tier that a URL names. Connects when it is first used.
    pub fn new(url: &str) -> Result<Self, OpenError> {
        Ok(Self { server: Server::new(url)? })
    }

    fn execute(&mut self, sql: &str, values: &[&(dyn tokio_postgres::types::ToSql + Sync)]) -> Result<u64, Down> {
        self.server.ask(async |client| Ok(client.execute(sql, values).await?))
    }

    /// Removes a session, as at a moment.
    fn end(&mut self, session_id: &SessionId, claim: &Claim, removed_at: &str) -> Result<(), Down> {
        self.server.ask(async |client| {
            let within = client.transaction().await?;
            let Some(_) = owned(&within, session_id, claim).await? else { return Ok(()) };
            removed::clear(&within, session_id, removed_at).await?;
            Ok(within.commit().await?)
        })
    }
}

fn text(claim: Option<&Claim>) -> String {
    claim.map(Claim::to_string).unwrap_or_default()
}

/// A session's row, locked until the transaction ends; `None` if it does not exist, or was removed.
async fn locked(within: &Transaction<'_>, session_id: &SessionId) -> Result<Option<Row>, Failed> {
    let sql = format!("SELECT {HEAD} FROM sk_shared_heads WHERE session_id = $1 AND {EXISTS} FOR UPDATE");
    Ok(within.query_opt(sql.as_str(), &[&session_id.as_str()]).await?)
}

/// The same if the claim owns it.
async fn owned(within: &Transaction<'_>, session_id: &SessionId, claim: &Claim) -> Result<Option<Row>, Failed> {
    let row = locked(within, session_id).await?;
    let Some(row) = row else { return Ok(None) };
    Ok((head(&row)?.owner == *claim).then_some(row))
}

/// How many sessions an agent has. One without records is only being created, for as long as its lease lasts.
async fn sessions_of(client: &impl GenericClient, agent: &str, but: &str) -> Result<u64, Failed> {
    let sql = format!(
        "SELECT count(*) FROM sk_shared_heads WHERE agent = $1 AND session_id <> $2 AND {EXISTS} \
         AND (seq > 0 OR lease_until > clock_timestamp())"
    );
    let count: i64 = client.query_one(sql.as_str(), &[&agent, &but]).await?.try_get(0)?;
    Ok(count.unsigned_abs())
}

async fn services_of(client: &impl GenericClient, agent: &str) -> Result<Vec<AgentService>, Failed> {
    let sql = "SELECT session_id, service_id FROM sk_shared_agent_services WHERE agent = $1 AND until > clock_timestamp() \
               ORDER BY session_id, service_id";
    let rows = client.query(sql, &[&agent]).await?;
    let service = |row: &Row| -> Result<AgentService, Failed> {
        let wrong = |error: shellkeep_session::IdError| Failed::Foreign(error.to_string());
        let session_id = SessionId::parse(row.try_get(0)?).map_err(wrong)?;
        let service_id = ServiceId::parse(row.try_get(1)?).map_err(wrong)?;
        Ok(AgentService { agent: agent.to_owned(), session_id, service_id })
    };
    rows.iter().map(service).collect()
}

/// Only one at a time counts what an agent has.
async fn lock_agent(within: &Transaction<'_>, agent: &str) -> Result<(), Failed> {
    within.execute("SELECT pg_advisory_xact_lock(hashtextextended('shellkeep agent ' || $1, 0))", &[&agent]).await?;
    Ok(())
}

async fn claim(within: &Transaction<'_>, request: &ClaimRequest, time: Duration) -> Result<ClaimAnswer, Failed> {
    let ClaimRequest { session_id, ask, data_dir, agent, create } = request;
    let id = session_id.as_str();
    // There is a row to lock, even for the first; and from here on nobody removes it.
    let made = "INSERT INTO sk_shared_heads (session_id) VALUES ($1) \
                ON CONFLICT (session_id) DO UPDATE SET home = sk_shared_heads.home";
    within.execute(made, &[&id]).await?;
    let sql = format!(
        "SELECT {HEAD}, removed_at > clock_timestamp() - $2 * interval '1 ms' AS is_removed \
         FROM sk_shared_heads WHERE session_id = $1 FOR UPDATE"
    );
    let row = within.query_one(sql.as_str(), &[&id, &millis(REMEMBERED)]).await?;
    let is_removed = row.try_get::<_, Option<bool>>("is_removed")?;
    if is_removed == Some(true) && create.is_none() {
        return Ok(Err(NoClaim::Removed));
    }
    let has_owner = is_removed.is_none() && row.try_get::<_, Option<&str>>("owner")?.is_some();
    let known = if has_owner { Some(head(&row)?) } else { None };
    // A new session is told from a copy of a removed one by its epoch.
    let last = row.try_get::<_, Option<&str>>("owner")?.and_then(|owner| owner.parse::<Claim>().ok());
    let seen = last.filter(|_| is_removed.is_some()).map_or(0, |last| last.epoch).max(ask.seen);
    let ask = &Ask { seen, ..ask.clone() };
    let claimed = ownership::claim(known.as_ref(), lease(&row)?.as_ref(), ask);
    let head = match (&claimed, known) {
        (Claimed::Held(_), _) => return Ok(Ok(claimed)),
        (_, Some(head)) if create.is_some() && head.last.seq > 0 && ask.mine.as_ref() != Some(&head.owner) => {
            return Ok(Ok(Claimed::Held(head.owner)));
        }
        (Claimed::New(head) | Claimed::Kept(head) | Claimed::Taken(head), _) => head,
    };
    if let (Some(create), Some(agent)) = (create, agent) {
        lock_agent(within, agent).await?;
        removed::forget_unused(within, agent, id).await?;
        let used = sessions_of(within, agent, id).await?;
        if used >= create.most_of_agent {
            return Ok(Err(NoClaim::Full { used }));
        }
    }
    if let Claimed::New(_) = &claimed {
        within.execute("DELETE FROM sk_shared_log WHERE session_id = $1", &[&id]).await?;
        let anew = "UPDATE sk_shared_heads SET seq = 0, at = '', agent = NULL, files = NULL, forks = '', base = NULL, \
                    next = NULL, covers = NULL, removed_at = NULL WHERE session_id = $1";
        within.execute(anew, &[&id]).await?;
    }
    let taken = "UPDATE sk_shared_heads SET owner = $2, claims = $7, home = $3, data = $4, agent = coalesce($5, agent), is_free = false, \
                 lease = $2, lease_until = clock_timestamp() + $6 * interval '1 ms' WHERE session_id = $1";
    let (owner, claims) = (head.owner.to_string(), head.claims.to_string());
    within.execute(taken, &[&id, &owner, &ask.node, data_dir, agent, &millis(time), &claims]).await?;
    Ok(Ok(claimed))
}

/// Appends to sessions whose rows are locked. The head is written last.
async fn append(within: &Transaction<'_>, appends: &[Append], time: Duration) -> Result<Vec<Appended>, Failed> {
    let ids: Vec<&str> = appends.iter().map(|append| append.session_id.as_str()).collect();
    // In the order of their names, so that no two nodes wait for each other.
    let sql = format!(
        "SELECT {HEAD} FROM sk_shared_heads WHERE session_id = ANY($1) AND {EXISTS} ORDER BY session_id FOR UPDATE"
    );
    let mut heads: HashMap<String, (Head, Vec<ForkNote>)> = HashMap::new();
    for row in within.query(sql.as_str(), &[&ids]).await? {
        heads.insert(row.try_get("session_id")?, (head(&row)?, ForkNote::all_of(row.try_get("forks")?)));
    }
    let mut answers = Vec::with_capacity(appends.len());
    let (mut renewed, mut logged, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    let mut written: HashMap<&str, Head> = HashMap::new();
    for append in appends {
        let Append { session_id, lines: new, .. } = append;
        let known = heads.get_mut(session_id.as_str());
        let decided = append.decide(known.as_deref().map(|(head, _)| head));
        answers.push(match (decided, known) {
            (Err(refusal), _) => Err(refusal),
            (Ok(_), None) => Ok(Vec::new()),
            (Ok(head), Some((current, forks))) => {
                renewed.push(session_id.as_str());
                if !new.is_empty() {
                    *current = head.clone();
                    written.insert(session_id.as_str(), head);
                    logged.extend(new.iter().map(|_| session_id.as_str()));
                    lines.extend(new.iter().map(Vec::as_slice));
                }
                Ok(forks.clone())
            }
        });
    }
    let renew = "UPDATE sk_shared_heads SET lease = owner, lease_until = clock_timestamp() + $2 * interval '1 ms' \
                 WHERE session_id = ANY($1)";
    within.execute(renew, &[&renewed, &millis(time)]).await?;
    if !written.is_empty() {
        let log = "INSERT INTO sk_shared_log (session_id, line) SELECT * FROM unnest($1::text[], $2::bytea[])";
        within.execute(log, &[&logged, &lines]).await?;
        let (mut ids, mut seqs, mut ats, mut claims) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (id, head) in &written {
            ids.push(*id);
            seqs.push(number(head.last.seq)?);
            ats.push(text(head.last.at.as_ref()));
            claims.push(head.claims.to_string());
        }
        let update = "UPDATE sk_shared_heads SET seq = new.seq, at = new.at, claims = new.claims \
                      FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[]) AS new (id, seq, at, claims) \
                      WHERE session_id = new.id";
        within.execute(update, &[&ids, &seqs, &ats, &claims]).await?;
    }
    Ok(answers)
}

async fn set_forks(within: &Transaction<'_>, session_id: &SessionId, forks: &[&str]) -> Result<(), Failed> {
    let forks = forks.join("\n");
    within
        .execute("UPDATE sk_shared_heads SET forks = $2 WHERE session_id = $1", &[&session_id.as_str(), &forks])
        .await?;
    Ok(())
}

impl Tier for PostgresTier {
    fn ping(&mut self) -> Result<(), Down> {
        // A server that is only a replica answers too, and takes nothing.
        self.execute("DELETE FROM sk_shared_nodes WHERE false", &[]).map(|_| ())
    }

    fn connections(&self) -> u64 {
        self.server.connections
    }

    fn incarnation(&mut self, new: &str) -> Result<String, Down> {
        // It is in the table that it is about, in a row that is no session's, and is lost with that.
        let sql = "SELECT data FROM sk_shared_heads WHERE session_id = ''";
        let made = "INSERT INTO sk_shared_heads (session_id, data) VALUES ('', $1) ON CONFLICT DO NOTHING";
        self.server.ask(async |client| {
            if let Some(row) = client.query_opt(sql, &[]).await? {
                return Ok(row.try_get(0)?);
            }
            client.execute(made, &[&new]).await?;
            Ok(client.query_one(sql, &[]).await?.try_get(0)?)
        })
    }

    fn claim(&mut self, request: &ClaimRequest, lease: Duration) -> Result<ClaimAnswer, Down> {
        self.server.ask(async |client| {
            let within = client.transaction().await?;
            let answer = claim(&within, request, lease).await?;
            // A refusal leaves nothing behind, not even the row that was locked.
            if answer.is_ok() {
                within.commit().await?
            } else {
                within.rollback().await?
            }
            Ok(answer)
        })
    }

    fn append(&mut self, appends: &[Append], lease: Duration) -> Result<Vec<Appended>, Down> {
        self.server.ask(async |client| {
            let within = client.transaction().await?;
            let answers = append(&within, appends, lease).await?;
            within.commit().await?;
            Ok(answers)
        })
    }

    fn rest(&mut self, session_id: &SessionId, claim: &Claim, seq: u64, line: &[u8]) -> Result<(), Down> {
        self.server.ask(async |client| {
            let within = client.transaction().await?;
            let Some(row) = owned(&within, session_id, claim).await? else { return Ok(()) };
            let id = session_id.as_str();
            let given = "SELECT 1 FROM sk_shared_heads WHERE session_id = $1 AND next = $2";
            if head(&row)?.last.seq != seq || within.query_opt(given, &[&id, &line]).await?.is_some() {
                return Ok(());
            }
            let shorten = "DELETE FROM sk_shared_log USING sk_shared_heads WHERE sk_shared_heads.session_id = $1 AND sk_shared_log.session_id = $1 \
                           AND number <= covers";
            within.execute(shorten, &[&id]).await?;
            let rest = "UPDATE sk_shared_heads SET base = coalesce(next, base), next = $2, \
                        covers = (SELECT max(number) FROM sk_shared_log WHERE session_id = $1) WHERE session_id = $1";
            within.execute(rest, &[&id, &line]).await?;
            Ok(within.commit().await?)
        })
    }

    fn replace(&mut self, session_id: &SessionId, claim: &Claim, seq: u64, lines: &[Vec<u8>]) -> Result<bool, Down> {
        self.server.ask(async |client| {
            let within = client.transaction().await?;
            let Some(row) = owned(&within, session_id, claim).await? else { return Ok(false) };
            if head(&row)?.last.seq != seq {
                return Ok(false);
            }
            let id = session_id.as_str();
            within.execute("DELETE FROM sk_shared_log WHERE session_id = $1", &[&id]).await?;
            let log = "INSERT INTO sk_shared_log (session_id, line) SELECT $1, * FROM unnest($2::bytea[])";
            within.execute(log, &[&id, &lines]).await?;
            let rest = "UPDATE sk_shared_heads SET base = NULL, next = NULL, covers = NULL WHERE session_id = $1";
            within.execute(rest, &[&id]).await?;
            within.commit().await?;
            Ok(true)
        })
    }

    fn note_files(&mut self, session_id: &SessionId, claim: &Claim, files: &KeptFiles) -> Result<bool, Down> {
        let sql = format!("UPDATE sk_shared_heads SET files = $3 WHERE session_id = $1 AND owner = $2 AND {EXISTS}");
        let files = json(files).map_err(|error| Down::new(error.to_string()))?;
        self.execute(&sql, &[&session_id.as_str(), &claim.to_string(), &files]).map(|noted| noted > 0)
    }

    fn note_fork(&mut self, session_id: &SessionId, fork: &ForkNote) -> Result<(), Down> {
        self.server.ask(async |client| {
            let within = client.transaction().await?;
            let Some(row) = locked(&within, session_id).await? else { return Ok(()) };
            let note = json(fork)?;
            let mut forks: Vec<&str> = row.try_get::<_, &str>("forks")?.lines().collect();
            if !forks.contains(&note.as_str()) {
                forks.push(&note);
                set_forks(&within, session_id, &forks).await?;
            }
            Ok(within.commit().await?)
        })
    }

    fn forks_recorded(&mut self, session_id: &SessionId, claim: &Claim, forks: &[ForkNote]) -> Result<(), Down> {
        self.server.ask(async |client| {
            let within = client.transaction().await?;
            let Some(row) = owned(&within, session_id, claim).await? else { return Ok(()) };
            let recorded: Vec<String> = forks.iter().map(json).collect::<Result<_, _>>()?;
            let left = row.try_get::<_, &str>("forks")?.lines().filter(|note| !recorded.iter().any(|one| one == note));
            set_forks(&within, session_id, &left.collect::<Vec<_>>()).await?;
            Ok(within.commit().await?)
        })
    }

    fn release(&mut self, session_id: &SessionId, claim: &Claim, for_good: bool) -> Result<(), Down> {
        let sql = "UPDATE sk_shared_heads SET is_free = is_free OR ($3 AND owner = $2), \
                   lease_until = CASE WHEN lease = $2 THEN clock_timestamp() ELSE lease_until END WHERE session_id = $1";
        self.execute(sql, &[&session_id.as_str(), &claim.to_string(), &for_good]).map(|_| ())
    }

    fn remove(&mut self, session_id: &SessionId, claim: &Claim) -> Result<(), Down> {
        self.end(session_id, claim, removed::NOW)
    }

    fn drop_session(&mut self, session_id: &SessionId, claim: &Claim) -> Result<(), Down> {
        self.end(session_id, claim, removed::LONG_AGO)
    }

    fn mark_removed(&mut self, removed: &[RemovedSession]) -> Result<(), Down> {
        self.server.ask(async |client| removed::mark(client, removed).await)
    }

    fn is_marked(&mut self, session: &RemovedSession) -> Result<bool, Down> {
        self.server.ask(async |client| removed::is_marked(client, session).await)
    }

    fn removed(&mut self, sessions: &[SessionId]) -> Result<Vec<SessionId>, Down> {
        self.server.ask(async |client| removed::of(client, sessions).await)
    }

    fn find(&mut self, session_id: &SessionId) -> Result<Option<Found>, Down> {
        self.server.ask(async |client| {
            let sql = format!("SELECT {HEAD} FROM sk_shared_heads WHERE session_id = $1 AND {EXISTS}");
            let row = client.query_opt(sql.as_str(), &[&session_id.as_str()]).await?;
            row.as_ref().map(found).transpose()
        })
    }

    fn load(&mut self, session_id: &SessionId) -> Result<Loaded, Down> {
        self.server.ask(async |client| {
            // One question, so that the base and the records after it belong together.
            let sql = "SELECT line FROM (SELECT 0 AS number, base AS line FROM sk_shared_heads WHERE session_id = $1 AND base IS NOT NULL \
                       UNION ALL SELECT number, line FROM sk_shared_log WHERE session_id = $1) AS lines ORDER BY number";
            let rows = client.query(sql, &[&session_id.as_str()]).await?;
            let lines = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
            Ok(Loaded { lines })
        })
    }

    fn count_service(&mut self, service: &AgentService, limit: u64, lease: Duration) -> Result<CountAnswer, Down> {
        self.server.ask(async |client| {
            let within = client.transaction().await?;
            lock_agent(&within, &service.agent).await?;
            let counted = services_of(&within, &service.agent).await?;
            if counted.len() as u64 >= limit && !counted.contains(service) {
                return Ok(Err(counted));
            }
            renew(&within, std::slice::from_ref(service), lease).await?;
            within.commit().await?;
            Ok(Ok(()))
        })
    }

    fn renew_services(&mut self, services: &[AgentService], lease: Duration) -> Result<(), Down> {
        if services.is_empty() {
            return Ok(());
        }
        self.server.ask(async |client| renew(client, services, lease).await)
    }

    fn uncount_service(&mut self, service: &AgentService) -> Result<(), Down> {
        let AgentService { agent, session_id, service_id } = service;
        let sql = "DELETE FROM sk_shared_agent_services WHERE until < clock_timestamp() OR (agent = $1 AND session_id = $2 \
                   AND service_id = $3)";
        self.execute(sql, &[agent, &session_id.as_str(), &service_id.as_str()]).map(|_| ())
    }

    fn used_by(&mut self, agent: &str) -> Result<UsedByAgent, Down> {
        self.server.ask(async |client| {
            let (sessions, services) = (sessions_of(client, agent, "").await?, services_of(client, agent).await?);
            Ok(UsedByAgent { sessions, services: services.len() as u64 })
        })
    }

    fn put_tokens(&mut self, tokens: &[SharedToken]) -> Result<(), Down> {
        let ids: Vec<&str> = tokens.iter().map(|token| token.id.as_str()).collect();
        let revoked: Vec<bool> = tokens.iter().map(|token| token.is_revoked).collect();
        let records: Vec<&str> = tokens.iter().map(|token| token.record.as_str()).collect();
        self.server.ask(async |client| {
            let within = client.transaction().await?;
            let sql = "INSERT INTO sk_shared_tokens SELECT * FROM unnest($1::text[], $2::boolean[], $3::text[]) \
                       ON CONFLICT (id) DO UPDATE SET is_revoked = excluded.is_revoked, record = excluded.record \
                       WHERE (sk_shared_tokens.is_revoked, sk_shared_tokens.record) <> (excluded.is_revoked, excluded.record) \
                       AND (excluded.is_revoked OR NOT sk_shared_tokens.is_revoked)";
            if within.execute(sql, &[&ids, &revoked, &records]).await? > 0 {
                within.execute("SELECT nextval('sk_shared_tokens_version')", &[]).await?;
            }
            Ok(within.commit().await?)
        })
    }

    fn tokens(&mut self) -> Result<Vec<SharedToken>, Down> {
        self.server.ask(async |client| {
            let rows = client.query("SELECT id, is_revoked, record FROM sk_shared_tokens", &[]).await?;
            let token = |row: &Row| -> Result<SharedToken, Failed> {
                Ok(SharedToken { id: row.try_get(0)?, is_revoked: row.try_get(1)?, record: row.try_get(2)? })
            };
            rows.iter().map(token).collect()
        })
    }

    fn tokens_version(&mut self) -> Result<u64, Down> {
        self.server.ask(async |client| {
            let sql = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM sk_shared_tokens_version";
            let version: i64 = client.query_one(sql, &[]).await?.try_get(0)?;
            Ok(version.unsigned_abs())
        })
    }

    fn beat(&mut self, node: &NodeEntry, lease: Duration) -> Result<(), Down> {
        let entry = json(node).map_err(|error| Down::new(error.to_string()))?;
        let sql = "INSERT INTO sk_shared_nodes VALUES ($1, $2, clock_timestamp() + $3 * interval '1 ms') \
                   ON CONFLICT (name) DO UPDATE SET entry = excluded.entry, until = excluded.until";
        self.execute(sql, &[&node.name, &entry, &millis(lease)]).map(|_| ())
    }

    fn leave(&mut self, name: &str) -> Result<(), Down> {
        let sql = "INSERT INTO sk_shared_nodes VALUES ($1, '', '-infinity') \
                   ON CONFLICT (name) DO UPDATE SET until = excluded.until";
        self.execute(sql, &[&name]).map(|_| ())
    }

    fn has_left(&mut self, name: &str) -> Result<bool, Down> {
        self.server.ask(async |client| {
            let sql = "SELECT 1 FROM sk_shared_nodes WHERE name = $1 AND until = '-infinity'";
            Ok(client.query_opt(sql, &[&name]).await?.is_some())
        })
    }

    fn node(&mut self, name: &str) -> Result<Option<NodeEntry>, Down> {
        self.server.ask(async |client| {
            let sql = "SELECT entry FROM sk_shared_nodes WHERE name = $1 AND until > clock_timestamp()";
            Ok(client.query_opt(sql, &[&name]).await?.as_ref().and_then(entry))
        })
    }

    fn nodes(&mut self) -> Result<Vec<NodeEntry>, Down> {
        self.server.ask(async |client| {
            let sql = "SELECT entry FROM sk_shared_nodes WHERE until > clock_timestamp() ORDER BY name";
            Ok(client.query(sql, &[]).await?.iter().filter_map(entry).collect())
        })
    }
}

/// Counts services for another lease.
async fn renew(client: &impl GenericClient, services: &[AgentService], lease: Duration) -> Result<(), Failed> {
    let agents: Vec<&str> = services.iter().map(|service| service.agent.as_str()).collect();
    let sessions: Vec<&str> = services.iter().map(|service| service.session_id.as_str()).collect();
    let ids: Vec<&str> = services.iter().map(|service| service.service_id.as_str()).collect();
    let sql = "INSERT INTO sk_shared_agent_services SELECT *, clock_timestamp() + $4 * interval '1 ms' \
               FROM unnest($1::text[], $2::text[], $3::text[]) \
               ON CONFLICT (agent, session_id, service_id) DO UPDATE SET until = excluded.until";
    client.execute(sql, &[&agents, &sessions, &ids, &millis(lease)]).await?;
    Ok(())
}
