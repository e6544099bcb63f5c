//! The rules in force and the values given at run time, ready for use.

use crate::config::{Config, ConfigError};
use crate::core::Core;
use crate::extra;
use crate::hints::Hints;
use crate::names;
use crate::rules::Rule;
use crate::scanner;
use crate::secrets::{Edit, Secrets, Taken};
use crate::stream::{Regions, Stream, to_original};
use crate::unveil::Unveiled;
use std::ops::Range;
use std::sync::Arc;

/// Masks secrets. Cheap to clone, and the same for every session that has the same configuration and values.
#[derive(Clone)]
pub struct Redactor {
    core: Arc<Core>,
    hints: &'static Hints,
}

/// A secret that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule that found it.
    pub rule: &'static str,
    /// Its position in the text.
    pub range: Range<usize>,
}

impl Redactor {
    /// A redactor without values of its own.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        let rules = config.rules.with(config.optional.iter().map(String::as_str))?;
        let core = Core { rules, kinds: scanner::kinds(rules), extra: extra::compile(&config.extra)?, secrets: None };
        Ok(Self { core: Arc::new(core), hints: Hints::get()? })
    }

    /// The same with these values to mask, in the place of those it had: registered secrets, for example. They are found as
    /// they are and escaped for JSON, URLs and shells, and in base64. Those that [`crate::is_maskable`] refuses are not taken.
    pub fn with_secrets<V: AsRef<[u8]>>(&self, values: impl IntoIterator<Item = V>) -> Result<Self, ConfigError> {
        self.with_values(values, std::iter::empty::<&[u8]>())
    }

    /// The same with registered values, and with others that were found, such as those of variables with secret names. An
    /// error if the latter have more than [`crate::MOST_FOUND`] bytes together. If they have many, the longer ones are found
    /// only as they are.
    pub fn with_values<V: AsRef<[u8]>, F: AsRef<[u8]>>(
        &self,
        registered: impl IntoIterator<Item = V>,
        found: impl IntoIterator<Item = F>,
    ) -> Result<Self, ConfigError> {
        self.with_taken(registered, Taken::Telling, found)
    }

    /// [`Redactor::with_secrets`] with values that are so common that other text is masked with them. Those that are too short
    /// are not taken.
    pub fn with_any_secrets<V: AsRef<[u8]>>(&self, values: impl IntoIterator<Item = V>) -> Result<Self, ConfigError> {
        self.with_taken(values, Taken::All, std::iter::empty::<&[u8]>())
    }

    fn with_taken<V: AsRef<[u8]>, F: AsRef<[u8]>>(
        &self,
        registered: impl IntoIterator<Item = V>,
        taken: Taken,
        found: impl IntoIterator<Item = F>,
    ) -> Result<Self, ConfigError> {
        let has_values = self.core.rules.has(Rule::Registered);
        Ok(self.with(if has_values { Secrets::new(registered, taken, found)? } else { None }))
    }

    /// One that masks everything but line breaks, for texts with more values than can be masked.
    pub fn withholding(&self) -> Self {
        self.with(Some(Secrets::Everything))
    }

    /// Whether it masks everything.
    pub fn is_withholding(&self) -> bool {
        matches!(self.core.secrets, Some(Secrets::Everything))
    }

    fn with(&self, secrets: Option<Secrets>) -> Self {
        let core = Core { kinds: self.core.kinds, extra: self.core.extra.clone(), rules: self.core.rules, secrets };
        Self { core: Arc::new(core), hints: self.hints }
    }

    /// The values among these variables whose names look secret, for [`Redactor::with_secrets`].
    pub fn secret_values<N: AsRef<str>, V>(variables: impl IntoIterator<Item = (N, V)>) -> impl Iterator<Item = V> {
        variables.into_iter().filter(|(name, _)| names::looks_secret(name.as_ref())).map(|(_, value)| value)
    }

    /// The text with its secrets masked.
    pub fn redact(&self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        let mut stream = self.stream();
        stream.push(text, &mut out);
        stream.finish(&mut out);
        out
    }

    /// The text with its secrets masked. UTF-8 stays UTF-8.
    pub fn redact_str(&self, text: &str) -> String {
        let masked = self.redact(text.as_bytes());
        String::from_utf8(masked).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// The beginning of a text with its secrets masked, as far as it can be shown before the rest is known: without what
    /// may be the beginning of a value given at run time. What a rule would mask only with the text that follows is shown.
    pub fn redact_beginning(&self, text: &[u8]) -> Vec<u8> {
        let begun = self.core.secrets.as_ref().map_or(0, |secrets| secrets.begun(text));
        self.redact(&text[..text.len() - begun])
    }

    /// How much of a text can be shown before the rest is known: not what may be the beginning of a value given at run
    /// time, and where rules look at text, not a line without its end, unless it is too long to wait for.
    pub fn settled(&self, text: &[u8]) -> usize {
        let begun = self.core.secrets.as_ref().map_or(0, |secrets| secrets.begun(text));
        let known = text.len() - begun;
        if !self.core.rules.look_at_text() && self.core.extra.is_empty() {
            return known;
        }
        let line = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if text.len() - line > Stream::MAX_HELD { known } else { line.min(known) }
    }

    /// A text in pieces.
    pub fn stream(&self) -> Stream {
        Stream::new(self.core.clone(), self.hints)
    }

    /// The secrets in a text, by where they begin.
    pub fn find(&self, text: &[u8]) -> Vec<Finding> {
        let mut regions = Regions::default();
        let before = self.stream().run(text, &mut regions);
        let edit = |mask: &Unveiled| Edit { mask: mask.mask, start: mask.start, end: mask.end };
        let unveiled: Vec<Edit> = before.unveiled.iter().map(edit).collect();
        let in_text = |range: Range<usize>| {
            to_original(&unveiled, range.start as u64, false)..to_original(&unveiled, range.end as u64, true)
        };
        let plain = regions.in_text(&before.values).into_iter();
        let plain = plain.map(|(rule, range)| Finding { rule: rule.name(), range: in_text(range) });
        let in_disguise = before.unveiled.iter().map(|mask| {
            let range = mask.start as usize..mask.end as usize;
            Finding { rule: mask.rule.name(), range }
        });
        let mut findings: Vec<Finding> = in_disguise.chain(plain).collect();
        findings.sort_by_key(|finding| finding.range.start);
        // A mask may have gone on over another.
        findings.dedup_by(|next, before| next.range.end <= before.range.end);
        findings
    }
}
