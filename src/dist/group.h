#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dist/transport.h"
#include "fovea/tensor.h"

namespace fovea::dist {

// What a group has moved, by operation: bytes that this rank sent to others and got from them.
struct Traffic {
  std::int64_t calls = 0;
  std::uint64_t sent = 0, received = 0;
};

enum class Reduce : std::uint8_t { sum, max };

// Ranks that work together. All of them make the same calls in the same order; one thread at a time. A group of one
// moves nothing and costs nothing, so nobody above asks how many there are. A cheap handle.
//
// Sums have a fixed order, that of the ranks, and are made in the type of the tensors, f32 or f64: the same bits on
// every rank, on every run and with every backend.
class Group {
 public:
  Group();                                                        // this process alone
  Group(std::shared_ptr<Transport> transport, std::string name);  // all ranks of the program

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  const std::string& name() const { return name_; }

  // In place, tensors of one shape on all ranks. 2 (P - 1) / P of its bytes leave each rank.
  void all_reduce(const Tensor& t, Reduce reduce = Reduce::sum) const;
  // Everybody's tensor one after another along axis 0; their sizes there may differ. Sizes are exchanged first.
  Tensor all_gather(const Context& context, const Tensor& t) const;
  // The same where every rank knows how many rows each one has.
  Tensor all_gather(const Context& context, const Tensor& t, std::span<const std::int64_t> rows) const;
  // The sum over ranks of t, of which each keeps its rows of axis 0.
  Tensor reduce_scatter(const Context& context, const Tensor& t, std::span<const std::int64_t> rows) const;
  // Gives tensor i to rank i; the one from rank i has shape shapes[i] and the type of `to`.
  std::vector<Tensor> all_to_all(const Context& context, std::span<const Tensor> to,
                                 std::span<const Shape> shapes) const;
  void broadcast(const Tensor& t, int from) const;  // in place
  void send(const Tensor& t, int to) const;
  void receive(const Tensor& t, int from) const;  // in place
  // Gives `out` to one rank and fills `in` from another, both at once.
  void shift(const Tensor& out, int to, const Tensor& in, int from) const;
  void barrier() const;

  // Small things that need no tensor: everybody's numbers or bytes, in the order of the ranks.
  std::vector<double> all_gather(std::span<const double> numbers) const;  // as many on every rank
  std::vector<std::string> all_gather(const std::string& bytes) const;    // of any sizes

  // This rank goes no further: whoever waits for it, on this and on other threads, is told why.
  void fail(const Error& error) const noexcept;

  // Ranks that give the same colour form a group, in the order they have here. All ranks of this group take part.
  Group split(int colour, std::string name) const;

  const std::map<std::string, Traffic>& traffic() const { return state_->traffic; }

 private:
  struct State {
    std::uint64_t channel = 0, calls = 0;
    std::map<std::string, Traffic> traffic;
  };
  using Bytes = std::span<std::byte>;

  void exchange(const char* operation, std::span<const Outgoing> out, std::span<const Incoming> in) const;
  void gather_parts(const char* operation, Bytes all, std::span<const std::size_t> starts) const;
  void reduce_parts(const char* operation, const Tensor& t, std::span<const std::size_t> starts, Reduce reduce) const;
  int world(int rank) const { return members_[static_cast<std::size_t>(rank)]; }

  std::shared_ptr<Transport> transport_;  // null: alone
  std::shared_ptr<State> state_;
  std::vector<int> members_;  // ranks of the program
  int rank_ = 0;
  std::string name_ = "this process";
};

// Where part i of `count` things that `parts` share begins; part `parts` is the end. Parts differ by one at most.
constexpr std::int64_t part_begin(std::int64_t count, std::int64_t parts, std::int64_t i) {
  return count / parts * i + std::min(i, count % parts);
}

}  // namespace fovea::dist
