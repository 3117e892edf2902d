// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
//! ECT(1) on the wire for a stack that knows ECT(0) alone: what is sent gets the other codepoint below the stack, and
//! what comes with it is handed up as ECT(0). So s2n-quic validates the path and counts marks as ever.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use s2n_quic::provider::io::Provider;
use s2n_quic_core::endpoint::{CloseError, Endpoint, Type};
use s2n_quic_core::inet::datagram::Header;
use s2n_quic_core::inet::{ExplicitCongestionNotification as Ecn, SocketAddress};
use s2n_quic_core::io::{rx, tx};
use s2n_quic_core::path::mtu;
use s2n_quic_core::time::{Clock, Timestamp};

/// An IO provider whose packets leave with a codepoint, and which notes whether a packet came with ECT(1).
pub struct Marking<P> {
    pub io: P,
    pub ecn: Ecn,
    pub ect1_came: Arc<AtomicBool>,
}

impl<P: Provider> Provider for Marking<P> {
    type PathHandle = P::PathHandle;
    type Error = P::Error;

    fn start<E: Endpoint<PathHandle = P::PathHandle>>(self, endpoint: E) -> Result<SocketAddress, P::Error> {
        self.io.start(Translated { endpoint, ecn: self.ecn, ect1_came: self.ect1_came })
    }
}

/// An endpoint between the wire and s2n-quic.
struct Translated<E> {
    endpoint: E,
    ecn: Ecn,
    ect1_came: Arc<AtomicBool>,
}

impl<E: Endpoint> Endpoint for Translated<E> {
    type PathHandle = E::PathHandle;
    type Subscriber = E::Subscriber;

    const ENDPOINT_TYPE: Type = E::ENDPOINT_TYPE;

    fn receive<Q: rx::Queue<Handle = E::PathHandle>, C: Clock>(&mut self, queue: &mut Q, clock: &C) {
        self.endpoint.receive(&mut Received { queue, ect1_came: &self.ect1_came }, clock);
    }

    fn transmit<Q: tx::Queue<Handle = E::PathHandle>, C: Clock>(&mut self, queue: &mut Q, clock: &C) {
        self.endpoint.transmit(&mut Sent { queue, ecn: self.ecn }, clock);
    }

    fn poll_wakeups<C: Clock>(&mut self, context: &mut Context<'_>, clock: &C) -> Poll<Result<usize, CloseError>> {
        self.endpoint.poll_wakeups(context, clock)
    }

    fn timeout(&self) -> Option<Timestamp> {
        self.endpoint.timeout()
    }

    fn set_mtu_config(&mut self, config: mtu::Config) {
        self.endpoint.set_mtu_config(config);
    }

    fn subscriber(&mut self) -> &mut E::Subscriber {
        self.endpoint.subscriber()
    }
}

struct Received<'a, Q> {
    queue: &'a mut Q,
    ect1_came: &'a AtomicBool,
}

impl<Q: rx::Queue> rx::Queue for Received<'_, Q> {
    type Handle = Q::Handle;

    fn for_each<F: FnMut(Header<Q::Handle>, &mut [u8])>(&mut self, mut on_packet: F) {
        self.queue.for_each(|mut header, payload| {
            if header.ecn == Ecn::Ect1 {
                self.ect1_came.store(true, Ordering::Relaxed);
                header.ecn = Ecn::Ect0;
            }
            on_packet(header, payload);
        });
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

struct Sent<'a, Q> {
    queue: &'a mut Q,
    ecn: Ecn,
}

impl<Q: tx::Queue> tx::Queue for Sent<'_, Q> {
    type Handle = Q::Handle;

    const SUPPORTS_ECN: bool = Q::SUPPORTS_ECN;
    const SUPPORTS_PACING: bool = Q::SUPPORTS_PACING;
    const SUPPORTS_FLOW_LABELS: bool = Q::SUPPORTS_FLOW_LABELS;

    fn push<M: tx::Message<Handle = Q::Handle>>(&mut self, message: M) -> Result<tx::Outcome, tx::Error> {
        self.queue.push(Marked { message, ecn: self.ecn })
    }

    fn flush(&mut self) {
        self.queue.flush();
    }

    fn capacity(&self) -> usize {
        self.queue.capacity()
    }
}

struct Marked<M> {
    message: M,
    ecn: Ecn,
}

impl<M: tx::Message> tx::Message for Marked<M> {
    type Handle = M::Handle;

    fn path_handle(&self) -> &M::Handle {
        self.message.path_handle()
    }

    fn ecn(&mut self) -> Ecn {
        match self.message.ecn() {
            Ecn::Ect0 => self.ecn,
            other => other,
        }
    }

    fn delay(&mut self) -> Duration {
        self.message.delay()
    }

    fn ipv6_flow_label(&mut self) -> u32 {
        self.message.ipv6_flow_label()
    }

    fn can_gso(&self, segment_len: usize, segment_count: usize) -> bool {
        self.message.can_gso(segment_len, segment_count)
    }

    fn write_payload(&mut self, buffer: tx::PayloadBuffer, offset: usize) -> Result<usize, tx::Error> {
        self.message.write_payload(buffer, offset)
    }
}
