//! What the fuzz target `serve` does with its bytes, and what must hold whatever these are: messages of both directions
//! of `weir tcp serve`, and a client that knows the token and does as it likes with a server.
//!
//! `crates/tcp/tests/seeds.rs` runs the same function over the committed seeds.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::LazyLock;
use std::time::Duration;

use weir_tcp::bulk::{Blocks, HEADER_BYTES, Reading, Server, ServerOptions, header};
use weir_tcp::control::{
    Decoder, Errand, MOST_ANSWER_BYTES, MOST_REQUEST_BYTES, Message, Preamble, Request, Session, Wish, prove,
    prove_errand, verify,
};

const TOKEN: &str = "a token of tests";
/// A server that has not closed a connection by then hangs; it gives strangers 5 s, and clients 10 s to join.
const HANGS: Duration = Duration::from_secs(40);

/// Ends transfers that others end, and nothing else.
static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let options = ServerOptions {
        address: "127.0.0.1:0".parse().expect("an address"),
        token: TOKEN.to_owned(),
        most_ns: Some(1_000_000_000),
        most_bytes: Some(1 << 20),
        most_clients: 1000,
        errands: true,
        reading: Reading::default(),
        capture: None,
        settings: Vec::new(),
    };
    Server::start(options).expect("a server")
});

/// Lets a peer do what `data` says; how it ended.
pub fn serve(data: &[u8]) -> &'static str {
    let Some((choice, data)) = data.split_first() else { return "nothing" };
    match choice % 4 {
        0 => decode(data, MOST_REQUEST_BYTES),
        1 => decode(data, MOST_ANSWER_BYTES),
        2 => blocks(data),
        _ => play(data),
    }
}

/// Messages in portions: each is the same after another way.
fn decode(data: &[u8], most: usize) -> &'static str {
    if let Some(Ok(preamble)) = data.first_chunk().map(Preamble::parse) {
        assert_eq!(Preamble::parse(&preamble.emit()), Ok(preamble));
    }
    let mut decoder = Decoder::new(most);
    let mut count = 0;
    for portion in data.chunks(1 + data.len() / 3) {
        decoder.push(portion);
        loop {
            match decoder.next_message() {
                Ok(Some(message)) => again(&message, most),
                Ok(None) => break,
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    return "refused";
                }
            }
            count += 1;
        }
    }
    if count > 0 { "messages" } else { "waiting" }
}

fn again(message: &Message, most: usize) {
    let bytes = message.emit();
    // Of few bytes there are few values, and as many texts as there are values.
    assert!(message.memory_bytes() <= 4096 + 64 * bytes.len(), "{message:?}");
    assert!(!message.unexpected().is_empty());
    let mut decoder = Decoder::new(most.max(bytes.len()));
    decoder.push(&bytes);
    let found = decoder.next_message().expect("what was emitted is a message").expect("all of it is there");
    assert_eq!(found.emit(), bytes);
    if let Message::Request { proof, request } = &found {
        assert_eq!(request.problem(), None);
        assert!(!verify(TOKEN, &[0; 32], request, proof), "nobody can guess a proof");
    }
}

/// A data connection.
fn blocks(data: &[u8]) -> &'static str {
    let (mut blocks, mut ended) = (Blocks::default(), 0);
    for portion in data.chunks(1 + data.len() / 3) {
        if blocks.push(portion, |_| ended += 1).is_err() {
            return "corrupt";
        }
    }
    assert!(ended <= data.len() / HEADER_BYTES);
    "blocks"
}

/// A client that behaves until its request is sent, made of `bytes`.
struct Play<'a> {
    bytes: &'a [u8],
    control: TcpStream,
    decoder: Decoder,
    data: Vec<TcpStream>,
    session: Session,
}

fn connect() -> TcpStream {
    let stream = TcpStream::connect(SERVER.address()).expect("the server listens");
    stream.set_read_timeout(Some(HANGS)).expect("a time limit");
    stream
}

fn play(bytes: &[u8]) -> &'static str {
    let play = Play {
        bytes,
        control: connect(),
        decoder: Decoder::new(MOST_ANSWER_BYTES),
        data: Vec::new(),
        session: [0; 16],
    };
    let end = play.finish();
    while SERVER.next_event(Duration::ZERO).is_some() {}
    end
}

