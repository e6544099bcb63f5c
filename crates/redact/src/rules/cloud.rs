//! Keys of clouds, databases and what runs on them. Formats as published by the providers.

use crate::class::{ALNUM, BASE64, Class, HEX, LOWER_ALNUM, TOKEN, TOKEN_DOT, UPPER_ALNUM};
use crate::found::Found;
use crate::rules::Rule;
use crate::rules::token::Part::{Exactly, Run, Text};
use crate::rules::token::{Token, plain, token};
use crate::view::View;

pub(crate) static TOKENS: &[Token] = &[
    token(Rule::Aws, "ABSK", &[Run(&BASE64, 100)]),
    plain(Rule::Aws, "bedrock-api-key-", &[Run(&BASE64, 40)]),
    plain(Rule::DigitalOcean, "dop_v1_", &[Run(&HEX, 40)]),
    plain(Rule::DigitalOcean, "doo_v1_", &[Run(&HEX, 40)]),
    plain(Rule::DigitalOcean, "dor_v1_", &[Run(&HEX, 40)]),
    token(Rule::Databricks, "dapi", &[Run(&HEX, 32)]),
    plain(Rule::Vault, "hvs.", &[Run(&TOKEN, 20)]),
    plain(Rule::Vault, "hvb.", &[Run(&TOKEN, 60)]),
    plain(Rule::Vault, "hvr.", &[Run(&TOKEN, 20)]),
    plain(Rule::Doppler, "dp.pt.", &[Run(&ALNUM, 40)]),
    plain(Rule::Doppler, "dp.ct.", &[Run(&ALNUM, 40)]),
    plain(Rule::Doppler, "dp.sa.", &[Run(&ALNUM, 40)]),
    plain(Rule::Doppler, "dp.st.", &[Run(&TOKEN_DOT, 40)]),
    plain(Rule::Doppler, "dp.scim.", &[Run(&ALNUM, 40)]),
    plain(Rule::Doppler, "dp.audit.", &[Run(&ALNUM, 40)]),
    plain(Rule::Fly, "fo1_", &[Run(&TOKEN, 40)]),
    plain(Rule::Fly, "fm1a_", &[Run(&FLY, 60)]),
    plain(Rule::Fly, "fm1r_", &[Run(&FLY, 60)]),
    plain(Rule::Fly, "fm2_", &[Run(&FLY, 60)]),
    plain(Rule::Heroku, "HRKU-AA", &[Run(&TOKEN, 50)]),
    plain(Rule::Cloudflare, "cfut_", &[Run(&ALNUM, 40)]),
    plain(Rule::Cloudflare, "cfat_", &[Run(&ALNUM, 40)]),
    plain(Rule::Cloudflare, "cfk_", &[Run(&ALNUM, 40)]),
    plain(Rule::Cloudflare, "v1.0-", &[Exactly(&HEX, 24), Text("-"), Run(&HEX, 100)]),
    plain(Rule::Grafana, "glsa_", &[Exactly(&ALNUM, 32), Text("_"), Run(&HEX, 8)]),
    plain(Rule::Grafana, "glc_", &[Run(&BASE64, 32)]),
    plain(Rule::Grafana, "eyJrIjoi", &[Run(&BASE64, 60)]),
    plain(Rule::Dynatrace, "dt0c01.", &[Exactly(&UPPER_ALNUM, 24), Text("."), Run(&UPPER_ALNUM, 64)]),
    plain(Rule::Dynatrace, "dt0s01.", &[Exactly(&UPPER_ALNUM, 24), Text("."), Run(&UPPER_ALNUM, 64)]),
    plain(Rule::PlanetScale, "pscale_tkn_", &[Run(&TOKEN_DOT, 32)]),
    plain(Rule::PlanetScale, "pscale_pw_", &[Run(&TOKEN_DOT, 32)]),
    plain(Rule::PlanetScale, "pscale_oauth_", &[Run(&TOKEN_DOT, 32)]),
    plain(Rule::Supabase, "sbp_", &[Run(&HEX, 40)]),
    plain(Rule::Supabase, "sb_secret_", &[Run(&TOKEN, 20)]),
    plain(Rule::Tailscale, "tskey-", &[Run(&TOKEN, 20)]),
    plain(Rule::Neon, "napi_", &[Run(&LOWER_ALNUM, 40)]),
    plain(Rule::Netlify, "nfp_", &[Run(&ALNUM, 36)]),
    token(Rule::Alibaba, "LTAI", &[Run(&ALNUM, 12)]),
    plain(Rule::Mapbox, "sk.eyJ", &[Run(&TOKEN_DOT, 60)]),
    token(Rule::Facebook, "EAA", &[Run(&ALNUM, 90)]),
    token(Rule::Dropbox, "sl.", &[Run(&TOKEN, 120)]),
];

/// Fly's tokens are lists of base64.
static FLY: Class = Class::of(b"a-zA-Z0-9+/=,_-");

/// Prefixes of AWS access key ids: long-lived, temporary, and those of services.
pub(crate) const AWS_PREFIXES: &[&str] = &["AKIA", "ASIA", "ABIA", "ACCA"];
/// Letters and digits after the prefix.
const AWS_ID_REST: usize = 16;
/// Length of a secret access key.
const AWS_SECRET: usize = 40;
/// What may stand between an id and its secret: a comma in the file one downloads, a colon, quotes, spaces.
static AWS_BETWEEN: Class = Class::of(b" \t,:;|\"'=");
static AWS_SECRET_BYTES: Class = Class::of(b"a-zA-Z0-9/+");

/// An AWS access key id, and its secret if it directly follows.
pub(crate) fn aws(view: &View, start: usize, end: usize) -> Option<Found> {
    let prefixed = AWS_PREFIXES.iter().any(|prefix| view.is(start, prefix.as_bytes()));
    if !view.rules().has(Rule::Aws) || !prefixed || !view.boundary(start) {
        return None;
    }
    let stop = view.run(end, &UPPER_ALNUM, AWS_ID_REST);
    if stop - end < AWS_ID_REST || view.word_at(stop) {
        return None;
    }
    let secret = view.run(stop, &AWS_BETWEEN, 6);
    let last = view.run(secret, &AWS_SECRET_BYTES, AWS_SECRET);
    let beside = secret > stop && last - secret == AWS_SECRET;
    Some(Found::span(Rule::Aws, start, if beside { last } else { stop }))
}
