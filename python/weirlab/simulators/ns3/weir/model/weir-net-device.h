// A bridge between two ports that delays and drops frames as a measured firewall does.
#ifndef WEIR_NET_DEVICE_H
#define WEIR_NET_DEVICE_H

#include "weir_device.hpp"

#include "ns3/net-device.h"
#include "ns3/node.h"
#include "ns3/nstime.h"
#include "ns3/packet.h"
#include "ns3/traced-callback.h"
#include "ns3/traced-value.h"
#include "ns3/traffic-control-layer.h"

#include <deque>
#include <memory>
#include <string>

namespace ns3
{

/**
 * \brief A measured firewall as a bridge, or as the packet filter of a router.
 *
 * Frames that one port receives leave by the other, as and when the measured device would send them: one server and
 * one finite queue for both directions, and the interruptions behind it. The process is that of docs/model-format.md;
 * weir_device.hpp implements it. Ports need NetDevice::SupportsSendFrom, as CsmaNetDevice and SimpleNetDevice have it.
 * In a router, IP packets that any device of the node receives reach its IP stack as and when the measured device
 * would forward them.
 */
class WeirNetDevice : public NetDevice
{
  public:
    /** Why a frame was dropped. */
    enum DropReason
    {
        QUEUE_FULL, //!< The queue had no place.
        LOST        //!< Before the queue, below the threshold.
    };

    /** Traces a forwarded frame and how long it was inside. */
    typedef void (*DelayCallback)(Ptr<const Packet> packet, Time delay);
    /** Traces a dropped frame. */
    typedef void (*DropCallback)(Ptr<const Packet> packet, DropReason reason);

    static TypeId GetTypeId();
    WeirNetDevice();
    ~WeirNetDevice() override;

    /** Adds one of the two ports of a bridge. */
    void AddPort(Ptr<NetDevice> port);
    /** Makes this the packet filter of its node, which has an IP stack and interfaces already. */
    void FilterNode();
    /** \return the load, in frames per second, above which frames are lost, at the present position. */
    double GetThreshold(uint32_t frameBytes) const;
    /** \return what the model expects of a steady load at the present position. */
    weir::Prediction Predict(double framesPerSecond, uint32_t frameBytes) const;

    void SetIfIndex(const uint32_t index) override;
    uint32_t GetIfIndex() const override;
    Ptr<Channel> GetChannel() const override;
    void SetAddress(Address address) override;
    Address GetAddress() const override;
    bool SetMtu(const uint16_t mtu) override;
    uint16_t GetMtu() const override;
    bool IsLinkUp() const override;
    void AddLinkChangeCallback(Callback<void> callback) override;
    bool IsBroadcast() const override;
    Address GetBroadcast() const override;
    bool IsMulticast() const override;
    Address GetMulticast(Ipv4Address group) const override;
    Address GetMulticast(Ipv6Address group) const override;
    bool IsPointToPoint() const override;
    bool IsBridge() const override;
    bool Send(Ptr<Packet> packet, const Address& destination, uint16_t protocol) override;
    bool SendFrom(Ptr<Packet> packet, const Address& source, const Address& destination, uint16_t protocol) override;
    Ptr<Node> GetNode() const override;
    void SetNode(Ptr<Node> node) override;
    bool NeedsArp() const override;
    void SetReceiveCallback(NetDevice::ReceiveCallback callback) override;
    void SetPromiscReceiveCallback(NetDevice::PromiscReceiveCallback callback) override;
    bool SupportsSendFrom() const override;

  protected:
    void DoDispose() override;

  private:
    /** A frame inside. */
    struct Frame
    {
        Ptr<Packet> packet;
        Ptr<NetDevice> device; //!< Sends it; or received it, in a router.
        Address source;
        Address destination;
        uint16_t protocol;
        PacketType type;
        Time arrived;
        Time leaves;
    };

    void Receive(Ptr<NetDevice> port,
                 Ptr<const Packet> packet,
                 uint16_t protocol,
                 const Address& source,
                 const Address& destination,
                 PacketType type);
    /** Sends all frames that are due. */
    void Forward();
    /** \return the device, built when the first frame arrives. */
    weir::Device& Device();
    const weir::Model& Model() const;
    double EffectivePosition() const;
    void SetCpus(double cpus);
    double GetCpus() const;

    std::string m_file;
    std::string m_name;
    uint64_t m_seed;
    double m_position;
    double m_stateShare;
    uint32_t m_frameBytes;
    double m_cpus;
    mutable std::unique_ptr<weir::Model> m_model;
    std::unique_ptr<weir::Device> m_device;
    std::deque<Frame> m_inside;
    Ptr<NetDevice> m_ports[2];
    Ptr<TrafficControlLayer> m_stack; //!< Of a router: the way to its IP stack.
    Ptr<Node> m_node;
    uint32_t m_ifIndex;
    uint16_t m_mtu;
    Address m_address;
    TracedValue<uint32_t> m_queue;
    TracedCallback<Ptr<const Packet>, Time> m_delayTrace;
    TracedCallback<Ptr<const Packet>, DropReason> m_dropTrace;
};

} // namespace ns3

#endif
