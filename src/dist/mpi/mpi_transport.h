#pragma once

#include <mpi.h>

#include <mutex>
#include <optional>
#include <vector>

#include "dist/transport.h"

namespace fovea::dist {

// Messages between processes. Nothing here waits inside MPI: calls are posted, and asked for under one lock, so that
// several threads may exchange (MPI_THREAD_SERIALIZED is enough) and a rank that waits still hears that another failed.
class MpiTransport : public Transport {
 public:
  MpiTransport();
  ~MpiTransport() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void exchange(const Call& call, std::span<const Outgoing> out, std::span<const Incoming> in) override;
  void fail(const Error& error) noexcept override;

  // Agreement about the end, after an error: notices that carry nothing but that they came.
  enum Notice : int { kFailed = 1, kEnded = 2, kTold = 3 };
  void notify(int rank, Notice notice) noexcept;
  bool notified(Notice notice) noexcept;  // has one come that was not asked about before? From anybody

 private:
  struct Pending;
  using Lock = std::unique_lock<std::mutex>;

  void post(const Call& call, std::span<const Outgoing> out, std::span<const Incoming> in, Pending& pending);
  bool done(const Call& call, Pending& pending);
  void give_up(Pending& pending);
  void hear_failure();  // throws it

  MPI_Comm messages_ = MPI_COMM_NULL, notices_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::mutex mutex_;
  std::optional<RankFailure> failure_;  // the first that is known here
  std::vector<char> told_;              // of this rank, while it is being sent
};

}  // namespace fovea::dist
