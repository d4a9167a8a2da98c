#include "train/part_share.h"

#include <fmt/format.h>

#include "fovea/error.h"

namespace fovea {

PartShare PartShare::of(std::int64_t parts, const dist::Mesh& mesh) {
  const std::int64_t ranks = mesh.data.size(), rank = mesh.data.rank();
  if (ranks > parts)
    fail(ErrorCode::usage, fmt::format("{} ranks share {} part{} of a batch", ranks, parts, parts == 1 ? "" : "s"),
         "train.accumulation", fmt::format("--set train.accumulation={}: dropout is drawn by the part", ranks));
  const std::int64_t first = dist::part_begin(parts, ranks, rank);
  return {parts, first, dist::part_begin(parts, ranks, rank + 1) - first};
}

// Ranks send as many rows as the largest share has.
std::vector<double> gather_parts(const dist::Mesh& mesh, std::int64_t parts, std::span<const double> own,
                                 std::size_t columns) {
  const std::int64_t ranks = mesh.data.size();
  const auto most = static_cast<std::size_t>((parts + ranks - 1) / ranks) * columns;
  std::vector<double> padded(own.begin(), own.end());
  padded.resize(most);
  const std::vector<double> gathered = mesh.data.all_gather(padded);
  std::vector<double> all;
  for (std::int64_t r = 0; r < ranks; ++r) {
    const std::int64_t count = dist::part_begin(parts, ranks, r + 1) - dist::part_begin(parts, ranks, r);
    const auto from = gathered.begin() + r * static_cast<std::int64_t>(most);
    all.insert(all.end(), from, from + count * static_cast<std::int64_t>(columns));
  }
  return all;
}

}  // namespace fovea
