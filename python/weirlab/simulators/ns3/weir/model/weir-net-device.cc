#include "weir-net-device.h"

#include "ns3/boolean.h"
#include "ns3/channel.h"
#include "ns3/double.h"
#include "ns3/log.h"
#include "ns3/mac48-address.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/trace-source-accessor.h"
#include "ns3/uinteger.h"

#include <algorithm>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("WeirNetDevice");
NS_OBJECT_ENSURE_REGISTERED(WeirNetDevice);

namespace
{
/** Ethernet header and FCS, which packets that ports hand over lack, and the shortest frame. */
constexpr uint32_t ETHERNET_BYTES = 18;
constexpr uint32_t SHORTEST_BYTES = 64;
constexpr uint16_t IPV4 = 0x0800, IPV6 = 0x86DD;
} // namespace

TypeId
WeirNetDevice::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::WeirNetDevice")
            .SetParent<NetDevice>()
            .SetGroupName("Weir")
            .AddConstructor<WeirNetDevice>()
            .AddAttribute("Model",
                          "Model file of the measured device (weir fit --out).",
                          StringValue(""),
                          MakeStringAccessor(&WeirNetDevice::m_file),
                          MakeStringChecker())
            .AddAttribute("Device",
                          "Name of the device, if the file holds several.",
                          StringValue(""),
                          MakeStringAccessor(&WeirNetDevice::m_name),
                          MakeStringChecker())
            .AddAttribute("Seed",
                          "Seed of the device's random numbers; the number of the run is added to it.",
                          UintegerValue(1),
                          MakeUintegerAccessor(&WeirNetDevice::m_seed),
                          MakeUintegerChecker<uint64_t>())
            .AddAttribute("Position",
                          "Mean matching position: rules compared up to and including the one that matches.",
                          DoubleValue(0.0),
                          MakeDoubleAccessor(&WeirNetDevice::m_position),
                          MakeDoubleChecker<double>(0.0))
            .AddAttribute("StateShare",
                          "Share of frames of known connections, which are accepted before the rules.",
                          DoubleValue(0.0),
                          MakeDoubleAccessor(&WeirNetDevice::m_stateShare),
                          MakeDoubleChecker<double>(0.0, 1.0))
            .AddAttribute("FrameBytes",
                          "Size of all frames for the model, FCS included; 0: their own sizes.",
                          UintegerValue(0),
                          MakeUintegerAccessor(&WeirNetDevice::m_frameBytes),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute("Cpus",
                          "CPUs that share the load evenly.",
                          DoubleValue(1.0),
                          MakeDoubleAccessor(&WeirNetDevice::SetCpus, &WeirNetDevice::GetCpus),
                          MakeDoubleChecker<double>(0.001))
            .AddAttribute("Mtu",
                          "Largest packet.",
                          UintegerValue(1500),
                          MakeUintegerAccessor(&WeirNetDevice::SetMtu, &WeirNetDevice::GetMtu),
                          MakeUintegerChecker<uint16_t>())
            .AddTraceSource("Delay",
                            "A frame leaves; how long it was inside.",
                            MakeTraceSourceAccessor(&WeirNetDevice::m_delayTrace),
                            "ns3::WeirNetDevice::DelayCallback")
            .AddTraceSource("Drop",
                            "A frame is dropped, and why.",
                            MakeTraceSourceAccessor(&WeirNetDevice::m_dropTrace),
                            "ns3::WeirNetDevice::DropCallback")
            .AddTraceSource("Queue",
                            "Frames in the queue and in service, looked at when a frame arrives.",
                            MakeTraceSourceAccessor(&WeirNetDevice::m_queue),
                            "ns3::TracedValueCallback::Uint32");
    return tid;
}

WeirNetDevice::WeirNetDevice()
    : m_cpus(1.0),
      m_ifIndex(0),
      m_mtu(1500),
      m_queue(0)
{
}

WeirNetDevice::~WeirNetDevice() = default;

