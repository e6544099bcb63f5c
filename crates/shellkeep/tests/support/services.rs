//! Services as a test starts, finds and stops them.

use super::{Daemon, Request, Response};
use serde_json::{Value, json};
use shellkeep_poll::until;

/// Does something for each of many, some at a time, and gives the answers in the order of the questions.
pub fn in_parallel<T: Sync, R: Send>(threads: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let size = items.len().div_ceil(threads.max(1)).max(1);
    std::thread::scope(|scope| {
        let begun: Vec<_> =
            items.chunks(size).map(|chunk| scope.spawn(|| chunk.iter().map(&work).collect::<Vec<R>>())).collect();
        begun.into_iter().flat_map(|thread| thread.join().expect("a part of the work failed")).collect()
    })
}

/// The process id in a service's view.
pub fn pid(service: &Value) -> u32 {
    let pid = service["pid"].as_u64().unwrap_or_else(|| panic!("no pid in {service}"));
    u32::try_from(pid).expect("a pid")
}

/// The id in a service's view.
pub fn id(service: &Value) -> &str {
    service["service_id"].as_str().unwrap_or_else(|| panic!("no id in {service}"))
}

impl Daemon {
    /// Asks for a service, whatever the answer.
    pub fn ask_service(&self, session: &str, body: &Value) -> Response {
        self.post(&format!("/v1/sessions/{session}/services"), body)
    }

    /// Starts a service.
    pub fn start_service(&self, session: &str, body: Value) -> Value {
        let answer = self.ask_service(session, &body);
        assert_eq!(answer.status, 201, "start {body}: {}\nthe daemon's log:\n{}", answer.text(), self.log());
        answer.json()
    }

    /// How a service stands.
    pub fn service(&self, session: &str, service_id: &str) -> Value {
        let answer = self.get(&format!("/v1/sessions/{session}/services/{service_id}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// A service, once it stands like this.
    pub fn service_until(&self, session: &str, service_id: &str, status: &str) -> Value {
        until(&format!("{service_id} is {status}"), || {
            let service = self.service(session, service_id);
            (service["status"] == status).then_some(service)
        })
    }

    /// All services that run.
    pub fn all_services(&self) -> Vec<Value> {
        let answer = self.get("/v1/services");
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["services"].as_array().expect("a list").clone()
    }

    /// A session's services.
    pub fn services_of(&self, session: &str) -> Vec<Value> {
        let answer = self.get(&format!("/v1/sessions/{session}/services"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["services"].as_array().expect("a list").clone()
    }

    /// Stops a service.
    pub fn stop_service(&self, session: &str, service_id: &str) -> Value {
        let answer = self.post(&format!("/v1/sessions/{session}/services/{service_id}/stop"), &json!({}));
        assert_eq!(answer.status, 200, "stop {service_id}: {}", answer.text());
        answer.json()
    }

    /// A page of a service's log.
    pub fn log_page(&self, session: &str, service_id: &str, query: &str) -> Value {
        let answer = self.get(&format!("/v1/sessions/{session}/services/{service_id}/logs?{query}"));
        assert_eq!(answer.status, 200, "{query}: {}", answer.text());
        answer.json()
    }

    /// All that is kept of a service's log, up to a megabyte.
    pub fn service_log(&self, session: &str, service_id: &str) -> String {
        self.log_page(session, service_id, "")["text"].as_str().expect("text").to_owned()
    }

    /// How the node stands.
    pub fn node(&self) -> Value {
        let answer = self.get("/v1/node");
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// Sets quotas.
    pub fn put_quotas(&self, body: &Value) -> Response {
        self.send(&Request::new("PUT", "/v1/quotas").json(body.to_string()))
    }
}
