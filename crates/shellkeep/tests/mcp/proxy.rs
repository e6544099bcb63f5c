//! A port in front of the daemon's TCP door that adds the token, for clients that cannot be told one.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

/// Opens the port. It is served for as long as the test's process lives.
pub fn start(door: SocketAddr, token: &str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it has an address");
    let token = token.to_owned();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let token = token.clone();
            std::thread::spawn(move || forward(client, door, &token));
        }
    });
    address
}

/// One request on each connection, so that every one of them passes here.
fn forward(client: TcpStream, door: SocketAddr, token: &str) -> io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut head = String::new();
    reader.read_line(&mut head)?;
    head += &format!("authorization: Bearer {token}\r\nconnection: close\r\n");
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if !line.to_ascii_lowercase().starts_with("connection:") {
            head += &line;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut server = TcpStream::connect(door)?;
    server.write_all(head.as_bytes())?;
    let mut upstream = server.try_clone()?;
    std::thread::spawn(move || copy(&mut reader, &mut upstream));
    let mut downstream = client.try_clone()?;
    let _ = copy(&mut server, &mut downstream);
    client.shutdown(Shutdown::Both)
}

/// Passes on every byte as it comes; an event must not wait in a buffer.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = [0; 16 << 10];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            count => to.write_all(&buffer[..count])?,
        }
    }
}
