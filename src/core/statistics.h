#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

// How sure a number is that was measured a few times.
namespace fovea {

// A margin that nobody knows: nothing is apart from such a number.
inline constexpr double kUnknownMargin = std::numeric_limits<double>::infinity();

struct Sample {
  std::size_t count = 0;
  double mean = std::numeric_limits<double>::quiet_NaN();
  double deviation = 0.0;  // the sample deviation; 0 of one number

  // Half of the 95% interval of the mean (Student's); unknown of fewer than two numbers.
  double margin() const;
};
Sample describe(std::span<const double> numbers);

// Half of the 95% interval of the mean of so many numbers, by the deviations of several samples taken together: that of
// numbers that are few says more beside others of its kind. Unknown where all samples are single numbers.
double pooled_margin(std::span<const Sample> samples, std::size_t count);

// What 97.5% of Student's distribution lie below: 12.7 for 1 degree of freedom, 1.96 for many.
double t_quantile(std::int64_t degrees);

// Half of the 95% interval of a share that was found in so many cases (Wilson's); 0 without a case.
double share_margin(double share, std::int64_t cases);

// Half of the 95% interval of a correlation that was found in so many cases (Fisher's); 0 of fewer than four.
double correlation_margin(double correlation, std::int64_t cases);

// Whether the 95% interval of the difference of two numbers leaves out 0.
bool apart(double a, double margin_of_a, double b, double margin_of_b);

}  // namespace fovea
