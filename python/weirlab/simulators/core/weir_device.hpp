// A measured device as a process of packets: one server, one finite queue, and interruptions behind it.
// docs/model-format.md is its specification. No clock: every call is given the time in ns.
#ifndef WEIR_DEVICE_HPP
#define WEIR_DEVICE_HPP

#include <cstdint>
#include <deque>
#include <map>

#include "weir_model.hpp"

namespace weir {

// SplitMix64 (Steele, Lea and Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  // Uniform, above 0 and at most 1.
  double uniform() {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return static_cast<double>(((z ^ (z >> 31)) >> 11) + 1) * 0x1.0p-53;
  }

 private:
  std::uint64_t state_;
};

constexpr std::size_t kStreams = 4;
// -ln of the shares of packets at the floor and up to p50, p90, p99, p99.9 and the longest delay.
inline const std::array<double, 6> kLevels = {3.0, -std::log(0.5), -std::log(0.9), -std::log(0.99), -std::log(0.999), 0.0};

// What the device does while it is offered the same load.
struct SteadyState {
  double floor_ns = 0.0;                        // shortest time inside
  std::array<double, kStreams> slopes_ns{};     // by which -ln(share of packets) falls from level to level
  double drop_ratio = 0.0;                      // share lost before the queue
  double rho = 0.0, service_ns = 0.0;

  // Mean time inside, and those that half, 90 %, 99 % and 99.9 % of packets do not exceed.
  std::array<double, kDelays> delays_ns() const {
    std::array<double, kDelays> found{};
    double at = found[0] = floor_ns;
    for (std::size_t i = 0; i < kStreams; ++i) {
      found[0] += mean_factor(i) * slopes_ns[i];
      at += (kLevels[i] - kLevels[i + 1]) * slopes_ns[i];
      found[i + 1] = at;
    }
    return found;
  }

  // What a slope adds to the mean; the last one goes on to the longest delay.
  static double mean_factor(std::size_t i) {
    const double top = kLevels[i], end = i + 1 < kStreams ? kLevels[i + 1] : 0.0;
    return top - end - (std::exp(-end) - std::exp(-top));
  }

  // Of the queue of an overloaded device. Just above the threshold delays spread from none to those of a full queue,
  // which still takes bursts.
  static double least_places(double queue_packets) {
    return std::min(std::max(std::round(queue_packets), 1.0), 16.0);
  }

  // The state whose mean and p99 are those of `prediction`, and p50, p90, p99.9 as near as they can be.
  static SteadyState of(const Prediction& prediction, double rate_pps, double queue_packets) {
    SteadyState found;
    found.service_ns = 1e9 / prediction.threshold_pps;
    found.rho = rate_pps * found.service_ns / 1e9;
    found.drop_ratio = found.rho > 1.0 ? 0.0 : prediction.loss_ratio;
    const std::array<double, kDelays> weights = {1000.0, 3.0, 1.0, 300.0, 1.0};
    // The full queue of an overloaded device holds every packet for so long.
    double least_ns = found.service_ns;
    if (found.rho > 1.0)
      least_ns = std::max(least_ns, least_places(queue_packets) * found.service_ns - 0.5e9 / rate_pps);
    // Unknown: floor above the least one, the first slope, and by how much each exceeds the one before.
    double a[kDelays][kDelays], b[kDelays];
    for (std::size_t row = 0; row < kDelays; ++row) {
      const double scale = weights[row] / prediction.ns[row];
      b[row] = (prediction.ns[row] - least_ns) * scale;
      a[row][0] = scale;
      double sum = 0.0;
      for (std::size_t i = kStreams; i-- > 0;) {
        if (row == 0) sum += mean_factor(i);
        else if (i < row) sum += kLevels[i] - kLevels[i + 1];
        a[row][i + 1] = sum * scale;
      }
    }
    const std::array<double, kDelays> x = nonnegative(a, b);
    found.floor_ns = least_ns + x[0];
    double slope = 0.0;
    for (std::size_t i = 0; i < kStreams; ++i) found.slopes_ns[i] = slope += x[i + 1];
    return found;
  }

