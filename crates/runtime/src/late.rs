//! Output of background work that comes after its command was answered. It is never mixed into a later command's
//! output; the next result carries it apart.

use crate::sync::lock;
use shellkeep_process::stdio::{Read, Reader};
use shellkeep_redact::Redactor;
use shellkeep_session::ByteString;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Last bytes kept between two results; a background job that says more should be a service.
const LATE_BYTES: usize = 64 << 10;

/// What came late and was not told yet.
#[derive(Debug, Default)]
pub struct LateOutput {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: VecDeque<u8>,
    dropped: usize,
}

impl LateOutput {
    /// Reads to the end in a task of its own. With a redactor, what is kept is masked.
    pub fn collect(self: &Arc<Self>, reader: Reader, redactor: Option<&Redactor>) {
        let late = Arc::clone(self);
        let Some(mut mask) = redactor.map(Redactor::stream) else {
            tokio::spawn(async move { while reader.read(|bytes| late.push(bytes)).await != Read::End {} });
            return;
        };
        tokio::spawn(async move {
            let mut out = Vec::new();
            while reader.read(|bytes| mask.push(bytes, &mut out)).await != Read::End {
                late.push(&out);
                out.clear();
            }
            mask.finish(&mut out);
            late.push(&out);
        });
    }

    fn push(&self, bytes: &[u8]) {
        let mut kept = lock(&self.kept);
        kept.bytes.extend(bytes);
        let excess = kept.bytes.len().saturating_sub(LATE_BYTES);
        kept.bytes.drain(..excess);
        kept.dropped += excess;
    }

    /// Masks what came and was not told yet.
    pub fn mask(&self, redactor: &Redactor) {
        let mut kept = lock(&self.kept);
        kept.bytes = redactor.redact(kept.bytes.make_contiguous()).into();
    }

    /// Takes what came since the last time.
    pub fn take(&self) -> Option<ByteString> {
        let kept = std::mem::take(&mut *lock(&self.kept));
        if kept.bytes.is_empty() {
            return None;
        }
        let mut text = Vec::new();
        if kept.dropped > 0 {
            text.extend_from_slice(format!("[shellkeep: {} earlier bytes dropped]\n", kept.dropped).as_bytes());
        }
        text.extend(kept.bytes);
        Some(ByteString(text))
    }
}
