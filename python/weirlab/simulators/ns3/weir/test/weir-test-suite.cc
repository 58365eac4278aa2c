// Tests of WeirNetDevice. The model is given in WEIR_MODEL, or is firewall.model.json in the current folder.
#include "ns3/config.h"
#include "ns3/double.h"
#include "ns3/inet-socket-address.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-address-helper.h"
#include "ns3/ipv4-global-routing-helper.h"
#include "ns3/node-container.h"
#include "ns3/simple-net-device-helper.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/test.h"
#include "ns3/udp-socket-factory.h"
#include "ns3/uinteger.h"
#include "weir-helper.h"

#include <cstdlib>
#include <map>
#include <vector>

using namespace ns3;

namespace
{

std::string
ModelFile()
{
    const char* given = std::getenv("WEIR_MODEL");
    return given ? given : "firewall.model.json";
}

/** Two senders, the device between them, and what became of their packets. */
class Bed
{
  public:
    explicit Bed(double position)
    {
        m_nodes.Create(3);
        SimpleNetDeviceHelper links;
        links.SetNetDevicePointToPointMode(true);
        m_left = links.Install(NodeContainer(m_nodes.Get(0), m_nodes.Get(1)));
        m_right = links.Install(NodeContainer(m_nodes.Get(1), m_nodes.Get(2)));
        WeirHelper weir(ModelFile());
        weir.SetAttribute("Position", DoubleValue(position));
        m_weir = weir.Install(m_nodes.Get(1), m_left.Get(1), m_right.Get(0));
        m_weir->TraceConnectWithoutContext("Delay", MakeCallback(&Bed::Delay, this));
        m_weir->TraceConnectWithoutContext("Drop", MakeCallback(&Bed::Drop, this));
        m_weir->TraceConnectWithoutContext("Queue", MakeCallback(&Bed::Queue, this));
        m_left.Get(0)->SetReceiveCallback(MakeCallback(&Bed::ReceiveLeft, this));
        m_right.Get(1)->SetReceiveCallback(MakeCallback(&Bed::ReceiveRight, this));
    }

    /** Schedules `n` packets of 64-byte frames from one side. */
    void Send(bool fromLeft, double startNs, double gapNs, uint32_t n)
    {
        for (uint32_t i = 0; i < n; ++i)
        {
            const Time at = NanoSeconds(std::llround(startNs + i * gapNs));
            Simulator::Schedule(at, &Bed::SendOne, this, fromLeft, i);
        }
    }

    void Run()
    {
        Simulator::Run();
    }

    Ptr<WeirNetDevice> m_weir;
    std::vector<double> m_delays, m_leaves, m_arrivals;
    std::vector<uint32_t> m_left2right, m_right2left;
    std::map<WeirNetDevice::DropReason, uint32_t> m_drops;
    uint32_t m_mostQueued = 0;

  private:
    void SendOne(bool fromLeft, uint32_t number)
    {
        Ptr<NetDevice> from = fromLeft ? m_left.Get(0) : m_right.Get(1);
        Ptr<NetDevice> to = fromLeft ? m_right.Get(1) : m_left.Get(0);
        const uint8_t bytes[46] = {static_cast<uint8_t>(number >> 16), static_cast<uint8_t>(number >> 8), static_cast<uint8_t>(number)};
        m_arrivals.push_back(static_cast<double>(Simulator::Now().GetNanoSeconds()));
        from->Send(Create<Packet>(bytes, sizeof(bytes)), to->GetAddress(), 0x0800);
    }

    static uint32_t Number(Ptr<const Packet> packet)
    {
        uint8_t bytes[3];
        packet->CopyData(bytes, 3);
        return bytes[0] << 16 | bytes[1] << 8 | bytes[2];
    }

    bool ReceiveLeft(Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address&)
    {
        m_right2left.push_back(Number(packet));
        return true;
    }

    bool ReceiveRight(Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address&)
    {
        m_left2right.push_back(Number(packet));
        return true;
    }

