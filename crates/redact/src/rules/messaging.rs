//! Tokens of services that send and receive messages. Formats as published by the providers.

use crate::class::{ALNUM, Class, HEX, LOWER_ALNUM, TOKEN};
use crate::found::{Found, Tail};
use crate::rules::Rule;
use crate::rules::token::Part::{Exactly, Run, Text};
use crate::rules::token::{Token, plain, token};
use crate::view::View;

pub(crate) static TOKENS: &[Token] = &[
    token(Rule::Slack, "xoxa-", &[Run(&TOKEN, 10)]),
    token(Rule::Slack, "xoxb-", &[Run(&TOKEN, 10)]),
    token(Rule::Slack, "xoxc-", &[Run(&TOKEN, 10)]),
    token(Rule::Slack, "xoxd-", &[Run(&PERCENT, 10)]),
    token(Rule::Slack, "xoxe-", &[Run(&TOKEN, 10)]),
    token(Rule::Slack, "xoxe.xox", &[Run(&TOKEN, 10)]),
    token(Rule::Slack, "xoxo-", &[Run(&TOKEN, 10)]),
    token(Rule::Slack, "xoxp-", &[Run(&TOKEN, 10)]),
    token(Rule::Slack, "xoxr-", &[Run(&TOKEN, 10)]),
    token(Rule::Slack, "xoxs-", &[Run(&TOKEN, 10)]),
    token(Rule::Slack, "xapp-", &[Run(&TOKEN, 10)]),
    token(Rule::Slack, "xwfp-", &[Run(&TOKEN, 10)]),
    plain(Rule::SendGrid, "SG.", &[Exactly(&TOKEN, 22), Text("."), Run(&TOKEN, 30)]),
    token(Rule::Mailgun, "key-", &[Exactly(&LOWER_ALNUM, 32)]),
    plain(Rule::Brevo, "xkeysib-", &[Run(&TOKEN, 40)]),
    plain(Rule::Brevo, "xsmtpsib-", &[Run(&TOKEN, 40)]),
];

static PERCENT: Class = Class::of(b"a-zA-Z0-9_%+/=-");
static WEBHOOK_PATH: Class = Class::of(b"a-zA-Z0-9_/-");

/// Where the secret part of a webhook's address begins: what anybody who has it can post to.
pub(crate) const WEBHOOKS: &[&str] = &[
    "hooks.slack.com/services/",
    "hooks.slack.com/workflows/",
    "hooks.slack.com/triggers/",
    "discord.com/api/webhooks/",
    "discordapp.com/api/webhooks/",
    "webhook.office.com/webhookb2/",
    "hooks.zapier.com/hooks/catch/",
];

/// The secret part of a webhook's address.
pub(crate) fn webhook(view: &View, _start: usize, end: usize) -> Option<Found> {
    let enough = view.run(end, &WEBHOOK_PATH, 12) - end == 12;
    (enough && view.rules().has(Rule::Webhook)).then(|| Found::open(Rule::Webhook, end, Tail::Class(&WEBHOOK_PATH)))
}

/// Digits of a bot's id before the colon.
const TELEGRAM_ID: std::ops::RangeInclusive<usize> = 8..=12;
/// Bytes after `:AA`; the whole secret has 35.
const TELEGRAM_REST: usize = 33;

/// A Telegram bot token, by the `:AA` in its middle.
pub(crate) fn telegram(view: &View, start: usize, end: usize) -> Option<Found> {
    if !view.rules().has(Rule::Telegram) || !view.is(start, b":AA") {
        return None;
    }
    let from = view.back(start, &ALNUM, TELEGRAM_ID.end() + 8);
    // The token follows `bot` in the addresses of its API.
    let id = if view.is(from, b"bot") { from + 3 } else { from };
    let digits = view.slice(id, start).iter().all(u8::is_ascii_digit);
    if !digits || !TELEGRAM_ID.contains(&(start - id)) || !(id > from || view.boundary(id)) {
        return None;
    }
    let stop = view.run(end, &TOKEN, usize::MAX);
    // The id is public and begins behind a word in the address of the API, so there only the secret is masked.
    let begin = if id > from { start + 1 } else { id };
    (stop - end >= TELEGRAM_REST).then(|| Found::open(Rule::Telegram, begin, Tail::Class(&TELEGRAM)))
}

static TELEGRAM: Class = Class::of(b"a-zA-Z0-9_:-");

/// A Discord token, by its three parts: the user's id in base64, a time, a signature. `start` is a word's start.
pub(crate) fn discord(view: &View, start: usize) -> Option<Found> {
    let first = view.run(start, &TOKEN, 30);
    if !(23..=28).contains(&(first - start)) || view.at(first) != Some(b'.') {
        return None;
    }
    let second = view.run(first + 1, &TOKEN, 8);
    if !(5..=7).contains(&(second - first - 1)) || view.at(second) != Some(b'.') {
        return None;
    }
    let third = view.run(second + 1, &TOKEN, usize::MAX);
    let random = third - second > 25 && view.slice(second, third).iter().any(u8::is_ascii_digit);
    random.then(|| Found::open(Rule::Discord, start, Tail::Class(&DISCORD)))
}

static DISCORD: Class = Class::of(b"a-zA-Z0-9_.-");

/// A Twilio account id or API key: two letters and 32 hex digits. `start` is a word's start.
pub(crate) fn twilio(view: &View, start: usize) -> Option<Found> {
    if !view.is(start, b"AC") && !view.is(start, b"SK") {
        return None;
    }
    let stop = view.run(start + 2, &HEX, 33);
    (stop - start == 34 && !view.word_at(stop)).then(|| Found::span(Rule::Twilio, start, stop))
}
