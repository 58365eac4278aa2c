// Predictions of a model file: rate, frame bytes, position and variability of gaps by line of standard input.
#include <cstdio>

#include "weir_model.hpp"

int main(int, char** argv) {
  const weir::Model model = weir::Model::load(argv[1]);
  double rate_pps, frame_bytes, position, gap_scv;
  while (std::scanf("%lf %lf %lf %lf", &rate_pps, &frame_bytes, &position, &gap_scv) == 4) {
    const weir::Prediction found = model.predict(rate_pps, frame_bytes, position, gap_scv);
    std::printf("%.17g %.17g", found.threshold_pps, found.loss_ratio);
    for (const double ns : found.ns) std::printf(" %.17g", ns);
    std::printf("\n");
  }
}
