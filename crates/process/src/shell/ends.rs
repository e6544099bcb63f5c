//! The ends of a command's input and output, made before it is begun: a descriptor that cannot be had is found out while
//! nothing has happened yet.

use super::frames::flag;
use crate::stdio::{self, CommandTerminal, InputPipe, OutputPipe, Reader, Terminal, TerminalSize, Writer};
use rustix::fd::OwnedFd;
use std::io;

/// What a command reads.
#[derive(Debug, Clone, Copy)]
pub enum Stdin<'a> {
    /// End of file at once.
    Empty,
    /// These bytes.
    Given(&'a [u8]),
    /// What is written later.
    Open,
    /// A terminal of this size, which is also its output.
    Terminal(TerminalSize),
}

/// What a command reads from and writes to, and our ends of it.
#[derive(Debug)]
pub struct Ends {
    pub(super) flags: u32,
    /// The command's ends, in the order of the flags.
    pub(super) descriptors: Vec<OwnedFd>,
    pub(super) input: Option<Writer>,
    pub(super) stdout: Option<Reader>,
    pub(super) stderr: Option<Reader>,
    /// The command's side of a terminal.
    pub(super) terminal: Option<CommandTerminal>,
}

impl Ends {
    /// The ends of its input; for a terminal, of its output too.
    pub(super) fn of_input(stdin: Stdin<'_>) -> io::Result<Self> {
        let mut ends =
            Self { flags: 0, descriptors: Vec::new(), input: None, stdout: None, stderr: None, terminal: None };
        match stdin {
            Stdin::Empty => {}
            Stdin::Given(bytes) => {
                ends.flags |= flag::STDIN;
                ends.descriptors.push(stdio::given_input(bytes)?);
            }
            Stdin::Open => {
                let pipe = InputPipe::new()?;
                ends.flags |= flag::STDIN;
                ends.descriptors.push(pipe.theirs);
                ends.input = Some(pipe.ours);
            }
            Stdin::Terminal(size) => {
                let Terminal { output, input, theirs } = Terminal::new(size)?;
                ends.flags |= flag::STDIN | flag::STDOUT | flag::STDERR | flag::TTY;
                ends.descriptors = vec![theirs.try_clone()?, theirs.try_clone()?, theirs.try_clone()?];
                ends.terminal = Some(CommandTerminal::new(theirs));
                ends.stdout = Some(output);
                ends.input = Some(input);
            }
        }
        Ok(ends)
    }

    /// Adds a pipe for each output that has none. `missing` says for standard output and error whether the shell has no
    /// pipe: pipes stay from command to command as long as no other process can hold them.
    pub(super) fn with_outputs(mut self, missing: [bool; 2]) -> io::Result<Self> {
        if self.flags & flag::TTY != 0 {
            return Ok(self);
        }
        let slots = [&mut self.stdout, &mut self.stderr];
        for ((slot, bit), is_missing) in slots.into_iter().zip([flag::STDOUT, flag::STDERR]).zip(missing) {
            if is_missing {
                let pipe = OutputPipe::new()?;
                *slot = Some(pipe.ours);
                self.descriptors.push(pipe.theirs);
                self.flags |= bit;
            }
        }
        Ok(self)
    }

    /// Adds one new pipe for both outputs. The next command that wants them apart gets a new pipe for standard error.
    pub(super) fn with_one_output(mut self) -> io::Result<Self> {
        if self.flags & flag::TTY != 0 {
            return Ok(self);
        }
        let OutputPipe { ours, theirs } = OutputPipe::new()?;
        self.stdout = Some(ours);
        self.descriptors.extend([theirs.try_clone()?, theirs]);
        self.flags |= flag::STDOUT | flag::STDERR;
        Ok(self)
    }
}
