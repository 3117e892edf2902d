// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * The two flows of tools/bench.py in ns-3: usage: bench_ns3 QUEUE SECONDS RATE_BITPS RTT_MS FLOWS
 *
 * A packet crosses three links, as in line6: to the router, through the bottleneck,
 * which also has the delay (a channel of ns-3 needs no node for it), and to its
 * receiver. The first half of the flows is DCTCP, the other half CUBIC. QUEUE is
 * fifo, fq-codel or pie, with a buffer of 2 BDP. Prints the goodput of both halves
 * in Mbit/s.
 */

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

constexpr uint32_t SEGMENT_BYTES = 1448;
constexpr uint32_t PACKET_BYTES = 1500;
constexpr uint32_t SOCKET_BYTES = 6291456;

NetDeviceContainer
Join(Ptr<Node> a, Ptr<Node> b, const DataRate& rate, Time delay)
{
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", DataRateValue(rate));
    link.SetChannelAttribute("Delay", TimeValue(delay));
    return link.Install(a, b);
}

/* Give both ends of a link addresses of a network of their own; return that of the second. */
Ipv4Address
Assign(Ipv4AddressHelper& addresses, const NetDeviceContainer& link)
{
    Ipv4InterfaceContainer ends = addresses.Assign(link);
    addresses.NewNetwork();
    return ends.GetAddress(1);
}

/* The queue under test; its limit is the buffer, with no further queue in the device. */
void
InstallQueue(const NetDeviceContainer& port, const std::string& name, uint32_t limitPackets)
{
    TrafficControlHelper queue;
    const QueueSizeValue limit(QueueSize(QueueSizeUnit::PACKETS, limitPackets));
    queue.Uninstall(port);
    if (name == "fifo")
        queue.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", limit);
    else if (name == "fq-codel")
        queue.SetRootQueueDisc("ns3::FqCoDelQueueDisc", "MaxSize", limit, "UseEcn", BooleanValue(true));
    else if (name == "pie")
        queue.SetRootQueueDisc("ns3::PieQueueDisc", "MaxSize", limit, "UseEcn", BooleanValue(true));
    else
        NS_FATAL_ERROR("unknown queue " << name);
    queue.Install(port);
}

Ptr<PacketSink>
Flow(Ptr<Node> from, Ptr<Node> to, const Ipv4Address& address, uint16_t port, Time end)
{
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
    BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(address, port));
    ApplicationContainer receiver = sink.Install(to);
    ApplicationContainer sender = source.Install(from);
    sender.Start(Seconds(0));
    sender.Stop(end);
    return DynamicCast<PacketSink>(receiver.Get(0));
}

void
UseTcp(Ptr<Node> node, const char* kind)
{
    node->GetObject<TcpL4Protocol>()->SetAttribute("SocketType", TypeIdValue(TypeId::LookupByName(kind)));
}

} // namespace

int
main(int argc, char** argv)
{
    if (argc != 6)
    {
        std::cerr << "usage: bench_ns3 QUEUE SECONDS RATE_BITPS RTT_MS FLOWS\n";
        return 2;
    }
    const std::string queue = argv[1];
    const Time end = Seconds(std::stod(argv[2]));
    const DataRate rate(std::stoull(argv[3]));
    const Time rtt = Seconds(std::stod(argv[4]) / 1e3);
    const uint32_t flows = std::stoul(argv[5]);
    const uint32_t limit =
        static_cast<uint32_t>(2 * rate.GetBitRate() * rtt.GetSeconds() / 8 / PACKET_BYTES);
    const DataRate fast("10Gbps");

    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(SEGMENT_BYTES));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(SOCKET_BYTES));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(SOCKET_BYTES));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));

    /* Senders 0 and 1, both sides of the bottleneck 2 and 3, receivers 4 and 5. */
    NodeContainer nodes(6);
    InternetStackHelper().Install(nodes);
    for (uint32_t pair : {0, 1})
        for (uint32_t host : {pair, 4 + pair})
            UseTcp(nodes.Get(host), pair ? "ns3::TcpCubic" : "ns3::TcpDctcp");

    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    const Time none = Seconds(0);
    Ipv4Address receivers[2];
    for (uint32_t pair : {0, 1})
    {
        Assign(addresses, Join(nodes.Get(pair), nodes.Get(2), fast, none));
        receivers[pair] = Assign(addresses, Join(nodes.Get(3), nodes.Get(4 + pair), fast, none));
    }
    NetDeviceContainer bottleneck = Join(nodes.Get(2), nodes.Get(3), rate, rtt / 2);
    bottleneck.Get(1)->SetAttribute("DataRate", DataRateValue(fast));
    DynamicCast<PointToPointNetDevice>(bottleneck.Get(0))->GetQueue()->SetMaxSize(QueueSize("1p"));
    Assign(addresses, bottleneck);
    InstallQueue(NetDeviceContainer(bottleneck.Get(0)), queue, std::max<uint32_t>(limit, 2));
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    std::vector<Ptr<PacketSink>> sinks;
    for (uint32_t i = 0; i < flows; i++)
    {
        const uint32_t pair = i < flows / 2 ? 0 : 1;
        sinks.push_back(
            Flow(nodes.Get(pair), nodes.Get(4 + pair), receivers[pair], 5000 + i, end));
    }
    Simulator::Stop(end);
    Simulator::Run();
    double mbps[2] = {0, 0};
    for (uint32_t i = 0; i < flows; i++)
        mbps[i < flows / 2 ? 0 : 1] += sinks[i]->GetTotalRx() * 8 / end.GetSeconds() / 1e6;
    std::cout << mbps[0] << " " << mbps[1] << "\n";
    Simulator::Destroy();
    return 0;
}
