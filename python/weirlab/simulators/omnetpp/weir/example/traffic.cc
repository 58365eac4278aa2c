// Traffic of the example.
#include <omnetpp.h>

namespace weir::example {

using namespace omnetpp;

class Source : public cSimpleModule
{
  protected:
    void initialize() override
    {
        if (par("rate").doubleValue() > 0)
            scheduleAt(simTime(), new cMessage("next"));
    }

    void handleMessage(cMessage *timer) override
    {
        cPacket *packet = new cPacket("frame");
        packet->setByteLength(par("bytes").intValue());
        send(packet, "out");
        scheduleAt(simTime() + 1 / par("rate").doubleValue(), timer);
    }
};

class Sink : public cSimpleModule
{
  protected:
    void handleMessage(cMessage *message) override { delete message; }
};

Define_Module(Source);
Define_Module(Sink);

} // namespace weir::example