void
WeirNetDevice::DoDispose()
{
    m_inside.clear();
    m_ports[0] = m_ports[1] = nullptr;
    m_stack = nullptr;
    m_node = nullptr;
    NetDevice::DoDispose();
}

void
WeirNetDevice::AddPort(Ptr<NetDevice> port)
{
    NS_ABORT_MSG_IF(m_ports[1], "a WeirNetDevice has two ports");
    NS_ABORT_MSG_IF(!port->SupportsSendFrom(), "a port of a WeirNetDevice must support SendFrom");
    m_ports[m_ports[0] ? 1 : 0] = port;
    m_node->RegisterProtocolHandler(MakeCallback(&WeirNetDevice::Receive, this), 0, port, true);
    m_address = m_ports[0]->GetAddress();
}

void
WeirNetDevice::FilterNode()
{
    NS_ABORT_MSG_IF(m_ports[0], "a WeirNetDevice is a bridge or the packet filter of a router, not both");
    m_stack = m_node->GetObject<TrafficControlLayer>();
    NS_ABORT_MSG_UNLESS(m_stack, "a router needs an IP stack before its WeirNetDevice: install an InternetStackHelper");
    const auto stack = MakeCallback(&TrafficControlLayer::Receive, m_stack);
    for (uint32_t i = 0; i < m_node->GetNDevices(); ++i)
    {
        // IPv4, ARP and IPv6 register the same handler for each device.
        for (int registered = 0; registered < 3; ++registered)
        {
            m_node->UnregisterProtocolHandler(stack);
        }
    }
    for (uint32_t i = 0; i < m_node->GetNDevices(); ++i)
    {
        Ptr<NetDevice> device = m_node->GetDevice(i);
        const bool loopback = device->GetInstanceTypeId().GetName() == "ns3::LoopbackNetDevice";
        m_node->RegisterProtocolHandler(loopback ? stack : MakeCallback(&WeirNetDevice::Receive, this), 0, device);
    }
}

const weir::Model&
WeirNetDevice::Model() const
{
    if (!m_model)
    {
        NS_ABORT_MSG_IF(m_file.empty(), "set the attribute Model of the WeirNetDevice to a model file");
        m_model = std::make_unique<weir::Model>(weir::Model::load(m_file, m_name));
    }
    return *m_model;
}

weir::Device&
WeirNetDevice::Device()
{
    if (!m_device)
    {
        m_device = std::make_unique<weir::Device>(Model(), m_seed + RngSeedManager::GetRun());
        m_device->set_cpus(m_cpus);
    }
    return *m_device;
}

double
WeirNetDevice::EffectivePosition() const
{
    return m_position * (1.0 - m_stateShare);
}

double
WeirNetDevice::GetThreshold(uint32_t frameBytes) const
{
    return m_cpus * 1e9 / Model().service_ns(EffectivePosition(), frameBytes);
}

weir::Prediction
WeirNetDevice::Predict(double framesPerSecond, uint32_t frameBytes) const
{
    return Model().predict(framesPerSecond / m_cpus, frameBytes, EffectivePosition());
}

void
WeirNetDevice::SetCpus(double cpus)
{
    m_cpus = cpus;
    if (m_device)
    {
        m_device->set_cpus(cpus);
    }
}

double
WeirNetDevice::GetCpus() const
{
    return m_cpus;
}

void
WeirNetDevice::Receive(Ptr<NetDevice> port,
                       Ptr<const Packet> packet,
                       uint16_t protocol,
                       const Address& source,
                       const Address& destination,
                       PacketType type)
{
    NS_LOG_FUNCTION(this << port << packet << protocol);
    if (m_stack && protocol != IPV4 && protocol != IPV6)
    {
        m_stack->Receive(port, packet, protocol, source, destination, type);
        return;
    }
    weir::Device& device = Device();
    const Time now = Simulator::Now();
    const uint32_t own = std::max(packet->GetSize() + ETHERNET_BYTES, SHORTEST_BYTES);
    const double bytes = m_frameBytes > 0 ? m_frameBytes : own;
    const double at = static_cast<double>(now.GetNanoSeconds());
    const weir::Passage passage = device.pass(at, bytes, EffectivePosition());
    m_queue = static_cast<uint32_t>(device.queued(at));
    if (passage.fate != weir::Passage::Forwarded)
    {
        m_dropTrace(packet, passage.fate == weir::Passage::QueueFull ? QUEUE_FULL : LOST);
        return;
    }
    const Time leaves = NanoSeconds(static_cast<int64_t>(std::llround(passage.leaves_ns)));
    Ptr<NetDevice> handler = m_stack ? port : m_ports[port == m_ports[0] ? 1 : 0];
    // Frames leave in the order in which they arrive, so one event suffices.
    if (m_inside.empty())
    {
        Simulator::Schedule(leaves - now, &WeirNetDevice::Forward, this);
    }
    m_inside.push_back({packet->Copy(), handler, source, destination, protocol, type, now, leaves});
}

