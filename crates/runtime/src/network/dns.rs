//! Questions for the address of a name, and answers to them: as much of RFC 1035 as programs in a room need.

use std::net::Ipv4Addr;

/// Bytes of a header.
const HEADER: usize = 12;
/// Types of questions.
const ADDRESS: u16 = 1;
/// The only class in use.
const INTERNET: u16 = 1;
/// How long an answer may be kept, in seconds.
const LIFETIME: u32 = 60;
/// The longest label; a larger number points elsewhere, which a question has no use for.
const MOST_LABEL: usize = 63;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question<'a> {
    /// As it was sent: header and question.
    packet: &'a [u8],
    pub(super) name: String,
    /// Whether it asks for an IPv4 address.
    pub(super) is_address: bool,
}

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// The name has this address.
    Address(Ipv4Addr),
    /// The name exists, but has nothing of this kind.
    Nothing,
    /// There is no such name, as far as the caller is concerned.
    NoName,
}

impl<'a> Question<'a> {
    /// Reads a packet with exactly one question; `None` if it is anything else.
    pub(super) fn read(packet: &'a [u8]) -> Option<Self> {
        let number = |at: usize| Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]));
        let is_question = number(2)? & 0xf800 == 0;
        if !is_question || number(4)? != 1 {
            return None;
        }
        let (mut labels, mut at) = (Vec::new(), HEADER);
        loop {
            let length = usize::from(*packet.get(at)?);
            at += 1;
            match length {
                0 => break,
                1..=MOST_LABEL => labels.push(std::str::from_utf8(packet.get(at..at + length)?).ok()?),
                _ => return None,
            }
            at += length;
        }
        let (kind, class) = (number(at)?, number(at + 2)?);
        let is_address = kind == ADDRESS && class == INTERNET;
        Some(Self { packet: packet.get(..at + 4)?, name: labels.join("."), is_address })
    }

    /// The packet that answers it.
    pub(super) fn answer(&self, reply: Reply) -> Vec<u8> {
        let (code, count) = match reply {
            Reply::Address(_) => (0, 1),
            Reply::Nothing => (0, 0),
            Reply::NoName => (3, 0),
        };
        let recursion = self.packet[2] & 1;
        let mut answer =
            vec![self.packet[0], self.packet[1], 0x80 | recursion, 0x80 | code, 0, 1, 0, count, 0, 0, 0, 0];
        answer.extend_from_slice(&self.packet[HEADER..]);
        if let Reply::Address(address) = reply {
            // The name is the one of the question, which begins behind the header.
            answer.extend_from_slice(&[0xc0, HEADER as u8]);
            answer.extend_from_slice(&ADDRESS.to_be_bytes());
            answer.extend_from_slice(&INTERNET.to_be_bytes());
            answer.extend_from_slice(&LIFETIME.to_be_bytes());
            answer.extend_from_slice(&[0, 4]);
            answer.extend_from_slice(&address.octets());
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(kind: u8) -> Vec<u8> {
        let mut packet = vec![7, 8, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
        packet.extend_from_slice(b"\x04pypi\x03org\x00\x00");
        packet.extend_from_slice(&[kind, 0, 1]);
        // Options, which are not answered.
        packet.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
        packet
    }

    #[test]
    fn a_question_is_read_and_answered() {
        let asked = packet(1);
        let question = Question::read(&asked).unwrap();
        assert_eq!((question.name.as_str(), question.is_address), ("pypi.org", true));
        let answer = question.answer(Reply::Address(Ipv4Addr::new(127, 1, 0, 1)));
        assert_eq!(answer[..12], [7, 8, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        assert_eq!(answer[12..26], asked[12..26]);
        assert_eq!(answer[26..], [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 1, 0, 1]);
        assert_eq!(question.answer(Reply::NoName)[3], 0x83);
        let newer = packet(28);
        let question = Question::read(&newer).unwrap();
        assert!(!question.is_address);
        assert_eq!(question.answer(Reply::Nothing).len(), 26);
    }

    #[test]
    fn what_is_no_question_is_not_answered() {
        let whole = packet(1);
        for length in 0..26 {
            assert_eq!(Question::read(&whole[..length]), None, "{length} bytes");
        }
        let mut answer = whole.clone();
        answer[2] |= 0x80;
        assert_eq!(Question::read(&answer), None);
        let mut pointer = whole;
        pointer[12] = 0xc0;
        assert_eq!(Question::read(&pointer), None);
    }
}
