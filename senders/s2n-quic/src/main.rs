// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
//! A bulk sender and receiver around s2n-quic, by the contract of docs/exec.md.
//!
//! The sender writes to one unidirectional stream for as long as it is asked to. Flow control is
//! wide, so that the congestion controller is the only limit. One thread runs everything, so that
//! two trials with the same seed do the same.
use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use s2n_quic::client::Connect;
use s2n_quic::connection::Connection;
use s2n_quic::provider::congestion_controller::{self, Bbr, Cubic};
use s2n_quic::provider::event::events;
use s2n_quic::provider::event::{ConnectionInfo, ConnectionMeta, Subscriber};
use s2n_quic::provider::io::tokio::{Builder, Provider as Io};
use s2n_quic::provider::limits::{ConnectionInfo as Opened, Limiter, Limits};
use s2n_quic::provider::tls::rustls as tls;
use s2n_quic::{Client, Server};
use s2n_quic_core::inet::ExplicitCongestionNotification as Ecn;
use tokio::signal::unix::{signal, SignalKind};
use tokio::time::timeout_at;

mod ect1;
mod prague;

use ect1::Marking;

type Failure = Box<dyn Error + Send + Sync>;

const NAME: &str = "l4sbench";
const CANNOT: u8 = 127;
const WINDOW_BYTES: u64 = 64 << 20;
const CHUNK: &[u8] = &[0; 1 << 16];
/// RFC 8410 section 7: all but the 32 bytes of the key
const ED25519_BEGINS: &[u8] = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
const RS: char = '\x1e'; // RFC 7464
const LOG_EVERY: Duration = Duration::from_millis(10);
const LAST_WORDS: Duration = Duration::from_millis(50);
const PROMPT: Duration = Duration::from_millis(1); // the step of tokio's timers

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

/// Counts of a connection, which end as the sender's report.
#[derive(Clone, Copy, Default)]
struct Counts {
    packets_sent: u64,
    bytes_sent: u64,
    packets_lost: u64,
    loss_events: u64,
    mark_events: u64,
    ecn_capable: bool,
    mtu_bytes: u16,
    window_bytes: u32,
    smoothed_rtt: Duration,
}

/// A subscriber that counts events, and writes a qlog of them where one is asked for.
struct Watcher {
    counts: Arc<Mutex<Counts>>,
    log: Option<BufWriter<File>>,
    begins: Instant,
    logged: Duration,
}

impl Watcher {
    fn new(counts: Arc<Mutex<Counts>>, qlog: Option<&String>) -> std::io::Result<Self> {
        let mut log = qlog.map(File::create).transpose()?.map(BufWriter::new);
        if let Some(out) = &mut log {
            let (schema, format) = ("urn:ietf:params:qlog:file:sequential", "application/qlog+json-seq");
            let trace = r#"{"vantage_point":{"type":"client"}}"#;
            let head = format!(r#""file_schema":"{schema}","serialization_format":"{format}","trace":{trace}"#);
            writeln!(out, "{RS}{{{head}}}")?;
        }
        Ok(Self { counts, log, begins: Instant::now(), logged: Duration::ZERO })
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.counts.lock().expect("one thread runs everything"));
    }

    fn write(&mut self, name: &str, data: &str) {
        let ms = self.begins.elapsed().as_secs_f64() * 1e3;
        if let Some(out) = &mut self.log {
            // a log that a full disk cuts off is reported by its reader
            let _ = writeln!(out, r#"{RS}{{"time":{ms:.3},"name":"quic:{name}","data":{{{data}}}}}"#);
        }
    }
}

impl Subscriber for Watcher {
    type ConnectionContext = ();

    fn create_connection_context(&mut self, _: &ConnectionMeta, _: &ConnectionInfo) {}

    fn on_packet_sent(&mut self, _: &mut (), _: &ConnectionMeta, event: &events::PacketSent) {
        self.count(|all| {
            all.packets_sent += 1;
            all.bytes_sent += event.packet_len as u64;
        });
    }

