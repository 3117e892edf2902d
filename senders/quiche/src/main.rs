// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
//! A bulk sender and receiver around quiche, by the contract of docs/exec.md.
//!
//! The sender writes to one unidirectional stream for as long as it is asked to. Flow control is
//! wide, so that the congestion controller is the only limit. Every packet leaves at the time that
//! quiche's pacing gives it.
use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use boring::asn1::Asn1Time;
use boring::hash::MessageDigest;
use boring::pkey::PKey;
use boring::ssl::{SslContextBuilder, SslMethod, SslSignatureAlgorithm};
use boring::x509::X509;
use nix::errno::Errno;
use nix::poll::{ppoll, PollFd, PollFlags};
use nix::sys::signal::{sigaction, SaFlags, SigAction, SigHandler, SigSet, Signal};
use nix::sys::time::TimeSpec;
use quiche::{Config, Connection, ConnectionId, PathStats, RecvInfo, SendInfo};

type Failure = Box<dyn Error>;

const NAME: &str = "l4sbench";
const CANNOT: u8 = 127;
const WINDOW_BYTES: u64 = 64 << 20;
const PAYLOAD_BYTES: usize = 1452; // IPv6 and UDP have the rest of Ethernet's 1500
const STREAM: u64 = 2; // the first of a client in one direction, RFC 9000 section 2.1
const CHUNK: &[u8] = &[0; 1 << 16];
/// RFC 8410 section 7: all but the 32 bytes of the key
const ED25519_BEGINS: &[u8] = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
/// BoringSSL reads which features of the CPU it must not use, of which bit 62 is RDRAND
const FEATURES: (&str, &str) = ("OPENSSL_ia32cap", "~0x4000000000000000");
const RS: char = '\x1e'; // RFC 7464
const LOG_EVERY: Duration = Duration::from_millis(10);

static STOPPED: AtomicBool = AtomicBool::new(false);

/// A request that this sender cannot meet, as opposed to one that failed.
#[derive(Debug)]
struct Cannot(String);

impl std::fmt::Display for Cannot {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl Error for Cannot {}

struct Options {
    sends: bool,
    named: HashMap<String, String>,
}

impl Options {
    fn parse() -> Result<Self, Failure> {
        let mut words = std::env::args().skip(1);
        let command = words.next().unwrap_or_default();
        if command != "send" && command != "receive" {
            return Err(Cannot(format!("{command:?} is not a valid command; choose from send, receive")).into());
        }
        let mut named = HashMap::new();
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").ok_or(format!("{word:?} is not an option"))?;
            named.insert(name.to_string(), words.next().ok_or(format!("{word} needs a value"))?);
        }
        Ok(Self { sends: command == "send", named })
    }

    fn text(&self, name: &str) -> Result<&str, Failure> {
        Ok(self.named.get(name).ok_or(format!("--{name} is missing"))?)
    }

    fn address(&self) -> Result<SocketAddr, Failure> {
        let ip: IpAddr = self.text("address")?.parse()?;
        Ok(SocketAddr::new(ip, self.text("port")?.parse()?))
    }
}

/// A socket, with the packet that waits for its time to leave.
struct Wire {
    socket: UdpSocket,
    local: SocketAddr,
    packet: [u8; PAYLOAD_BYTES],
    waiting: Option<(usize, SendInfo)>,
}

impl Wire {
    fn new(socket: UdpSocket) -> Result<Self, Failure> {
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?;
        Ok(Self { socket, local, packet: [0; PAYLOAD_BYTES], waiting: None })
    }

    /// Does what the time asks for: expired timers, and packets that may leave. Returns when there is more to do.
    fn serve(&mut self, connection: &mut Connection) -> Result<Option<Instant>, Failure> {
        if connection.timeout_instant().is_some_and(|at| at <= Instant::now()) {
            connection.on_timeout();
        }
        loop {
            if self.waiting.is_none() {
                self.waiting = match connection.send(&mut self.packet) {
                    Err(quiche::Error::Done) => return Ok(connection.timeout_instant()),
                    made => Some(made?),
                };
            }
            if let Some((size, info)) = self.waiting {
                if info.at > Instant::now() {
                    return Ok(connection.timeout_instant().into_iter().chain([info.at]).min());
                }
                match self.socket.send_to(&self.packet[..size], info.to) {
                    // a full buffer is emptied by the interface, at its own pace
                    Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(PollFlags::POLLOUT, None)?,
                    Err(error) if error.kind() != ErrorKind::ConnectionRefused => return Err(error.into()),
                    _ => self.waiting = None, // a receiver that is not up yet has lost it
                }
            }
        }
    }

