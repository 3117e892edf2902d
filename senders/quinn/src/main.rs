// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
//! A bulk sender and receiver around quinn, by the contract of docs/exec.md.
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
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::{ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig, TransportConfig, VarInt};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio::signal::unix::{signal, SignalKind};
use tokio::time::{interval, timeout, timeout_at};

type Failure = Box<dyn Error>;

const NAME: &str = "l4sbench";
const CANNOT: u8 = 127;
const WINDOW_BYTES: u32 = 64 << 20;
const CHUNK: [u8; 1 << 16] = [0; 1 << 16];
const RS: char = '\x1e'; // RFC 7464
const LOG_EVERY: Duration = Duration::from_millis(10);
const LAST_WORDS: Duration = Duration::from_millis(50);

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

fn controller(name: &str) -> Result<Arc<dyn ControllerFactory + Send + Sync>, Cannot> {
    Ok(match name {
        "cubic" => Arc::new(CubicConfig::default()),
        "newreno" => Arc::new(NewRenoConfig::default()),
        "bbr" => Arc::new(BbrConfig::default()),
        _ => return Err(Cannot(format!("{name:?} is not a congestion control of quinn"))),
    })
}

fn transport() -> TransportConfig {
    let mut config = TransportConfig::default();
    config.stream_receive_window(VarInt::from_u32(WINDOW_BYTES));
    config.receive_window(VarInt::from_u32(WINDOW_BYTES));
    config.send_window(WINDOW_BYTES.into());
    config
}

fn endpoint(socket: UdpSocket, server: Option<ServerConfig>) -> Result<Endpoint, Failure> {
    let runtime = Arc::new(quinn::TokioRuntime);
    Ok(Endpoint::new(EndpointConfig::default(), server, socket, runtime)?)
}

async fn send(options: &Options) -> Result<String, Failure> {
    let begins = Instant::now();
    let ends = begins + Duration::from_secs_f64(options.text("seconds")?.parse()?);
    if options.text("codepoint")? != "ect0" {
        return Err(Cannot("quinn sends ECT(0) and no other codepoint".into()).into());
    }
    let mut config = transport();
    config.congestion_controller_factory(controller(options.text("cc")?)?);
    let to = options.address()?;
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(to)?; // of unconnected sockets Linux numbers no packets, by which captures are compared
    let endpoint = endpoint(socket, None)?;
    let mut client = ClientConfig::new(Arc::new(trusting()?));
    client.transport_config(Arc::new(config));
    let connection = timeout_at(ends.into(), endpoint.connect_with(client, to, NAME)?)
        .await
        .map_err(|_| "the receiver did not answer")??;
    let mut stream = connection.open_uni().await?;
    let writing = async {
        loop {
            if let Err(error) = stream.write_all(&CHUNK).await {
                return error;
            }
        }
    };
    let logging = async {
        match options.named.get("qlog") {
            Some(place) => log(&connection, begins, place).await,
            None => std::future::pending().await,
        }
    };
    let working = async {
        tokio::select! {
            error = writing => Err(Failure::from(error)),
            ended = logging => ended.map_err(Failure::from),
        }
    };
    if let Ok(ended) = timeout_at(ends.into(), working).await {
        ended?;
    }
    let report = report(&connection);
    connection.close(VarInt::from_u32(0), b"");
    let _ = timeout(LAST_WORDS, endpoint.wait_idle()).await;
    Ok(report)
}

/// Writes a qlog until it is dropped, from quinn's statistics: its own has RTTs in seconds, where the
/// draft has milliseconds, and every packet.
async fn log(connection: &Connection, begins: Instant, place: &str) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(place)?);
    let about = r#""file_schema":"urn:ietf:params:qlog:file:sequential","serialization_format":"application/qlog+json-seq""#;
    writeln!(out, r#"{RS}{{{about},"trace":{{"vantage_point":{{"type":"client"}}}}}}"#)?;
    let (mut ticks, mut lost) = (interval(LOG_EVERY), 0);
    loop {
        ticks.tick().await;
        let (path, ms) = (connection.stats().path, begins.elapsed().as_secs_f64() * 1e3);
        for _ in lost..path.lost_packets {
            writeln!(out, r#"{RS}{{"time":{ms:.3},"name":"quic:packet_lost","data":{{}}}}"#)?;
        }
        lost = path.lost_packets;
        let (rtt, window) = (path.rtt.as_secs_f64() * 1e3, path.cwnd);
        let data = format!(r#"{{"smoothed_rtt":{rtt:.3},"congestion_window":{window}}}"#);
        writeln!(out, r#"{RS}{{"time":{ms:.3},"name":"quic:recovery_metrics_updated","data":{data}}}"#)?;
    }
}

fn report(connection: &Connection) -> String {
    let all = connection.stats();
    let (path, udp) = (all.path, all.udp_tx);
    format!(
        "{{\"packets_sent\": {}, \"packets_lost\": {}, \"bytes_sent\": {}, \"bytes_lost\": {}, \
         \"congestion_events\": {}, \"datagrams\": {}, \"mtu_bytes\": {}, \"window_bytes\": {}, \
         \"rtt_ms\": {{\"smoothed\": {:.3}}}}}\n",
        path.sent_packets,
        path.lost_packets,
        udp.bytes,
        path.lost_bytes,
        path.congestion_events,
        udp.datagrams,
        path.current_mtu,
        path.cwnd,
        path.rtt.as_secs_f64() * 1e3,
    )
}

async fn receive(options: &Options) -> Result<String, Failure> {
    let made = rcgen::generate_simple_self_signed([NAME.to_string()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut server = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key.into())?;
    server.transport_config(Arc::new(transport()));
    let endpoint = endpoint(UdpSocket::bind(options.address()?)?, Some(server))?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut bytes: u64 = 0;
    let reading = async {
        while let Some(incoming) = endpoint.accept().await {
            let Ok(connection) = incoming.await else { continue };
            while let Ok(mut stream) = connection.accept_uni().await {
                while let Ok(Some(chunk)) = stream.read_chunk(usize::MAX, false).await {
                    bytes += chunk.bytes.len() as u64;
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

/// Returns the configuration of a client that takes the server's certificate for good.
fn trusting() -> Result<quinn::crypto::rustls::QuicClientConfig, Failure> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
        .with_no_client_auth();
    tls.enable_early_data = false;
    Ok(tls.try_into()?)
}

#[derive(Debug)]
struct Anyone(Arc<rustls::crypto::CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("QUIC has TLS 1.3".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
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
            eprintln!("quinn: {error}");
            ExitCode::from(if error.is::<Cannot>() { CANNOT } else { 1 })
        }
    }
}
