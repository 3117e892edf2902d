# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The line of six nodes that l4sbench's topology `line6` describes, on machines of CloudLab.

Three networks: two senders and the delay, the delay and the router, the router and two receivers. Nothing
shapes or delays packets but l4sbench on the machines.

Instructions:
When the machines are up, save the manifest (tab Manifest), and in a checkout of l4sbench run
`python3 examples/cloudlab/inventory.py manifest.xml > hosts.yml`, then `l4sbench plan quickstart --on
ssh:hosts.yml`.
"""

from geni import portal
from geni.rspec import pg

NODES = {
    "tx-l4s": {"net-tx": "10.0.0.100"},
    "tx-classic": {"net-tx": "10.0.0.101"},
    "delay": {"net-tx": "10.0.0.2", "net-mid": "10.0.2.2"},
    "router": {"net-mid": "10.0.2.1", "net-rx": "10.0.5.1"},
    "rx-l4s": {"net-rx": "10.0.5.100"},
    "rx-classic": {"net-rx": "10.0.5.101"},
}
# the addresses of the topology: CloudLab would give others at boot, and l4sbench refuses strange ones
NETMASK = "255.255.255.0"
IMAGE = "urn:publicid:IDN+emulab.net+image+emulab-ops//UBUNTU24-64-STD"

context = portal.Context()
context.defineParameter(
    "hardware",
    "Type of machine",
    portal.ParameterType.NODETYPE,
    "",
    longDescription="All six of one type; delay and router need two ports for experiments. Empty: any.",
)
context.defineParameter("image", "Disk image", portal.ParameterType.IMAGE, IMAGE)
context.defineParameter(
    "multiplex",
    "Several networks on one port",
    portal.ParameterType.BOOLEAN,
    False,
    longDescription="For types with one port for experiments: networks become VLANs that share it.",
)
parameters = context.bindParameters()
request = context.makeRequestRSpec()

networks = {}
for name, addresses in NODES.items():
    node = request.RawPC(name)
    node.disk_image = parameters.image
    if parameters.hardware:
        node.hardware_type = parameters.hardware
    for network, address in addresses.items():
        if network not in networks:
            networks[network] = request.LAN(network)
            if parameters.multiplex:
                networks[network].link_multiplexing = True
                networks[network].best_effort = True
        interface = node.addInterface(network)
        interface.addAddress(pg.IPv4Address(address, NETMASK))
        networks[network].addInterface(interface)

context.printRequestRSpec()
