//! Tokens that are known by something in their middle.

use crate::class::{ALNUM, Class, TOKEN, WORD};
use crate::found::{Found, Tail};
use crate::rules::Rule;
use crate::view::View;

/// What a client secret of Azure may hold.
static AZURE: Class = Class::of(b"a-zA-Z0-9_~.-");
/// Bytes of it before the `Q~`, and after.
const AZURE_BEFORE: usize = 4;
const AZURE_AFTER: usize = 31;

/// A client secret of Azure: three bytes, a digit, `Q~`, and the rest.
pub(crate) fn azure(view: &View, start: usize, end: usize) -> Option<Found> {
    if !view.rules().has(Rule::Azure) || !view.is(start, b"Q~") {
        return None;
    }
    let from = view.back(start, &AZURE, AZURE_BEFORE);
    let digit = view.before(start).is_some_and(|byte| byte.is_ascii_digit());
    let first_is_word = view.at(from).is_some_and(|byte| WORD.has(byte));
    if start - from < AZURE_BEFORE || !digit || !first_is_word || !view.boundary(from) {
        return None;
    }
    let enough = view.run(end, &AZURE, AZURE_AFTER) - end == AZURE_AFTER;
    enough.then(|| Found::open(Rule::Azure, from, Tail::Class(&AZURE)))
}

/// Letters of an Azure DevOps token before its `AZDO`, and after.
const DEVOPS_BEFORE: usize = 76;
const DEVOPS_AFTER: usize = 4;

/// A token of Azure DevOps, by the `AZDO` near its end.
pub(crate) fn devops(view: &View, start: usize, end: usize) -> Option<Found> {
    if !view.rules().has(Rule::Azure) || !view.is(start, b"AZDO") {
        return None;
    }
    let after = view.run(end, &ALNUM, DEVOPS_AFTER + 1);
    if after - end != DEVOPS_AFTER || view.word_at(after) {
        return None;
    }
    let from = view.back(start, &ALNUM, DEVOPS_BEFORE);
    (start - from == DEVOPS_BEFORE && view.boundary(from)).then(|| Found::span(Rule::Azure, from, after))
}

/// Bytes of a Terraform token before its `.atlasv1.`, and after.
const TERRAFORM_BEFORE: usize = 14;
const TERRAFORM_AFTER: usize = 50;

/// A token of Terraform Cloud, by the `.atlasv1.` in its middle.
pub(crate) fn terraform(view: &View, start: usize, end: usize) -> Option<Found> {
    if !view.rules().has(Rule::Terraform) {
        return None;
    }
    let from = view.back(start, &ALNUM, TERRAFORM_BEFORE);
    if start - from < TERRAFORM_BEFORE || !view.boundary(from) {
        return None;
    }
    let enough = view.run(end, &TOKEN, TERRAFORM_AFTER) - end == TERRAFORM_AFTER;
    enough.then(|| Found::open(Rule::Terraform, from, Tail::Class(&TERRAFORM)))
}

static TERRAFORM: Class = Class::of(b"a-zA-Z0-9_=.-");
