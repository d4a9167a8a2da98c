#include "dist/mpi/mpi_ranks.h"

#include <array>
#include <chrono>
#include <string_view>
#include <thread>

#include "dist/mpi/mpi_transport.h"

namespace fovea::dist {
namespace {

constexpr double kTellSeconds = 5.0;  // that ranks have for hearing of an error before they are ended

// Asks until `f` says yes.
template <class F>
bool within(double seconds, const F& f) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!f()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace

MpiRanks::MpiRanks(int* argc, char*** argv) {
  int provided = 0;
  MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided);
  if (provided < MPI_THREAD_SERIALIZED)
    fail(ErrorCode::unsupported, "this MPI lets only one thread of a process exchange messages", "MPI",
         "one that has MPI_THREAD_SERIALIZED: Open MPI and MPICH do");
  transport_ = std::make_shared<MpiTransport>();
  all_ = Group(transport_, "all ranks");
}

MpiRanks::~MpiRanks() {
  all_ = Group();
  transport_.reset();
  MPI_Finalize();
}

// The first words of what MPI says of itself: "Open MPI v4.1.4, package: ...", "MPICH Version: 4.0".
std::string MpiRanks::library() const {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string_view said(text.data(), static_cast<std::size_t>(length));
  return std::string(said.substr(0, said.find_first_of(",\n")));
}

void MpiRanks::set_limit(double seconds) const { transport_->set_limit(seconds); }

// Rank 0 tells it, whoever failed. When all others have come to their end as well the processes end in order, else, or
// when rank 0 itself is lost, MPI ends them: nobody stays behind.
int MpiRanks::end_with(const Error& error, const std::function<void(const Error&)>& say) {
  const int code = exit_code(error.code());
  using Notice = MpiTransport::Notice;
  transport_->fail(error);
  if (leads()) {
    say(error);
    int ended = 1;
    const bool all =
        within(kTellSeconds, [&] { return (ended += transport_->notified(Notice::kEnded)) == all_.size(); });
    if (!all) MPI_Abort(MPI_COMM_WORLD, code);
    for (int i = 1; i < all_.size(); ++i) transport_->notify(i, Notice::kTold);
  } else {
    transport_->notify(0, Notice::kEnded);
    if (!within(2 * kTellSeconds, [&] { return transport_->notified(Notice::kTold); })) {
      say(error);
      MPI_Abort(MPI_COMM_WORLD, code);
    }
  }
  while (transport_->notified(Notice::kFailed)) {
  }
  return code;
}

}  // namespace fovea::dist
