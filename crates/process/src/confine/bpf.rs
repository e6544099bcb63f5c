//! A small program for the kernel that looks at a system call and says what happens to it. Jumps go forward only.

const LOAD_WORD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const JUMP_IF_ANY: u16 = 0x45;
const RETURN: u16 = 0x06;

/// A place in a program that is known later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

/// A program under construction. It has one register.
#[derive(Debug, Default)]
pub(super) struct Program {
    steps: Vec<Step>,
    /// The number of the step at each label, once it is placed.
    places: Vec<Option<usize>>,
}

#[derive(Debug)]
struct Step {
    code: u16,
    value: u32,
    /// Where to go if a comparison holds and if it does not; with none, to the next step.
    jumps: [Option<Label>; 2],
}

impl Program {
    pub(super) fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// A label is at the next step.
    pub(super) fn place(&mut self, Label(label): Label) {
        self.places[label] = Some(self.steps.len());
    }

    /// Loads the word at this offset of the call's description.
    pub(super) fn load(&mut self, offset: u32) {
        self.step(LOAD_WORD, offset, [None, None]);
    }

    pub(super) fn keep_bits(&mut self, bits: u32) {
        self.step(AND, bits, [None, None]);
    }

    pub(super) fn if_equal(&mut self, value: u32, then: Label) {
        self.step(JUMP_IF_EQUAL, value, [Some(then), None]);
    }

    pub(super) fn unless_equal(&mut self, value: u32, then: Label) {
        self.step(JUMP_IF_EQUAL, value, [None, Some(then)]);
    }

    pub(super) fn if_at_least(&mut self, value: u32, then: Label) {
        self.step(JUMP_IF_AT_LEAST, value, [Some(then), None]);
    }

    /// If the register has any of these bits.
    pub(super) fn if_any(&mut self, bits: u32, then: Label) {
        self.step(JUMP_IF_ANY, bits, [Some(then), None]);
    }

    pub(super) fn answer(&mut self, answer: u32) {
        self.step(RETURN, answer, [None, None]);
    }

    /// Goes to `outside` if an even number of these edges, which ascend, is at most the register, and else to `inside`.
    pub(super) fn search(&mut self, edges: &[u32], outside: Label, inside: Label) {
        let ends = [outside, inside];
        let start = self.label();
        self.halve(edges, 0, ends, start);
    }

    /// The same at a label, where `below` edges are known to be at most the register. Without an edge there is nothing to do.
    fn halve(&mut self, edges: &[u32], below: usize, ends: [Label; 2], at: Label) {
        let middle = edges.len() / 2;
        let Some(edge) = edges.get(middle) else { return };
        let (lower, upper) = (&edges[..middle], &edges[middle + 1..]);
        let sides = [(lower, below), (upper, below + middle + 1)].map(|(edges, below)| {
            let label = if edges.is_empty() { ends[below % 2] } else { self.label() };
            (edges, below, label)
        });
        self.place(at);
        self.step(JUMP_IF_AT_LEAST, *edge, [Some(sides[1].2), Some(sides[0].2)]);
        for (edges, below, label) in sides {
            self.halve(edges, below, ends, label);
        }
    }

    fn step(&mut self, code: u16, value: u32, jumps: [Option<Label>; 2]) {
        self.steps.push(Step { code, value, jumps });
    }

    /// The program as the kernel reads it; `None` if a jump is too far for it.
    pub(super) fn finish(self) -> Option<Vec<libc::sock_filter>> {
        let steps = self.steps.iter().enumerate().map(|(at, step)| {
            let [jt, jf] = step.jumps.map(|to| match to {
                None => Some(0),
                Some(Label(label)) => {
                    let place = self.places.get(label).copied().flatten()?;
                    u8::try_from(place.checked_sub(at + 1)?).ok()
                }
            });
            Some(libc::sock_filter { code: step.code, jt: jt?, jf: jf?, k: step.value })
        });
        steps.collect()
    }
}
