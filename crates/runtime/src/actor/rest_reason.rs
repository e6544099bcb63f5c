//! Why a session's shell is stopped while nothing runs: as it is recorded, and as the next result says it.

/// Why a session's shell is stopped while nothing runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestReason {
    /// Another session needs its place.
    Idle,
    /// What its commands have left running writes on, although the session is over its disk quota.
    OverDisk,
    /// A caller puts the session to sleep.
    Hibernated,
    /// The session's agent no longer needs it.
    Ended,
    /// The session is rewound.
    Rewound,
    /// It knows a secret that is masked.
    Scrubbed,
    /// The session is confined more tightly on request.
    Tightened,
    /// It is less confined than its session is to be.
    Loose,
    /// What it may read of the settings of the machine is not what others may read by now.
    Settings,
    /// It is in a directory that another has taken the place of.
    Replaced,
    /// It was just started, and could not enter the session's directory.
    NotEntered,
    /// It ran a command with a directory of its own, and the session's is gone.
    Homeless,
}

impl RestReason {
    /// As it is recorded.
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::Idle => "evicted",
            Self::OverDisk => "disk_quota",
            Self::Hibernated => "hibernated",
            Self::Ended => "ended",
            Self::Rewound => "rewound",
            Self::Scrubbed => "scrubbed",
            Self::Tightened | Self::Loose => "tightened",
            Self::Settings => "settings_changed",
            Self::Replaced | Self::NotEntered | Self::Homeless => "no_directory",
        }
    }

    /// What the next result says if anything is lost.
    pub(super) fn why(self) -> &'static str {
        match self {
            Self::Idle => "the last one was stopped because it was idle",
            Self::OverDisk => "the session is over its disk quota, and what the last one had left running kept writing",
            Self::Hibernated => "the last one was put to sleep",
            Self::Ended => "the session was ended",
            Self::Rewound => "the last one was stopped for a rewind",
            Self::Scrubbed => "the last one knew a secret that was masked",
            Self::Tightened => "the session's sandbox was tightened",
            Self::Loose => "the agent now has a token, so its sessions are confined",
            Self::Settings => "what may be read in /etc has changed since it started",
            Self::Replaced => "the last one was in a directory that was replaced",
            Self::NotEntered => "the last one had no directory to work in",
            Self::Homeless => "the last one was not in the session's directory, which was gone",
        }
    }
}
