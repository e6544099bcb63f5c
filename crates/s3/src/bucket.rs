//! The objects of a bucket.

use crate::address::Address;
use crate::body::Part;
use crate::connection::Connector;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::{Method, Request, Response, StatusCode, header};
use rusty_s3::S3Action;
use rusty_s3::actions::ListObjectsV2;
use shellkeep_workspace::blobs::{Object, Objects, ObjectsError};
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;
use url::Url;

/// For how long a request is signed.
const SIGNED_FOR: Duration = Duration::from_secs(15 * 60);
/// How long the store may be silent, and how slowly it may take a large object.
const SILENCE: Duration = Duration::from_secs(30);
const SLOWEST: u64 = 1 << 20;
/// Most bytes of an answer that is not an object.
const MOST_READ: usize = 16 << 20;
/// Most bytes of a refusal that are shown.
const MOST_SHOWN: usize = 200;
/// Connections that are kept.
const MOST_IDLE: usize = 4;

/// The objects of a bucket whose names begin with a prefix.
pub struct Bucket {
    address: Address,
    connector: Connector,
    /// Connections that are not in use.
    idle: Mutex<Vec<SendRequest<Part>>>,
    /// Its own thread. None while it is dropped.
    runtime: Option<Runtime>,
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bucket({:?})", self.address)
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        // Waiting for it is not allowed where the last owner may drop this.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Why a request was not answered with what it asked for.
enum Failed {
    Missing,
    Other(String),
}

impl From<String> for Failed {
    fn from(reason: String) -> Self {
        Self::Other(reason)
    }
}

impl Bucket {
    /// The bucket at an address. Nothing is connected yet.
    pub fn open(address: Address) -> Result<Self, String> {
        let connector = Connector::to(address.bucket.base_url())?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("s3").enable_all().build();
        let runtime = Some(runtime.map_err(|error| error.to_string())?);
        Ok(Self { address, connector, idle: Mutex::default(), runtime })
    }

    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.address.prefix)
    }

    /// Waits for a request. Not to be called in a task.
    fn wait<T>(
        &self,
        what: &str,
        name: &str,
        work: impl Future<Output = Result<T, Failed>>,
    ) -> Result<T, ObjectsError> {
        let failed = |reason: &str| ObjectsError::new(format!("{what} {:?} {name}: {reason}", self.address));
        let runtime = self.runtime.as_ref().ok_or_else(|| failed("it is closed"))?;
        runtime.block_on(work).map_err(|error| match error {
            Failed::Missing => failed("there is no such object"),
            Failed::Other(reason) => failed(&reason),
        })
    }

    /// Sends a request. One that fails on a connection that was kept is sent again on a new one: each can be repeated.
    async fn send(
        &self,
        method: Method,
        url: &Url,
        body: impl Fn() -> Result<Part, String>,
    ) -> Result<Response<Incoming>, Failed> {
        if let Some(mut sender) = self.kept()
            && let Ok(response) = self.send_on(&mut sender, &method, url, body()?).await
        {
            return self.answered(sender, response).await;
        }
        let mut sender = self.connector.connect().await.map_err(|error| error.to_string())?;
        let response = self.send_on(&mut sender, &method, url, body()?).await?;
        self.answered(sender, response).await
    }

    async fn send_on(
        &self,
        sender: &mut SendRequest<Part>,
        method: &Method,
        url: &Url,
        body: Part,
    ) -> Result<Response<Incoming>, String> {
        let length = hyper::body::Body::size_hint(&body).exact().unwrap_or_default();
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let host = match (url.host_str(), url.port()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (host, _) => host.unwrap_or_default().to_owned(),
        };
        let request = Request::builder().method(method).uri(path).header(header::HOST, host);
        let request = request.header(header::CONTENT_LENGTH, length).body(body).map_err(|error| error.to_string())?;
        let patience = SILENCE + Duration::from_secs(length / SLOWEST);
        let sending = async {
            sender.ready().await?;
            sender.send_request(request).await
        };
        let sent = tokio::time::timeout(patience, sending).await;
        sent.map_err(|_| format!("no answer within {} s", patience.as_secs()))?.map_err(|error| error.to_string())
    }

    /// An answer that is none of success is read, and its connection kept.
    async fn answered(
        &self,
        sender: SendRequest<Part>,
        response: Response<Incoming>,
    ) -> Result<Response<Incoming>, Failed> {
        let status = response.status();
        if status.is_success() {
            self.keep(sender);
            return Ok(response);
        }
        let text = String::from_utf8_lossy(&all(response).await?).into_owned();
        self.keep(sender);
        if status == StatusCode::NOT_FOUND && !text.contains("NoSuchBucket") {
            return Err(Failed::Missing);
        }
        let said = |tag: &str| Some(text.split_once(&format!("<{tag}>"))?.1.split_once('<')?.0);
        let said = match (said("Code"), said("Message")) {
            (Some(code), Some(message)) => format!("{code}: {message}"),
            _ => text.clone(),
        };
        Err(Failed::Other(format!("{status}: {}", said.chars().take(MOST_SHOWN).collect::<String>())))
    }

    /// A connection on which nothing is under way.
    fn kept(&self) -> Option<SendRequest<Part>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|sender| !sender.is_closed());
        let ready = idle.iter().position(SendRequest::is_ready)?;
        Some(idle.swap_remove(ready))
    }

    /// Keeps a connection for the next request, when its answer is read.
    fn keep(&self, sender: SendRequest<Part>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MOST_IDLE {
            idle.push(sender);
        }
    }

    async fn list_all(&self, prefix: &str) -> Result<Vec<Object>, Failed> {
        let (mut found, mut after): (Vec<Object>, Option<String>) = (Vec::new(), None);
        loop {
            let mut action = self.address.bucket.list_objects_v2(Some(&self.address.credentials));
            action.with_prefix(prefix.to_owned());
            if let Some(after) = after.take() {
                action.with_continuation_token(after);
            }
            let response = self.send(Method::GET, &action.sign(SIGNED_FOR), || Ok(Part::empty())).await?;
            let text = all(response).await?;
            let page = ListObjectsV2::parse_response(&String::from_utf8_lossy(&text));
            let page = page.map_err(|error| format!("the list cannot be read: {error}"))?;
            let below = |name: &str| name.strip_prefix(&self.address.prefix).map(str::to_owned);
            found.extend(page.contents.iter().filter_map(|it| Some(Object { name: below(&it.key)?, bytes: it.size })));
            match page.next_continuation_token {
                Some(next) if !next.is_empty() => after = Some(next),
                _ => return Ok(found),
            }
        }
    }
}

