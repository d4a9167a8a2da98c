#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "dist/mesh.h"
#include "dist/worker.h"

// What every backend must do, called by each rank of a group: the sums are of numbers that f32 rounds, so that another
// order of them would show.
namespace fovea::dist::laws {

inline double number(int rank, std::int64_t i) { return std::sin(0.7 * static_cast<double>(i) + rank) * (1 << rank); }

inline Tensor numbers(const Context& context, const Shape& shape, DType dtype, int rank) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.numel(); ++i) values.push_back(number(rank, i));
  return Tensor::from<double>(context, shape, values).to(context, dtype);
}

template <class T>
std::vector<T> summed(std::int64_t count, int ranks) {
  std::vector<T> sum;
  for (std::int64_t i = 0; i < count; ++i) {
    T total = static_cast<T>(number(0, i));
    for (int r = 1; r < ranks; ++r) total += static_cast<T>(number(r, i));
    sum.push_back(total);
  }
  return sum;
}

inline void all_reduce(const Group& group) {
  const Context context({.threads = 1});
  for (const std::int64_t count : {1, 2, 7, 4097, 100003}) {
    const Tensor x = numbers(context, {count}, DType::f32, group.rank());
    group.all_reduce(x);
    EXPECT_EQ(x.to_vector<float>(), summed<float>(count, group.size())) << count;
    const Tensor y = numbers(context, {count}, DType::f64, group.rank());
    group.all_reduce(y);
    EXPECT_EQ(y.to_vector<double>(), summed<double>(count, group.size())) << count;
  }
  const Tensor strided = numbers(context, {6, 5}, DType::f32, group.rank()).transpose(0, 1);
  group.all_reduce(strided);
  EXPECT_EQ(strided.transpose(0, 1).to_vector<float>(), summed<float>(30, group.size()));
  const Tensor most = Tensor::from<float>(context, {1}, std::vector<float>{static_cast<float>(-group.rank())});
  group.all_reduce(most, Reduce::max);
  EXPECT_EQ(most.item(), 0.0);
}

inline std::vector<std::int64_t> uneven(const Group& group) {
  std::vector<std::int64_t> rows;
  for (int i = 0; i < group.size(); ++i) rows.push_back(i == 1 ? 0 : 2 + i);
  return rows;
}

inline void gathers(const Group& group) {
  const Context context({.threads = 1});
  const std::vector<std::int64_t> rows = uneven(group);
  const Tensor mine = numbers(context, {rows[static_cast<std::size_t>(group.rank())], 3}, DType::f32, group.rank());
  std::vector<float> expected;
  for (int r = 0; r < group.size(); ++r)
    for (std::int64_t i = 0; i < 3 * rows[static_cast<std::size_t>(r)]; ++i)
      expected.push_back(static_cast<float>(number(r, i)));
  EXPECT_EQ(group.all_gather(context, mine).to_vector<float>(), expected);
  EXPECT_EQ(group.all_gather(context, mine, rows).to_vector<float>(), expected);
  const double own[] = {1.0 + group.rank(), 0.5};
  const std::vector<double> all = group.all_gather(own);
  ASSERT_EQ(std::ssize(all), 2 * group.size());
  for (int r = 0; r < group.size(); ++r) EXPECT_EQ(all[static_cast<std::size_t>(2 * r)], 1.0 + r);
  const std::vector<std::string> texts = group.all_gather(std::string(static_cast<std::size_t>(group.rank()), 'x'));
  for (int r = 0; r < group.size(); ++r) EXPECT_EQ(static_cast<int>(texts[static_cast<std::size_t>(r)].size()), r);
}

inline void reduce_scatter(const Group& group) {
  const Context context({.threads = 1});
  const std::vector<std::int64_t> rows = uneven(group);
  std::int64_t total = 0, begin = 0;
  for (int r = 0; r < group.size(); ++r) {
    if (r == group.rank()) begin = total;
    total += rows[static_cast<std::size_t>(r)];
  }
  const Tensor x = numbers(context, {total, 2}, DType::f32, group.rank());
  const std::vector<float> before = x.to_vector<float>(), sum = summed<float>(2 * total, group.size());
  const Tensor part = group.reduce_scatter(context, x, rows);
  const auto from = sum.begin() + 2 * begin;
  EXPECT_EQ(part.to_vector<float>(), std::vector<float>(from, from + 2 * rows[static_cast<std::size_t>(group.rank())]));
  EXPECT_EQ(x.to_vector<float>(), before);
}