impl Play<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    fn part(&mut self) -> Vec<u8> {
        let len = usize::from(self.byte());
        let (part, rest) = self.bytes.split_at(len.min(self.bytes.len()));
        self.bytes = rest;
        part.to_vec()
    }

    /// A server that has closed the connection takes nothing.
    fn say(&mut self, bytes: &[u8]) {
        let _ = self.control.write_all(bytes);
    }

    fn hear(&mut self) -> Option<Message> {
        let mut bytes = [0; 4096];
        loop {
            if let Some(message) = self.decoder.next_message().expect("the server sends messages") {
                return Some(message);
            }
            match self.control.read(&mut bytes) {
                Ok(0) => return None,
                Ok(read) => self.decoder.push(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("the server hangs: {error}"),
            }
        }
    }

    fn request(&mut self) -> Request {
        let (up, down) = (u16::from(self.byte() % 3), u16::from(self.byte() % 3));
        Request {
            host: [self.byte(); 32],
            up,
            down: if up == 0 { down.max(1) } else { down },
            block_bytes: 24 + u32::from(self.byte()),
            lasts_ns: Some(1 + (u64::from(self.byte()) << 14)),
            bytes: Some(512 + u64::from(self.byte())),
            bytes_per_s: None,
            interval_ns: 1_000_000,
            congestion: if self.byte() == 7 { "nosuch".to_owned() } else { String::new() },
            capture: Wish::IfAllowed,
            capture_bytes: 1000,
        }
    }

    fn finish(mut self) -> &'static str {
        self.say(&Preamble::Control.emit());
        let Some(Message::Challenge { nonce, .. }) = self.hear() else { panic!("no challenge") };
        let request = self.request();
        match self.byte() % 8 {
            0 => {
                let raw = self.part();
                self.say(&raw);
            }
            1 => {
                // To a port where nobody listens, or to itself.
                let port = if self.byte().is_multiple_of(2) { 1 } else { SERVER.address().port() };
                let (host, clocks) = ("127.0.0.1".to_owned(), self.byte().is_multiple_of(2));
                let errand = Errand { host, port, clocks, capture: Wish::None, capture_bytes: 0, request };
                let proof = prove_errand(TOKEN, &nonce, &errand);
                self.say(&Message::Errand { proof, errand: Box::new(errand) }.emit());
            }
            _ => {
                let proof = prove(TOKEN, &nonce, &request);
                let connections = request.up + request.down;
                self.say(&Message::Request { proof, request }.emit());
                if let Some(Message::Accept { session, .. }) = self.hear() {
                    self.session = session;
                    for index in 0..connections {
                        self.join(index);
                    }
                }
            }
        }
        while !self.bytes.is_empty() {
            self.step();
        }
        for stream in self.data.drain(..) {
            let _ = stream.shutdown(Shutdown::Write);
        }
        let _ = self.control.shutdown(Shutdown::Write);
        let mut last = "closed";
        while let Some(message) = self.hear() {
            last = match message {
                Message::Refuse { .. } => "refused",
                Message::Done { .. } => "done",
                _ => last,
            };
        }
        last
    }

    fn join(&mut self, index: u16) {
        let mut stream = connect();
        if stream.write_all(&Preamble::Data { session: self.session, index }.emit()).is_ok() {
            self.data.push(stream);
        }
    }

    fn step(&mut self) {
        let message = match self.byte() % 16 {
            0 | 1 => Message::Go,
            2 => Message::Stop,
            3 => Message::Clock { sent_ns: self.byte().into() },
            4 => Message::Fetch { from: self.byte().into() },
            5 => Message::Proven { proof: [self.byte(); 32] },
            6 => Message::Ready,
            7 => {
                let raw = self.part();
                return self.say(&raw);
            }
            8 => {
                let index = self.byte().into();
                return self.join(index);
            }
            9 => return drop(self.data.pop()),
            10 => {
                let raw = self.part();
                if let Some(stream) = self.data.last_mut() {
                    let _ = stream.write_all(&raw);
                }
                return;
            }
            11 => {
                let (number, len) = (self.byte(), HEADER_BYTES + usize::from(self.byte()));
                if let Some(stream) = self.data.first_mut() {
                    let mut block = header(len, number.into(), 1).to_vec();
                    block.resize(len, 7);
                    let _ = stream.write_all(&block);
                }
                return;
            }
            _ => return,
        };
        self.say(&message.emit());
    }
}
