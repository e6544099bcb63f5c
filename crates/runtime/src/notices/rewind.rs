//! What a caller reads after a rewind.

use super::{counted, list, notice};
use shellkeep_session::{LeftOut, Notice, NoticeCode};

/// What the notice of a rewind tells.
pub struct RewoundTo<'a> {
    /// The moment as people know it.
    pub moment: &'a str,
    /// Whether files were changed.
    pub has_files: bool,
    /// How many paths were not changed.
    pub kept_back: usize,
    /// How many paths may differ from that moment.
    pub uncertain: u64,
    /// How many variables keep their values, which the recording masks.
    pub secrets: usize,
}

/// The session was rewound.
pub fn rewound(RewoundTo { moment, has_files, kept_back, uncertain, secrets }: RewoundTo<'_>) -> Notice {
    let files = match (has_files, uncertain) {
        (true, 0) => "files, ",
        (true, _) => "files (except those listed below), ",
        (false, _) => "",
    };
    let mut message = format!(
        "This session was rewound to {moment}: {files}working directory, variables, functions and options are as they \
         were then, in a new shell. What happened since is still in the timeline and can be rewound to."
    );
    if !has_files {
        message.push_str(
            " No file was changed: nothing in this workspace is checkpointed yet, and files outside it never are.",
        );
    }
    if kept_back > 0 {
        let paths = counted(kept_back as u64, "path");
        message.push_str(&format!(" The rewind skipped {paths}; its response lists them."));
    }
    if secrets > 0 {
        message.push_str(&format!(
            " The current value of {} was kept, because the recording masks secrets.",
            counted(secrets as u64, "secret variable")
        ));
    }
    notice(NoticeCode::Rewound, message)
}

/// Files that may differ from the moment that was rewound to.
pub fn files_uncertain(first: &[LeftOut], total: u64) -> Option<Notice> {
    let names = list(first, total, |left| left.path.to_text().into_owned());
    (total > 0).then(|| {
        notice(
            NoticeCode::FilesUncertain,
            format!(
                "{} may differ from that moment: {names}. There is no checkpoint of exactly that moment. Check them \
                 before you rely on them.",
                counted(total, "path")
            ),
        )
    })
}
