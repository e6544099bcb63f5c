//! A run's result as a client gets it.

use base64::Engine as _;
use serde_json::Value;
use std::time::Duration;

/// The JSON of a run, with the questions tests ask of it.
#[derive(Debug, Clone)]
pub struct Reply {
    pub json: Value,
    /// How long the caller waited for it.
    pub took: Duration,
}

impl Reply {
    /// The exact bytes of standard output.
    pub fn stdout(&self) -> Vec<u8> {
        self.bytes("stdout")
    }

    /// The exact bytes of standard error.
    pub fn stderr(&self) -> Vec<u8> {
        self.bytes("stderr")
    }

    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout()).into_owned()
    }

    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr()).into_owned()
    }

    pub fn status(&self) -> &str {
        self.json["status"].as_str().unwrap_or_default()
    }

    pub fn exit_code(&self) -> Option<i64> {
        self.json["exit_code"].as_i64()
    }

    pub fn signal(&self) -> Option<&str> {
        self.json["signal"].as_str()
    }

    pub fn run_id(&self) -> &str {
        self.json["run_id"].as_str().unwrap_or_default()
    }

    /// Codes of the notices, in order.
    pub fn notice_codes(&self) -> Vec<&str> {
        self.notices().iter().filter_map(|notice| notice["code"].as_str()).collect()
    }

    /// All notice texts in one.
    pub fn notice_text(&self) -> String {
        let texts: Vec<&str> = self.notices().iter().filter_map(|notice| notice["message"].as_str()).collect();
        texts.join("\n")
    }

    /// Late output of earlier background work, as text.
    pub fn background_output(&self) -> String {
        self.json["background_output"].as_str().unwrap_or_default().to_owned()
    }

    fn notices(&self) -> &[Value] {
        self.json["notices"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    fn bytes(&self, stream: &str) -> Vec<u8> {
        match self.json[format!("{stream}_base64")].as_str() {
            Some(text) => base64::engine::general_purpose::STANDARD.decode(text).expect("base64 is base64"),
            None => self.json[stream].as_str().unwrap_or_default().as_bytes().to_vec(),
        }
    }
}
