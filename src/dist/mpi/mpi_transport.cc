#include "dist/mpi/mpi_transport.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace fovea::dist {
namespace {

constexpr std::size_t kLargest = std::size_t{1} << 28;  // bytes of one message; MPI counts to 2^31
constexpr std::size_t kFailureBytes = 2000;             // below what is sent without being asked for

void check_mpi(int result, const char* what) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(result, text, &length);
  fail(ErrorCode::io, "MPI: " + std::string(text, static_cast<std::size_t>(length)), what);
}

// Ranks share cores with those who compute: after a moment of asking, sleep, for longer and longer.
class Patience {
 public:
  explicit Patience(double seconds) : until_(Clock::now() + std::chrono::duration<double>(seconds)) {}

  bool over() const { return Clock::now() > until_; }
  void wait() {
    if (++rounds_ < 64) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(std::min(20 + rounds_ / 8, 200)));
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::chrono::time_point<Clock, std::chrono::duration<double>> until_;
  int rounds_ = 0;
};

// The four parts of an error, each ended by a zero, cut to what fits.
std::vector<char> packed(const Error& error) {
  std::vector<char> text(1, static_cast<char>(error.code()));
  for (const std::string* part : {&error.message(), &error.where(), &error.hint()}) {
    const std::string cut = part->substr(0, kFailureBytes / 4);
    text.insert(text.end(), cut.begin(), cut.end());
    text.push_back('\0');
  }
  return text;
}

Error unpacked(const std::vector<char>& text) {
  std::vector<std::string> parts;
  for (auto at = text.begin() + 1; at < text.end() && parts.size() < 3;) {
    const auto end = std::find(at, text.end(), '\0');
    parts.emplace_back(at, end);
    at = end + 1;
  }
  parts.resize(3);
  return {static_cast<ErrorCode>(text.front()), parts[0], parts[1], parts[2]};
}

}  // namespace

struct MpiTransport::Pending {
  struct Part {
    int rank;
    std::size_t bytes;
    bool incoming;
  };
  std::vector<MPI_Request> requests;
  std::vector<MPI_Status> statuses;
  std::vector<Part> parts;
};

MpiTransport::MpiTransport() {
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &messages_), "start");
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &notices_), "start");
  for (const MPI_Comm comm : {messages_, notices_}) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(messages_, &rank_);
  MPI_Comm_size(messages_, &size_);
}

MpiTransport::~MpiTransport() {
  MPI_Comm_free(&messages_);
  MPI_Comm_free(&notices_);
}

// Long messages go in pieces, which arrive in order as they have one tag.
void MpiTransport::post(const Call& call, std::span<const Outgoing> out, std::span<const Incoming> in,
                        Pending& pending) {
  const int tag = static_cast<int>(call.channel);
  const auto pieces = [](auto bytes, auto&& f) {
    for (std::size_t at = 0; at < bytes.size(); at += kLargest)
      f(bytes.subspan(at, std::min(kLargest, bytes.size() - at)));
  };
  const auto request = [&](int rank, std::size_t bytes, bool incoming) {
    pending.parts.push_back({rank, bytes, incoming});
    return &pending.requests.emplace_back(MPI_REQUEST_NULL);
  };
  for (const Incoming& i : in)
    pieces(i.bytes, [&](std::span<std::byte> piece) {
      check_mpi(MPI_Irecv(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, i.from, tag, messages_,
                          request(i.from, piece.size(), true)),
                "receive");
    });
  for (const Outgoing& o : out)
    pieces(o.bytes, [&](std::span<const std::byte> piece) {
      check_mpi(MPI_Isend(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, o.to, tag, messages_,
                          request(o.to, piece.size(), false)),
                "send");
    });
  pending.statuses.resize(pending.requests.size());
}