    void Delay(Ptr<const Packet>, Time delay)
    {
        m_delays.push_back(static_cast<double>(delay.GetNanoSeconds()));
        m_leaves.push_back(static_cast<double>(Simulator::Now().GetNanoSeconds()));
    }

    void Drop(Ptr<const Packet>, WeirNetDevice::DropReason reason)
    {
        ++m_drops[reason];
    }

    void Queue(uint32_t, uint32_t queued)
    {
        m_mostQueued = std::max(m_mostQueued, queued);
    }

    NodeContainer m_nodes;
    NetDeviceContainer m_left, m_right;
};

/** Frames leave exactly when the core says. */
class CoreTest : public TestCase
{
  public:
    CoreTest()
        : TestCase("frames leave when the device of the core sends them")
    {
    }

  private:
    void DoRun() override
    {
        Bed bed(100.0);
        const double threshold = bed.m_weir->GetThreshold(64);
        bed.Send(true, 1000.0, 1e9 / (0.7 * threshold), 3000);
        bed.Send(true, 1000.0 + 3000 * 1e9 / (0.7 * threshold), 1e9 / (1.6 * threshold), 3000);
        bed.Run();
        weir::Device device(weir::Model::load(ModelFile()), 2);
        std::vector<double> expected;
        for (double at : bed.m_arrivals)
        {
            const weir::Passage passage = device.pass(at, 64.0, 100.0);
            if (passage.fate == weir::Passage::Forwarded)
            {
                expected.push_back(passage.leaves_ns);
            }
        }
        NS_TEST_ASSERT_MSG_EQ(bed.m_leaves.size(), expected.size(), "as many frames leave");
        for (std::size_t i = 0; i < expected.size(); ++i)
        {
            NS_TEST_ASSERT_MSG_EQ_TOL(bed.m_leaves[i], expected[i], 0.51, "frame " << i);
        }
        Simulator::Destroy();
    }
};

/** Both directions share one server and one queue. */
class SharingTest : public TestCase
{
  public:
    SharingTest()
        : TestCase("both directions share the threshold, keep their order, and fill one queue")
    {
    }

  private:
    void DoRun() override
    {
        Bed bed(0.0);
        const double threshold = bed.m_weir->GetThreshold(64);
        const double gap = 1e9 / threshold; // each direction alone would just pass
        bed.Send(true, 0.0, gap, 20000);
        bed.Send(false, 0.5 * gap, gap, 20000);
        bed.Run();
        const double forwarded = static_cast<double>(bed.m_left2right.size() + bed.m_right2left.size());
        NS_TEST_ASSERT_MSG_EQ_TOL(forwarded / 40000.0, 0.5, 0.03, "half of all frames pass");
        NS_TEST_ASSERT_MSG_EQ(bed.m_drops[WeirNetDevice::LOST], 0, "only the full queue drops");
        NS_TEST_ASSERT_MSG_EQ(forwarded + bed.m_drops[WeirNetDevice::QUEUE_FULL], 40000, "every frame has a fate");
        for (const auto* numbers : {&bed.m_left2right, &bed.m_right2left})
        {
            NS_TEST_ASSERT_MSG_EQ(std::is_sorted(numbers->begin(), numbers->end()), true, "frames keep their order");
        }
        Simulator::Destroy();
    }
};

/** Attributes change while frames pass. */
class ChangeTest : public TestCase
{
  public:
    ChangeTest()
        : TestCase("more rules lower the threshold during a simulation, and more CPUs raise it")
    {
    }