 private:
  // Least squares |a x - b| for x >= 0: the best of all sets of unknowns that may differ from 0.
  static std::array<double, kDelays> nonnegative(const double (&a)[kDelays][kDelays], const double (&b)[kDelays]) {
    std::array<double, kDelays> best{};
    double least = 0.0;
    for (double value : b) least += value * value;
    for (unsigned set = 1; set < 1u << kDelays; ++set) {
      std::array<std::size_t, kDelays> used{};
      std::size_t n = 0;
      for (std::size_t i = 0; i < kDelays; ++i)
        if (set >> i & 1u) used[n++] = i;
      double m[kDelays][kDelays + 1];
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j <= n; ++j) {
          m[i][j] = 0.0;
          for (std::size_t row = 0; row < kDelays; ++row) m[i][j] += a[row][used[i]] * (j < n ? a[row][used[j]] : b[row]);
        }
      }
      std::array<double, kDelays> x{};
      bool good = true;
      for (std::size_t i = 0; i < n && good; ++i) {
        std::size_t pivot = i;
        for (std::size_t j = i + 1; j < n; ++j)
          if (std::fabs(m[j][i]) > std::fabs(m[pivot][i])) pivot = j;
        std::swap(m[i], m[pivot]);
        good = m[i][i] != 0.0;
        for (std::size_t j = i + 1; j < n && good; ++j)
          for (std::size_t k = n + 1; k-- > i;) m[j][k] -= m[i][k] * (m[j][i] / m[i][i]);
      }
      for (std::size_t i = n; i-- > 0 && good;) {
        double sum = m[i][n];
        for (std::size_t j = i + 1; j < n; ++j) sum -= m[i][j] * x[used[j]];
        x[used[i]] = sum / m[i][i];
        good = x[used[i]] >= 0.0;
      }
      if (!good) continue;
      double misfit = 0.0;
      for (std::size_t row = 0; row < kDelays; ++row) {
        double sum = -b[row];
        for (std::size_t i = 0; i < kDelays; ++i) sum += a[row][i] * x[i];
        misfit += sum * sum;
      }
      if (misfit < least) {
        least = misfit;
        best = x;
      }
    }
    return best;
  }
};

// What becomes of a packet.
struct Passage {
  enum Fate { Forwarded, QueueFull, Lost };
  Fate fate = Forwarded;
  double served_ns = 0.0;  // when its service ends and its place in the queue is free
  double leaves_ns = 0.0;  // when it leaves the device
};

// Arrivals are given in the order of their times, those of all interfaces together.
class Device {
 public:
  Device(Model model, std::uint64_t seed) : model_(std::move(model)), random_(seed) {}

  // CPUs that share the load evenly; from now on.
  void set_cpus(double cpus) {
    if (!(cpus > 0.0)) throw std::invalid_argument("a device has more than 0 CPUs");
    cpus_ = cpus;
    if (arrived_ > 0) settle(rate_pps_, frame_bytes_, position_);
  }

  // A packet of `frame_bytes` (FCS included) at `position` arrives.
  Passage pass(double at_ns, double frame_bytes, double position) {
    at_ns = std::max(at_ns, last_ns_);
    last_ns_ = at_ns;
    observe(at_ns, frame_bytes, position);
    while (!inside_ns_.empty() && inside_ns_.front() <= at_ns) inside_ns_.pop_front();
    Passage found;
    if (state_.drop_ratio > 0.0 && random_.uniform() <= state_.drop_ratio) {
      found.fate = Passage::Lost;
      return found;
    }
    if (inside_ns_.size() >= places_) {
      found.fate = Passage::QueueFull;
      return found;
    }
    free_ns_ = std::max(free_ns_, at_ns) + service_ns(position, frame_bytes) / cpus_;
    inside_ns_.push_back(free_ns_);
    found.served_ns = free_ns_;
    left_ns_ = std::max(left_ns_, free_ns_ + behind_ns(free_ns_));
    found.leaves_ns = left_ns_;
    return found;
  }

