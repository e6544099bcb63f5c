//! Output of background work that comes after its command was answered. It is never mixed into a later command's
//! output; the next result carries it apart.

use shellkeep_process::stdio::{Read, Reader};
use shellkeep_session::ByteString;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Last bytes kept between two results; a background job that says more should be a service.
const LATE_BYTES: usize = 64 << 10;

/// What came late and was not told yet.
#[derive(Debug, Default)]
pub struct LateOutput {
    bytes: Mutex<VecDeque<u8>>,
}

impl LateOutput {
    /// Reads to the end in a task of its own.
    pub fn collect(self: &Arc<Self>, reader: Reader) {
        let late = Arc::clone(self);
        tokio::spawn(async move { while reader.read(|bytes| late.push(bytes)).await != Read::End {} });
    }

    fn push(&self, bytes: &[u8]) {
        let mut kept = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let excess = kept.len().saturating_sub(LATE_BYTES);
        kept.drain(..excess);
    }

    /// Takes what came since the last time.
    pub fn take(&self) -> Option<ByteString> {
        let mut kept = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        (!kept.is_empty()).then(|| ByteString(std::mem::take(&mut *kept).into()))
    }
}
