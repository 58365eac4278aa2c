// The queueing model of a measured device, read from a model file. The equations are in docs/model-format.md;
// the reference is Weir's Python package (weirlab.model). C++17, no dependency.
#ifndef WEIR_MODEL_HPP
#define WEIR_MODEL_HPP

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "weir_json.hpp"

namespace weir {

constexpr std::size_t kDelays = 5;      // mean, p50, p90, p99, p99.9
constexpr std::size_t kQuantities = 6;  // the delays, then jitter
constexpr const char* kNames[kQuantities] = {"delay_mean_ns", "delay_p50_ns",  "delay_p90_ns",
                                             "delay_p99_ns",  "delay_p999_ns", "jitter_ns"};
constexpr double kQuantiles[kDelays] = {0.0, 0.5, 0.9, 0.99, 0.999};

// What the model expects at one setting: times in ns, loss from 0 to 1.
struct Prediction {
  double threshold_pps = 0.0;
  double loss_ratio = 0.0;
  std::array<double, kQuantities> ns{};  // in the order of kNames
};

// Normal distribution: P(Z <= z).
inline double normal_cdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

// Regularized lower incomplete gamma function P(a, x).
inline double gamma_p(double a, double x) {
  if (x <= 0.0) return 0.0;
  const double front = std::exp(a * std::log(x) - x - std::lgamma(a));
  if (x < a + 1.0) {
    double term = 1.0 / a, sum = term;
    for (int n = 1; n < 100000 && std::fabs(term) > 1e-17 * std::fabs(sum); ++n) sum += term *= x / (a + n);
    return front * sum;
  }
  double b = x + 1.0 - a, c = 1e300, d = 1.0 / b, h = d;
  for (int n = 1; n < 100000; ++n) {
    const double an = -n * (n - a);
    b += 2.0;
    d = an * d + b;
    d = 1.0 / (std::fabs(d) < 1e-300 ? 1e-300 : d);
    c = b + an / c;
    if (std::fabs(c) < 1e-300) c = 1e-300;
    h *= d * c;
    if (std::fabs(d * c - 1.0) < 1e-16) break;
  }
  return 1.0 - front * h;
}

// The x with P(a, x) = q.
inline double gamma_p_inverse(double a, double q) {
  double low = 0.0, high = a + 10.0;
  while (gamma_p(a, high) < q) high *= 2.0;
  for (int i = 0; i < 200 && high - low > 1e-15 * high; ++i) {
    const double middle = 0.5 * (low + high);
    (gamma_p(a, middle) < q ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

// Smooth residuals ln(measured / law) by quantity: kriging with a Matern 5/2 kernel.
class Residuals {
 public:
  Residuals() = default;

  Residuals(const Json& data, const std::vector<std::string>& names) : lengths_(data["lengths"].numbers()) {
    for (const Json& row : data["points"].items) points_.push_back(row.numbers());
    for (const std::string& name : names) {
      const Json& field = data["fields"][name];
      weights_.push_back(solve(field["value"].numbers(), field["noise"].numbers(), field.number("amplitude", 0.0)));
    }
  }

  // The residuals at `coordinates`, in the order of the names.
  void at(const double* coordinates, double* found) const {
    std::fill(found, found + weights_.size(), 0.0);
    std::vector<double> scaled(lengths_.size());
    for (std::size_t i = 0; i < scaled.size(); ++i) scaled[i] = coordinates[i] / lengths_[i];
    for (std::size_t row = 0; row < points_.size(); ++row) {
      const double near = kernel(scaled, points_[row]);
      for (std::size_t q = 0; q < weights_.size(); ++q)
        if (!weights_[q].empty()) found[q] += near * weights_[q][row];
    }
  }

 private:
  static double kernel(const std::vector<double>& a, const std::vector<double>& b) {
    double squares = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
    const double distance = std::sqrt(5.0) * std::sqrt(squares);
    return (1.0 + distance + distance * distance / 3.0) * std::exp(-distance);
  }

  // amplitude^2 (amplitude^2 K + noise^2)^-1 value, by Cholesky; empty for an amplitude of 0.
  std::vector<double> solve(const std::vector<double>& value, const std::vector<double>& noise, double amplitude) const {
    std::vector<std::size_t> known;
    for (std::size_t i = 0; i < value.size(); ++i)
      if (std::isfinite(value[i])) known.push_back(i);
    if (!(amplitude > 0.0) || known.empty()) return {};
    const std::size_t n = known.size();
    const double power = amplitude * amplitude;
    std::vector<std::vector<double>> lower(n, std::vector<double>(n, 0.0));
    std::vector<double> x(n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double sum = power * kernel(points_[known[i]], points_[known[j]]);
        if (i == j) sum += noise[known[i]] * noise[known[i]];
        for (std::size_t k = 0; k < j; ++k) sum -= lower[i][k] * lower[j][k];
        lower[i][j] = i == j ? std::sqrt(sum) : sum / lower[j][j];
      }
      x[i] = value[known[i]];
      for (std::size_t k = 0; k < i; ++k) x[i] -= lower[i][k] * x[k];
      x[i] /= lower[i][i];
    }
    for (std::size_t i = n; i-- > 0;) {
      for (std::size_t k = i + 1; k < n; ++k) x[i] -= lower[k][i] * x[k];
      x[i] /= lower[i][i];
    }
    std::vector<double> weights(points_.size(), 0.0);
    for (std::size_t i = 0; i < n; ++i) weights[known[i]] = power * x[i];
    return weights;
  }

  std::vector<double> lengths_;
  std::vector<std::vector<double>> points_;
  std::vector<std::vector<double>> weights_;
};

// Waiting in a finite queue: Brownian motion reflected at 0 and at K packets.
namespace waiting {

// Logarithms of the rarity of waiting for constant gaps over the drift: normal and exponential services.
struct Walks {
  static constexpr int kPoints = 300;
  double grid[kPoints], normal[kPoints], exponential[kPoints];

  Walks() {
    constexpr double zeta = -0.582597157939;  // zeta(1/2) / sqrt(2 pi)
    for (int i = 0; i < kPoints; ++i) {
      const double drift = std::pow(10.0, std::log10(0.02) + i * (std::log10(12.0) - std::log10(0.02)) / (kPoints - 1));
      grid[i] = drift;
      double maximum = 0.5 / drift + zeta + drift / 4.0;
      if (drift >= 0.25) {
        maximum = 0.0;
        for (int n = 1; n < 800; ++n) {
          const double root = std::sqrt(static_cast<double>(n)), z = drift * root;
          maximum += (std::exp(-0.5 * z * z) / std::sqrt(2.0 * M_PI) - z * normal_cdf(-z)) / root;
        }
      }
      double low = 1e-9, high = 1.0 - 1e-15;
      for (int n = 0; n < 60; ++n) {
        const double middle = 0.5 * (low + high);
        (std::log1p(-middle) + middle * (1.0 + drift) < 0.0 ? high : low) = middle;
      }
      normal[i] = std::log(std::max(2.0 * drift * maximum, 1e-300));
      exponential[i] = std::log(2.0 * drift * (1.0 - low) / low);
    }
  }

  double interpolate(const double* values, double drift) const {
    const double* above = std::upper_bound(grid, grid + kPoints, drift);
    if (above == grid) return values[0];
    if (above == grid + kPoints) return values[kPoints - 1];
    const std::ptrdiff_t i = above - grid - 1;
    return values[i] + (values[i + 1] - values[i]) / (grid[i + 1] - grid[i]) * (drift - grid[i]);
  }

  static const Walks& table() {
    static const Walks walks;
    return walks;
  }
};

inline double rarity(double rho, double gap_scv, double service_scv) {
  const Walks& walks = Walks::table();
  const double cs = std::max(service_scv, 1e-9), load = std::clamp(rho, 1e-6, 1.0);
  if (gap_scv > 1.0) return std::exp(-(1.0 - load) * (gap_scv - 1.0) / (gap_scv + 4.0 * cs));
  const double drift = std::max((1.0 - load) / (load * std::sqrt(cs)), 1e-9);
  double normal, exponential;
  if (drift < walks.grid[0]) {
    normal = std::log1p(2.0 * drift * (-0.582597157939 + drift / 4.0));
    exponential = std::log1p(-2.0 * drift / 3.0);
  } else {
    normal = walks.interpolate(walks.normal, drift);
    exponential = walks.interpolate(walks.exponential, drift);
  }
  const double skew = std::pow(std::min(cs, 1.0), 0.34), even = (1.0 - gap_scv) * (1.0 - gap_scv);
  return std::exp((normal + skew * (exponential - normal)) * even * cs / (gap_scv + cs));
}

inline double kappa(double rho, double variability, double places) {
  return (rho - 1.0) * places / std::max(variability, 1e-9);
}

// Mean content that an arriving packet finds, as a share of `places`.
inline double mean_fraction(double rho, double variability, double places, double rare) {
  const double k = kappa(rho, variability, places);
  const double content = std::fabs(k) < 1e-4 ? 0.5 + k / 12.0
                                             : 1.0 / -std::expm1(-std::clamp(k, -500.0, 500.0)) - 1.0 / k;
  return std::min(rho, 1.0) * rare * content;
}

// The same for quantile `q`.
inline double quantile_fraction(double q, double rho, double variability, double places, double rare) {
  const double k = kappa(rho, variability, places);
  const double busy = std::min(rho, 1.0) * std::max(rare, 1e-300);
  const double share = std::clamp((q - (1.0 - busy)) / busy, 0.0, 1.0);
  if (std::fabs(k) < 1e-4) return share;
  if (k < 0.0) return std::clamp(std::log1p(share * std::expm1(std::max(k, -500.0))) / k, 0.0, 1.0);
  const double tail = std::max(share + (1.0 - share) * std::exp(-std::min(k, 500.0)), 1e-300);
  return std::clamp(1.0 + std::log(tail) / k, 0.0, 1.0);
}

// Share of packets that find the queue full.
inline double loss_ratio(double rho, double variability, double places) {
  const double k = kappa(rho, variability, places);
  const double rise = std::fabs(k) < 1e-4 ? 1.0 + k / 2.0 : k / -std::expm1(-std::clamp(k, -500.0, 500.0));
  const double loss = std::clamp(variability / places / rho * rise, 0.0, 1.0);
  return loss < 1e-5 ? 0.0 : loss;
}

}  // namespace waiting

// A fitted model. Const methods may be called from several threads.
class Model {
 public:
  // `device`: the name of the device, if the file holds several. Throws std::runtime_error.
  static Model load(const std::string& path, const std::string& device = "") {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot read the model file " + path);
    std::ostringstream text;
    text << file.rdbuf();
    return parse(text.str(), device);
  }

  static Model parse(const std::string& text, const std::string& device = "") {
    const Json data = JsonReader::read(text);
    if (data["format"].text != "weir-model") throw std::runtime_error("not a model file of Weir");
    const double version = data["version"].number();
    if (version == 1.0) return Model(data["models"]);
    if (version != 2.0) throw std::runtime_error("model file: versions 1 and 2 are known");
    const std::vector<Json>& devices = data["devices"].items;
    for (const Json& entry : devices)
      if (entry["name"].text == device || (device.empty() && devices.size() == 1)) return Model(entry["models"]);
    throw std::runtime_error("model file: name one of its devices");
  }

  // Mean time that a packet of `frame_bytes` (FCS included) occupies the device.
  double service_ns(double position, double frame_bytes) const {
    const double coordinates[2] = {std::log(position + 30.0), std::log(frame_bytes)};
    double deviation = 0.0;
    deviation_.at(coordinates, &deviation);
    return law_service_ns(position, frame_bytes) * std::exp(deviation);
  }

  // Offered `rate_pps` with gaps of the squared coefficient of variation `gap_scv` (0: constant, 1: Poisson).
  // More even gaps never look worse.
  Prediction predict(double rate_pps, double frame_bytes, double position, double gap_scv = 0.0) const {
    Prediction found = alone(rate_pps, frame_bytes, position, gap_scv);
    if (gap_scv > gap_scv_min_) {
      const Prediction even = alone(rate_pps, frame_bytes, position, gap_scv_min_);
      found.loss_ratio = std::max(found.loss_ratio, even.loss_ratio);
      for (std::size_t i = 0; i < kQuantities; ++i) found.ns[i] = std::max(found.ns[i], even.ns[i]);
    }
    return found;
  }

  double queue_packets() const { return queue_packets_; }
  double rate_min_pps() const { return rate_min_pps_; }
  double share_max() const { return share_max_; }

 private:
  struct Load {
    double rate_pps, frame_bytes, position, gap_scv, service_ns;
    double rho() const { return rate_pps * service_ns / 1e9; }
  };

  struct Curve {
    double q, base_ns, per_byte_ns, cold_per_rule_ns, wake_ns, wake_pps, service_scv, interruption_ns, plateau;
    double path_ns(double frame_bytes) const { return base_ns + per_byte_ns * frame_bytes; }
  };

  // The prediction for one setting by itself.
  Prediction alone(double rate_pps, double frame_bytes, double position, double gap_scv) const {
    const Load load{rate_pps, frame_bytes, position, gap_scv, service_ns(position, frame_bytes)};
    std::array<double, kQuantities> law = laws(load), residual = residuals(load);
    Prediction found;
    found.threshold_pps = 1e9 / load.service_ns;
    for (std::size_t i = 0; i < kQuantities; ++i) {
      const double resolution = i == kDelays ? 10.0 : 0.0;
      found.ns[i] = (law[i] + resolution) * std::exp(residual[i]) - resolution;
    }
    for (std::size_t i = 2; i < kDelays; ++i) found.ns[i] = std::max(found.ns[i], found.ns[i - 1]);
    const double arrivals = 0.5 * gap_scv;
    const double fitted = std::min(waiting_at(delays_[0], load).first - arrivals, 0.003 * queue_packets_);
    found.loss_ratio = std::max(waiting::loss_ratio(load.rho(), arrivals + std::max(fitted, 0.0), queue_packets_),
                                lost_in_stalls(load.rho()));
    return found;
  }

  explicit Model(const Json& models) {
    const Json& data = models["queueing"];
    const Json& service = data["service"];
    fixed_ns_ = service["fixed_ns"].number();
    per_rule_ns_ = service.number("per_rule_ns", 0.0);
    per_byte_ns_ = service.number("per_byte_ns", 0.0);
    io_ns_ = service.number("io_ns", 0.0);
    io_per_byte_ns_ = service.number("io_per_byte_ns", 0.0);
    spread_ns_ = service.number("spread_ns", 0.0);
    late_per_rule_ns_ = service.number("late_per_rule_ns", 0.0);
    bend_position_ = service.number("bend_position", 0.0);
    if (service.has("deviation")) deviation_ = Residuals(service["deviation"], {"service_ns"});
    queue_packets_ = data["queue_packets"].number();
    for (std::size_t i = 0; i < kDelays; ++i) {
      const Json& curve = data["delays"][kNames[i]];
      delays_[i] = {kQuantiles[i],
                    curve["base_ns"].number(),
                    curve.number("per_byte_ns", 0.0),
                    curve.number("cold_per_rule_ns", 0.0),
                    curve.number("wake_ns", 0.0),
                    curve.number("wake_pps", 1e4),
                    curve.number("service_scv", 0.1),
                    curve.number("interruption_ns", 0.0),
                    curve.number("plateau", 1.0)};
    }
    share_ = data["host"].number("share", 0.0);
    scale_ns_ = data["host"].number("scale_ns", 1.0);
    tail_ = data["host"].number("tail", 1.0);
    const char* names[6] = {"base_ns", "wake_ns", "wake_pps", "busy", "overload_ns", "overload_service"};
    for (std::size_t i = 0; i < 6; ++i) jitter_[i] = data["jitter"][names[i]].number();
    const std::vector<std::string> quantities(kNames, kNames + kQuantities);
    cycle_ns_ = data["leftover"]["cycle_ns"].number();
    below_ = Residuals(data["leftover"]["below"], quantities);
    over_ = Residuals(data["leftover"]["over"], quantities);
    if (data.has("stalls")) {
      stall_shares_ = data["stalls"]["shares"].numbers();
      stall_losses_ = data["stalls"]["loss_ratios"].numbers();
      if (stall_shares_.size() != stall_losses_.size()) throw std::runtime_error("model file: damaged stalls");
    }
    rate_min_pps_ = data["profiled"]["rate_min_pps"].number();
    gap_scv_min_ = data["profiled"].number("gap_scv_min", 0.0);
    share_max_ = data["profiled"]["share_max"].number();
    // The host may make the mean delay vary; the median is more likely to show the device alone.
    tail_scv_ = std::min(std::max(std::min(delays_[0].service_scv, delays_[1].service_scv), 1e-4), 1.0);
    for (std::size_t i = 3; i < kDelays; ++i)
      longer_[i] = std::max(gamma_p_inverse(1.0 / tail_scv_, kQuantiles[i]) * tail_scv_ - 1.0, 0.0);
  }

  // Mean loss of trials below the threshold.
  double lost_in_stalls(double rho) const {
    const auto step = std::upper_bound(stall_shares_.begin(), stall_shares_.end(), rho);
    return step == stall_shares_.begin() ? 0.0 : stall_losses_[step - stall_shares_.begin() - 1];
  }

  double law_service_ns(double position, double frame_bytes) const {
    double per_rule = per_rule_ns_;
    if (bend_position_ > 0.0 && late_per_rule_ns_ > per_rule_ns_) {
      const double x = std::log(std::max(position, 1e-3) / bend_position_) / 0.2;
      per_rule += (late_per_rule_ns_ - per_rule_ns_) / (1.0 + std::exp(-x));
    }
    const double rules = fixed_ns_ + per_rule * position + per_byte_ns_ * frame_bytes;
    if (!(io_ns_ > 0.0 || io_per_byte_ns_ > 0.0)) return rules;
    const double transfer = io_ns_ + io_per_byte_ns_ * frame_bytes;
    if (!(spread_ns_ > 0.0)) return std::max(rules, transfer);
    const double z = (transfer - rules) / spread_ns_;
    const double density = std::exp(-0.5 * z * z) / std::sqrt(2.0 * M_PI);
    return transfer * normal_cdf(z) + rules * normal_cdf(-z) + spread_ns_ * density;
  }

  // Variability, with the share of interruptions, and rarity of waiting.
  static std::pair<double, double> waiting_at(const Curve& curve, const Load& load) {
    const double own = 0.5 * (load.gap_scv + curve.service_scv);
    const double host = curve.interruption_ns / load.service_ns;
    const double both = std::max(own + host, 1e-12);
    return {both, (own * waiting::rarity(load.rho(), load.gap_scv, curve.service_scv) + host) / both};
  }

  std::array<double, kQuantities> laws(const Load& load) const {
    std::array<double, kQuantities> found{};
    const double rho = load.rho();
    for (std::size_t i = 0; i < 3; ++i) {
      const Curve& curve = delays_[i];
      const auto [variability, rare] = waiting_at(curve, load);
      const double places = queue_packets_ * curve.plateau;
      const double full = i == 0 ? waiting::mean_fraction(rho, variability, places, rare)
                                 : waiting::quantile_fraction(curve.q, rho, variability, places, rare);
      const double idle = curve.cold_per_rule_ns * load.position + curve.wake_ns / (1.0 + load.rate_pps / curve.wake_pps);
      found[i] = curve.path_ns(load.frame_bytes) + load.service_ns + (1.0 - full) * idle +
                 full * std::max(places - full, 0.0) * load.service_ns;
    }
    const double own = 0.5 * (load.gap_scv + tail_scv_), rare = waiting::rarity(rho, load.gap_scv, tail_scv_);
    for (std::size_t i = 3; i < kDelays; ++i) {
      const Curve& curve = delays_[i];
      const double places = queue_packets_ * curve.plateau, path = curve.path_ns(load.frame_bytes);
      const double full = waiting::quantile_fraction(curve.q, rho, own, places, rare);
      const double wait = full * std::max(places - full, 0.0) * load.service_ns;
      const double alone = std::hypot(wait, (1.0 - full) * longer_[i] * load.service_ns);
      double host = 0.0;
      if (share_ > 0.0) {
        const double exceeded = (1.0 - curve.q) * std::max(1.0 - rho, 0.02) / share_;
        host = scale_ns_ * std::max(std::pow(exceeded, -1.0 / tail_) - 1.0, 0.0);
      }
      const double undisturbed = path + load.service_ns;
      found[i] = std::min(undisturbed + std::hypot(alone, host), path + places * load.service_ns);
      if (rho > 1.0) found[i] = std::max(found[i], undisturbed + alone);
    }
    const double full = waiting::mean_fraction(rho, waiting_at(delays_[0], load).first, queue_packets_, 1.0);
    const double below = jitter_[0] + jitter_[1] / (1.0 + load.rate_pps / jitter_[2]) +
                         jitter_[3] * std::min(rho, 1.0) * load.service_ns;
    found[kDelays] = (1.0 - full) * below + full * (jitter_[4] + jitter_[5] * load.service_ns);
    return found;
  }

  // ln(measured / law), below the threshold and beyond it.
  std::array<double, kQuantities> residuals(const Load& load) const {
    constexpr double saturated = 0.97;
    std::array<double, kQuantities> found{}, part{};
    const double rho = load.rho();
    const double full = std::clamp((rho - saturated) / (1.0 / saturated - saturated), 0.0, 1.0);
    const double service = std::log(load.service_ns), frame = std::log(load.frame_bytes);
    if (full < 1.0) {
      const double slack_ns = std::max(1e9 / load.rate_pps - load.service_ns, 0.03 * load.service_ns);
      const double at[4] = {-std::log1p(cycle_ns_ / slack_ns), service, frame, load.gap_scv};
      below_.at(at, part.data());
      for (std::size_t i = 0; i < kQuantities; ++i) found[i] += (1.0 - full) * part[i];
    }
    if (full > 0.0) {
      const double at[4] = {service, frame, std::log(rho), load.gap_scv};
      over_.at(at, part.data());
      for (std::size_t i = 0; i < kQuantities; ++i) found[i] += full * part[i];
    }
    return found;
  }

  double fixed_ns_, per_rule_ns_, per_byte_ns_, io_ns_, io_per_byte_ns_, spread_ns_, late_per_rule_ns_, bend_position_;
  Residuals deviation_;
  double queue_packets_;
  std::array<Curve, kDelays> delays_{};
  double share_, scale_ns_, tail_, tail_scv_;
  std::array<double, kDelays> longer_{};
  std::array<double, 6> jitter_{};
  double cycle_ns_;
  Residuals below_, over_;
  std::vector<double> stall_shares_, stall_losses_;
  double rate_min_pps_, share_max_, gap_scv_min_;
};

}  // namespace weir

#endif
