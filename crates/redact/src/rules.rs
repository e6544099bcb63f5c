//! The rules by name, and sets of them. What a rule looks for is in the folder of this module, one file per family.

pub(crate) mod ai;
pub(crate) mod assignment;
pub(crate) mod card;
pub(crate) mod cloud;
pub(crate) mod command;
pub(crate) mod developer;
pub(crate) mod email;
pub(crate) mod groups;
pub(crate) mod header;
pub(crate) mod jwt;
pub(crate) mod messaging;
pub(crate) mod national;
pub(crate) mod national_letters;
pub(crate) mod number;
pub(crate) mod pair;
pub(crate) mod password_hash;
pub(crate) mod phone;
pub(crate) mod private_key;
pub(crate) mod token;
pub(crate) mod unprefixed;
pub(crate) mod url;
pub(crate) mod value;

use thiserror::Error;

macro_rules! rules {
    ($($variant:ident $name:literal $about:literal)*) => {
        /// A rule.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Rule {
            $($variant,)*
        }

        /// Every rule with its name and what it finds, in the order of [`Rule`].
        const ALL: &[(&str, &str)] = &[$(($name, $about),)*];
    };
}

rules! {
    // What the caller gave.
    Registered "registered" "values given at run time"
    Extra "extra" "patterns from the configuration"
    // Structures.
    PrivateKey "private_key" "private keys: PEM, OpenSSH, PGP, PuTTY"
    Jwt "jwt" "JSON web tokens"
    Bearer "bearer" "bearer tokens in headers and text"
    BasicAuth "basic_auth" "basic authentication in headers and text"
    AuthHeader "auth_header" "Authorization headers of other kinds"
    Cookie "cookie" "Cookie and Set-Cookie headers"
    UrlPassword "url_password" "passwords in URLs and connection strings"
    UserFlag "user_flag" "user:password after -u or --user"
    CommandFlag "command_flag" "passwords on the command lines of known programs"
    Assignment "assignment" "values whose names look secret"
    Webhook "webhook" "webhook addresses, which are keys"
    PasswordHash "password_hash" "hashes of passwords"
    // People.
    Email "email" "e-mail addresses"
    Card "card" "payment card numbers"
    // Providers.
    Age "age" "age secret keys"
    Airtable "airtable" "Airtable personal access tokens"
    Alibaba "alibaba" "Alibaba Cloud access key ids"
    Anthropic "anthropic" "Anthropic API keys"
    Atlassian "atlassian" "Atlassian API tokens"
    Aws "aws" "AWS access key ids, with the secret beside them, and Bedrock keys"
    Azure "azure" "Azure client secrets, DevOps tokens, and signatures of shared addresses"
    Brevo "brevo" "Brevo API keys"
    Buildkite "buildkite" "Buildkite tokens"
    Cerebras "cerebras" "Cerebras API keys"
    CircleCi "circleci" "CircleCI personal tokens"
    Cloudflare "cloudflare" "Cloudflare tokens and origin keys"
    Databricks "databricks" "Databricks tokens"
    DigitalOcean "digitalocean" "DigitalOcean tokens"
    Discord "discord" "Discord tokens"
    Docker "docker" "Docker Hub tokens, and logins in base64"
    Doppler "doppler" "Doppler tokens"
    Dropbox "dropbox" "Dropbox tokens"
    Dynatrace "dynatrace" "Dynatrace tokens"
    EasyPost "easypost" "EasyPost keys"
    ElevenLabs "elevenlabs" "ElevenLabs API keys"
    Facebook "facebook" "Facebook access tokens"
    Figma "figma" "Figma tokens"
    Fireworks "fireworks" "Fireworks API keys"
    Fly "fly" "Fly.io tokens"
    GitHub "github" "GitHub tokens"
    GitLab "gitlab" "GitLab tokens"
    Google "google" "Google API keys, OAuth secrets and tokens, service accounts in base64"
    Grafana "grafana" "Grafana tokens"
    Groq "groq" "Groq API keys"
    Heroku "heroku" "Heroku tokens"
    HubSpot "hubspot" "HubSpot tokens"
    HuggingFace "huggingface" "Hugging Face tokens"
    Jina "jina" "Jina API keys"
    Langfuse "langfuse" "Langfuse secret keys"
    LangSmith "langsmith" "LangSmith keys"
    Linear "linear" "Linear keys"
    Mailgun "mailgun" "Mailgun keys"
    Mapbox "mapbox" "Mapbox secret tokens"
    Neon "neon" "Neon API keys"
    Netlify "netlify" "Netlify tokens"
    NewRelic "newrelic" "New Relic keys"
    Notion "notion" "Notion tokens"
    Npm "npm" "npm tokens"
    Nvidia "nvidia" "NVIDIA API keys"
    OnePassword "onepassword" "1Password tokens and secret keys"
    OpenAi "openai" "OpenAI API keys, and others of that form"
    OpenRouter "openrouter" "OpenRouter keys"
    Perplexity "perplexity" "Perplexity keys"
    Pinecone "pinecone" "Pinecone keys"
    PlanetScale "planetscale" "PlanetScale tokens and passwords"
    Postman "postman" "Postman keys"
    Prefect "prefect" "Prefect keys"
    Pulumi "pulumi" "Pulumi tokens"
    PyPi "pypi" "PyPI tokens"
    ReadMe "readme" "ReadMe keys"
    Replicate "replicate" "Replicate tokens"
    RubyGems "rubygems" "RubyGems keys"
    SendGrid "sendgrid" "SendGrid keys"
    Sentry "sentry" "Sentry tokens"
    Shippo "shippo" "Shippo tokens"
    Shopify "shopify" "Shopify tokens"
    Slack "slack" "Slack tokens"
    SonarQube "sonarqube" "SonarQube tokens"
    Square "square" "Square tokens"
    Stripe "stripe" "Stripe secret and restricted keys, webhook secrets"
    Supabase "supabase" "Supabase tokens"
    Tailscale "tailscale" "Tailscale keys"
    Tavily "tavily" "Tavily keys"
    Telegram "telegram" "Telegram bot tokens"
    Terraform "terraform" "Terraform Cloud tokens"
    Together "together" "Together AI keys"
    Twilio "twilio" "Twilio account ids and API keys"
    Typeform "typeform" "Typeform tokens"
    Vault "vault" "Vault tokens"
    Xai "xai" "xAI keys"
    // Off unless named: telephone numbers and national ids.
    Phone "phone" "telephone numbers"
    UsSsn "us_ssn" "United States: social security numbers"
    UkNino "uk_nino" "United Kingdom: national insurance numbers"
    DeSteuerId "de_steuer_id" "Germany: tax ids"
    FrInsee "fr_insee" "France: social security numbers"
    InAadhaar "in_aadhaar" "India: Aadhaar numbers"
    InPan "in_pan" "India: permanent account numbers"
    CnResidentId "cn_resident_id" "China: resident identity numbers"
    BrCpf "br_cpf" "Brazil: CPF numbers"
    EsDni "es_dni" "Spain: DNI and NIE numbers"
    ItCodiceFiscale "it_codice_fiscale" "Italy: fiscal codes"
    PlPesel "pl_pesel" "Poland: PESEL numbers"
    NlBsn "nl_bsn" "Netherlands: citizen service numbers"
    ChAhv "ch_ahv" "Switzerland: AHV numbers"
    CaSin "ca_sin" "Canada: social insurance numbers"
    KrRrn "kr_rrn" "South Korea: resident registration numbers"
    ZaId "za_id" "South Africa: identity numbers"
}

