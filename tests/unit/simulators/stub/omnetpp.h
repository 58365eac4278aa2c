// The part of OMNeT++ 6 that the module uses, as declarations: enough to check its types without OMNeT++.
#ifndef OMNETPP_H
#define OMNETPP_H

#include <cstdint>
#include <string>

namespace omnetpp {

typedef std::int64_t intval_t;
typedef int simsignal_t;
enum SimTimeUnit { SIMTIME_S = 0, SIMTIME_NS = -9 };

class SimTime
{
  public:
    SimTime();
    SimTime(std::int64_t value, SimTimeUnit unit);
    double dbl() const;
};
typedef SimTime simtime_t;

class cRuntimeError
{
  public:
    explicit cRuntimeError(const char *format, ...);
};
SimTime operator+(const SimTime &, double);
SimTime operator-(const SimTime &, const SimTime &);
bool operator<(const SimTime &, const SimTime &);
bool operator<=(const SimTime &, const SimTime &);
SimTime simTime();

class cObject
{
  public:
    virtual ~cObject();
};

class cGate : public cObject
{
  public:
    int getIndex() const;
};

class cMessage : public cObject
{
  public:
    explicit cMessage(const char *name = nullptr, short kind = 0);
    bool isScheduled() const;
    cGate *getArrivalGate() const;
};

class cPacket : public cMessage
{
  public:
    explicit cPacket(const char *name = nullptr, short kind = 0);
    void setByteLength(std::int64_t bytes);
    std::int64_t getByteLength() const;
};

class cPar : public cObject
{
  public:
    std::string stdstringValue() const;
    intval_t intValue() const;
    double doubleValue() const;
};

class cSimpleModule : public cObject
{
  public:
    cPar &par(const char *name);
    static simsignal_t registerSignal(const char *name);
    void emit(simsignal_t signal, intval_t value);
    void emit(simsignal_t signal, const SimTime &value);
    void emit(simsignal_t signal, cObject *value);

  protected:
    virtual void initialize();
    virtual void handleMessage(cMessage *message);
    virtual void handleParameterChange(const char *name);
    void send(cMessage *message, const char *gate, int index = -1);
    void scheduleAt(SimTime at, cMessage *message);
    void cancelAndDelete(cMessage *message);
};

template <class T> T check_and_cast(cObject *object) { return dynamic_cast<T>(object); }

} // namespace omnetpp

#define Define_Module(NAME) static_assert(sizeof(NAME) > 0, "a class")

#endif
