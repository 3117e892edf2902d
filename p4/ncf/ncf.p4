// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
//
// NCF's data plane for Tofino (TNA): mice and elephants in two queues, signals to the senders of elephants.
// Written from the text of "Network-Assisted Congestion Feedback" (IEEE TNSM, 2026). README.md has the design.

#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#else
#include <tna.p4>
#endif
#include "wire.h"

#ifndef NCF_WINDOW_BIT
#define NCF_WINDOW_BIT 25 // windows of 2^25 ns = 33.6 ms
#endif
#ifndef NCF_GAP
#define NCF_GAP 16 // signals of one flow are more than so many units of 2^16 ns apart: 1.1 ms
#endif
#define FLOWS 65536
#define PORTS 512

typedef bit<16> flow_t;

const QueueId_t MICE_QUEUE = 0;
const QueueId_t ELEPHANTS_QUEUE = 1;
const MirrorType_t MIRROR_SIGNAL = 1;
const bit<8> DATA = 0; // the first byte of what the egress parser meets
const bit<8> SIGNAL = 1;
const bit<8> NO_FLOW = 0; // kinds of packets: not followed, UDP, TCP, TCP with FIN or RST, TCP without payload
const bit<8> UDP = 1;
const bit<8> TCP = 2;
const bit<8> TCP_END = 3;
const bit<8> TCP_BARE = 4;
const bit<2> STAY = 0; // a packet changes the number of elephants by its flow's
const bit<2> ENTER = 1;
const bit<2> LEAVE = 2;
const bit<16> ENDED = 1; // state of a flow: 0, ENDED, or COUNTED, the port it is counted at, and a 0
const bit<6> COUNTED = 0x20;

header ethernet_h { bit<48> dst; bit<48> src; bit<16> ether_type; }
header ipv4_h {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> length; bit<16> id; bit<16> fragment;
    bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst;
}
header ports_h { bit<16> src; bit<16> dst; } // TCP and UDP begin with these
header tcp_h {
    bit<32> seq; bit<32> ack; bit<4> offset; bit<4> reserved; bit<8> flags;
    bit<16> window; bit<16> checksum; bit<16> urgent;
}
header option_h {
    bit<8> kind; bit<8> length; bit<16> exid; bit<8> flags; bit<8> bottleneck; bit<16> flows;
    bit<32> capacity_kbps; bit<32> queue_bytes;
}
// from ingress to egress: addresses as the packet came, since forwarding rewrites them
header bridge_h {
    bit<8> packet_type; bit<8> kind; bit<8> elephant; flow_t flow;
    @padding bit<(16 - MIRROR_ID_WIDTH)> pad; MirrorId_t session; bit<48> dst; bit<48> src;
}
// from egress to egress, before the trimmed copy
@pa_container_size("egress", "hdr.mirror.packet_type", 8)
header mirror_h { bit<8> packet_type; bit<8> flags; bit<16> flows; bit<16> port; bit<48> dst; bit<48> src; }

struct headers_t {
    bridge_h bridge; mirror_h mirror; ethernet_h eth; ipv4_h ip; ports_h ports; tcp_h tcp; option_h option;
}
struct ingress_md_t {
    bit<8> kind; bool routed; flow_t flow; bit<2> window; bit<32> now;
    bit<8> c0; bit<8> c1; bit<8> c2; bit<8> c3; bit<8> sum01; bit<8> sum23; bit<8> sum;
}
struct egress_md_t {
    bit<16> mark; bit<32> now; bit<16> was; bit<16> moved; PortId_t at; bit<2> step; bit<8> crowded;
    bit<1> high; bit<1> fire;
    bit<8> packet_type; MirrorId_t session; bit<8> flags; bit<16> flows; bit<16> port; bit<48> dst; bit<48> src;
    bit<16> tcp_length;
}