bool MpiTransport::done(const Call& call, Pending& pending) {
  bool all = true;
  for (std::size_t i = 0; i < pending.requests.size(); ++i) {
    if (pending.requests[i] == MPI_REQUEST_NULL) continue;
    int finished = 0;
    const int result = MPI_Test(&pending.requests[i], &finished, &pending.statuses[i]);
    all = all && finished != 0;
    if (finished == 0 || !pending.parts[i].incoming) continue;
    const Pending::Part& part = pending.parts[i];
    int got = 0;
    MPI_Get_count(&pending.statuses[i], MPI_BYTE, &got);
    const bool longer = result != MPI_SUCCESS;  // the only fault a receive can have here: it was cut
    if (longer || static_cast<std::size_t>(got) != part.bytes)
      fail_size(call, part.rank, longer ? part.bytes + 1 : static_cast<std::size_t>(got), part.bytes);
  }
  return all;
}

// Nothing may arrive any more in memory that is about to be freed.
void MpiTransport::give_up(Pending& pending) {
  for (std::size_t i = 0; i < pending.requests.size(); ++i)
    if (pending.requests[i] != MPI_REQUEST_NULL && pending.parts[i].incoming) {
      MPI_Cancel(&pending.requests[i]);
      MPI_Request_free(&pending.requests[i]);
    }
}

void MpiTransport::hear_failure() {
  if (!failure_) {
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, kFailed, notices_, &there, &status);
    if (there == 0) return;
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    std::vector<char> text(static_cast<std::size_t>(std::max(bytes, 1)));
    MPI_Recv(text.data(), bytes, MPI_BYTE, status.MPI_SOURCE, kFailed, notices_, MPI_STATUS_IGNORE);
    failure_.emplace(status.MPI_SOURCE, unpacked(text));
  }
  throw *failure_;
}

void MpiTransport::exchange(const Call& call, std::span<const Outgoing> out, std::span<const Incoming> in) {
  Patience patience(limit());
  Pending pending;
  Lock lock(mutex_);
  pending.requests.reserve(64 + 2 * (out.size() + in.size()));
  try {
    post(call, out, in, pending);
    while (!done(call, pending)) {
      hear_failure();
      if (patience.over()) break;
      lock.unlock();
      patience.wait();
      lock.lock();
    }
  } catch (...) {
    give_up(pending);
    throw;
  }
  std::vector<int> missing;
  for (std::size_t i = 0; i < pending.requests.size(); ++i)
    if (pending.requests[i] != MPI_REQUEST_NULL) missing.push_back(pending.parts[i].rank);
  if (missing.empty()) return;
  give_up(pending);
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  fail_stalled(call, missing, limit());
}

void MpiTransport::fail(const Error& error) noexcept {
  const Lock lock(mutex_);
  if (failure_) return;  // others know already
  failure_.emplace(rank_, error);
  told_ = packed(error);
  for (int i = 0; i < size_; ++i) {
    if (i == rank_) continue;
    MPI_Request request;
    MPI_Isend(told_.data(), static_cast<int>(told_.size()), MPI_BYTE, i, kFailed, notices_, &request);
    MPI_Request_free(&request);
  }
}

void MpiTransport::notify(int rank, Notice notice) noexcept {
  const Lock lock(mutex_);
  MPI_Request request;
  MPI_Isend(nullptr, 0, MPI_BYTE, rank, notice, notices_, &request);
  MPI_Request_free(&request);
}

bool MpiTransport::notified(Notice notice) noexcept {
  const Lock lock(mutex_);
  int there = 0;
  MPI_Status status;
  MPI_Iprobe(MPI_ANY_SOURCE, notice, notices_, &there, &status);
  if (there == 0) return false;
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  std::vector<char> text(static_cast<std::size_t>(std::max(bytes, 1)));
  MPI_Recv(text.data(), bytes, MPI_BYTE, status.MPI_SOURCE, notice, notices_, MPI_STATUS_IGNORE);
  return true;
}

}  // namespace fovea::dist
