#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tile/contract.h"

// The weights of the tiled engine by their definitions, in double, a row at a time.
namespace fovea::tile::testing {

inline constexpr Weight kWeights[] = {Weight::softmax, Weight::self_adjust, Weight::rela,  Weight::relu2,
                                      Weight::sigmoid, Weight::exp,         Weight::power, Weight::taylor};

inline const char* name_of(Weight weight) {
  constexpr const char* kNames[] = {"softmax", "self_adjust", "rela", "relu2", "sigmoid", "exp", "power", "taylor"};
  return kNames[static_cast<std::size_t>(weight)];
}

struct PlainWeight {
  Weight kind = Weight::softmax;
  double offset = 0.0;
  int degree = 2;

  // One row: scores, -infinity where a pair is not kept.
  struct Row {
    std::vector<double> score, share, weight;
    double lse = 0.0;  // of weights with a statistic
  };

  Row weigh(std::vector<double> scores) const {
    Row row{std::move(scores), {}, {}, 0.0};
    if (has_statistic(kind)) {
      double top = -std::numeric_limits<double>::infinity(), sum = 0;
      for (double s : row.score) top = std::max(top, s);
      for (double s : row.score) row.share.push_back(std::isinf(top) ? 0.0 : std::exp(s - top));
      for (double x : row.share) sum += x;
      for (double& x : row.share) x = sum == 0 ? 0.0 : x / sum;
      row.lse = sum == 0 ? -std::numeric_limits<double>::infinity() : top + std::log(sum);
    }
    for (std::size_t j = 0; j < row.score.size(); ++j) row.weight.push_back(weight_at(row, j));
    return row;
  }

  // Gradients of the scores from those of the weights and of the log-sum-exp.
  std::vector<double> vjp(const Row& row, const std::vector<double>& grads, double d_lse) const {
    double delta = -d_lse;
    for (std::size_t j = 0; j < grads.size(); ++j)
      if (row.weight[j] != 0) delta += row.weight[j] * grads[j];
    std::vector<double> out;
    for (std::size_t j = 0; j < grads.size(); ++j) {
      const double s = row.score[j], g = grads[j];
      if (std::isinf(s) || (has_statistic(kind) && row.share[j] == 0))
        out.push_back(0.0);
      else if (has_statistic(kind))
        out.push_back(row.share[j] * (g + (kind == Weight::self_adjust ? g * s : 0.0) - delta));
      else
        out.push_back(g * slope(s));
    }
    return out;
  }

 private:
  double weight_at(const Row& row, std::size_t j) const {
    const double s = row.score[j];
    if (std::isinf(s)) return 0.0;
    switch (kind) {
      case Weight::softmax: return row.share[j];
      case Weight::self_adjust: return s * row.share[j];
      case Weight::rela: return std::max(s, 0.0);
      case Weight::relu2: return s > 0 ? s * s : 0.0;
      case Weight::sigmoid: return 1.0 / (1.0 + std::exp(-s - offset));
      case Weight::exp: return std::exp(s);
      case Weight::power: return std::pow(s, degree);
      case Weight::taylor: return taylor(s, degree);
    }
    return 0.0;
  }
  double slope(double s) const {
    switch (kind) {
      case Weight::rela: return s > 0 ? 1.0 : 0.0;
      case Weight::relu2: return s > 0 ? 2 * s : 0.0;
      case Weight::sigmoid: return 1.0 / (2.0 + std::exp(-s - offset) + std::exp(s + offset));
      case Weight::exp: return std::exp(s);
      case Weight::power: return degree * std::pow(s, degree - 1);
      case Weight::taylor: return taylor(s, degree - 1);
      default: return 0.0;
    }
  }
  static double taylor(double s, int degree) {
    double sum = 0, term = 1;
    for (int m = 0; m <= degree; term *= s / ++m) sum += term;
    return sum;
  }
};

}  // namespace fovea::tile::testing
