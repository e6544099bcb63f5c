//! A recording in files on this machine: a session's directory, or an export.

use super::source::{EventSource, Page, Wanted};
use crate::mask::{Masker, secret_values};
use crate::read::{Filter, ReadError, Recording, Search};
use shellkeep_redact::{Config, ConfigError, Redactor};
use std::path::Path;

/// Why files cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// They cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// What was searched for is not a regular expression.
    #[error("the search is {0}")]
    Search(String),
    /// The rules that find secrets cannot be used.
    #[error(transparent)]
    Rules(#[from] ConfigError),
}

/// Files that are played.
#[derive(Debug)]
pub struct Files {
    recording: Recording,
    /// Made when it is first needed, because it reads the recording.
    masker: Option<Masker>,
    /// The last search with its pattern, because compiling takes longer than looking at a line.
    search: Option<(String, Search)>,
}

impl Files {
    /// A session's directory, or a file that was exported.
    pub fn open(path: &Path) -> Result<Self, FilesError> {
        let recording = if path.is_dir() { Recording::open(path)? } else { Recording::open_export(path)? };
        Ok(Self::new(recording))
    }

    /// A recording that is open.
    pub fn new(recording: Recording) -> Self {
        Self { recording, masker: None, search: None }
    }

    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// What hides secrets in it.
    pub fn masker(&mut self) -> Result<Masker, FilesError> {
        if let Some(masker) = &self.masker {
            return Ok(masker.clone());
        }
        let values = secret_values(&self.recording, None)?;
        let masker = Masker::new(Redactor::new(&Config::default())?.with_values(std::iter::empty::<&[u8]>(), values)?);
        self.masker = Some(masker.clone());
        Ok(masker)
    }

    fn filter(&mut self, wanted: &Wanted, hidden: bool) -> Result<Filter, FilesError> {
        let search = match &wanted.search {
            None => None,
            Some(pattern) => match &self.search {
                Some((known, search)) if known == pattern => Some(search.clone()),
                _ => {
                    let search = Search::new(pattern).map_err(|error| FilesError::Search(error.to_string()))?;
                    self.search = Some((pattern.clone(), search.clone()));
                    Some(search)
                }
            },
        };
        let masker = if hidden { Some(self.masker()?) } else { None };
        Ok(Filter { types: wanted.types.clone(), search, masker })
    }
}

impl EventSource for Files {
    type Error = FilesError;

    fn page(&mut self, after: u64, limit: usize, wanted: &Wanted, hidden: bool) -> Result<Page, FilesError> {
        let filter = self.filter(wanted, hidden)?;
        let page = self.recording.page(after, limit, &filter)?;
        Ok(Page { lines: page.lines, next: page.next })
    }

    fn last(&mut self) -> Result<u64, FilesError> {
        Ok(self.recording.last()?.map_or(0, |line| line.seq))
    }
}