// ------------------------------------------------------------------ ingress: which queue
parser IngressParser(packet_in pkt, out headers_t hdr, out ingress_md_t md, out ingress_intrinsic_metadata_t ig) {
    state start {
        pkt.extract(ig);
        pkt.advance(PORT_METADATA_SIZE);
        md.kind = NO_FLOW; md.routed = false; md.flow = 0; md.window = 0; md.now = 0;
        md.c0 = 0; md.c1 = 0; md.c2 = 0; md.c3 = 0; md.sum01 = 0; md.sum23 = 0; md.sum = 0;
        pkt.extract(hdr.eth);
        transition select(hdr.eth.ether_type, pkt.lookahead<bit<8>>()) { (0x0800, 0x45): ip; default: accept; }
    }
    state ip { // without IP options
        pkt.extract(hdr.ip);
        transition select(hdr.ip.fragment, hdr.ip.protocol) {
            (0 &&& 0x3fff, 6): tcp;
            (0 &&& 0x3fff, 17): udp;
            default: accept; // fragments follow each other in one queue
        }
    }
    state udp { pkt.extract(hdr.ports); md.kind = UDP; transition accept; }
    state tcp {
        pkt.extract(hdr.ports);
        pkt.extract(hdr.tcp);
        transition select(hdr.tcp.flags) { 0 &&& 5: tcp_open; default: tcp_end; }
    }
    state tcp_open { md.kind = TCP; transition accept; }
    state tcp_end { md.kind = TCP_END; transition accept; }
}