/// The first rule that is off unless it is named.
const FIRST_OPTIONAL: Rule = Rule::Phone;
/// The first rule for national ids.
const FIRST_NATIONAL: Rule = Rule::UsSsn;

impl Rule {
    /// Its name in findings and in the configuration.
    pub(crate) fn name(self) -> &'static str {
        ALL[self as usize].0
    }

    const fn bit(self) -> u128 {
        1 << self as u8
    }
}

/// A set of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules(u128);

/// A name that no rule has.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no redaction rule named '{name}'; Rules::names() lists them")]
pub struct UnknownRule {
    pub name: String,
}

impl Default for Rules {
    /// All rules but those for telephone numbers and national ids, which look like other numbers and are off unless named.
    fn default() -> Self {
        Self(FIRST_OPTIONAL.bit() - 1)
    }
}

impl Rules {
    /// No rule.
    pub fn none() -> Self {
        Self(0)
    }

    /// Only the rules named.
    pub fn only<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownRule> {
        Self::none().with(names)
    }

    /// These and the rules named.
    pub fn with<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownRule> {
        names.into_iter().try_fold(self, |rules, name| Ok(Self(rules.0 | bit(name)?)))
    }

    /// These without the rules named.
    pub fn without<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownRule> {
        names.into_iter().try_fold(self, |rules, name| Ok(Self(rules.0 & !bit(name)?)))
    }

    /// Whether a rule of that name is in the set.
    pub fn contains(self, name: &str) -> bool {
        bit(name).is_ok_and(|bit| self.0 & bit != 0)
    }

    /// Every rule there is: its name and what it finds.
    pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
        ALL.iter().copied()
    }

    #[inline]
    pub(crate) fn has(self, rule: Rule) -> bool {
        self.0 & rule.bit() != 0
    }

    /// Whether there is a rule in the set that looks for more than the values given at run time.
    pub(crate) fn look_at_text(self) -> bool {
        self.0 & !Rule::Registered.bit() != 0
    }

    /// Whether one of the national ids is in the set.
    pub(crate) fn has_national(self) -> bool {
        self.0 >= FIRST_NATIONAL.bit()
    }
}

fn bit(name: &str) -> Result<u128, UnknownRule> {
    let found = ALL.iter().position(|(known, _)| *known == name);
    found.map(|index| 1 << index).ok_or_else(|| UnknownRule { name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_fit() {
        assert!(ALL.len() <= 128);
        assert_eq!(ALL.iter().map(|(name, _)| name).collect::<BTreeSet<_>>().len(), ALL.len());
        assert_eq!(Rule::Email.name(), "email");
        assert_eq!(Rule::ZaId as usize, ALL.len() - 1);
    }

    #[test]
    fn sets_are_made_by_name() {
        let rules = Rules::only(["email", "us_ssn"]).unwrap();
        assert!(rules.contains("email") && rules.contains("us_ssn") && !rules.contains("phone"));
        assert!(rules.has_national() && !Rules::default().has_national());
        assert!(!Rules::default().without(["email"]).unwrap().has(Rule::Email));
        assert!(!Rules::default().contains("us_ssn") && Rules::default().contains("xai"));
        assert!(!Rules::default().contains("phone"));
        assert_eq!(Rules::only(["e-mail"]).unwrap_err().name, "e-mail");
    }
}
