// 10 s of 500,000 frames per second through the measured device, or through ns-3's own bridge with a queue.
#include "ns3/bridge-helper.h"
#include "ns3/command-line.h"
#include "ns3/data-rate.h"
#include "ns3/double.h"
#include "ns3/node-container.h"
#include "ns3/simple-net-device-helper.h"
#include "ns3/simulator.h"
#include "weir-helper.h"

#include <iostream>

using namespace ns3;

namespace
{
uint64_t g_received = 0;

bool
Receive(Ptr<NetDevice>, Ptr<const Packet>, uint16_t, const Address&)
{
    ++g_received;
    return true;
}

void
Send(Ptr<NetDevice> from, Address to, Time gap, uint64_t left)
{
    from->Send(Create<Packet>(46), to, 0x0800);
    if (left > 1)
    {
        Simulator::Schedule(gap, &Send, from, to, gap, left - 1);
    }
}
} // namespace

int
main(int argc, char* argv[])
{
    std::string through = "device";
    double seconds = 10.0;
    uint64_t rate = 500000;
    CommandLine options(__FILE__);
    options.AddValue("Through", "device, or bridge", through);
    options.AddValue("Seconds", "Simulated time", seconds);
    options.AddValue("Rate", "Frames per second", rate);
    options.Parse(argc, argv);
    NodeContainer nodes(3);
    SimpleNetDeviceHelper links;
    links.SetNetDevicePointToPointMode(true);
    NetDeviceContainer left = links.Install(NodeContainer(nodes.Get(0), nodes.Get(1)));
    // The bridge's queue is that of its port, which sends at a finite rate.
    if (through == "bridge")
    {
        links.SetDeviceAttribute("DataRate", DataRateValue(DataRate("1Gbps")));
    }
    NetDeviceContainer right = links.Install(NodeContainer(nodes.Get(1), nodes.Get(2)));
    WeirHelper weir("firewall.model.json");
    if (through == "bridge")
    {
        BridgeHelper().Install(nodes.Get(1), NetDeviceContainer(left.Get(1), right.Get(0)));
    }
    else
    {
        weir.Install(nodes.Get(1), left.Get(1), right.Get(0));
    }
    right.Get(1)->SetReceiveCallback(MakeCallback(&Receive));
    const uint64_t packets = static_cast<uint64_t>(seconds * static_cast<double>(rate));
    Simulator::Schedule(Time(0), &Send, left.Get(0), right.Get(1)->GetAddress(), Seconds(1.0 / rate), packets);
    Simulator::Run();
    std::cout << through << ": " << g_received << " of " << packets << " frames" << std::endl;
    Simulator::Destroy();
}
