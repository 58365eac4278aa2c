//! Transfers and watches over loopback, by bytes and not by time.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test may panic")]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::yield_now;
use std::time::Duration;

use weir_tcp::bulk::{
    CaptureOptions, Client, ClientEvent, ClientOptions, FetchOptions, Here, Reading, Recorded, Recorder,
    Recording, Server, ServerError, ServerEvent, ServerOptions, Via, Wanted,
};
use weir_tcp::control::{Event, INTERVALS_NS, Record, Request, Total, Wish};
use weir_tcp::fields::field;
use weir_tcp::option::Setting;
use weir_tcp::watch::{End, Filter, Options, Row, Watcher};

const SOON: Duration = Duration::from_secs(60);
const BYTES: u64 = 1_000_001;

fn server_options() -> ServerOptions {
    ServerOptions {
        address: "127.0.0.1:0".parse().unwrap(),
        token: "open sesame, open".to_owned(),
        most_ns: None,
        most_bytes: None,
        most_clients: 1,
        errands: false,
        reading: Reading::default(),
        capture: None,
        settings: vec![],
    }
}

fn server() -> Server {
    Server::start(server_options()).unwrap()
}

fn client_options(server: &Server, token: &str) -> ClientOptions {
    let request = Request {
        host: [0; 32],
        up: 3,
        down: 2,
        block_bytes: 10_000,
        lasts_ns: None,
        bytes: Some(BYTES),
        bytes_per_s: None,
        interval_ns: 1_000_000,
        congestion: String::new(),
        capture: Wish::None,
        capture_bytes: 0,
    };
    ClientOptions {
        host: "127.0.0.1".to_owned(),
        port: server.address().port(),
        token: token.to_owned(),
        request,
        settings: vec![],
        local: None,
        local_port: None,
        every_block: false,
        reading: Reading::default(),
        clocks: true,
        via: None,
        fetch: None,
        fetch_via: None,
    }
}

fn client(server: &Server, token: &str) -> Client {
    Client::start(client_options(server, token)).unwrap()
}

/// A server that may be the client of others, with a token of its own.
fn agent(changed: ServerOptions) -> Server {
    Server::start(ServerOptions { token: "knock at the other gate".to_owned(), ..changed }).unwrap()
}

fn between(agent: &Server, server: &Server, tokens: (&str, &str)) -> ClientOptions {
    let via = Via { host: "127.0.0.1".into(), port: agent.address().port(), token: tokens.0.into() };
    ClientOptions { via: Some(via), ..client_options(server, tokens.1) }
}

fn sum(totals: &[Total]) -> u64 {
    totals.iter().map(|each| each.flow.bytes).sum()
}

/// The error with which it ends.
fn failure(client: &Client) -> String {
    loop {
        match client.next_event(SOON).unwrap() {
            ClientEvent::Failed(error) => return error.to_string(),
            ClientEvent::Transfer(Event::Done { .. }) => panic!("it was carried out"),
            _ => {}
        }
    }
}

#[test]
fn both_ends_count_the_same_bytes_in_both_directions() {
    let server = server();
    let client = client(&server, "open sesame, open");
    let (mut exchanges, mut begun) = (0, false);
    let (ours, theirs) = loop {
        match client.next_event(SOON).unwrap() {
            // Both ends have one clock.
            ClientEvent::Transfer(Event::Clock { sent_ns, at_ns, heard_ns }) => {
                assert!((sent_ns..=heard_ns).contains(&at_ns));
                exchanges += 1;
            }
            ClientEvent::Transfer(Event::Begun { .. }) => begun = true,
            ClientEvent::Transfer(Event::Done { client, server, stopped: false }) => break (client, server),
            ClientEvent::Failed(error) => panic!("{error}"),
            _ => {}
        }
    };
    assert!(begun && exchanges >= 8);
    for (here, there) in ours.iter().zip(&theirs) {
        assert_eq!((here.flow.bytes, here.flow.blocks), (there.flow.bytes, there.flow.blocks));
        assert_eq!((here.failure.as_str(), there.failure.as_str()), ("", ""));
        assert!(here.flow.latency.is_some() != there.flow.latency.is_some(), "only receivers know it");
    }
    let sum = |range: std::ops::Range<usize>| ours[range].iter().map(|each| each.flow.bytes).sum::<u64>();
    assert_eq!((sum(0..3), sum(3..5)), (BYTES, BYTES));
    loop {
        if let ServerEvent::Ended { received, sent, failure, .. } = server.next_event(SOON).unwrap() {
            assert_eq!((received, sent, failure.as_str()), (BYTES, BYTES, ""));
            break;
        }
    }
}

