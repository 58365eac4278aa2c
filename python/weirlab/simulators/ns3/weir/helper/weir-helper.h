// Puts measured firewalls into topologies.
#ifndef WEIR_HELPER_H
#define WEIR_HELPER_H

#include "weir-net-device.h"

#include "ns3/net-device-container.h"
#include "ns3/object-factory.h"

#include <string>

namespace ns3
{

/** Makes WeirNetDevices of one model. */
class WeirHelper
{
  public:
    /** \param model model file of the measured device */
    explicit WeirHelper(const std::string& model);

    /** Sets an attribute of devices made from now on. */
    void SetAttribute(const std::string& name, const AttributeValue& value);

    /** Lets frames pass between two devices of `node` as through the measured device. */
    Ptr<WeirNetDevice> Install(Ptr<Node> node, Ptr<NetDevice> a, Ptr<NetDevice> b) const;

    /** Lets IP packets reach the stack of `router`, which has all its interfaces, as through the measured device. */
    Ptr<WeirNetDevice> Install(Ptr<Node> router) const;

  private:
    ObjectFactory m_factory;
};

} // namespace ns3

#endif