  private:
    void DoRun() override
    {
        Bed bed(0.0);
        const double few = bed.m_weir->GetThreshold(64);
        bed.m_weir->SetAttribute("Position", DoubleValue(1000.0));
        const double many = bed.m_weir->GetThreshold(64);
        NS_TEST_ASSERT_MSG_LT(many, few, "rules cost time");
        bed.m_weir->SetAttribute("StateShare", DoubleValue(1.0));
        NS_TEST_ASSERT_MSG_EQ_TOL(bed.m_weir->GetThreshold(64), few, 1e-6, "known connections meet no rule");
        bed.m_weir->SetAttribute("StateShare", DoubleValue(0.0));
        bed.m_weir->SetAttribute("Cpus", DoubleValue(2.0));
        NS_TEST_ASSERT_MSG_EQ_TOL(bed.m_weir->GetThreshold(64), 2.0 * many, 1e-6, "two CPUs carry twice as much");
        // 1.5 times what one CPU carries: nothing is lost with two, a third with one.
        const double gap = 1e9 / (1.5 * many);
        bed.Send(true, 0.0, gap, 40000);
        Simulator::Schedule(NanoSeconds(std::llround(20000 * gap)), &ChangeTest::Shrink, this, bed.m_weir);
        m_bed = &bed;
        bed.Run();
        NS_TEST_ASSERT_MSG_EQ(m_lostBefore, 0, "two CPUs lose nothing");
        const double lost = bed.m_drops[WeirNetDevice::QUEUE_FULL] / 20000.0;
        NS_TEST_ASSERT_MSG_EQ_TOL(lost, 1.0 / 3.0, 0.04, "one CPU loses a third");
        Simulator::Destroy();
    }

    void Shrink(Ptr<WeirNetDevice> device)
    {
        m_lostBefore = m_bed->m_drops[WeirNetDevice::QUEUE_FULL];
        device->SetAttribute("Cpus", DoubleValue(1.0));
    }

    Bed* m_bed = nullptr;
    uint32_t m_lostBefore = 1;
};

/** A steady load has the delays that the model predicts. */
class PredictionTest : public TestCase
{
  public:
    PredictionTest()
        : TestCase("a steady load has the predicted mean delay, p99 and loss")
    {
    }

  private:
    void DoRun() override
    {
        for (double load : {0.5, 0.9, 1.4})
        {
            Bed bed(200.0);
            const double rate = load * bed.m_weir->GetThreshold(64);
            bed.Send(true, 0.0, 1e9 / rate, 100000);
            bed.Run();
            const weir::Prediction expected = bed.m_weir->Predict(rate, 64);
            std::vector<double> delays(bed.m_delays.begin() + bed.m_delays.size() / 5, bed.m_delays.end());
            double sum = 0.0;
            for (double delay : delays)
            {
                sum += delay;
            }
            std::sort(delays.begin(), delays.end());
            const double mean = sum / delays.size(), p99 = delays[delays.size() * 99 / 100];
            NS_TEST_ASSERT_MSG_EQ_TOL(mean / expected.ns[0], 1.0, 0.03, "mean at " << load);
            NS_TEST_ASSERT_MSG_EQ_TOL(p99 / expected.ns[3], 1.0, 0.10, "p99 at " << load);
            const double lost = bed.m_drops[WeirNetDevice::QUEUE_FULL] / 100000.0;
            NS_TEST_ASSERT_MSG_EQ_TOL(lost, expected.loss_ratio, 0.01, "loss at " << load);
            Simulator::Destroy();
        }
    }
};

/** In a router, IP packets pass the device once, whichever interface they come from. */
class RouterTest : public TestCase
{
  public:
    RouterTest()
        : TestCase("a router forwards IP packets when the device of the core does, and answers ARP at once")
    {
    }

  private:
    static constexpr uint16_t PORT = 9;
    static constexpr uint32_t PAYLOAD_BYTES = 100, FRAME_BYTES = PAYLOAD_BYTES + 8 + 20 + 18;

