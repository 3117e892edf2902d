// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
//! Prague by window, as a congestion controller of s2n-quic.
//!
//! The law is that of draft-briscoe-iccrg-prague-congestion-control-04. Alpha is the average share of marks with
//! weight 1/16, once per virtual RTT of at least 25 ms. A mark lowers the window by alpha/2 and a loss by half, each
//! at most once per virtual RTT. Every unmarked packet raises it by (RTT / virtual RTT)^2 packets per window, and
//! by itself until the first mark or loss. There is no fall-back for classic queues.
use std::time::Duration;

use s2n_quic::provider::congestion_controller::{
    CongestionController, Endpoint, PathInfo, Publisher, RandomGenerator, RttEstimator, Timestamp,
};

const GAIN: f64 = 1.0 / 16.0;
const VIRTUAL_RTT: Duration = Duration::from_millis(25);
const FIRST_PACKETS: f64 = 10.0;
const LEAST_PACKETS: f64 = 2.0;
/// Packets of this time leave together: tokio's timers have a millisecond, and the last tick may be just over.
const AT_ONCE: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub struct Builder;

impl Endpoint for Builder {
    type CongestionController = Prague;

    fn new_congestion_controller(&mut self, path: PathInfo) -> Prague {
        let packet = f64::from(path.max_datagram_size);
        Prague { packet, window: FIRST_PACKETS * packet, slow_start: true, ..Prague::default() }
    }
}

/// The state of one path; amounts are bytes.
#[derive(Clone, Debug, Default)]
pub struct Prague {
    packet: f64,
    window: f64,
    in_flight: u32,
    slow_start: bool,
    rtt: Option<Duration>,
    alpha: f64,
    acked: f64,
    marked: f64,
    /// marked, of what the ACK at hand acknowledges
    marked_now: f64,
    averaged: Option<Timestamp>,
    reduced: Option<Timestamp>,
    halved: Option<Timestamp>,
    departure: Option<Timestamp>,
}

impl Prague {
    fn virtual_rtt(&self) -> Duration {
        self.rtt.unwrap_or_default().max(VIRTUAL_RTT)
    }

    /// Returns whether a virtual round trip has passed since an instant.
    fn is_over(&self, since: Option<Timestamp>, now: Timestamp) -> bool {
        since.is_none_or(|since| now.saturating_duration_since(since) >= self.virtual_rtt())
    }

    fn scale(&mut self, factor: f64) {
        self.window = (self.window * factor).max(LEAST_PACKETS * self.packet);
    }

    fn average(&mut self, now: Timestamp) {
        if self.is_over(self.averaged, now) {
            let share = (self.marked / self.acked).min(1.0);
            self.alpha += (share - self.alpha) * GAIN;
            (self.acked, self.marked, self.averaged) = (0.0, 0.0, Some(now));
        }
    }

    fn bytes_per_s(&self) -> Option<f64> {
        let ahead = if self.slow_start { 2.0 } else { 1.0 };
        self.rtt.map(|rtt| ahead * self.window / rtt.as_secs_f64())
    }
}

impl CongestionController for Prague {
    type PacketInfo = ();

    fn congestion_window(&self) -> u32 {
        self.window as u32
    }

    fn bytes_in_flight(&self) -> u32 {
        self.in_flight
    }

    fn is_congestion_limited(&self) -> bool {
        f64::from(self.in_flight) + self.packet > self.window
    }

    fn requires_fast_retransmission(&self) -> bool {
        false
    }

    fn on_packet_sent<P: Publisher>(
        &mut self,
        now: Timestamp,
        bytes: usize,
        _: Option<bool>,
        _: &RttEstimator,
        _: &mut P,
    ) {
        self.in_flight += bytes as u32;
        if let Some(rate) = self.bytes_per_s() {
            let begins = self.departure.map_or(now, |at| at.max(now - AT_ONCE));
            self.departure = Some(begins + Duration::from_secs_f64(bytes as f64 / rate));
        }
    }

    fn on_rtt_update<P: Publisher>(&mut self, _: Timestamp, _: Timestamp, rtt: &RttEstimator, _: &mut P) {
        self.rtt = Some(rtt.smoothed_rtt());
    }

    fn on_ack<P: Publisher>(
        &mut self,
        _: Timestamp,
        bytes: usize,
        (): (),
        _: &RttEstimator,
        _: &mut dyn RandomGenerator,
        now: Timestamp,
        _: &mut P,
    ) {
        let was_limited = f64::from(self.in_flight) * 2.0 > self.window;
        self.in_flight = self.in_flight.saturating_sub(bytes as u32);
        self.acked += bytes as f64;
        let unmarked = (bytes as f64 - std::mem::take(&mut self.marked_now)).max(0.0);
        if was_limited {
            let share = self.rtt.unwrap_or_default().as_secs_f64() / self.virtual_rtt().as_secs_f64();
            let slow = self.packet / self.window * share * share;
            self.window += unmarked * if self.slow_start { 1.0 } else { slow };
        }
        self.average(now);
    }

    fn on_packet_lost<P: Publisher>(
        &mut self,
        bytes: u32,
        (): (),
        persistent: bool,
        _: bool,
        _: &mut dyn RandomGenerator,
        now: Timestamp,
        _: &mut P,
    ) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.slow_start = false;
        if persistent {
            self.scale(0.0);
        } else if self.is_over(self.halved, now) {
            self.scale(0.5);
            (self.halved, self.reduced) = (Some(now), Some(now));
        }
    }

    fn on_explicit_congestion<P: Publisher>(&mut self, packets: u64, now: Timestamp, _: &mut P) {
        self.slow_start = false;
        self.marked_now = packets as f64 * self.packet;
        self.marked += self.marked_now;
        if self.is_over(self.reduced, now) {
            self.scale(1.0 - self.alpha / 2.0);
            self.reduced = Some(now);
        }
    }

    fn on_mtu_update<P: Publisher>(&mut self, bytes: u16, _: &mut P) {
        self.packet = f64::from(bytes);
    }

    fn on_packet_discarded<P: Publisher>(&mut self, bytes: usize, _: &mut P) {
        self.in_flight = self.in_flight.saturating_sub(bytes as u32);
    }

    fn earliest_departure_time(&self) -> Option<Timestamp> {
        self.departure
    }
}