inline void point_to_point(const Group& group) {
  const Context context({.threads = 1});
  const int p = group.size(), r = group.rank();
  std::vector<Tensor> to;
  std::vector<Shape> shapes;
  for (int i = 0; i < p; ++i) {
    to.push_back(numbers(context, {r + 2 * i + 1}, DType::f32, r));
    shapes.push_back({i + 2 * r + 1});
  }
  const std::vector<Tensor> got = group.all_to_all(context, to, shapes);
  for (int i = 0; i < p; ++i)
    EXPECT_EQ(got[static_cast<std::size_t>(i)].to_vector<float>(),
              numbers(context, {i + 2 * r + 1}, DType::f32, i).to_vector<float>());
  const Tensor own = numbers(context, {9}, DType::bf16, r), left = Tensor::zeros(context, {9}, DType::bf16);
  group.shift(own, (r + 1) % p, left, (r + p - 1) % p);
  EXPECT_EQ(left.to_vector<float>(), numbers(context, {9}, DType::bf16, (r + p - 1) % p).to_vector<float>());
  if (p > 1) {
    const Tensor last = Tensor::zeros(context, {4}, DType::f64);
    if (r == p - 1) group.send(numbers(context, {4}, DType::f64, r), 0);
    if (r == 0) {
      group.receive(last, p - 1);
      EXPECT_EQ(last.to_vector<double>(), numbers(context, {4}, DType::f64, p - 1).to_vector<double>());
    }
  }
  const Tensor shared = numbers(context, {5}, DType::f32, r);
  group.broadcast(shared, p - 1);
  EXPECT_EQ(shared.to_vector<float>(), numbers(context, {5}, DType::f32, p - 1).to_vector<float>());
}

// Groups of odd and even ranks, and those that cross them, work at the same time as all of them do.
inline void splits(const Group& group) {
  const int r = group.rank();
  const Group same = group.split(r % 2, "same"), pair = group.split(r / 2, "pair");
  EXPECT_EQ(same.rank(), r / 2);
  EXPECT_EQ(pair.rank(), r % 2);
  const Context context({.threads = 1});
  Worker worker;
  const Tensor behind = Tensor::from<float>(context, {1}, std::vector<float>{static_cast<float>(r)});
  for (int round = 0; round < 20; ++round) {
    behind.fill(r);
    worker.submit([&] { same.all_reduce(behind); });
    const double own = r;
    const std::vector<double> all = group.all_gather(std::span(&own, 1)), near = pair.all_gather(std::span(&own, 1));
    EXPECT_EQ(all.back(), group.size() - 1);
    EXPECT_EQ(near.front(), r - r % 2);
    worker.wait();
    double sum = 0;
    for (int i = r % 2; i < group.size(); i += 2) sum += i;
    EXPECT_EQ(behind.item(), sum);
  }
  group.barrier();
}

// What leaves all ranks together, as docs/scale.md says.
inline void traffic(const Group& group) {
  const Context context({.threads = 1});
  const Group fresh = group.split(0, "counted");
  const std::int64_t n = 1000;
  fresh.all_reduce(numbers(context, {n}, DType::f32, group.rank()));
  fresh.all_gather(context, numbers(context, {n / 10, 2}, DType::f32, group.rank()),
                   std::vector<std::int64_t>(static_cast<std::size_t>(group.size()), n / 10));
  const auto bytes = [&](const char* operation) {
    const auto found = fresh.traffic().find(operation);
    const double own = found == fresh.traffic().end() ? 0.0 : static_cast<double>(found->second.sent);
    double sum = 0.0;
    for (const double sent : group.all_gather(std::span(&own, 1))) sum += sent;
    return sum;
  };
  const double p = group.size();
  EXPECT_EQ(bytes("all_reduce"), 2 * (p - 1) * 4 * n);
  EXPECT_EQ(bytes("all_gather"), p * (p - 1) * 4 * n / 5);
}

inline void all(const Group& group) {
  all_reduce(group);
  gathers(group);
  reduce_scatter(group);
  point_to_point(group);
  splits(group);
  traffic(group);
}

}  // namespace fovea::dist::laws