    void DoRun() override
    {
        Config::SetDefault("ns3::ArpL3Protocol::RequestJitter", StringValue("ns3::ConstantRandomVariable[Constant=0]"));
        NodeContainer nodes(3);
        SimpleNetDeviceHelper links;
        NetDeviceContainer left = links.Install(NodeContainer(nodes.Get(0), nodes.Get(1)));
        NetDeviceContainer right = links.Install(NodeContainer(nodes.Get(1), nodes.Get(2)));
        InternetStackHelper().Install(nodes);
        Ipv4AddressHelper addresses("10.0.1.0", "255.255.255.0");
        m_hosts[0] = addresses.Assign(left).GetAddress(0);
        addresses.SetBase("10.0.2.0", "255.255.255.0");
        m_hosts[1] = addresses.Assign(right).GetAddress(1);
        Ipv4GlobalRoutingHelper::PopulateRoutingTables();
        WeirHelper helper(ModelFile());
        helper.SetAttribute("Position", DoubleValue(100.0));
        Ptr<WeirNetDevice> weir = helper.Install(nodes.Get(1));
        weir->TraceConnectWithoutContext("Drop", MakeCallback(&RouterTest::Drop, this));
        for (uint32_t side = 0; side < 2; ++side)
        {
            m_sockets[side] = Socket::CreateSocket(nodes.Get(2 * side), UdpSocketFactory::GetTypeId());
            m_sockets[side]->Bind(InetSocketAddress(Ipv4Address::GetAny(), PORT));
            m_sockets[side]->SetRecvCallback(MakeCallback(&RouterTest::Receive, this));
        }
        // Together 1.2 times the threshold, after one packet each by which hosts and router learn addresses.
        const double gap = 1e9 / (0.6 * weir->GetThreshold(FRAME_BYTES));
        for (uint32_t side = 0; side < 2; ++side)
        {
            Simulator::Schedule(MilliSeconds(1 + side), &RouterTest::Send, this, side);
            for (uint32_t i = 0; i < 2000; ++i)
            {
                Simulator::Schedule(MilliSeconds(100) + NanoSeconds(std::llround((i + 0.5 * side) * gap)), &RouterTest::Send, this, side);
            }
        }
        Simulator::Run();
        weir::Device device(weir::Model::load(ModelFile()), 2);
        std::vector<double> expected;
        for (double at : m_sent)
        {
            const weir::Passage passage = device.pass(at, FRAME_BYTES, 100.0);
            if (passage.fate == weir::Passage::Forwarded)
            {
                expected.push_back(passage.leaves_ns);
            }
        }
        NS_TEST_ASSERT_MSG_EQ(m_sent.size(), 4002, "all packets were sent");
        NS_TEST_ASSERT_MSG_GT(m_dropped, 0, "the queue is full now and then");
        NS_TEST_ASSERT_MSG_EQ(m_received.size() + m_dropped, m_sent.size(), "every packet has a fate");
        NS_TEST_ASSERT_MSG_EQ(m_received.size(), expected.size(), "as many packets leave");
        for (std::size_t i = 0; i < expected.size(); ++i)
        {
            NS_TEST_ASSERT_MSG_EQ_TOL(m_received[i], expected[i], 0.51, "packet " << i);
        }
        Simulator::Destroy();
    }

    void Send(uint32_t side)
    {
        m_sent.push_back(static_cast<double>(Simulator::Now().GetNanoSeconds()));
        m_sockets[side]->SendTo(Create<Packet>(PAYLOAD_BYTES), 0, InetSocketAddress(m_hosts[1 - side], PORT));
    }

    void Receive(Ptr<Socket> socket)
    {
        while (socket->Recv())
        {
            m_received.push_back(static_cast<double>(Simulator::Now().GetNanoSeconds()));
        }
    }

    void Drop(Ptr<const Packet>, WeirNetDevice::DropReason)
    {
        ++m_dropped;
    }

    Ipv4Address m_hosts[2];
    Ptr<Socket> m_sockets[2];
    std::vector<double> m_sent, m_received;
    std::size_t m_dropped = 0;
};

class WeirTestSuite : public TestSuite
{
  public:
    WeirTestSuite()
        : TestSuite("weir", UNIT)
    {
        AddTestCase(new CoreTest, TestCase::QUICK);
        AddTestCase(new SharingTest, TestCase::QUICK);
        AddTestCase(new ChangeTest, TestCase::QUICK);
        AddTestCase(new PredictionTest, TestCase::QUICK);
        AddTestCase(new RouterTest, TestCase::QUICK);
    }
};

WeirTestSuite g_weirTestSuite;

} // namespace
