//! What a checkpointer has been told and has not looked at yet.

use crate::sync::lock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Names that are kept one by one; beyond that, everything is scanned, which costs no more by then.
const MAX_NAMES: usize = 50_000;

/// How far a look must go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Depth {
    /// At the name itself.
    Itself,
    /// At all that is below it: the directory is new there.
    Below,
}

/// What has changed, according to inotify.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    /// More than can be named: the queue overflowed, or the root itself was touched.
    pub everything: bool,
    /// Names by the path of their directory.
    pub names: BTreeMap<Arc<[u8]>, BTreeMap<Vec<u8>, Depth>>,
    count: usize,
}

impl Mail {
    fn put(&mut self, directory: &Arc<[u8]>, name: &[u8], depth: Depth) {
        if self.everything {
            return;
        }
        let names = match self.names.get_mut(directory) {
            Some(names) => names,
            None => self.names.entry(Arc::clone(directory)).or_default(),
        };
        match names.get_mut(name) {
            Some(known) => *known = depth.max(*known),
            None => {
                names.insert(name.to_vec(), depth);
                self.count += 1;
            }
        }
        if self.count > MAX_NAMES {
            self.all();
        }
    }

    fn all(&mut self) {
        *self = Self { everything: true, ..Self::default() };
    }
}

/// Where a checkpointer's news wait. Filled when the watcher is drained.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    is_full: AtomicBool,
    mail: Mutex<Mail>,
}

impl Mailbox {
    pub fn is_empty(&self) -> bool {
        !self.is_full.load(Ordering::SeqCst)
    }

    pub fn put(&self, directory: &Arc<[u8]>, name: &[u8], depth: Depth) {
        self.mail().put(directory, name, depth);
        self.is_full.store(true, Ordering::SeqCst);
    }

    pub fn everything(&self) {
        self.mail().all();
        self.is_full.store(true, Ordering::SeqCst);
    }

    pub fn take(&self) -> Mail {
        let mut mail = self.mail();
        self.is_full.store(false, Ordering::SeqCst);
        std::mem::take(&mut mail)
    }

    /// What was taken and could not be looked at waits again, with what has come since.
    pub fn put_back(&self, taken: Mail) {
        if taken.everything {
            return self.everything();
        }
        for (directory, names) in taken.names {
            names.iter().for_each(|(name, depth)| self.put(&directory, name, *depth));
        }
    }

    fn mail(&self) -> MutexGuard<'_, Mail> {
        lock(&self.mail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_once_with_the_greater_depth_until_there_are_too_many() {
        let mailbox = Mailbox::default();
        let here: Arc<[u8]> = Arc::from(&b"a"[..]);
        mailbox.put(&here, b"x", Depth::Below);
        mailbox.put(&here, b"x", Depth::Itself);
        let mail = mailbox.take();
        assert!(mailbox.is_empty());
        assert_eq!(mail.names[&here][&b"x"[..]], Depth::Below);
        mailbox.put_back(mail);
        assert!(!mailbox.is_empty());
        for number in 0..=MAX_NAMES {
            mailbox.put(&here, number.to_string().as_bytes(), Depth::Itself);
        }
        let mail = mailbox.take();
        assert!(mail.everything && mail.names.is_empty());
        mailbox.put_back(mail);
        assert!(mailbox.take().everything);
    }
}
