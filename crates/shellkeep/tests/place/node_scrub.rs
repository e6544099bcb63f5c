//! A secret that is scrubbed is gone from the store that nodes share, too.

use crate::nodes::run_when_taken_over;
use crate::redis::Redis;
use serde_json::json;

const SECRET: &str = "horse-battery-staple";

/// The records in Redis kept the secret until some hundred others came after them, and the report said nothing of it.
#[test]
fn a_secret_is_masked_in_the_shared_store() {
    let redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    first.sh("s", &format!("cd /usr; password={SECRET}; n=1; f() {{ echo {SECRET}; }}"));
    let said = first.run("s", json!({"command": format!("n=$((n+1)); echo $n {SECRET}"), "request_id": "k1"}));
    assert_eq!(said.out(), format!("2 {SECRET}\n"));
    assert!(redis.records("s").contains(SECRET));
    let scrubbed = first.post("/v1/sessions/s/scrub", &json!({"secret": SECRET}));
    assert_eq!(scrubbed.status, 200, "{}", scrubbed.text());
    assert_eq!((&scrubbed.json()["not_reached"], &scrubbed.json()["earlier_nodes"]), (&json!([]), &json!([])));
    let records = redis.records("s");
    assert!(records.contains("scrubbed") && !records.contains(SECRET), "{records}");

    // What is left is enough to go on, and no command runs again.
    first.kill();
    let (again, _) = run_when_taken_over(&second, "s", &json!({"command": "echo $n; pwd"}));
    assert_eq!(again["stdout"], "2\n/usr\n", "{again}");
    let retried = second.post("/v1/sessions/s/run", &json!({"command": "n=$((n+1))", "request_id": "k1"}));
    assert_eq!(retried.json()["code"], "request_id_reused", "{}", retried.text());
    assert!(!second.get("/v1/sessions/s/runs").text().contains(SECRET));
    assert!(!redis.records("s").contains(SECRET));

    // A node that had the session keeps its copy.
    let again = second.post("/v1/sessions/s/scrub", &json!({"secret": SECRET})).json();
    assert_eq!(
        (&again["not_reached"], &again["earlier_nodes"]),
        (&json!(["earlier_nodes"]), &json!(["n1"])),
        "{again}"
    );
}

/// A name cannot be masked in place: one record with the whole state takes the place of all.
#[test]
fn a_secret_in_a_name_is_removed_from_the_shared_store() {
    let redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    first.sh("s", "cd /usr; horse_battery=1; kept=2");
    assert!(redis.records("s").contains("horse_battery"));
    let scrubbed = first.post("/v1/sessions/s/scrub", &json!({"secret": "horse_battery"}));
    assert_eq!(scrubbed.status, 200, "{}", scrubbed.text());
    assert!(!redis.records("s").contains("horse_battery"));
    first.kill();
    let (again, _) = run_when_taken_over(&second, "s", &json!({"command": "echo $kept; pwd"}));
    assert_eq!(again["stdout"], "2\n/usr\n", "{again}");
}