    /// Waits for the socket, a time or a signal, of which none is delivered elsewhere.
    fn wait(&self, events: PollFlags, until: Option<Instant>) -> Result<(), Failure> {
        let rest = until.map(|at| TimeSpec::from_duration(at.saturating_duration_since(Instant::now())));
        match ppoll(&mut [PollFd::new(self.socket.as_fd(), events)], rest, Some(SigSet::empty())) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the next packet that has come, and where it is from.
    fn next<'a>(&self, space: &'a mut [u8]) -> Result<Option<(&'a mut [u8], RecvInfo)>, Failure> {
        match self.socket.recv_from(space) {
            Ok((size, from)) => Ok(Some((&mut space[..size], RecvInfo { from, to: self.local }))),
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::ConnectionRefused].contains(&error.kind()) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// A qlog of a sender's state, from quiche's statistics.
struct Log {
    out: BufWriter<File>,
    begins: Instant,
    next: Instant,
    lost: usize,
}

impl Log {
    fn new(place: &String, begins: Instant) -> std::io::Result<Self> {
        let mut out = BufWriter::new(File::create(place)?);
        let about = r#""file_schema":"urn:ietf:params:qlog:file:sequential","serialization_format":"application/qlog+json-seq""#;
        writeln!(out, r#"{RS}{{{about},"trace":{{"vantage_point":{{"type":"client"}}}}}}"#)?;
        Ok(Self { out, begins, next: begins, lost: 0 })
    }

    fn write(&mut self, path: &PathStats) -> std::io::Result<()> {
        let now = Instant::now();
        if now < self.next {
            return Ok(());
        }
        self.next = now + LOG_EVERY;
        let ms = (now - self.begins).as_secs_f64() * 1e3;
        for _ in self.lost..path.lost {
            writeln!(self.out, r#"{RS}{{"time":{ms:.3},"name":"quic:packet_lost","data":{{}}}}"#)?;
        }
        self.lost = path.lost;
        let (rtt, window) = (path.rtt.as_secs_f64() * 1e3, path.cwnd);
        let data = format!(r#"{{"smoothed_rtt":{rtt:.3},"congestion_window":{window}}}"#);
        writeln!(self.out, r#"{RS}{{"time":{ms:.3},"name":"quic:recovery_metrics_updated","data":{data}}}"#)
    }
}

fn send(options: &Options) -> Result<String, Failure> {
    let begins = Instant::now();
    let ends = begins + Duration::from_secs_f64(options.text("seconds")?.parse()?);
    if options.text("codepoint")? != "not-ect" {
        return Err(Cannot("quiche has no ECN".into()).into());
    }
    let mut config = config()?;
    let name = match options.text("cc")? {
        "bbr" => "bbr2_gcongestion",
        name @ ("cubic" | "reno") => name,
        name => return Err(Cannot(format!("{name:?} is not a congestion control of quiche")).into()),
    };
    config.set_cc_algorithm_name(name)?;
    let to = options.address()?;
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(to)?; // of unconnected sockets Linux numbers no packets, by which captures are compared
    let mut wire = Wire::new(socket)?;
    let mut connection = quiche::connect(Some(NAME), &connection_id()?, wire.local, to, &mut config)?;
    let mut log = options.named.get("qlog").map(|place| Log::new(place, begins)).transpose()?;
    let mut space = [0; 1 << 16];
    while Instant::now() < ends {
        while let Some((packet, info)) = wire.next(&mut space)? {
            connection.recv(packet, info)?;
        }
        if connection.is_closed() {
            let why = connection.peer_error().or(connection.local_error());
            return Err(format!("the connection ended early: {why:?}").into());
        }
        if connection.is_established() {
            while connection.stream_send(STREAM, CHUNK, false).is_ok() {}
        }
        let next = wire.serve(&mut connection)?;
        if let (Some(log), Some(path)) = (&mut log, connection.path_stats().next()) {
            log.write(&path)?;
        }
        wire.wait(PollFlags::POLLIN, next.into_iter().chain([ends]).min())?;
    }
    if !connection.is_established() {
        return Err("the receiver did not answer".into());
    }
    let path = connection.path_stats().next().ok_or("the connection has no path")?;
    connection.close(true, 0, b"")?;
    wire.waiting = None;
    wire.serve(&mut connection)?;
    Ok(report(&path))
}

fn report(path: &PathStats) -> String {
    let (sent, lost, bytes, timeouts) = (path.sent, path.lost, path.sent_bytes, path.total_pto_count);
    let (mtu, window, rtt) = (path.pmtu, path.cwnd, path.rtt.as_secs_f64() * 1e3);
    format!(
        "{{\"packets_sent\": {sent}, \"packets_lost\": {lost}, \"bytes_sent\": {bytes}, \"timeouts\": {timeouts}, \
         \"mtu_bytes\": {mtu}, \"window_bytes\": {window}, \"rtt_ms\": {{\"smoothed\": {rtt:.3}}}}}\n"
    )
}

fn receive(options: &Options) -> Result<String, Failure> {
    let mut wire = Wire::new(UdpSocket::bind(options.address()?)?)?;
    let mut config = config()?;
    let mut connection: Option<Connection> = None;
    let (mut space, mut data, mut bytes) = ([0; 1 << 16], [0; 1 << 16], 0);
    while !STOPPED.load(Ordering::Relaxed) {
        while let Some((packet, info)) = wire.next(&mut space)? {
            let peer = match &mut connection {
                Some(peer) => peer,
                None => connection.insert(quiche::accept(&connection_id()?, None, info.to, info.from, &mut config)?),
            };
            let _ = peer.recv(packet, info); // an attacker's packet ends nothing, and quiche closes what it must
            while let Some(stream) = peer.stream_readable_next() {
                while let Ok((size, _)) = peer.stream_recv(stream, &mut data) {
                    bytes += size;
                }
            }
        }
        let until = connection.as_mut().map(|peer| wire.serve(peer)).transpose()?.flatten();
        connection = connection.filter(|peer| !peer.is_closed());
        wire.wait(PollFlags::POLLIN, until)?;
    }
    Ok(format!("{{\"bytes_received\": {bytes}}}\n"))
}

fn connection_id() -> Result<ConnectionId<'static>, Failure> {
    let mut id = vec![0; 8];
    boring::rand::rand_bytes(&mut id)?;
    Ok(ConnectionId::from_vec(id))
}

/// Returns the configuration of both sides: no check of the receiver's certificate, and wide windows.
fn config() -> Result<Config, Failure> {
    let mut tls = SslContextBuilder::new(SslMethod::tls())?;
    // the key, which protects nothing, is one whose signatures always have the same length
    let key = PKey::private_key_from_der(&[ED25519_BEGINS, &[0; 32]].concat())?;
    let mut certificate = X509::builder()?;
    certificate.set_version(2)?;
    certificate.set_not_before(&*Asn1Time::from_unix(0)?)?;
    certificate.set_not_after(&*Asn1Time::from_unix(i64::from(u32::MAX))?)?;
    certificate.set_pubkey(&key)?;
    // SAFETY: Ed25519 signs without a digest, for which BoringSSL takes a null pointer
    certificate.sign(&key, unsafe { MessageDigest::from_ptr(std::ptr::null()) })?;
    tls.set_certificate(&certificate.build())?;
    tls.set_private_key(&key)?;
    tls.set_verify_algorithm_prefs(&[SslSignatureAlgorithm::ED25519])?;
    let mut config = Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls)?;
    config.verify_peer(false);
    config.set_application_protos(&[NAME.as_bytes()])?;
    config.discover_pmtu(true);
    config.set_max_send_udp_payload_size(PAYLOAD_BYTES);
    config.set_initial_max_data(WINDOW_BYTES);
    config.set_initial_max_stream_data_uni(WINDOW_BYTES);
    config.set_initial_max_streams_uni(1);
    config.set_max_connection_window(WINDOW_BYTES);
    config.set_max_stream_window(WINDOW_BYTES);
    Ok(config)
}

extern "C" fn stop(_: i32) {
    STOPPED.store(true, Ordering::Relaxed);
}

fn run() -> Result<(), Failure> {
    if std::env::var_os(FEATURES.0).is_none() {
        // random numbers of the CPU follow from no seed, and BoringSSL reads this before `main`
        let again = Command::new("/proc/self/exe").args(std::env::args_os().skip(1)).env(FEATURES.0, FEATURES.1).exec();
        return Err(again.into());
    }
    let options = Options::parse()?;
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        SigSet::from(signal).thread_block()?; // until `wait`, so that none comes between a look and the wait
        // SAFETY: the handler only stores to an atomic
        unsafe { sigaction(signal, &SigAction::new(SigHandler::Handler(stop), SaFlags::empty(), SigSet::empty())) }?;
    }
    let report = if options.sends { send(&options)? } else { receive(&options)? };
    std::fs::write(options.text("json")?, report)?;
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quiche: {error}");
            ExitCode::from(if error.is::<Cannot>() { CANNOT } else { 1 })
        }
    }
}
