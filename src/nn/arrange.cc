#include <fmt/format.h>

#include <numeric>

#include "fovea/zones.h"
#include "nn/embedding.h"
#include "ops/index.h"
#include "tensor/feed.h"

namespace fovea::nn {
namespace {

std::string sequence_name(std::size_t index) { return fmt::format("sequences[{}]", index); }

void check_length(const EmbeddingSpec& spec, std::size_t index, std::int64_t length) {
  if (length == 0) fail(ErrorCode::shape, "a sequence of length 0", sequence_name(index), "leave it out of the batch");
  if (spec.has_table() && length > spec.max_length)
    fail(ErrorCode::shape, fmt::format("{} tokens, but the model has positions for {}", length, spec.max_length),
         sequence_name(index), "a larger max_length, or shorter input");
}

using Ids = std::vector<std::int32_t>;

// Rows of the input and, in the same order, where they go.
struct Move {
  std::size_t from, to, count, sequence, position;
};

// How ids are laid out: which of them go where, and what may stand there.
struct Plan {
  Shape shape;
  std::vector<Move> moves;
  std::vector<std::size_t> fronts;  // places of the model's own token
  bool stays = false;               // every id stands where it was, and leaves the host anyway

  void check(std::string_view kind, std::int64_t limit, const Move& move, const std::int32_t* from) const;
  Tensor lay_out(const Context& context, std::string_view kind, std::int64_t limit, const Tensor& given) const;
};

// A loop without branches first: it is what all ids of all batches go through.
void Plan::check(std::string_view kind, std::int64_t limit, const Move& move, const std::int32_t* from) const {
  const auto most = static_cast<std::uint32_t>(limit);
  bool all = true;
  for (std::size_t i = 0; i < move.count; ++i) all &= static_cast<std::uint32_t>(from[i]) < most;
  for (std::size_t i = 0; !all && i < move.count; ++i)
    if (const std::int32_t id = from[i]; id < 0 || id >= limit)
      fail(ErrorCode::bad_input,
           fmt::format("{} {} outside the {} 0 .. {}", kind, id, kind == "token" ? "vocabulary" : "range", limit - 1),
           fmt::format("{}, position {}", sequence_name(move.sequence), move.position + i));
}

// Checks every id, and takes a copy where they do not stay as they are. Padding is 0.
Tensor Plan::lay_out(const Context& context, std::string_view kind, std::int64_t limit, const Tensor& given) const {
  if (stays && given.device() == Device::cpu && given.is_contiguous() && first_outside(context, given, 0, limit) < 0)
    return given;
  const Ids ids = given.to_vector<std::int32_t>();
  for (const Move& move : moves) check(kind, limit, move, ids.data() + move.from);
  const auto laid = std::make_shared<Ids>(static_cast<std::size_t>(shape.numel()), 0);
  for (const std::size_t front : fronts) (*laid)[front] = static_cast<std::int32_t>(kind == "token" ? limit : 0);
  for (const Move& move : moves)
    std::copy_n(ids.data() + move.from, move.count, laid->begin() + static_cast<std::ptrdiff_t>(move.to));
  return Tensor::wrap(laid->data(), shape, DType::i32, laid);
}

// The same sequences, each one row longer.
Sequences with_front_row(const Sequences& rows, const std::vector<Sequences::Rows>& ranges) {
  Sequences longer;
  if (rows.cu_seqlens.empty()) {
    for (const auto& range : ranges) longer.lengths.push_back(static_cast<std::int32_t>(range.count + 1));
  } else {
    for (std::size_t s = 0; s < rows.cu_seqlens.size(); ++s)
      longer.cu_seqlens.push_back(rows.cu_seqlens[s] + static_cast<std::int32_t>(s));
  }
  return longer;
}

void check_input(const EmbeddingSpec& spec, const Input& input) {
  if (!input.ids.defined() || input.ids.rank() != 2 || input.ids.dtype() != DType::i32)
    fail(ErrorCode::shape, "token ids must be i32 of shape (batch, length)", "ids");
  if (!input.types.defined()) return;
  if (spec.types == 0) fail(ErrorCode::usage, "this model has no token types", "types", "leave them out");
  if (input.types.dtype() != DType::i32 || input.types.shape() != input.ids.shape())
    fail(ErrorCode::shape, "token types must be i32 of the shape of ids", "types");
}

// Which ids are this rank's, and where they go: rows [begin, begin + count) of each sequence of `layout`, the model's
// own token first where there is one.
std::shared_ptr<Plan> plan_of(const EmbeddingSpec& spec, const Input& input, const Layout& whole, const Layout& layout,
                              const Shape& wide) {
  auto plan = std::make_shared<Plan>();
  const std::int64_t batch = input.ids.dim(0), n = input.ids.dim(1), ahead = spec.front ? 1 : 0;
  const divided::Division* const division = layout.division.get();
  plan->shape = division ? Shape{1, division->rows()} : wide;
  const std::vector<Sequences::Rows> from = input.rows.rows(batch, n, "rows"),
                                     to = whole.rows.rows(wide.dim(0), wide.dim(1), "rows");
  for (std::size_t s = 0; s < from.size(); ++s) {
    const int rank = division ? division->ranks().rank() : 0;
    const std::int64_t begin = division ? division->begin(s, rank) : 0,
                       count = division ? division->count(s, rank) : to[s].count,
                       start = division ? division->row(s) : to[s].batch * wide.dim(1) + to[s].begin;
    const std::int64_t fronts = begin == 0 && count > 0 ? ahead : 0, first = begin + fronts - ahead;
    if (fronts > 0) plan->fronts.push_back(static_cast<std::size_t>(start));
    plan->moves.push_back({static_cast<std::size_t>(from[s].batch * n + from[s].begin + first),
                           static_cast<std::size_t>(start + fronts), static_cast<std::size_t>(count - fronts), s,
                           static_cast<std::size_t>(first)});
  }
  return plan;
}

// All rows of a batch, whoever has them, as they lie with the model's own tokens: (b, n).
std::shared_ptr<const Layout> whole_layout(const Context& context, const EmbeddingSpec& spec, const Input& input,
                                           const std::vector<Past*>& pasts, const Shape& wide) {
  auto layout = std::make_shared<Layout>();
  const std::vector<Sequences::Rows> from = input.rows.rows(input.ids.dim(0), input.ids.dim(1), "rows");
  layout->rows = spec.front ? with_front_row(input.rows, from) : input.rows;
  layout->pasts = pasts;
  Ids positions(static_cast<std::size_t>(wide.numel()), 0);
  const std::vector<Sequences::Rows> to = layout->rows.rows(wide.dim(0), wide.dim(1), "rows");
  for (std::size_t s = 0; s < from.size(); ++s) {
    const std::int64_t seen = pasts.empty() ? 0 : pasts[s]->length;
    check_length(spec, s, seen + from[s].count);
    const auto start = positions.begin() + to[s].batch * wide.dim(1) + to[s].begin;
    std::iota(start, start + to[s].count, static_cast<std::int32_t>(seen));
    layout->longest = std::max(layout->longest, seen + to[s].count);
  }
  layout->positions = Tensor::from<std::int32_t>(context, wide, positions);
  return layout;
}

}  // namespace

std::shared_ptr<const Layout> share_rows(const Context& context, const std::shared_ptr<const Layout>& whole,
                                         std::int64_t batch, std::int64_t n, const RowSharers& sharers) {
  if (sharers.ranks.size() == 1) return whole;
  const bool has_tiles = whole->longest >= 2 * sharers.ranks.size() * sharers.tile;
  auto layout = std::make_shared<Layout>();
  layout->division = std::make_shared<divided::Division>(sharers.ranks, divided::WholeRows{batch, n, whole->rows},
                                                         has_tiles ? sharers.tile : 1);
  layout->rows = layout->division->sequences();
  layout->positions = layout->division->positions(context);
  layout->longest = whole->longest;
  return layout;
}

std::shared_ptr<const Layout> full_layout(const Context& context, std::int64_t batch, std::int64_t n) {
  auto layout = std::make_shared<Layout>();
  Ids positions(static_cast<std::size_t>(batch * n));
  for (std::size_t i = 0; i < positions.size(); ++i)
    positions[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(n));
  layout->positions = Tensor::from<std::int32_t>(context, {batch, n}, positions);
  layout->longest = n;
  return layout;
}

void advance(const Input& tokens, const std::vector<Past*>& pasts) {
  const auto rows = tokens.rows.rows(tokens.ids.dim(0), tokens.ids.dim(1), "rows");
  for (std::size_t s = 0; s < pasts.size(); ++s) pasts[s]->length += rows[s].count;
}

Arranged arrange(const Context& context, const EmbeddingSpec& spec, const Input& input, const std::vector<Past*>& pasts,
                 const RowSharers& sharers) {
  const ZoneTimer timer(context.zones(), Zone::data);
  check_input(spec, input);
  const std::int64_t batch = input.ids.dim(0), n = input.ids.dim(1);
  const std::int64_t fronts = !spec.front                     ? 0
                              : input.rows.cu_seqlens.empty() ? 1
                                                              : std::ssize(input.rows.cu_seqlens) - 1;
  const Shape wide{batch, n + fronts};
  const auto whole = whole_layout(context, spec, input, pasts, wide);
  const auto layout = share_rows(context, whole, batch, wide.dim(1), sharers);
  const std::shared_ptr<Plan> plan = plan_of(spec, input, *whole, *layout, wide);
  std::size_t covered = 0;
  for (const Move& move : plan->moves) covered += move.count;
  plan->stays = !spec.front && !layout->division && covered == static_cast<std::size_t>(wide.numel()) &&
                context.device() != Device::cpu;
  const auto across = [&](const char* kind, std::int64_t limit, const Tensor& given) {
    return feed(context, [&context, plan, kind, limit, given] { return plan->lay_out(context, kind, limit, given); });
  };
  const Index tokens(across("token", spec.vocabulary, input.ids), 0, spec.vocabulary + (spec.front ? 1 : 0));
  if (!input.types.defined()) return {tokens, Index(), layout};
  return {tokens, Index(across("type", spec.types, input.types), 0, spec.types), layout};
}

}  // namespace fovea::nn
