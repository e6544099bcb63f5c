//! `GET /` and `/assets/…`: the console, a page for the browser. The files are in `web/` and are built into the program.
//! They are open to everybody and contain no secret; what the page shows, it reads over the API with its token.

use crate::params::AssetPath;
use crate::refusal::Refusal;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// A file of the console.
struct Asset {
    name: &'static str,
    media_type: &'static str,
    /// In quotes, as the header has it.
    etag: &'static str,
    plain: &'static [u8],
    gzip: &'static [u8],
}

/// What a page of this origin may do: nothing that is not from here, no script from text, no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";
/// Headers of every file. A browser asks each time whether its copy is current.
const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-cache"),
    (header::VARY, "accept-encoding"),
];
const PAGE: &str = "index.html";

/// The console: a page for the browser. `shellkeep console` opens it. Needs no token and contains no secret.
#[utoipa::path(
    get, path = "/", tag = "console", operation_id = "console", security(()),
    responses((status = 200, description = "The page", content_type = "text/html", body = String))
)]
pub async fn page(headers: HeaderMap) -> Result<Response, Refusal> {
    serve(PAGE, &headers)
}

/// A script, style or picture of the console. Needs no token.
#[utoipa::path(
    get, path = "/assets/{name}", tag = "console", operation_id = "console_asset", security(()),
    params(("name" = String, Path, description = "The file")),
    responses(
        (status = 200, description = "The file", content_type = "application/octet-stream", body = String),
        (status = 404, description = "`not_found`", body = shellkeep_protocol::Problem,
            content_type = "application/problem+json")
    )
)]
pub async fn file(AssetPath(name): AssetPath, headers: HeaderMap) -> Result<Response, Refusal> {
    serve(&name, &headers)
}

fn serve(name: &str, asked: &HeaderMap) -> Result<Response, Refusal> {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        let detail = "the console has no such file; GET / is its page";
        return Err(Refusal::new(StatusCode::NOT_FOUND, "not_found", detail));
    };
    let is_current = names(asked, &header::IF_NONE_MATCH, asset.etag);
    let packed = names(asked, &header::ACCEPT_ENCODING, "gzip");
    let mut response = match (is_current, packed) {
        (true, _) => StatusCode::NOT_MODIFIED.into_response(),
        (false, true) => ([(header::CONTENT_ENCODING, "gzip")], asset.gzip).into_response(),
        (false, false) => asset.plain.into_response(),
    };
    let headers = response.headers_mut();
    headers.extend(HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value))));
    headers.insert(header::ETAG, HeaderValue::from_static(asset.etag));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.media_type));
    Ok(response)
}

/// Whether a header lists a word. `gzip;q=0` does not list it.
fn names(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|part| {
        let (named, rest) = part.split_once(';').unwrap_or((part, ""));
        named.trim() == word && rest.trim() != "q=0"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes over the wire of the first screen, and of all files.
    const FIRST_SCREEN: usize = 35 * 1000;
    const ALL: usize = 200 * 1000;

    #[test]
    fn the_files_are_small() {
        let size = |wanted: &dyn Fn(&Asset) -> bool| -> usize {
            ASSETS.iter().filter(|asset| wanted(asset)).map(|asset| asset.gzip.len()).sum()
        };
        let all = size(&|_| true);
        assert!(all > 0 && all <= ALL, "{all} bytes");
        // What the page of all sessions loads; the other pages are loaded when they are opened.
        let first = [
            "index.html",
            "style.css",
            "icon.svg",
            "app.js",
            "api.js",
            "dom.js",
            "format.js",
            "rows.js",
            "keys.js",
            "live.js",
            "fleet.js",
            "state.js",
        ];
        let first = size(&|asset| first.contains(&asset.name));
        assert!(first <= FIRST_SCREEN, "{first} bytes");
    }

    #[test]
    fn a_browser_gets_the_packed_file_once() {
        let get = |name: HeaderName, value: &'static str| {
            serve(PAGE, &HeaderMap::from_iter([(name, HeaderValue::from_static(value))])).unwrap()
        };
        let packed = get(header::ACCEPT_ENCODING, "br, gzip;q=0.8");
        assert_eq!(packed.headers()[header::CONTENT_ENCODING], "gzip");
        assert!(get(header::ACCEPT_ENCODING, "gzip;q=0").headers().get(header::CONTENT_ENCODING).is_none());
        let etag = ASSETS.iter().find(|asset| asset.name == PAGE).unwrap().etag;
        assert_eq!(get(header::IF_NONE_MATCH, etag).status(), StatusCode::NOT_MODIFIED);
        assert!(serve("../Cargo.toml", &HeaderMap::new()).is_err());
    }
}
