#include "weir-helper.h"

#include "ns3/string.h"

namespace ns3
{

WeirHelper::WeirHelper(const std::string& model)
{
    m_factory.SetTypeId(WeirNetDevice::GetTypeId());
    m_factory.Set("Model", StringValue(model));
}

void
WeirHelper::SetAttribute(const std::string& name, const AttributeValue& value)
{
    m_factory.Set(name, value);
}

Ptr<WeirNetDevice>
WeirHelper::Install(Ptr<Node> node, Ptr<NetDevice> a, Ptr<NetDevice> b) const
{
    Ptr<WeirNetDevice> device = m_factory.Create<WeirNetDevice>();
    node->AddDevice(device);
    device->AddPort(a);
    device->AddPort(b);
    return device;
}

Ptr<WeirNetDevice>
WeirHelper::Install(Ptr<Node> router) const
{
    Ptr<WeirNetDevice> device = m_factory.Create<WeirNetDevice>();
    router->AddDevice(device);
    device->FilterNode();
    return device;
}

} // namespace ns3