void
WeirNetDevice::Forward()
{
    const Time now = Simulator::Now();
    while (!m_inside.empty() && m_inside.front().leaves <= now)
    {
        const Frame frame = m_inside.front();
        m_inside.pop_front();
        m_delayTrace(frame.packet, now - frame.arrived);
        if (m_stack)
        {
            m_stack->Receive(frame.device, frame.packet, frame.protocol, frame.source, frame.destination, frame.type);
        }
        else
        {
            frame.device->SendFrom(frame.packet, frame.source, frame.destination, frame.protocol);
        }
    }
    if (!m_inside.empty())
    {
        Simulator::Schedule(m_inside.front().leaves - now, &WeirNetDevice::Forward, this);
    }
}

// The rest is what every NetDevice has. The device itself sends nothing.

void
WeirNetDevice::SetIfIndex(const uint32_t index)
{
    m_ifIndex = index;
}

uint32_t
WeirNetDevice::GetIfIndex() const
{
    return m_ifIndex;
}

Ptr<Channel>
WeirNetDevice::GetChannel() const
{
    return nullptr;
}

void
WeirNetDevice::SetAddress(Address address)
{
    m_address = address;
}

Address
WeirNetDevice::GetAddress() const
{
    return m_address;
}

bool
WeirNetDevice::SetMtu(const uint16_t mtu)
{
    m_mtu = mtu;
    return true;
}

uint16_t
WeirNetDevice::GetMtu() const
{
    return m_mtu;
}

bool
WeirNetDevice::IsLinkUp() const
{
    return true;
}

void
WeirNetDevice::AddLinkChangeCallback(Callback<void> callback)
{
}

bool
WeirNetDevice::IsBroadcast() const
{
    return true;
}

Address
WeirNetDevice::GetBroadcast() const
{
    return Mac48Address::GetBroadcast();
}

bool
WeirNetDevice::IsMulticast() const
{
    return true;
}

Address
WeirNetDevice::GetMulticast(Ipv4Address group) const
{
    return Mac48Address::GetMulticast(group);
}

Address
WeirNetDevice::GetMulticast(Ipv6Address group) const
{
    return Mac48Address::GetMulticast(group);
}

bool
WeirNetDevice::IsPointToPoint() const
{
    return false;
}

bool
WeirNetDevice::IsBridge() const
{
    return true;
}

bool
WeirNetDevice::Send(Ptr<Packet> packet, const Address& destination, uint16_t protocol)
{
    return false;
}

bool
WeirNetDevice::SendFrom(Ptr<Packet> packet, const Address& source, const Address& destination, uint16_t protocol)
{
    return false;
}

Ptr<Node>
WeirNetDevice::GetNode() const
{
    return m_node;
}

void
WeirNetDevice::SetNode(Ptr<Node> node)
{
    m_node = node;
}

bool
WeirNetDevice::NeedsArp() const
{
    return true;
}

void
WeirNetDevice::SetReceiveCallback(NetDevice::ReceiveCallback callback)
{
}

void
WeirNetDevice::SetPromiscReceiveCallback(NetDevice::PromiscReceiveCallback callback)
{
}

bool
WeirNetDevice::SupportsSendFrom() const
{
    return false;
}

} // namespace ns3
