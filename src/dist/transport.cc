#include "dist/transport.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fovea::dist {

std::string Call::text() const { return fmt::format("{} {} of {}", operation, number, group); }

RankFailure::RankFailure(int rank, const Error& error)
    : Error(error.code(), fmt::format("rank {}: {}", rank, error.message()), error.where(), error.hint()) {}

void fail_stalled(const Call& call, std::span<const int> missing, double seconds) {
  fail(ErrorCode::io, fmt::format("rank {} did not answer within {:g} s", fmt::join(missing, " and rank "), seconds),
       call.text(), "look what that rank does; a longer --rank-timeout where it only takes its time");
}

void fail_size(const Call& call, int from, std::size_t got, std::size_t wanted) {
  fail(ErrorCode::usage, fmt::format("rank {} sent {} bytes, {} were expected", from, got, wanted), call.text(),
       "the same program with the same settings on every rank");
}

}  // namespace fovea::dist
