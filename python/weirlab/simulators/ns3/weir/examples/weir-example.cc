// What a measured firewall does to a load that grows: one line of CSV for each load.
//
//   weir-example --Model=firewall.model.json --Position=200 > ramp.csv
#include "ns3/command-line.h"
#include "ns3/double.h"
#include "ns3/node-container.h"
#include "ns3/simple-net-device-helper.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"
#include "weir-helper.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <stdexcept>
#include <vector>

using namespace ns3;

namespace
{
/** Sends packets at equal distances, and notes what the device does to them. */
class Trial
{
  public:
    Trial(const std::string& model, double position, uint32_t frameBytes, uint32_t seed)
        : m_frameBytes(frameBytes)
    {
        m_nodes.Create(3);
        SimpleNetDeviceHelper links;
        links.SetNetDevicePointToPointMode(true);
        NetDeviceContainer left = links.Install(NodeContainer(m_nodes.Get(0), m_nodes.Get(1)));
        NetDeviceContainer right = links.Install(NodeContainer(m_nodes.Get(1), m_nodes.Get(2)));
        WeirHelper weir(model);
        weir.SetAttribute("Position", DoubleValue(position));
        weir.SetAttribute("Seed", UintegerValue(seed));
        m_weir = weir.Install(m_nodes.Get(1), left.Get(1), right.Get(0));
        m_weir->TraceConnectWithoutContext("Delay", MakeCallback(&Trial::Delay, this));
        m_weir->TraceConnectWithoutContext("Drop", MakeCallback(&Trial::Drop, this));
        m_sender = left.Get(0);
        m_receiver = right.Get(1)->GetAddress();
    }

    double Threshold() const
    {
        return m_weir->GetThreshold(m_frameBytes);
    }

    /** Runs one load, and prints its line. */
    void Run(double rate, double seconds)
    {
        m_gap = 1e9 / rate;
        m_end = seconds * 1e9;
        // The queue of an overloaded device fills first.
        m_begin = 0.2 * m_end;
        Simulator::Schedule(Time(0), &Trial::Send, this);
        Simulator::Run();
        const weir::Prediction expected = m_weir->Predict(rate, m_frameBytes);
        const std::size_t n = m_delays.size();
        if (n == 0)
        {
            throw std::invalid_argument("no frame leaves the device after the warm-up; raise --Seconds or --Rate");
        }
        double sum = 0.0;
        for (double delay : m_delays)
        {
            sum += delay;
        }
        std::sort(m_delays.begin(), m_delays.end());
        const double loss = static_cast<double>(m_dropped) / static_cast<double>(n + m_dropped);
        std::cout << rate << "," << rate / Threshold() << "," << loss << "," << sum / n / 1e3 << "," << m_delays[n / 2] / 1e3
                  << "," << m_delays[n * 99 / 100] / 1e3 << "," << expected.loss_ratio << "," << expected.ns[0] / 1e3
                  << "," << expected.ns[3] / 1e3 << std::endl;
    }

  private:
    void Send()
    {
        const double at = m_gap * static_cast<double>(m_sent++);
        m_sender->Send(Create<Packet>(m_frameBytes - 18), m_receiver, 0x0800);
        const double next = m_gap * static_cast<double>(m_sent);
        if (next < m_end)
        {
            Simulator::Schedule(NanoSeconds(std::llround(next) - std::llround(at)), &Trial::Send, this);
        }
    }

    /** Whether a packet counts that arrived so long ago: as in a trial, those that arrived after the warm-up. */
    bool IsRecorded(Time inside) const
    {
        return (Simulator::Now() - inside).GetNanoSeconds() >= m_begin;
    }

    void Delay(Ptr<const Packet> packet, Time delay)
    {
        if (IsRecorded(delay))
        {
            m_delays.push_back(static_cast<double>(delay.GetNanoSeconds()));
        }
    }

    void Drop(Ptr<const Packet> packet, WeirNetDevice::DropReason reason)
    {
        m_dropped += IsRecorded(Time(0));
    }

    uint32_t m_frameBytes;
    NodeContainer m_nodes;
    Ptr<WeirNetDevice> m_weir;
    Ptr<NetDevice> m_sender;
    Address m_receiver;
    double m_gap = 0.0, m_begin = 0.0, m_end = 0.0;
    uint64_t m_sent = 0, m_dropped = 0;
    std::vector<double> m_delays;
};
/** Runs one load, or a row of loads if `rate` is 0. */
void
Simulate(const std::string& model, double position, uint32_t frameBytes, double rate, double seconds, uint32_t seed)
{
    // A file that cannot be read is told before anything is printed.
    weir::Model::load(model);
    std::cout << "rate_pps,load,loss_ratio,delay_mean_us,delay_p50_us,delay_p99_us,predicted_loss_ratio,"
                 "predicted_mean_us,predicted_p99_us"
              << std::endl;
    std::vector<double> loads;
    if (rate > 0.0)
    {
        loads = {0.0};
    }
    else
    {
        for (int percent = 5; percent <= 150; percent += 5)
        {
            loads.push_back(percent / 100.0);
        }
    }
    for (double load : loads)
    {
        Trial trial(model, position, frameBytes, seed);
        trial.Run(rate > 0.0 ? rate : load * trial.Threshold(), seconds);
        Simulator::Destroy();
    }
}
} // namespace

int
main(int argc, char* argv[])
{
    std::string model = "firewall.model.json";
    double position = 0.0, rate = 0.0, seconds = 0.5;
    uint32_t frameBytes = 64, seed = 1;
    CommandLine options(__FILE__);
    options.AddValue("Model", "Model file of the measured device", model);
    options.AddValue("Position", "Matching position", position);
    options.AddValue("FrameBytes", "Frame size, FCS included", frameBytes);
    options.AddValue("Rate", "Frames per second; 0: from 5 to 150 % of the threshold", rate);
    options.AddValue("Seconds", "Simulated time for each load", seconds);
    options.AddValue("Seed", "Seed of the device", seed);
    options.Parse(argc, argv);
    const char* wrong = !(position >= 0.0)                         ? "--Position must be 0 or more"
                        : frameBytes < 64 || frameBytes > 65535    ? "--FrameBytes must be from 64 to 65535"
                        : !(rate >= 0.0 && std::isfinite(rate))    ? "--Rate must be 0 or more"
                        : !(seconds > 0.0 && std::isfinite(seconds)) ? "--Seconds must be above 0"
                                                                   : nullptr;
    if (wrong)
    {
        std::cerr << "weir-example: " << wrong << std::endl;
        return 2;
    }
    try
    {
        Simulate(model, position, frameBytes, rate, seconds, seed);
    }
    catch (const std::exception& error)
    {
        std::cerr << "weir-example: " << error.what() << std::endl;
        return 1;
    }
    return 0;
}
