// Passes arrivals through the measured device in ns-3. A line of standard input: time in ns, side (0: left, 1: right),
// matching position. A line of standard output: when a frame arrived, and how long it was inside; -1 if it was lost.
#include "ns3/double.h"
#include "ns3/node-container.h"
#include "ns3/simple-net-device-helper.h"
#include "ns3/simulator.h"
#include "weir-helper.h"

#include <cstdio>
#include <iostream>

using namespace ns3;

namespace
{
NetDeviceContainer g_left, g_right;
Ptr<WeirNetDevice> g_weir;

void
Print(Time arrived, double inside)
{
    std::printf("%.0f %.0f\n", arrived.GetDouble(), inside);
}

void
Delay(Ptr<const Packet> packet, Time delay)
{
    Print(Simulator::Now() - delay, delay.GetDouble());
}

void
Drop(Ptr<const Packet> packet, WeirNetDevice::DropReason reason)
{
    Print(Simulator::Now(), -1.0);
}

void Next();

void
Send(int side, double position)
{
    g_weir->SetAttribute("Position", DoubleValue(position));
    Ptr<NetDevice> from = side ? g_right.Get(1) : g_left.Get(0), to = side ? g_left.Get(0) : g_right.Get(1);
    from->Send(Create<Packet>(46), to->GetAddress(), 0x0800);
    Next();
}

void
Next()
{
    int64_t at;
    int side;
    double position;
    if (std::cin >> at >> side >> position)
    {
        Simulator::Schedule(NanoSeconds(at) - Simulator::Now(), &Send, side, position);
    }
}
} // namespace

int
main(int argc, char* argv[])
{
    std::ios::sync_with_stdio(false);
    Time::SetResolution(Time::NS);
    NodeContainer nodes(3);
    SimpleNetDeviceHelper links;
    links.SetNetDevicePointToPointMode(true);
    g_left = links.Install(NodeContainer(nodes.Get(0), nodes.Get(1)));
    g_right = links.Install(NodeContainer(nodes.Get(1), nodes.Get(2)));
    g_weir = WeirHelper("firewall.model.json").Install(nodes.Get(1), g_left.Get(1), g_right.Get(0));
    g_weir->TraceConnectWithoutContext("Delay", MakeCallback(&Delay));
    g_weir->TraceConnectWithoutContext("Drop", MakeCallback(&Drop));
    Next();
    Simulator::Run();
    Simulator::Destroy();
}
