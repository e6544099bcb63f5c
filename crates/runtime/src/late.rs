//! Output of background jobs that arrives after their command was answered. It is never mixed into a later command's
//! output; the next result has it in a separate field.

use crate::sync::lock;
use crate::tasks;
use shellkeep_process::stdio::{Read, Reader};
use shellkeep_redact::Redactor;
use shellkeep_session::ByteString;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Last bytes kept between two results; a background job that writes more should be a service.
const LATE_BYTES: usize = 64 << 10;

/// Late output that was not returned yet.
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
    /// Reads to the end in its own task. With a redactor, what is kept is masked.
    pub fn collect(self: &Arc<Self>, reader: Reader, redactor: Option<&Redactor>) {
        let late = Arc::clone(self);
        let Some(mut mask) = redactor.map(Redactor::stream) else {
            tasks::spawn(async move { while reader.read(|bytes| late.push(bytes)).await != Read::End {} });
            return;
        };
        tasks::spawn(async move {
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

    /// Whether there is nothing to return, and nobody collects more.
    pub fn is_over(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1 && lock(&self.kept).bytes.is_empty()
    }

    /// Masks what was not returned yet.
    pub fn mask(&self, redactor: &Redactor) {
        let mut kept = lock(&self.kept);
        kept.bytes = redactor.redact(kept.bytes.make_contiguous()).into();
    }

    /// Takes what arrived since the last time.
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