/// Rates of what the receiver of a transfer of 300 ms has read, and for how long that took.
fn received(reading: Reading) -> (u64, u64) {
    let server = Server::start(ServerOptions { reading, ..server_options() }).unwrap();
    let mut options = client_options(&server, "open sesame, open");
    (options.request.up, options.request.down) = (2, 0);
    // More than buffers of this size hold.
    options.request.bytes = Some(2_000_000);
    options.request.lasts_ns = None;
    options.settings = vec![Setting::new("SO_SNDBUF", "65536").unwrap()];
    let client = Client::start(options).unwrap();
    loop {
        match client.next_event(SOON).unwrap() {
            ClientEvent::Transfer(Event::Done { server, .. }) => {
                let bytes = server.iter().map(|each| each.flow.bytes).sum();
                return (bytes, server.iter().filter_map(|each| each.last_ns).max().unwrap());
            }
            ClientEvent::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
}

#[test]
fn a_reader_is_no_faster_than_its_rate_and_reads_everything() {
    let reading = Reading { bytes_per_s: Some(4_000_000), pause_ns: None };
    let (bytes, last_ns) = received(reading);
    assert_eq!(bytes, 2_000_000);
    // The last of a hundred reads a second is not waited for.
    assert!(last_ns >= 470_000_000, "{last_ns}");
}

#[test]
fn a_reader_that_pauses_reads_the_rest_afterwards() {
    let reading = Reading { bytes_per_s: None, pause_ns: Some((0, 400_000_000)) };
    let (bytes, last_ns) = received(reading);
    assert_eq!(bytes, 2_000_000);
    assert!(last_ns >= 400_000_000, "{last_ns}");
}

#[test]
fn a_wrong_token_is_refused_at_both_ends() {
    let server = server();
    let client = client(&server, "knock at the other gate");
    assert!(
        matches!(client.next_event(SOON), Some(ClientEvent::Failed(error)) if error.to_string().contains("token"))
    );
    assert!(
        matches!(server.next_event(SOON), Some(ServerEvent::Refused { why, .. }) if why.contains("token"))
    );
}

#[test]
fn a_third_host_is_told_what_two_servers_did_with_each_other() {
    let (server, agent) = (server(), agent(ServerOptions { errands: true, ..server_options() }));
    let client =
        Client::start(between(&agent, &server, ("knock at the other gate", "open sesame, open"))).unwrap();
    let (mut started, mut exchanges, mut ends) = (0, 0, [false; 2]);
    let (ours, theirs) = loop {
        match client.next_event(SOON).unwrap() {
            ClientEvent::Transfer(Event::Started { connections, same_clock, .. }) => {
                assert!(same_clock);
                assert!(connections.iter().all(|each| each.remote == server.address()));
                started = connections.len();
            }
            ClientEvent::Transfer(Event::Clock { sent_ns, at_ns, heard_ns }) => {
                assert!((sent_ns..=heard_ns).contains(&at_ns));
                exchanges += 1;
            }
            ClientEvent::Transfer(Event::Interval { of_server, .. }) => ends[usize::from(of_server)] = true,
            ClientEvent::Transfer(Event::Done { client, server, stopped: false }) => break (client, server),
            ClientEvent::Failed(error) => panic!("{error}"),
            _ => {}
        }
    };
    assert_eq!((started, ends), (5, [true, true]));
    assert!(exchanges >= 8);
    assert_eq!((sum(&ours[..3]), sum(&ours[3..])), (BYTES, BYTES));
    assert_eq!((sum(&theirs[..3]), sum(&theirs[3..])), (BYTES, BYTES));
    // Both servers have seen a transfer.
    for each in [&server, &agent] {
        loop {
            if let ServerEvent::Ended { received, sent, failure, .. } = each.next_event(SOON).unwrap() {
                assert_eq!((received, sent, failure.as_str()), (BYTES, BYTES, ""));
                break;
            }
        }
    }
}

#[test]
fn a_server_is_the_client_of_others_only_if_it_may_be() {
    let (server, agent) = (server(), agent(server_options()));
    let client =
        Client::start(between(&agent, &server, ("knock at the other gate", "open sesame, open"))).unwrap();
    assert!(failure(&client).contains("--allow-client"));
    assert!(
        matches!(agent.next_event(SOON), Some(ServerEvent::Refused { why, .. }) if why.contains("--allow-client"))
    );
    let open = ServerOptions { errands: true, token: String::new(), ..server_options() };
    assert!(Server::start(open).is_err(), "anybody could make it send");
}

#[test]
fn a_token_that_could_be_guessed_is_refused_on_loopback_too() {
    for token in ["x", &"x".repeat(15)] {
        let refused =
            Server::start(ServerOptions { token: token.to_owned(), ..server_options() }).unwrap_err();
        assert!(matches!(refused, ServerError::TokenShort(bytes) if bytes == token.len()));
    }
}

#[test]
fn both_tokens_must_be_known_and_neither_opens_the_other_door() {
    let (server, agent) = (server(), agent(ServerOptions { errands: true, ..server_options() }));
    for (tokens, told) in [
        (("open sesame, open", "open sesame, open"), "the token is wrong"),
        (("knock at the other gate", "knock at the other gate"), "the token is wrong"),
        (("", "open sesame, open"), "which is to be the client, wants a token"),
        (("knock at the other gate", ""), "the server wants a token"),
    ] {
        let said = failure(&Client::start(between(&agent, &server, tokens)).unwrap());
        assert!(said.contains(told), "{tokens:?}: {said}");
    }
}

#[test]
fn limits_hold_for_a_transfer_with_another_server() {
    let limited = ServerOptions { errands: true, most_bytes: Some(BYTES), ..server_options() };
    let (server, agent) = (server(), agent(limited));
    // Two directions of so many bytes each.
    let said = failure(
        &Client::start(between(&agent, &server, ("knock at the other gate", "open sesame, open"))).unwrap(),
    );
    assert!(said.contains("may have 1000001 bytes"), "{said}");
    // By time, nobody knows beforehand how much it will be; and the next report is an hour away.
    let mut endless = between(&agent, &server, ("knock at the other gate", "open sesame, open"));
    endless.request.bytes = None;
    endless.request.interval_ns = *INTERVALS_NS.end();
    let said = failure(&Client::start(endless).unwrap());
    assert!(said.contains("more bytes than are allowed"), "{said}");
}

#[test]
fn a_transfer_between_two_servers_is_ended_in_good_order() {
    let (server, agent) = (server(), agent(ServerOptions { errands: true, ..server_options() }));
    let mut endless = between(&agent, &server, ("knock at the other gate", "open sesame, open"));
    endless.request.bytes = None;
    let client = Client::start(endless).unwrap();
    loop {
        match client.next_event(SOON).unwrap() {
            ClientEvent::Transfer(Event::Started { .. }) => client.stop(),
            ClientEvent::Transfer(Event::Done { client, server, stopped: true }) => {
                assert_eq!(sum(&client), sum(&server), "what was sent was received");
                break;
            }
            ClientEvent::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
}

#[test]
fn what_the_far_client_cannot_reach_is_told() {
    let agent = agent(ServerOptions { errands: true, ..server_options() });
    let mut options = between(&agent, &server(), ("knock at the other gate", "open sesame, open"));
    // Of TCPMUX (RFC 1078), which nobody serves; a port that is free now may be somebody's soon.
    options.port = 1;
    let said = failure(&Client::start(options).unwrap());
    assert!(said.contains("127.0.0.1, which is to be the client, says: cannot connect to"), "{said}");
}

#[test]
fn a_connection_that_is_waited_for_is_sampled_from_its_first_byte_to_its_last() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let end = End { address: Some(address.ip()), port: address.port() };
    let filter = Filter { ends: (end, End::default()), ..Filter::default() };
    let watcher = Watcher::start(Options { filter, period_ns: 1_000_000, wait: true }).unwrap();
    assert!(watcher.progress().connections.is_empty());

    let mut client = TcpStream::connect(address).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut rows: Vec<Row> = Vec::new();
    let more = |rows: &mut Vec<Row>| {
        rows.extend(watcher.take());
        yield_now();
    };
    while watcher.progress().connections.len() < 2 || rows.is_empty() {
        more(&mut rows);
    }
    client.write_all(&[7; 5000]).unwrap();
    server.read_exact(&mut [0; 5000]).unwrap();
    let received = field("bytes_received").unwrap();
    while !rows.iter().any(|row| row.sample.get(received) == Some(5000)) {
        more(&mut rows);
    }
    drop((client, server));
    while !watcher.progress().ended {
        more(&mut rows);
    }
    rows.extend(watcher.take());
    let progress = watcher.progress();
    assert_eq!(progress.failure, None);
    assert_eq!(progress.connections.iter().map(|each| each.samples).sum::<u64>(), rows.len() as u64);
    assert!(progress.connections.iter().all(|each| each.ended_ns.is_some()));
    assert!(rows.is_sorted_by_key(|row| row.at_ns));
    assert_eq!(rows.iter().find_map(|row| row.sample.get(received)), Some(0));
}

/// A folder of this test, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weir-loopback-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Records what it is told to have recorded, or fails.
#[derive(Debug)]
struct Played {
    file: Result<PathBuf, String>,
    folder: PathBuf,
    wanted: Mutex<Vec<Wanted>>,
    named: Arc<Mutex<Vec<(SocketAddr, SocketAddr)>>>,
}

impl Played {
    fn new(file: Result<PathBuf, String>, folder: &Folder) -> Arc<Self> {
        let folder = folder.0.clone();
        Arc::new(Self { file, folder, wanted: Mutex::default(), named: Arc::default() })
    }
}

impl Recorder for Played {
    fn folder(&self) -> &Path {
        &self.folder
    }

    fn begin(&self, wanted: &Wanted) -> Result<Box<dyn Recording>, String> {
        self.wanted.lock().unwrap().push(*wanted);
        let file = self.file.clone()?;
        Ok(Box::new(Tape { file, named: Arc::clone(&self.named) }))
    }
}

struct Tape {
    file: PathBuf,
    named: Arc<Mutex<Vec<(SocketAddr, SocketAddr)>>>,
}

impl Recording for Tape {
    fn name(&mut self, connections: &[(SocketAddr, SocketAddr)]) {
        self.named.lock().unwrap().extend(connections);
    }

    fn stop(&mut self) -> Result<Recorded, String> {
        let file = File::open(&self.file).unwrap();
        Ok(Recorded { file, interface: "eth7".to_owned(), packets: 11, lost: 2, left_out: 3 })
    }
}

/// What a client is told of the capture at a server that records with `recorder`, or why there was no transfer.
fn captured(recorder: Option<&Arc<Played>>, fetch: FetchOptions) -> Result<Result<Record, String>, String> {
    let capture = recorder.map(|recorder| CaptureOptions {
        recorder: Arc::clone(recorder) as Arc<dyn Recorder>,
        most_bytes: 5_000_000,
        most_ns: u64::MAX,
    });
    let server = Server::start(ServerOptions { capture, ..server_options() }).unwrap();
    let options = ClientOptions { fetch: Some(fetch), ..client_options(&server, "open sesame, open") };
    let client = Client::start(options).unwrap();
    let mut told = None;
    loop {
        match client.next_event(SOON).unwrap() {
            ClientEvent::Recorded { found, .. } => told = Some(found.map(|record| *record)),
            ClientEvent::Failed(error) => return Err(error.to_string()),
            ClientEvent::Transfer(Event::Done { client, server, .. }) => {
                assert_eq!((sum(&client), sum(&server)), (2 * BYTES, 2 * BYTES));
                return Ok(told.unwrap());
            }
            _ => {}
        }
    }
}

#[test]
fn the_capture_at_the_server_is_handed_over_when_the_transfer_has_ended() {
    let folder = Folder::new("handed-over");
    let bytes: Vec<u8> = (0..1_000_003_u32).flat_map(|n| [(n >> 8) as u8, n as u8]).collect();
    std::fs::write(folder.0.join("there"), &bytes).unwrap();
    let recorder = Played::new(Ok(folder.0.join("there")), &folder);
    let fetch = FetchOptions { file: folder.0.join("here"), must: true, most_bytes: 3_000_000 };
    let record = captured(Some(&recorder), fetch).unwrap().unwrap();
    assert_eq!(std::fs::read(folder.0.join("here")).unwrap(), bytes);
    assert_eq!((record.packets, record.lost, record.left_out), (11, 2, 3));
    assert_eq!((record.interface.as_str(), record.ended_early), ("eth7", false));
    assert!(record.since_1970_ns > 1_000_000_000_000_000_000);
    let wanted = recorder.wanted.lock().unwrap();
    let [Wanted { server, client, here: Here::Server, most_bytes: 3_000_000 }] = wanted[..] else {
        panic!("{wanted:?}")
    };
    assert!(server.ip().is_loopback() && client.ip().is_loopback() && server.port() != client.port());
}

#[test]
fn a_server_that_cannot_record_says_why_and_refuses_only_who_insists() {
    let folder = Folder::new("refused");
    let fetch = |must| FetchOptions { file: folder.0.join("here"), must, most_bytes: 1 << 20 };
    let not_allowed = "it records no packets; that needs weir tcp serve --allow-capture";
    assert_eq!(captured(None, fetch(false)), Ok(Err(not_allowed.to_owned())));
    assert_eq!(captured(None, fetch(true)), Err(format!("the server refuses: {not_allowed}")));
    let why = "no interface here has that address";
    let recorder = Played::new(Err(why.to_owned()), &folder);
    assert_eq!(captured(Some(&recorder), fetch(false)), Ok(Err(why.to_owned())));
    assert_eq!(captured(Some(&recorder), fetch(true)), Err(format!("the server refuses: {why}")));
    assert!(!folder.0.join("here").exists());
}

#[test]
fn a_capture_larger_than_the_client_takes_is_left_there() {
    let folder = Folder::new("too-large");
    std::fs::write(folder.0.join("there"), vec![1; 2000]).unwrap();
    let recorder = Played::new(Ok(folder.0.join("there")), &folder);
    let fetch = FetchOptions { file: folder.0.join("here"), must: false, most_bytes: 1999 };
    assert_eq!(captured(Some(&recorder), fetch), Ok(Err("it has 2000 bytes, 1999 are taken".to_owned())));
}

/// Whose capture, and the record of it or why there is none.
type Told = (Here, Result<Record, String>);

/// What comes of the captures that `options` want, or why there was no transfer.
fn both_captured(options: ClientOptions) -> Result<Vec<Told>, String> {
    let client = Client::start(options).unwrap();
    let mut told = Vec::new();
    loop {
        match client.next_event(SOON).unwrap() {
            ClientEvent::Recorded { of, found } => told.push((of, found.map(|record| *record))),
            ClientEvent::Failed(error) => return Err(error.to_string()),
            ClientEvent::Transfer(Event::Done { .. }) => return Ok(told),
            _ => {}
        }
    }
}

#[test]
fn a_third_host_has_the_captures_of_both_ends() {
    let folder = Folder::new("both-ends");
    let played = |name: &str| {
        std::fs::write(folder.0.join(name), name.repeat(100_000)).unwrap();
        Played::new(Ok(folder.0.join(name)), &folder)
    };
    let recorders = [played("client"), played("server")];
    let [there, here] = recorders.each_ref().map(|recorder| {
        let recorder = Arc::clone(recorder) as Arc<dyn Recorder>;
        let capture = CaptureOptions { recorder, most_bytes: 5_000_000, most_ns: u64::MAX };
        ServerOptions { errands: true, capture: Some(capture), ..server_options() }
    });
    let (agent, server) = (agent(there), Server::start(here).unwrap());
    let fetch = |name| Some(FetchOptions { file: folder.0.join(name), must: true, most_bytes: 3_000_000 });
    let options = ClientOptions {
        fetch: fetch("from-server"),
        fetch_via: fetch("from-client"),
        ..between(&agent, &server, ("knock at the other gate", "open sesame, open"))
    };
    let told = both_captured(options).unwrap();
    assert_eq!(told.iter().map(|(of, _)| *of).collect::<Vec<_>>(), [Here::Client, Here::Server]);
    for (name, (_, found)) in ["client", "server"].into_iter().zip(told) {
        assert!(found.unwrap().since_1970_ns > 1_000_000_000_000_000_000);
        let bytes = std::fs::read(folder.0.join(format!("from-{name}"))).unwrap();
        assert_eq!(bytes, name.repeat(100_000).into_bytes());
    }
    let [there, here] = recorders.each_ref().map(|recorder| recorder.named.lock().unwrap().clone());
    let mirrored: Vec<_> = here.iter().map(|(local, remote)| (*remote, *local)).collect();
    assert_eq!((there.len(), there), (5, mirrored), "both record the data connections, and no others");
    let ends = recorders.map(|recorder| recorder.wanted.lock().unwrap()[0]);
    assert_eq!(ends.map(|wanted| wanted.here), [Here::Client, Here::Server]);
    assert_eq!((ends[0].server, ends[0].client), (ends[1].server, ends[1].client));
    // What was passed on is not kept.
    while !matches!(agent.next_event(SOON), Some(ServerEvent::Ended { .. })) {}
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 4);
}

#[test]
fn who_records_nothing_passes_nothing_on() {
    let folder = Folder::new("not-passed-on");
    let (server, agent) = (server(), agent(ServerOptions { errands: true, ..server_options() }));
    let fetch = |must| Some(FetchOptions { file: folder.0.join("here"), must, most_bytes: 1 << 20 });
    let options = |must, via| ClientOptions {
        fetch: fetch(must),
        fetch_via: via,
        ..between(&agent, &server, ("knock at the other gate", "open sesame, open"))
    };
    let not_passed = "it passes no captures on; that needs weir tcp serve --allow-capture";
    let not_made = "it records no packets; that needs weir tcp serve --allow-capture";
    let expected = vec![(Here::Client, Err(not_made.to_owned())), (Here::Server, Err(not_passed.to_owned()))];
    assert_eq!(both_captured(options(false, fetch(false))), Ok(expected));
    assert!(both_captured(options(true, None)).unwrap_err().ends_with(not_passed));
    assert!(both_captured(options(false, fetch(true))).unwrap_err().ends_with(not_made));
}

#[test]
fn whoever_hears_of_the_end_has_a_place_at_once() {
    let folder = Folder::new("at-once");
    std::fs::write(folder.0.join("there"), b"packets").unwrap();
    let recorder = Played::new(Ok(folder.0.join("there")), &folder);
    let capture = CaptureOptions { recorder, most_bytes: 1000, most_ns: u64::MAX };
    let server = Server::start(ServerOptions { capture: Some(capture), ..server_options() }).unwrap();
    for number in 0..6 {
        let file = folder.0.join(number.to_string());
        let fetch = (number % 2 == 1).then_some(FetchOptions { file, must: true, most_bytes: 1000 });
        let told =
            both_captured(ClientOptions { fetch, ..client_options(&server, "open sesame, open") }).unwrap();
        assert!(told.len() == number % 2 && told.iter().all(|(_, found)| found.is_ok()), "{told:?}");
    }
}
