#include "WeirDevice.h"

#include <algorithm>
#include <cmath>

namespace weir {

using namespace omnetpp;

Define_Module(WeirDevice);

namespace {
// The shortest frame of Ethernet. Packets are taken to be frames with FCS.
constexpr double SHORTEST_BYTES = 64;
} // namespace

WeirDevice::~WeirDevice()
{
    cancelAndDelete(timer);
    for (const Inside &one : inside)
        delete one.packet;
}

void WeirDevice::initialize()
{
    timer = new cMessage("leaves");
    const std::string file = par("modelFile").stdstringValue(), name = par("device").stdstringValue();
    device = std::make_unique<Device>(Model::load(file, name), static_cast<std::uint64_t>(par("seed").intValue()));
    delaySignal = registerSignal("delay");
    queueLengthSignal = registerSignal("queueLength");
    queueFullSignal = registerSignal("dropQueueFull");
    lostSignal = registerSignal("dropLost");
    handleParameterChange(nullptr);
}

void WeirDevice::handleParameterChange(const char *)
{
    if (!device)
        return;
    const double walked = par("position").doubleValue(), share = par("stateShare").doubleValue();
    if (!(walked >= 0 && share >= 0 && share <= 1))
        throw cRuntimeError("position must be 0 or more, and stateShare from 0 to 1");
    position = walked * (1 - share);
    frameBytes = static_cast<double>(par("frameBytes").intValue());
    device->set_cpus(par("cpus").doubleValue());
}

void WeirDevice::handleMessage(cMessage *message)
{
    if (message == timer) {
        forward();
        return;
    }
    cPacket *packet = check_and_cast<cPacket *>(message);
    const int gate = packet->getArrivalGate()->getIndex();
    const double own = std::max(static_cast<double>(packet->getByteLength()), SHORTEST_BYTES);
    const double at = simTime().dbl() * 1e9;
    const Passage passage = device->pass(at, frameBytes > 0 ? frameBytes : own, position);
    emit(queueLengthSignal, static_cast<intval_t>(device->queued(at)));
    if (passage.fate != Passage::Forwarded) {
        emit(passage.fate == Passage::QueueFull ? queueFullSignal : lostSignal, packet);
        delete packet;
        return;
    }
    const simtime_t leaves = std::max(simTime(), SimTime(std::llround(passage.leaves_ns), SIMTIME_NS));
    inside.push_back({packet, 1 - gate, simTime(), leaves});
    // Packets leave in the order in which they arrive, so one timer suffices.
    if (!timer->isScheduled())
        scheduleAt(leaves, timer);
}

void WeirDevice::forward()
{
    while (!inside.empty() && inside.front().leaves <= simTime()) {
        const Inside first = inside.front();
        inside.pop_front();
        emit(delaySignal, simTime() - first.arrived);
        send(first.packet, "out", first.out);
    }
    if (!inside.empty())
        scheduleAt(inside.front().leaves, timer);
}

} // namespace weir