  // Packets in the queue and in service at `at_ns`, which is not before the last arrival.
  std::size_t queued(double at_ns) const {
    return static_cast<std::size_t>(inside_ns_.end() - std::upper_bound(inside_ns_.begin(), inside_ns_.end(), at_ns));
  }

  const Model& model() const { return model_; }
  const SteadyState& state() const { return state_; }

 private:
  static constexpr std::uint64_t kMostPackets = 256, kFewPackets = 64;
  static constexpr double kShortestNs = 10e6, kLongestNs = 1e9;
  // Of ln(load): random gaps change that of 256 packets by 0.06, so this is no accident.
  static constexpr double kChange = 0.3;

  // Packets since `begin_ns`, with the sums of their frame sizes and positions.
  struct ArrivalSum {
    double begin_ns = 0.0;
    std::uint64_t packets = 0;
    double frames_bytes = 0.0, positions = 0.0;

    void add(double frame_bytes, double position) {
      ++packets;
      frames_bytes += frame_bytes;
      positions += position;
    }
    double rate_pps(double until_ns) const { return static_cast<double>(packets) * 1e9 / (until_ns - begin_ns); }
    double mean_bytes() const { return frames_bytes / static_cast<double>(packets); }
    double mean_position() const { return positions / static_cast<double>(packets); }
  };

  double service_ns(double position, double frame_bytes) {
    const auto key = std::make_pair(position, frame_bytes);
    if (key == last_key_) return last_service_ns_;
    auto found = services_ns_.find(key);
    if (found == services_ns_.end()) {
      if (services_ns_.size() >= 4096) services_ns_.clear();
      found = services_ns_.emplace(key, model_.service_ns(position, frame_bytes)).first;
    }
    last_key_ = key;
    return last_service_ns_ = found->second;
  }

  // The load is that of the last window that is over. Windows grow from 2 packets to 256, and then last 10 ms or
  // longer; one of 2 packets or more ends after a second. A change of the load begins a window of 64 packets.
  void observe(double at_ns, double frame_bytes, double position) {
    if (arrived_ == 0) {
      window_ = block_ = ArrivalSum{at_ns};
      settle(model_.rate_min_pps(), frame_bytes, position);
    }
    const double lasts_ns = at_ns - window_.begin_ns;
    const bool full = window_.packets >= wanted_ && (wanted_ < kMostPackets || lasts_ns >= kShortestNs);
    if (lasts_ns > 0.0 && (full || (window_.packets >= 2 && lasts_ns >= kLongestNs))) {
      settle(window_.rate_pps(at_ns), window_.mean_bytes(), window_.mean_position());
      wanted_ = std::min(2 * wanted_, kMostPackets);
      window_ = block_ = ArrivalSum{at_ns};
    } else if (wanted_ == kMostPackets && is_over(block_, at_ns)) {
      const double service_ns = model_.service_ns(block_.mean_position(), block_.mean_bytes());
      const double work = block_.rate_pps(at_ns) * service_ns / 1e9;
      block_ = ArrivalSum{at_ns};
      if (std::fabs(std::log(work / work_)) > kChange) {
        wanted_ = kFewPackets;
        window_ = ArrivalSum{at_ns};
      }
    }
    ++arrived_;
    window_.add(frame_bytes, position);
    block_.add(frame_bytes, position);
  }

  // Whether it has all its packets, or fewer in twice their time.
  bool is_over(const ArrivalSum& block, double at_ns) const {
    const double lasts_ns = at_ns - block.begin_ns;
    return lasts_ns > 0.0 && (block.packets >= kMostPackets || (block.packets >= 2 && lasts_ns >= longest_ns_));
  }

