#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "fovea/error.h"

namespace fovea::dist {

// What one rank gives to and wants from another in one call.
struct Outgoing {
  int to = 0;
  std::span<const std::byte> bytes;
};
struct Incoming {
  int from = 0;
  std::span<std::byte> bytes;
};

// Which call of which group it is: the same on every rank that takes part, and what errors tell.
struct Call {
  std::string_view operation;
  std::string_view group;
  std::uint64_t number = 0;   // of the group's calls, from 1
  std::uint64_t channel = 0;  // messages of one channel never meet those of another

  std::string text() const;  // "all_reduce 12 of data"
};

// How bytes get from rank to rank of a running program: all that a backend is. Collectives are made of it once, in
// group.cc, so that every backend adds in the same order and counts the same bytes. Ranks are those of the program.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Sends and receives all of these at once, and waits for them. Messages of one channel between two ranks arrive in
  // the order of the calls. Several threads may be here, each with channels of its own. Throws when another rank has
  // failed, when one has not answered within the limit, and when what arrives has another size.
  virtual void exchange(const Call& call, std::span<const Outgoing> out, std::span<const Incoming> in) = 0;

  // This rank goes no further: whoever waits for it, now or later, is told why. May be called more than once.
  virtual void fail(const Error& error) noexcept = 0;

  double limit() const { return limit_; }
  void set_limit(double seconds) { limit_ = seconds; }  // the longest that a call waits for another rank

  // The first channel that no group of this rank uses; 0 is that of all ranks.
  std::uint64_t next_channel() const { return next_channel_; }
  void use_channels(std::uint64_t end) { next_channel_ = end; }

 private:
  double limit_ = 300.0;
  std::uint64_t next_channel_ = 1;
};

// What ranks are told when another one has failed.
class RankFailure : public Error {
 public:
  RankFailure(int rank, const Error& error);
};

// A rank that did not answer: which, in what, for how long.
[[noreturn]] void fail_stalled(const Call& call, std::span<const int> missing, double seconds);
[[noreturn]] void fail_size(const Call& call, int from, std::size_t got, std::size_t wanted);

}  // namespace fovea::dist
