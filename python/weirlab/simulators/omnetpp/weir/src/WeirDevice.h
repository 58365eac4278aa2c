// A measured firewall as a simple module of OMNeT++.
#ifndef WEIR_WEIRDEVICE_H
#define WEIR_WEIRDEVICE_H

#include <deque>
#include <memory>
#include <string>

#include <omnetpp.h>

#include "weir_device.hpp"

namespace weir {

class WeirDevice : public omnetpp::cSimpleModule
{
  public:
    ~WeirDevice() override;

  protected:
    void initialize() override;
    void handleMessage(omnetpp::cMessage *message) override;
    void handleParameterChange(const char *name) override;

  private:
    // A packet inside.
    struct Inside
    {
        omnetpp::cPacket *packet;
        int out;
        omnetpp::simtime_t arrived, leaves;
    };

    void forward();

    std::unique_ptr<Device> device;
    std::deque<Inside> inside;
    omnetpp::cMessage *timer = nullptr;
    double position = 0;
    double frameBytes = 0;
    omnetpp::simsignal_t delaySignal = 0, queueLengthSignal = 0, queueFullSignal = 0, lostSignal = 0;
};

} // namespace weir

#endif
