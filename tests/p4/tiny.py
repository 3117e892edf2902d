# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A small program with blanks, for tests of the interpreter and of its limits."""

HEADERS = """
header eth_h { bit<48> dst; bit<48> src; bit<16> kind; }
header copy_h { bit<8> mark; %(copy)s }
struct hdr_t { eth_h eth; copy_h copy; }
struct md_t { bit<8> a; bit<8> b; bit<8> c; bit<16> wide; bit<32> long; bit<1> one; bool yes; }
"""
PROGRAM = (
    HEADERS
    + """
parser IP(packet_in pkt, out hdr_t hdr, out md_t md, out ingress_intrinsic_metadata_t ig) {
    state start { pkt.extract(ig); pkt.advance(PORT_METADATA_SIZE); pkt.extract(hdr.eth); transition accept; }
}
control IC(inout hdr_t hdr, inout md_t md, in ingress_intrinsic_metadata_t ig,
           in ingress_intrinsic_metadata_from_parser_t prsr,
           inout ingress_intrinsic_metadata_for_deparser_t dprsr,
           inout ingress_intrinsic_metadata_for_tm_t tm) {
%(locals)s
    apply { tm.ucast_egress_port = 2;
%(apply)s
    }
}
control ID(packet_out pkt, inout hdr_t hdr, in md_t md, in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    Checksum() sum;
    apply { %(deparse)s pkt.emit(hdr.eth); }
}
parser EP(packet_in pkt, out hdr_t hdr, out md_t md, out egress_intrinsic_metadata_t eg) {
    state start { pkt.extract(eg); pkt.extract(hdr.eth); transition accept; }
}
control EC(inout hdr_t hdr, inout md_t md, in egress_intrinsic_metadata_t eg,
           in egress_intrinsic_metadata_from_parser_t prsr,
           inout egress_intrinsic_metadata_for_deparser_t dprsr,
           inout egress_intrinsic_metadata_for_output_port_t oport) { apply { } }
control ED(packet_out pkt, inout hdr_t hdr, in md_t md, in egress_intrinsic_metadata_for_deparser_t dprsr) {
    %(mirror)s
    apply { %(emit)s pkt.emit(hdr.eth); }
}
Pipeline(IP(), IC(), ID(), EP(), EC(), ED()) pipe;
Switch(pipe) main;
"""
)
PAIR = "struct pair_t { bit<32> low; bit<32> high; }\n"
"""A pair that a register may hold; it comes before the program."""
BLANKS = dict.fromkeys(("copy", "locals", "apply", "deparse", "mirror", "emit"), "")
REGISTER = """
    Register<bit<8>, bit<8>>(256, 0) r;
    RegisterAction<bit<8>, bit<8>, bit<8>>(r) add = { void apply(inout bit<8> v, out bit<8> o)
    { v = v + 1; o = v; } };
"""


def text(**parts: str) -> str:
    """Return the program; parts that are not given stay empty."""
    return PROGRAM % {**BLANKS, **parts}