control Ingress(inout headers_t hdr, inout ingress_md_t md, in ingress_intrinsic_metadata_t ig,
                in ingress_intrinsic_metadata_from_parser_t prsr,
                inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                inout ingress_intrinsic_metadata_for_tm_t tm) {
    action begin() {
        hdr.bridge.setValid();
        hdr.bridge.packet_type = DATA; hdr.bridge.kind = md.kind; hdr.bridge.elephant = 0; hdr.bridge.flow = 0;
        hdr.bridge.session = 0; hdr.bridge.dst = hdr.eth.dst; hdr.bridge.src = hdr.eth.src;
        tm.qid = MICE_QUEUE;
        md.window = prsr.global_tstamp[NCF_WINDOW_BIT+1:NCF_WINDOW_BIT];
        md.now = prsr.global_tstamp[47:16];
    }

    // The switch's time as packets saw it last: the controller compares its own clock with this.
    Register<bit<32>, bit<1>>(2, 0) clock;
    RegisterAction<bit<32>, bit<1>, bit<32>>(clock) set_clock = { void apply(inout bit<32> v) { v = md.now; } };
    action tick() { set_clock.execute(0); }

    // forwarding: by route, else as a bridge
    action drop() { dprsr.drop_ctl = 1; }
    action send(PortId_t port) { tm.ucast_egress_port = port; }
    action send_via(PortId_t port, bit<48> dst, bit<48> src) {
        tm.ucast_egress_port = port;
        hdr.eth.dst = dst; hdr.eth.src = src; hdr.ip.ttl = hdr.ip.ttl - 1; md.routed = true;
    }
    table route {
        key = { hdr.ip.dst: lpm; } actions = { send_via; NoAction; } default_action = NoAction(); size = 1024;
    }
    table bridge { key = { hdr.eth.dst: exact; } actions = { send; drop; } default_action = drop(); size = 1024; }
    // the mirror session that leads back to the port a packet came from
    action back_by(MirrorId_t session) { hdr.bridge.session = session; }
    table way_back {
        key = { ig.ingress_port: exact; } actions = { back_by; NoAction; } default_action = NoAction(); size = 288;
    }

    // An IP packet as long as its headers has no payload; Ethernet may have padded it.
    action no_payload() { hdr.bridge.kind = TCP_BARE; }
    table payload {
        key = { hdr.ip.length: exact; hdr.tcp.offset: exact; }
        actions = { no_payload; NoAction; }
        const default_action = NoAction(); size = 16;
        const entries = {
            (40, 5): no_payload(); (44, 6): no_payload(); (48, 7): no_payload(); (52, 8): no_payload();
            (56, 9): no_payload(); (60, 10): no_payload(); (64, 11): no_payload(); (68, 12): no_payload();
            (72, 13): no_payload(); (76, 14): no_payload(); (80, 15): no_payload();
        }
    }

    Hash<flow_t>(HashAlgorithm_t.CRC16) flow_hash;
    action identify() {
        md.flow = flow_hash.get({hdr.ip.src, hdr.ip.dst, hdr.ip.protocol, hdr.ports.src, hdr.ports.dst});
    }

    // Register i counts in window i (mod 4) and is read in the two windows after; then the controller clears it.
#define WINDOW(i, next, after) \
    Register<bit<8>, flow_t>(FLOWS, 0) window##i; \
    RegisterAction<bit<8>, flow_t, bit<8>>(window##i) add##i = { \
        void apply(inout bit<8> v, out bit<8> r) { v = v |+| 1; r = v; } }; \
    RegisterAction<bit<8>, flow_t, bit<8>>(window##i) get##i = { \
        void apply(inout bit<8> v, out bit<8> r) { r = v; } }; \
    action count##i() { md.c##i = add##i.execute(md.flow); } \
    action read##i() { md.c##i = get##i.execute(md.flow); } \
    table packets##i { key = { md.window: exact; } actions = { count##i; read##i; NoAction; } \
        const default_action = NoAction(); size = 4; \
        const entries = { i: count##i(); next: read##i(); after: read##i(); } }
    WINDOW(0, 1, 2)
    WINDOW(1, 2, 3)
    WINDOW(2, 3, 0)
    WINDOW(3, 0, 1)

    // two saturating sums that depend on each other take two stages
    action add_pairs() { md.sum01 = md.c0 |+| md.c1; md.sum23 = md.c2 |+| md.c3; }
    action add_sums() { md.sum = md.sum01 |+| md.sum23; }
    table pairs { actions = { add_pairs; } const default_action = add_pairs(); size = 1; }
    table sums { actions = { add_sums; } const default_action = add_sums(); size = 1; }
    action elephant() { hdr.bridge.elephant = 1; tm.qid = ELEPHANTS_QUEUE; }
    table classify { key = { md.sum: range; } actions = { elephant; NoAction; } default_action = NoAction(); size = 2; }

    action note_flow() { hdr.bridge.flow = md.flow; }

    apply {
        begin();
        tick();
        if (hdr.ip.isValid() && hdr.ip.ttl != 0 && hdr.ip.ttl != 1) {
            if (route.apply().miss) { bridge.apply(); }
        } else {
            bridge.apply();
        }
        way_back.apply();
        if (md.kind == TCP) { payload.apply(); }
        if (md.kind != NO_FLOW) {
            identify();
            packets0.apply(); packets1.apply(); packets2.apply(); packets3.apply();
            pairs.apply(); sums.apply();
            classify.apply();
            note_flow();
        }
    }
}

control IngressDeparser(packet_out pkt, inout headers_t hdr, in ingress_md_t md,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    Checksum() ip_checksum;
    apply {
        if (md.routed) {
            hdr.ip.checksum = ip_checksum.update({hdr.ip.version, hdr.ip.ihl, hdr.ip.tos, hdr.ip.length, hdr.ip.id,
                hdr.ip.fragment, hdr.ip.ttl, hdr.ip.protocol, hdr.ip.src, hdr.ip.dst});
        }
        pkt.emit(hdr.bridge); pkt.emit(hdr.eth); pkt.emit(hdr.ip); pkt.emit(hdr.ports); pkt.emit(hdr.tcp);
    }
}

// ------------------------------------------------------------------ egress: number of elephants, signals
// Registers are per pipe: those of a port's queues and elephants are in the pipe that all its packets pass.
parser EgressParser(packet_in pkt, out headers_t hdr, out egress_md_t md, out egress_intrinsic_metadata_t eg) {
    state start {
        pkt.extract(eg);
        md.mark = 0; md.now = 0; md.was = 0; md.moved = 0; md.at = 0; md.step = STAY;
        md.crowded = 0; md.high = 0; md.fire = 0;
        md.packet_type = 0; md.session = 0; md.flags = 0; md.flows = 0; md.port = 0; md.dst = 0; md.src = 0;
        md.tcp_length = 0;
        transition select(pkt.lookahead<bit<8>>()) { SIGNAL: signal; default: data; }
    }
    state data { pkt.extract(hdr.bridge); transition accept; }
    state signal {
        pkt.extract(hdr.mirror);
        pkt.extract(hdr.eth); pkt.extract(hdr.ip); pkt.extract(hdr.ports); pkt.extract(hdr.tcp);
        transition accept;
    }
}

control Egress(inout headers_t hdr, inout egress_md_t md, in egress_intrinsic_metadata_t eg,
               in egress_intrinsic_metadata_from_parser_t prsr, inout egress_intrinsic_metadata_for_deparser_t dprsr,
               inout egress_intrinsic_metadata_for_output_port_t oport) {
    action begin() {
        md.mark = COUNTED ++ eg.egress_port ++ 1w0; md.at = eg.egress_port; md.now = prsr.global_tstamp[47:16];
    }

    // A flow that ended is not counted again while packets are under way: only after it was a mouse. ACKs of an
    // elephant leave the number as it is: who only acknowledges takes no share of the link. A flow that is counted
    // at another port leaves that one's number with its first packet here, and joins this one's with its second,
    // as a packet changes one number.
    Register<bit<16>, flow_t>(FLOWS, 0) state_of;
    RegisterAction<bit<16>, flow_t, bit<16>>(state_of) grow = {
        void apply(inout bit<16> v, out bit<16> r) {
            r = v; if (v == 0) { v = md.mark; } else if (v != md.mark) { v = v & ENDED; } } };
    RegisterAction<bit<16>, flow_t, bit<16>>(state_of) shrink = {
        void apply(inout bit<16> v, out bit<16> r) { r = v; v = 0; } };
    RegisterAction<bit<16>, flow_t, bit<16>>(state_of) finish = {
        void apply(inout bit<16> v, out bit<16> r) { r = v; v = ENDED; } };
    action is_elephant() { md.was = grow.execute(hdr.bridge.flow); md.step = ENTER; }
    action is_mouse() { md.was = shrink.execute(hdr.bridge.flow); md.step = LEAVE; }
    action ends() { md.was = finish.execute(hdr.bridge.flow); md.step = LEAVE; }
    table flow_state {
        key = { hdr.bridge.kind: exact; hdr.bridge.elephant: exact; }
        actions = { is_elephant; is_mouse; ends; NoAction; }
        const default_action = NoAction(); size = 8;
        const entries = {
            (UDP, 0): is_mouse(); (TCP, 0): is_mouse(); (TCP_BARE, 0): is_mouse();
            (UDP, 1): is_elephant(); (TCP, 1): is_elephant();
            (TCP_END, 0): ends(); (TCP_END, 1): ends();
        }
    }

    action compare() { md.moved = md.was ^ md.mark; }
    // the number of another port is no answer to a packet of this one: no signal
    action leave() { md.at = md.was[9:1]; md.step = LEAVE; md.high = 0; }
    table whose {
        key = { md.step: exact; md.was: ternary; md.moved: ternary; }
        actions = { leave; NoAction; }
        const default_action = NoAction(); size = 4;
        const entries = {
            (ENTER, 0x8000 &&& 0x8000, 0): NoAction();
            (ENTER, 0x8000 &&& 0x8000, _): leave();
            (LEAVE, 0x8000 &&& 0x8000, _): leave();
        }
    }

    Register<bit<16>, PortId_t>(PORTS, 0) elephants; // the N of the paper
    RegisterAction<bit<16>, PortId_t, bit<16>>(elephants) more = {
        void apply(inout bit<16> v, out bit<16> r) { v = v |+| 1; r = v; } };
    RegisterAction<bit<16>, PortId_t, bit<16>>(elephants) fewer = {
        void apply(inout bit<16> v, out bit<16> r) { v = v |-| 1; r = v; } };
    RegisterAction<bit<16>, PortId_t, bit<16>>(elephants) same = {
        void apply(inout bit<16> v, out bit<16> r) { r = v; } };
    action one_more() { md.flows = more.execute(md.at); }
    action one_fewer() { md.flows = fewer.execute(md.at); }
    action as_many() { md.flows = same.execute(md.at); }
    table number {
        key = { md.step: exact; md.was: ternary; }
        actions = { one_more; one_fewer; as_many; }
        const default_action = as_many(); size = 4;
        const entries = { (ENTER, 0): one_more(); (LEAVE, 0x8000 &&& 0x8000): one_fewer(); }
    }

    // The depth of a packet's own queue when it came there: mice note whether it is crowded, elephants read that.
    Register<bit<8>, PortId_t>(PORTS, 0) mice;
    RegisterAction<bit<8>, PortId_t, bit<8>>(mice) set_crowded = {
        void apply(inout bit<8> v) { v = NCF_MICE_CROWDED; } };
    RegisterAction<bit<8>, PortId_t, bit<8>>(mice) set_calm = { void apply(inout bit<8> v) { v = 0; } };
    RegisterAction<bit<8>, PortId_t, bit<8>>(mice) get_crowded = {
        void apply(inout bit<8> v, out bit<8> r) { r = v; } };
    action mice_crowded() { set_crowded.execute(eg.egress_port); }
    action mice_calm() { set_calm.execute(eg.egress_port); }
    action elephants_crowded() { md.crowded = get_crowded.execute(eg.egress_port); md.high = 1; }
    table depth {
        key = { eg.egress_port: exact; hdr.bridge.elephant: exact; eg.enq_qdepth: range; }
        actions = { mice_crowded; mice_calm; elephants_crowded; NoAction; }
        default_action = NoAction(); size = 864;
    }

    Register<bit<32>, flow_t>(FLOWS, 0) last_signal;
    RegisterAction<bit<32>, flow_t, bit<1>>(last_signal) damp = {
        void apply(inout bit<32> v, out bit<1> r) { r = 0; if (md.now - v > NCF_GAP) { v = md.now; r = 1; } } };
    action may_signal() { md.fire = damp.execute(hdr.bridge.flow); }
    action copy() {
        md.packet_type = SIGNAL; md.session = hdr.bridge.session; md.flags = md.crowded | (NCF_VERSION << 4);
        md.port = 7w0 ++ eg.egress_port; md.dst = hdr.bridge.dst; md.src = hdr.bridge.src;
        dprsr.mirror_type = MIRROR_SIGNAL;
#if __TARGET_TOFINO__ == 2
        dprsr.mirror_io_select = 1; // the packet as it leaves, without the bridge header
#endif
    }
    action strip() { hdr.bridge.setInvalid(); }

    // a trimmed copy becomes the signal
    bit<32> address;
    bit<16> port;
    action answer() {
        address = hdr.ip.src; hdr.ip.src = hdr.ip.dst; hdr.ip.dst = address;
        port = hdr.ports.src; hdr.ports.src = hdr.ports.dst; hdr.ports.dst = port;
        hdr.eth.src = hdr.mirror.dst; hdr.eth.dst = hdr.mirror.src;
        hdr.ip.tos = 0; hdr.ip.length = NCF_IP_LENGTH; hdr.ip.ttl = NCF_TTL; md.tcp_length = NCF_TCP_LENGTH;
        hdr.tcp.offset = NCF_TCP_OFFSET; hdr.tcp.reserved = 0; hdr.tcp.flags = 0x10; hdr.tcp.urgent = 0;
    }
    action describe(bit<8> bottleneck, bit<32> capacity_kbps, bit<32> queue_bytes) {
        hdr.option.setValid();
        hdr.option.kind = NCF_OPTION_KIND; hdr.option.length = NCF_OPTION_LENGTH; hdr.option.exid = NCF_EXID;
        hdr.option.flags = hdr.mirror.flags; hdr.option.bottleneck = bottleneck; hdr.option.flows = hdr.mirror.flows;
        hdr.option.capacity_kbps = capacity_kbps; hdr.option.queue_bytes = queue_bytes;
    }
    action discard() { dprsr.drop_ctl = 1; }
    table link {
        key = { hdr.mirror.port: exact; } actions = { describe; discard; } default_action = discard(); size = 288;
    }

    apply {
        if (hdr.mirror.isValid()) {
            answer();
            link.apply();
        } else {
            begin();
            depth.apply();
            if (hdr.bridge.kind != NO_FLOW) {
                flow_state.apply();
                compare();
                whose.apply();
                number.apply();
            }
            if (md.high == 1 && hdr.bridge.kind == TCP && hdr.bridge.session != 0) {
                may_signal();
                if (md.fire == 1) { copy(); }
            }
            strip();
        }
    }
}

control EgressDeparser(packet_out pkt, inout headers_t hdr, in egress_md_t md,
                       in egress_intrinsic_metadata_for_deparser_t dprsr) {
    Mirror(MIRROR_SIGNAL) mirror;
    Checksum() ip_checksum;
    Checksum() tcp_checksum;
    apply {
        if (dprsr.mirror_type == MIRROR_SIGNAL) {
            mirror.emit<mirror_h>(md.session, {md.packet_type, md.flags, md.flows, md.port, md.dst, md.src});
        }
        if (hdr.option.isValid()) {
            hdr.ip.checksum = ip_checksum.update({hdr.ip.version, hdr.ip.ihl, hdr.ip.tos, hdr.ip.length, hdr.ip.id,
                hdr.ip.fragment, hdr.ip.ttl, hdr.ip.protocol, hdr.ip.src, hdr.ip.dst});
            hdr.tcp.checksum = tcp_checksum.update({hdr.ip.src, hdr.ip.dst, 8w0, hdr.ip.protocol, md.tcp_length,
                hdr.ports.src, hdr.ports.dst, hdr.tcp.seq, hdr.tcp.ack, hdr.tcp.offset, hdr.tcp.reserved,
                hdr.tcp.flags, hdr.tcp.window, hdr.tcp.urgent, hdr.option.kind, hdr.option.length, hdr.option.exid,
                hdr.option.flags, hdr.option.bottleneck, hdr.option.flows, hdr.option.capacity_kbps,
                hdr.option.queue_bytes});
        }
        pkt.emit(hdr.eth); pkt.emit(hdr.ip); pkt.emit(hdr.ports); pkt.emit(hdr.tcp); pkt.emit(hdr.option);
    }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;
Switch(pipe) main;
