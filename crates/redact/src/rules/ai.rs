//! Keys of model providers and of what is built around them. Formats as published by the providers.

use crate::class::{ALNUM, BASE64, HEX, TOKEN, WORD};
use crate::rules::Rule;
use crate::rules::token::Part::{Exactly, Run, Text};
use crate::rules::token::{Token, plain, token};

pub(crate) static TOKENS: &[Token] = &[
    plain(Rule::Anthropic, "sk-ant-", &[Run(&TOKEN, 20)]),
    plain(Rule::OpenAi, "sk-proj-", &[Run(&TOKEN, 20)]),
    plain(Rule::OpenAi, "sk-svcacct-", &[Run(&TOKEN, 20)]),
    plain(Rule::OpenAi, "sk-admin-", &[Run(&TOKEN, 20)]),
    plain(Rule::OpenAi, "sk-None-", &[Run(&TOKEN, 20)]),
    // The old form, which several others have taken over. Names of style classes have dashes, so these have none.
    token(Rule::OpenAi, "sk-", &[Run(&ALNUM, 20)]),
    plain(Rule::OpenRouter, "sk-or-v1-", &[Run(&HEX, 32)]),
    plain(Rule::Langfuse, "sk-lf-", &[Run(&TOKEN, 32)]),
    plain(Rule::LangSmith, "lsv2_pt_", &[Run(&WORD, 32)]),
    plain(Rule::LangSmith, "lsv2_sk_", &[Run(&WORD, 32)]),
    plain(Rule::LangSmith, "ls__", &[Run(&ALNUM, 32)]),
    token(Rule::Groq, "gsk_", &[Run(&ALNUM, 32)]),
    token(Rule::Replicate, "r8_", &[Run(&TOKEN, 32)]),
    token(Rule::Xai, "xai-", &[Run(&TOKEN, 60)]),
    token(Rule::Perplexity, "pplx-", &[Run(&ALNUM, 40)]),
    token(Rule::Fireworks, "fw_", &[Run(&ALNUM, 20)]),
    plain(Rule::HuggingFace, "hf_", &[Run(&ALNUM, 30)]),
    plain(Rule::HuggingFace, "api_org_", &[Run(&ALNUM, 30)]),
    plain(Rule::Nvidia, "nvapi-", &[Run(&TOKEN, 40)]),
    plain(Rule::Pinecone, "pcsk_", &[Run(&WORD, 40)]),
    token(Rule::ElevenLabs, "sk_", &[Run(&HEX, 48)]),
    plain(Rule::Tavily, "tvly-", &[Run(&TOKEN, 20)]),
    plain(Rule::Jina, "jina_", &[Run(&TOKEN, 40)]),
    token(Rule::Cerebras, "csk-", &[Run(&ALNUM, 40)]),
    plain(Rule::Together, "tgp_v1_", &[Run(&TOKEN, 40)]),
    // Google.
    plain(Rule::Google, "AIza", &[Run(&TOKEN, 35)]),
    plain(Rule::Google, "ya29.", &[Run(&TOKEN, 20)]),
    plain(Rule::Google, "GOCSPX-", &[Run(&TOKEN, 20)]),
    plain(Rule::Google, "1//0", &[Run(&TOKEN, 40)]),
    plain(Rule::Google, "AQ.Ab", &[Run(&TOKEN, 40)]),
    // `{"type": "service_account"` in base64, with the spaces of three writers.
    plain(Rule::Google, "eyJ0eXBlIjoic2VydmljZV9hY2NvdW50I", &[Run(&BASE64, 20)]),
    plain(Rule::Google, "eyJ0eXBlIjogInNlcnZpY2VfYWNjb3VudCI", &[Run(&BASE64, 20)]),
    plain(Rule::Google, "ewogICJ0eXBlIjogInNlcnZpY2VfYWNjb3VudCI", &[Run(&BASE64, 20)]),
    // Age keys have a checksum; the length and the alphabet are enough to know one.
    plain(Rule::Age, "AGE-SECRET-KEY-1", &[Run(&ALNUM, 58)]),
    plain(Rule::OnePassword, "ops_eyJ", &[Run(&TOKEN, 100)]),
    plain(Rule::OnePassword, "A3-", &[Exactly(&ALNUM, 6), Text("-"), Exactly(&ALNUM, 6), Text("-"), Run(&TOKEN, 23)]),
    plain(Rule::OnePassword, "A3-", &[Exactly(&ALNUM, 6), Text("-"), Exactly(&ALNUM, 11), Text("-"), Run(&TOKEN, 17)]),
];
