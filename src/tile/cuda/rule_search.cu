#include "tile/cuda/rule_search.cuh"

#include "tile/cuda/simt_launch.cuh"

namespace fovea::tile::cuda {
namespace {

constexpr std::int64_t kScratch = std::int64_t{512} << 20;  // of all blocks together
constexpr std::int64_t kMostBlocks = 264;                   // two on each multiprocessor of an H200

}  // namespace

template <class R>
void search_rows(const Launch& launch, const Call& call, const Schedule& schedule, RowTerms<R>* terms) {
  const Schedule::Items& items = schedule.by_rows[0];
  if (items.count == 0) return;
  const bool backward = call.d_o.data != nullptr;
  const int parts = (schedule.largest_own[0] + kSimtRows<R> - 1) / kSimtRows<R>;
  const std::int64_t count = std::int64_t{items.count} * parts * call.heads;
  const std::int64_t longest = std::max<std::int64_t>(schedule.longest_row, 1);
  const std::int64_t row = (backward ? 2 : 1) * kSimtRows<R> * longest * static_cast<std::int64_t>(sizeof(R));
  const std::int64_t bytes = (row + longest * 4 + 255) / 256 * 256;
  const std::int64_t blocks = std::min({count, kMostBlocks, std::max<std::int64_t>(kScratch / bytes, 1)});
  const DeviceScratch scratch(launch, static_cast<std::size_t>(blocks * bytes));
  Call with_items = call;
  with_items.items = items.data;
  auto* kernel = rule_search_kernel<R>;
  const std::size_t shared = allow_shared_memory<R>(reinterpret_cast<const void*>(kernel), call, 0, 0);
  const SearchRoom room{static_cast<char*>(scratch.data()), bytes, longest, backward};
  kernel<<<to_grid(blocks), kSimtThreads, shared, launch.stream>>>(with_items, room, parts, count, terms);
  check_cuda(cudaGetLastError(), "the search of a row rule");
}

template void search_rows<float>(const Launch&, const Call&, const Schedule&, RowTerms<float>*);
template void search_rows<double>(const Launch&, const Call&, const Schedule&, RowTerms<double>*);

}  // namespace fovea::tile::cuda