    fn on_packet_lost(&mut self, _: &mut (), _: &ConnectionMeta, _: &events::PacketLost) {
        self.count(|all| all.packets_lost += 1);
        self.write("packet_lost", "");
    }

    fn on_congestion(&mut self, _: &mut (), _: &ConnectionMeta, event: &events::Congestion) {
        self.count(|all| match event.source {
            events::CongestionSource::Ecn { .. } => all.mark_events += 1,
            _ => all.loss_events += 1,
        });
    }

    fn on_ecn_state_changed(&mut self, _: &mut (), _: &ConnectionMeta, event: &events::EcnStateChanged) {
        self.count(|all| all.ecn_capable = matches!(event.state, events::EcnState::Capable { .. }));
    }

    fn on_mtu_updated(&mut self, _: &mut (), _: &ConnectionMeta, event: &events::MtuUpdated) {
        self.count(|all| all.mtu_bytes = event.mtu);
    }

    fn on_recovery_metrics(&mut self, _: &mut (), _: &ConnectionMeta, event: &events::RecoveryMetrics) {
        let (window, flying) = (event.congestion_window, event.bytes_in_flight);
        self.count(|all| {
            all.smoothed_rtt = event.smoothed_rtt;
            all.window_bytes = window;
        });
        let now = self.begins.elapsed();
        if now - self.logged >= LOG_EVERY {
            self.logged = now;
            let rtt = event.smoothed_rtt.as_secs_f64() * 1e3;
            let data = format!(r#""smoothed_rtt":{rtt:.3},"congestion_window":{window},"bytes_in_flight":{flying}"#);
            self.write("recovery_metrics_updated", &data);
        }
    }
}

/// Limits of a receiver, which acknowledges ECT(1) promptly: a window of few packets cannot wait for RFC 9000's 25 ms.
struct Receives {
    limits: Limits,
    ect1_came: Arc<AtomicBool>,
}

impl Limiter for Receives {
    fn on_connection(&mut self, _: &Opened) -> Limits {
        match self.ect1_came.load(Ordering::Relaxed) {
            true => self.limits.with_max_ack_delay(PROMPT).expect("RFC 9000 allows 0 to 2^14 ms"),
            false => self.limits,
        }
    }
}

fn limits() -> Result<Limits, Failure> {
    Ok(Limits::new()
        .with_data_window(WINDOW_BYTES)?
        .with_unidirectional_data_window(WINDOW_BYTES)?
        .with_max_send_buffer_size(WINDOW_BYTES as u32)?)
}

fn io(socket: UdpSocket, ecn: Ecn) -> Result<Marking<Io>, Failure> {
    Ok(Marking { io: Builder::default().with_rx_socket(socket)?.build()?, ecn, ect1_came: Arc::default() })
}

fn client<C: congestion_controller::Provider>(io: Marking<Io>, cc: C, watcher: Watcher) -> Result<Client, Failure> {
    Ok(Client::builder()
        .with_io(io)?
        .with_tls(client_tls()?)?
        .with_limits(limits()?)?
        .with_event(watcher)?
        .with_congestion_controller(cc)
        .map_err(|error| error.to_string())?
        .start()?)
}

async fn send(options: &Options) -> Result<String, Failure> {
    let ends = Instant::now() + Duration::from_secs_f64(options.text("seconds")?.parse()?);
    let ecn = match options.text("codepoint")? {
        "ect0" => Ecn::Ect0,
        "ect1" => Ecn::Ect1,
        word => return Err(Cannot(format!("s2n-quic sends ECT(0) and ECT(1), not {word}")).into()),
    };
    let to = options.address()?;
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(to)?; // of unconnected sockets Linux numbers no packets, by which captures are compared
    let counts = Arc::new(Mutex::new(Counts::default()));
    let watcher = Watcher::new(counts.clone(), options.named.get("qlog"))?;
    let io = io(socket, ecn)?;
    let client = match options.text("cc")? {
        "cubic" => client(io, Cubic::default(), watcher)?,
        "bbr" => client(io, Bbr::default(), watcher)?,
        "prague" => client(io, prague::Builder, watcher)?,
        name => return Err(Cannot(format!("{name:?} is not a congestion control of s2n-quic")).into()),
    };
    let mut connection: Connection = timeout_at(ends.into(), client.connect(Connect::new(to).with_server_name(NAME)))
        .await
        .map_err(|_| "the receiver did not answer")??;
    let mut stream = connection.open_send_stream().await?;
    while let Ok(sent) = timeout_at(ends.into(), stream.send(CHUNK.into())).await {
        sent?;
    }
    let report = report(*counts.lock().expect("one thread runs everything"));
    connection.close(0u32.into());
    tokio::time::sleep(LAST_WORDS).await;
    Ok(report)
}

fn report(all: Counts) -> String {
    let Counts { packets_sent, packets_lost, bytes_sent, loss_events, mark_events, mtu_bytes, window_bytes, .. } = all;
    let (capable, rtt_ms) = (u8::from(all.ecn_capable), all.smoothed_rtt.as_secs_f64() * 1e3);
    format!(
        "{{\"packets_sent\": {packets_sent}, \"packets_lost\": {packets_lost}, \"bytes_sent\": {bytes_sent}, \
         \"loss_events\": {loss_events}, \"mark_events\": {mark_events}, \"ecn_capable\": {capable}, \
         \"mtu_bytes\": {mtu_bytes}, \"window_bytes\": {window_bytes}, \"rtt_ms\": {{\"smoothed\": {rtt_ms:.3}}}}}\n"
    )
}

async fn receive(options: &Options) -> Result<String, Failure> {
    let io = io(UdpSocket::bind(options.address()?)?, Ecn::Ect0)?;
    let limits = Receives { limits: limits()?, ect1_came: io.ect1_came.clone() };
    let mut server = Server::builder()
        .with_io(io)?
        .with_tls(server_tls()?)?
        .with_limits(limits)?
        .start()?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut bytes: u64 = 0;
    let reading = async {
        while let Some(mut connection) = server.accept().await {
            while let Ok(Some(mut stream)) = connection.accept_receive_stream().await {
                while let Ok(Some(chunk)) = stream.receive().await {
                    bytes += chunk.len() as u64;
                }
            }
        }
    };
    tokio::select! {
        () = reading => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(format!("{{\"bytes_received\": {bytes}}}\n"))
}

/// Returns the certificate that every receiver has and every sender trusts, and its key, which protects nothing.
/// The length of its signatures is always the same.
fn certificate() -> Result<(CertificateDer<'static>, PrivatePkcs8KeyDer<'static>), Failure> {
    let key = PrivatePkcs8KeyDer::from([ED25519_BEGINS, &[0; 32]].concat());
    let pair = rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&key, &rcgen::PKCS_ED25519)?;
    let made = rcgen::CertificateParams::new([NAME.to_string()])?.self_signed(&pair)?;
    Ok((made.der().clone(), key))
}

// ring takes its random numbers from the kernel alone; those of s2n-quic's own builders come from the CPU, too
#[allow(deprecated)]
fn server_tls() -> Result<tls::Server, Failure> {
    let (certificate, key) = certificate()?;
    let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())?;
    config.alpn_protocols = vec![NAME.into()];
    Ok(config.into())
}

#[allow(deprecated)]
fn client_tls() -> Result<tls::Client, Failure> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate()?.0)?;
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![NAME.into()];
    Ok(config.into())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let result = async {
        let options = Options::parse()?;
        let report = if options.sends { send(&options).await? } else { receive(&options).await? };
        std::fs::write(options.text("json")?, report)?;
        Ok::<(), Failure>(())
    };
    match result.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("s2n-quic: {error}");
            ExitCode::from(if error.is::<Cannot>() { CANNOT } else { 1 })
        }
    }
}
