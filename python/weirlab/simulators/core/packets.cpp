// Passes packets through a measured device:
//
//   c++ -std=c++17 -O2 packets.cpp -o packets
//   ./packets firewall.model.json SEED < arrivals > departures
//
// A line of arrivals is: time in ns, frame bytes with FCS, matching position. A line of departures is: what
// became of the packet (0: forwarded, 1: queue full, 2: lost before the queue), and when it was served and left.
#include <cstdio>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>

#include "weir_device.hpp"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: packets MODEL SEED\n");
    return 2;
  }
  try {
    weir::Device device(weir::Model::load(argv[1]), std::strtoull(argv[2], nullptr, 10));
    std::string line;
    for (unsigned long number = 1; std::getline(std::cin, line); ++number) {
      double at_ns, frame_bytes, position;
      if (std::sscanf(line.c_str(), "%lf %lf %lf", &at_ns, &frame_bytes, &position) != 3 || !(at_ns >= 0) ||
          !(frame_bytes > 0) || !(position >= 0))
        throw std::invalid_argument("line " + std::to_string(number) + ": expected time, frame bytes and position");
      const weir::Passage passage = device.pass(at_ns, frame_bytes, position);
      std::printf("%d %.17g %.17g\n", static_cast<int>(passage.fate), passage.served_ns, passage.leaves_ns);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