/// The next bytes of an answer.
async fn next(response: &mut Response<Incoming>) -> Result<Option<Bytes>, Failed> {
    loop {
        let frame = tokio::time::timeout(SILENCE, response.body_mut().frame()).await;
        match frame.map_err(|_| "the store fell silent".to_owned())? {
            None => return Ok(None),
            Some(Err(error)) => return Err(Failed::Other(error.to_string())),
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
        }
    }
}

async fn all(mut response: Response<Incoming>) -> Result<Vec<u8>, Failed> {
    let mut text = Vec::new();
    while let Some(bytes) = next(&mut response).await? {
        if text.len() + bytes.len() > MOST_READ {
            return Err(Failed::Other("its answer is too long".to_owned()));
        }
        text.extend_from_slice(&bytes);
    }
    Ok(text)
}

impl Objects for Bucket {
    fn list(&self, prefix: &str) -> Result<Vec<Object>, ObjectsError> {
        self.wait("list", prefix, self.list_all(&self.name(prefix)))
    }

    fn put(&self, name: &str, file: &Path, range: Range<u64>) -> Result<(), ObjectsError> {
        let object = self.name(name);
        let url = self.address.bucket.put_object(Some(&self.address.credentials), &object).sign(SIGNED_FOR);
        let body = || Part::of(file, range.clone()).map_err(|error| error.to_string());
        self.wait("put", name, async { all(self.send(Method::PUT, &url, body).await?).await.map(drop) })
    }

    fn get(&self, name: &str, to: &mut dyn Write) -> Result<(), ObjectsError> {
        let object = self.name(name);
        let url = self.address.bucket.get_object(Some(&self.address.credentials), &object).sign(SIGNED_FOR);
        self.wait("get", name, async {
            let mut response = self.send(Method::GET, &url, || Ok(Part::empty())).await?;
            while let Some(bytes) = next(&mut response).await? {
                to.write_all(&bytes).map_err(|error| error.to_string())?;
            }
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> Result<(), ObjectsError> {
        let object = self.name(name);
        let url = self.address.bucket.delete_object(Some(&self.address.credentials), &object).sign(SIGNED_FOR);
        self.wait("remove", name, async {
            match self.send(Method::DELETE, &url, || Ok(Part::empty())).await {
                Ok(response) => all(response).await.map(drop),
                Err(Failed::Missing) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }
}
