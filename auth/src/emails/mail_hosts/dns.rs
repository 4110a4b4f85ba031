//! Just enough DNS (RFC 1035) to ask one server one question over UDP. An answer that does not fit into a datagram, or
//! that is not understood, is [`Answer::Unknown`]: nobody is refused for it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use basalt_core::random;
use tokio::net::UdpSocket;

const PORT: u16 = 53;
/// A datagram that was lost is sent again after this.
const AGAIN: Duration = Duration::from_secs(1);
const ATTEMPTS: u32 = 3;
/// No server sends more to somebody who did not say that they take more.
const DATAGRAM: usize = 512;
/// Names point to earlier ones; more than this is a circle.
const POINTERS: u32 = 16;
const HEADER: usize = 12;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    A,
    Mx,
    Aaaa,
}

impl Kind {
    const fn code(self) -> u16 {
        match self {
            Self::A => 1,
            Self::Mx => 15,
            Self::Aaaa => 28,
        }
    }
}

/// What DNS says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// There is no such name.
    NoSuchName,
    /// The records of this kind: names of mail servers; addresses as empty texts, since only their number matters.
    Records(Vec<String>),
    /// The server failed, refused, or said more than fits.
    Unknown,
}

/// The first name server of the system, else the one of this machine.
pub(super) fn system_nameserver() -> SocketAddr {
    let configured = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let server =
        configured.lines().find_map(|line| line.trim().strip_prefix("nameserver ")?.trim().parse().ok());
    SocketAddr::new(server.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), PORT)
}

/// Asks; whoever calls bounds the time.
pub(super) async fn ask(server: SocketAddr, name: &str, kind: Kind) -> io::Result<Answer> {
    let own: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // A port of the system's choice and an id nobody knows: an answer of somebody else's has to guess both.
    let socket = UdpSocket::bind((own, 0)).await?;
    socket.connect(server).await?;
    let question = question(name, kind)?;
    let mut datagram = [0; DATAGRAM];
    for _ in 0..ATTEMPTS {
        let _sent = socket.send(&question).await?;
        let answered = async {
            loop {
                let length = socket.recv(&mut datagram).await?;
                let message = datagram.get(..length).unwrap_or_default();
                // Id and question come back as they were sent; anything else is not for us.
                if message.get(..2) == question.get(..2)
                    && message.get(HEADER..question.len()) == question.get(HEADER..)
                {
                    return Ok(read(message, question.len(), kind).unwrap_or(Answer::Unknown));
                }
            }
        };
        if let Ok(answer) = tokio::time::timeout(AGAIN, answered).await {
            return answer;
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

fn question(name: &str, kind: Kind) -> io::Result<Vec<u8>> {
    let [high, low] = random::bytes::<2>();
    // Recursion is wanted; one question.
    let mut message = vec![high, low, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..=63).contains(length));
        message.push(length.ok_or(io::ErrorKind::InvalidInput)?);
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
    message.extend_from_slice(&kind.code().to_be_bytes());
    message.extend_from_slice(&[0, 1]);
    Ok(message)
}

/// `None` where it cannot be read.
fn read(message: &[u8], mut at: usize, kind: Kind) -> Option<Answer> {
    const TRUNCATED: u8 = 0b10;
    let (flags, code) = (*message.get(2)?, *message.get(3)? & 0b1111);
    match code {
        0 if flags & TRUNCATED == 0 => {}
        3 => return Some(Answer::NoSuchName),
        _ => return Some(Answer::Unknown),
    }
    let mut records = Vec::new();
    for _ in 0..number(message, 6)? {
        at = name(message, at)?.1;
        let (found, length) = (number(message, at)?, number(message, at.checked_add(8)?)?);
        let data = at.checked_add(10)?;
        if found == kind.code() {
            records.push(match kind {
                Kind::Mx => name(message, data.checked_add(2)?)?.0,
                Kind::A | Kind::Aaaa => String::new(),
            });
        }
        at = data.checked_add(length.into())?;
    }
    Some(Answer::Records(records))
}

fn number(message: &[u8], at: usize) -> Option<u16> {
    message.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

/// The name at a place, and the place behind it.
fn name(message: &[u8], mut at: usize) -> Option<(String, usize)> {
    let (mut text, mut behind) = (String::new(), None);
    let mut pointers = 0;
    loop {
        let length = *message.get(at)?;
        match length {
            0 => return Some((text, behind.unwrap_or(at.checked_add(1)?))),
            1..=63 => {
                let start = at.checked_add(1)?;
                at = start.checked_add(length.into())?;
                text.push_str(&String::from_utf8_lossy(message.get(start..at)?));
                text.push('.');
            }
            192.. => {
                behind = behind.or(Some(at.checked_add(2)?));
                at = usize::from(number(message, at)? & 0x3fff);
                pointers += 1;
                if pointers > POINTERS {
                    return None;
                }
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Two mail servers, the second by a pointer into the question.
    fn two_servers() -> (Vec<u8>, usize) {
        let mut message = question("example.org", Kind::Mx).unwrap();
        let asked = message.len();
        message[2] = 0x81;
        message[7] = 2;
        message.extend_from_slice(b"\xc0\x0c\0\x0f\0\x01\0\0\0\x3c\0\x08\0\x0a\x03mx1\xc0\x0c");
        message.extend_from_slice(b"\xc0\x0c\0\x0f\0\x01\0\0\0\x3c\0\x04\0\x14\xc0\x0c");
        (message, asked)
    }

    #[test]
    fn names_are_followed() {
        let (message, asked) = two_servers();
        let servers = vec!["mx1.example.org.".to_owned(), "example.org.".to_owned()];
        assert_eq!(read(&message, asked, Kind::Mx), Some(Answer::Records(servers)));
        assert_eq!(read(&message, asked, Kind::A), Some(Answer::Records(vec![])));
    }

    #[test]
    fn failures_and_long_answers_are_unknown_and_circles_end() {
        let (mut message, asked) = two_servers();
        message[3] = 3;
        assert_eq!(read(&message, asked, Kind::Mx), Some(Answer::NoSuchName));
        message[3] = 2;
        assert_eq!(read(&message, asked, Kind::Mx), Some(Answer::Unknown));
        message[3] = 0;
        message[2] |= 2;
        assert_eq!(read(&message, asked, Kind::Mx), Some(Answer::Unknown));
        assert_eq!(name(b"\xc0\x00", 0), None);
        assert!(question(&"a.".repeat(3), Kind::A).is_err() && question(&"a".repeat(64), Kind::A).is_err());
    }

    proptest! {
        #[test]
        fn no_answer_panics(message in proptest::collection::vec(any::<u8>(), 0..512), at in 0_usize..600) {
            for kind in [Kind::A, Kind::Mx, Kind::Aaaa] {
                drop(read(&message, at, kind));
            }
        }
    }
}