  void settle(double rate_pps, double frame_bytes, double position) {
    if (rate_pps == rate_pps_ && frame_bytes == frame_bytes_ && position == position_ && cpus_ == settled_cpus_) return;
    rate_pps_ = rate_pps;
    frame_bytes_ = frame_bytes;
    position_ = position;
    settled_cpus_ = cpus_;
    work_ = rate_pps * service_ns(position, frame_bytes) / 1e9;
    longest_ns_ = 2e9 * static_cast<double>(kMostPackets) / rate_pps;
    // Beyond the profile the nearest profiled load says more than an extrapolation.
    const double threshold_pps = 1e9 / service_ns(position, frame_bytes);
    const double share = std::min(rate_pps / cpus_, model_.share_max() * threshold_pps);
    const double each_pps = std::max(share, model_.rate_min_pps());
    state_ = SteadyState::of(model_.predict(each_pps, frame_bytes, position), each_pps, model_.queue_packets());
    // A queue that is full holds the packet for all but the rest of the time inside.
    double queue_ns = state_.service_ns / cpus_, places = std::max(std::round(model_.queue_packets()), 1.0);
    if (state_.rho > 1.0) {
      places = std::max(std::floor(state_.floor_ns / state_.service_ns), SteadyState::least_places(places));
      queue_ns = places * state_.service_ns - 0.5e9 / rate_pps;
    }
    places_ = static_cast<std::size_t>(std::max(std::round(places * cpus_), 1.0));
    floor_ns_ = std::max(state_.floor_ns - queue_ns, 0.0);
    double length_ns = 0.0;
    for (std::size_t i = 0; i < kStreams; ++i) {
      const bool last = i + 1 == kStreams;
      const double slope = state_.slopes_ns[i], next = last ? 0.0 : state_.slopes_ns[i + 1];
      length_ns += (kLevels[i] - (last ? 0.0 : kLevels[i + 1])) * slope;
      lengths_ns_[i] = length_ns;
      rates_[i] = slope > 0.0 ? 1.0 / slope - (last ? 0.0 : 1.0 / next) : 0.0;
    }
  }

  // Time behind the server of a packet served at `at_ns`, not before the last one: until the last of the
  // interruptions in progress ends.
  double behind_ns(double at_ns) {
    double most_ns = 0.0;
    for (std::size_t i = 0; i < kStreams; ++i) {
      if (!(rates_[i] > 0.0)) continue;
      const double since_ns = -std::log(random_.uniform()) / rates_[i];
      if (at_ns - since_ns > served_ns_) began_ns_[i] = at_ns - since_ns;
      most_ns = std::max(most_ns, lengths_ns_[i] - (at_ns - began_ns_[i]));
    }
    served_ns_ = at_ns;
    return floor_ns_ + most_ns;
  }

  Model model_;
  Random random_;
  double cpus_ = 1.0, settled_cpus_ = 0.0;
  SteadyState state_;
  std::size_t places_ = 1;
  double floor_ns_ = 0.0;
  std::array<double, kStreams> lengths_ns_{}, rates_{};
  std::array<double, kStreams> began_ns_ = {-HUGE_VAL, -HUGE_VAL, -HUGE_VAL, -HUGE_VAL};
  double served_ns_ = -HUGE_VAL;
  std::deque<double> inside_ns_;
  double last_ns_ = 0.0, free_ns_ = 0.0, left_ns_ = 0.0;
  std::uint64_t arrived_ = 0, wanted_ = 2;
  ArrivalSum window_, block_;
  double rate_pps_ = 0.0, frame_bytes_ = 0.0, position_ = 0.0;
  double work_ = 0.0, longest_ns_ = 0.0;
  std::map<std::pair<double, double>, double> services_ns_;
  std::pair<double, double> last_key_ = {-1.0, -1.0};
  double last_service_ns_ = 0.0;
};

}  // namespace weir

#endif
