//! Routes whose handlers have one type, so that axum's code for a route is compiled once and not for each of them.

use super::door::Door;
use axum::extract::Request;
use axum::handler::Handler;
use axum::response::Response;
use axum::routing::{self, MethodRouter};
use std::pin::Pin;
use std::sync::Arc;

type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Any handler.
#[derive(Clone)]
struct Erased(Arc<dyn Fn(Request, Door) -> Answering + Send + Sync>);

impl Erased {
    fn new<H: Handler<T, Door, Future = Answering>, T>(handler: H) -> Self {
        Self(Arc::new(move |request, door| handler.clone().call(request, door)))
    }
}

impl Handler<(), Door> for Erased {
    type Future = Answering;

    fn call(self, request: Request, door: Door) -> Answering {
        self.0(request, door)
    }
}

/// `GET` and `HEAD`.
pub(super) fn get<H: Handler<T, Door, Future = Answering>, T>(handler: H) -> MethodRouter<Door> {
    routing::get(Erased::new(handler))
}

/// `POST`.
pub(super) fn post<H: Handler<T, Door, Future = Answering>, T>(handler: H) -> MethodRouter<Door> {
    routing::post(Erased::new(handler))
}

/// `PUT`.
pub(super) fn put<H: Handler<T, Door, Future = Answering>, T>(handler: H) -> MethodRouter<Door> {
    routing::put(Erased::new(handler))
}

/// `DELETE`.
pub(super) fn delete<H: Handler<T, Door, Future = Answering>, T>(handler: H) -> MethodRouter<Door> {
    routing::delete(Erased::new(handler))
}
