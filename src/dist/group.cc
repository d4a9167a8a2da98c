#include "dist/group.h"

#include <algorithm>
#include <numeric>

#include "tensor/views.h"

namespace fovea::dist {
namespace {

std::span<std::byte> bytes_of(const Tensor& t) { return {static_cast<std::byte*>(t.raw()), t.bytes()}; }

// Runs f on the numbers where the host can read and write them, dense.
template <class F>
void in_place(const Tensor& t, const F& f) {
  if (t.device() == Device::cpu && t.is_contiguous()) return f(t);
  const Tensor host = host_tensor(t.shape(), t.dtype());
  host.copy_from(t);
  f(host);
  t.copy_from(host);
}

template <class T>
void add_parts(std::span<T> own, std::span<const T> others, std::size_t rank, Reduce reduce) {
  const std::size_t n = own.size(), parts = others.size() / std::max<std::size_t>(n, 1);
  constexpr std::size_t kBlock = 4096;  // numbers: sums stay in the cache
  std::vector<T> sum(std::min(n, kBlock));
  for (std::size_t first = 0; first < n; first += kBlock) {
    const std::size_t count = std::min(kBlock, n - first);
    for (std::size_t p = 0; p <= parts; ++p) {
      const T* from = p == rank ? &own[first] : &others[(p < rank ? p : p - 1) * n + first];
      if (p == 0) {
        std::copy_n(from, count, sum.begin());
      } else if (reduce == Reduce::sum) {
        for (std::size_t i = 0; i < count; ++i) sum[i] += from[i];
      } else {
        for (std::size_t i = 0; i < count; ++i) sum[i] = std::max(sum[i], from[i]);
      }
    }
    std::copy_n(sum.begin(), count, &own[first]);
  }
}

template <class T>
std::span<T> numbers(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

void check_reducible(const Tensor& t, const char* operation) {
  if (t.dtype() != DType::f32 && t.dtype() != DType::f64)
    fail(ErrorCode::unsupported, "sums over ranks are made in f32 or f64, not " + std::string(name_of(t.dtype())),
         operation, "convert it first");
}

// Where each rank's part begins, in bytes; the last is the end.
std::vector<std::size_t> starts_of(std::span<const std::int64_t> counts, std::size_t bytes) {
  std::vector<std::size_t> starts{0};
  for (const std::int64_t n : counts) starts.push_back(starts.back() + static_cast<std::size_t>(n) * bytes);
  return starts;
}

void check_rows(const Tensor& t, std::int64_t rows) {
  if (t.dim(0) != rows)
    fail(ErrorCode::shape, "a part of shape " + t.shape().text() + " where " + std::to_string(rows) + " rows belong");
}

}  // namespace

Group::Group() : state_(std::make_shared<State>()), members_{0} {}

Group::Group(std::shared_ptr<Transport> transport, std::string name)
    : transport_(std::move(transport)),
      state_(std::make_shared<State>()),
      members_(static_cast<std::size_t>(transport_->size())),
      rank_(transport_->rank()),
      name_(std::move(name)) {
  std::iota(members_.begin(), members_.end(), 0);
}

void Group::exchange(const char* operation, std::span<const Outgoing> out, std::span<const Incoming> in) const {
  Traffic& traffic = state_->traffic[operation];
  ++traffic.calls;
  std::vector<Outgoing> sends;
  std::vector<Incoming> receives;
  for (const Outgoing& o : out) {
    if (o.bytes.empty()) continue;
    traffic.sent += o.bytes.size();
    sends.push_back({world(o.to), o.bytes});
  }
  for (const Incoming& i : in) {
    if (i.bytes.empty()) continue;
    traffic.received += i.bytes.size();
    receives.push_back({world(i.from), i.bytes});
  }
  transport_->exchange({operation, name_, ++state_->calls, state_->channel}, sends, receives);
}

// Part i of `all` is rank i's: everybody gets everything.
void Group::gather_parts(const char* operation, Bytes all, std::span<const std::size_t> starts) const {
  const auto part = [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    return all.subspan(starts[at], starts[at + 1] - starts[at]);
  };
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (int i = 0; i < size(); ++i) {
    if (i == rank_) continue;
    out.push_back({i, part(rank_)});
    in.push_back({i, part(i)});
  }
  exchange(operation, out, in);
}

// Part `rank` of t becomes the sum of everybody's; the rest stays.
void Group::reduce_parts(const char* operation, const Tensor& t, std::span<const std::size_t> starts,
                         Reduce reduce) const {
  const Bytes all = bytes_of(t);
  const auto part = [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    return all.subspan(starts[at], starts[at + 1] - starts[at]);
  };
  const Bytes own = part(rank_);
  const std::size_t others = own.size() * static_cast<std::size_t>(size() - 1);
  const auto scratch = std::make_unique_for_overwrite<std::byte[]>(others);
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  std::byte* to = scratch.get();
  for (int i = 0; i < size(); ++i) {
    if (i == rank_) continue;
    out.push_back({i, part(i)});
    in.push_back({i, {to, own.size()}});
    to += own.size();
  }
  exchange(operation, out, in);
  const auto rank = static_cast<std::size_t>(rank_);
  const Bytes got(scratch.get(), others);
  if (t.dtype() == DType::f32)
    add_parts<float>(numbers<float>(own), numbers<float>(got), rank, reduce);
  else
    add_parts<double>(numbers<double>(own), numbers<double>(got), rank, reduce);
}

void Group::all_reduce(const Tensor& t, Reduce reduce) const {
  if (size() == 1) return;
  check_reducible(t, "all_reduce");
  in_place(t, [&](const Tensor& host) {
    std::vector<std::size_t> starts;
    for (int i = 0; i <= size(); ++i)
      starts.push_back(static_cast<std::size_t>(part_begin(host.numel(), size(), i)) * size_of(host.dtype()));
    reduce_parts("all_reduce", host, starts, reduce);
    gather_parts("all_reduce", bytes_of(host), starts);
  });
}

Tensor Group::all_gather(const Context& context, const Tensor& t) const {
  if (size() == 1) return t.contiguous(context);
  std::vector<std::int64_t> rows;
  const auto own = static_cast<double>(t.dim(0));
  for (const double n : all_gather(std::span(&own, 1))) rows.push_back(static_cast<std::int64_t>(n));
  return all_gather(context, t, rows);
}

Tensor Group::all_gather(const Context& context, const Tensor& t, std::span<const std::int64_t> rows) const {
  if (size() == 1) return t.contiguous(context);
  const std::int64_t total = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  const Tensor all = host_room(context, t.shape().with(0, total), t.dtype());
  const std::size_t row_bytes = total == 0 ? 0 : all.bytes() / static_cast<std::size_t>(total);
  const std::vector<std::size_t> starts = starts_of(rows, row_bytes);
  const auto own = static_cast<std::size_t>(rank_);
  const std::int64_t begin = std::accumulate(rows.begin(), rows.begin() + rank_, std::int64_t{0});
  check_rows(t, rows[own]);
  if (rows[own] > 0) all.slice(0, begin, begin + rows[own]).copy_from(t);
  gather_parts("all_gather", bytes_of(all), starts);
  return context.device() == Device::cpu ? all : all.clone(context);
}

Tensor Group::reduce_scatter(const Context& context, const Tensor& t, std::span<const std::int64_t> rows) const {
  if (size() == 1) return t.contiguous(context);
  check_reducible(t, "reduce_scatter");
  const std::int64_t total = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  check_rows(t, total);
  const Tensor host = host_tensor(t.shape(), t.dtype());  // others' sums need room anyway, and t stays as it was
  host.copy_from(t);
  reduce_parts("reduce_scatter", host, starts_of(rows, total == 0 ? 0 : t.bytes() / static_cast<std::size_t>(total)),
               Reduce::sum);
  const std::int64_t begin = std::accumulate(rows.begin(), rows.begin() + rank_, std::int64_t{0});
  return host.slice(0, begin, begin + rows[static_cast<std::size_t>(rank_)]).clone(context);
}

std::vector<Tensor> Group::all_to_all(const Context& context, std::span<const Tensor> to,
                                      std::span<const Shape> shapes) const {
  if (size() == 1) return {to[0].contiguous(context)};
  std::vector<Tensor> sent, got;
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (int i = 0; i < size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    sent.push_back(on_host(to[at]));
    got.push_back(i == rank_ ? sent[at] : host_room(context, shapes[at], to[at].dtype()));
    if (i == rank_) continue;
    out.push_back({i, bytes_of(sent[at])});
    in.push_back({i, bytes_of(got[at])});
  }
  exchange("all_to_all", out, in);
  if (context.device() != Device::cpu)
    for (Tensor& t : got) t = t.clone(context);
  return got;
}

void Group::broadcast(const Tensor& t, int from) const {
  if (size() == 1) return;
  in_place(t, [&](const Tensor& host) {
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    if (rank_ != from) in.push_back({from, bytes_of(host)});
    for (int i = 0; i < size() && rank_ == from; ++i)
      if (i != rank_) out.push_back({i, bytes_of(host)});
    exchange("broadcast", out, in);
  });
}

void Group::send(const Tensor& t, int to) const {
  const Tensor host = on_host(t);
  const Outgoing out{to, bytes_of(host)};
  exchange("send", std::span(&out, 1), {});
}

void Group::receive(const Tensor& t, int from) const {
  in_place(t, [&](const Tensor& host) {
    const Incoming in{from, bytes_of(host)};
    exchange("receive", {}, std::span(&in, 1));
  });
}

void Group::shift(const Tensor& out, int to, const Tensor& in, int from) const {
  if (size() == 1) return in.copy_from(out);
  const Tensor sent = on_host(out);
  in_place(in, [&](const Tensor& host) {
    const Outgoing o{to, bytes_of(sent)};
    const Incoming i{from, bytes_of(host)};
    exchange("shift", std::span(&o, 1), std::span(&i, 1));
  });
}

void Group::barrier() const {
  if (size() == 1) return;
  std::vector<std::byte> here(static_cast<std::size_t>(size()));
  std::vector<std::size_t> starts(here.size() + 1);
  std::iota(starts.begin(), starts.end(), std::size_t{0});
  gather_parts("barrier", here, starts);
}

std::vector<double> Group::all_gather(std::span<const double> numbers) const {
  std::vector<double> all(numbers.size() * static_cast<std::size_t>(size()));
  std::copy(numbers.begin(), numbers.end(), all.begin() + static_cast<std::ptrdiff_t>(numbers.size()) * rank_);
  if (size() == 1) return all;
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(size()), std::ssize(numbers));
  gather_parts("all_gather", std::as_writable_bytes(std::span(all)), starts_of(counts, sizeof(double)));
  return all;
}

std::vector<std::string> Group::all_gather(const std::string& bytes) const {
  if (size() == 1) return {bytes};
  const auto length = static_cast<double>(bytes.size());
  std::vector<std::int64_t> sizes;
  for (const double n : all_gather(std::span(&length, 1))) sizes.push_back(static_cast<std::int64_t>(n));
  const std::vector<std::size_t> starts = starts_of(sizes, 1);
  std::string all(starts.back(), '\0');
  all.replace(starts[static_cast<std::size_t>(rank_)], bytes.size(), bytes);
  gather_parts("all_gather", std::as_writable_bytes(std::span(all)), starts);
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < sizes.size(); ++i) parts.push_back(all.substr(starts[i], starts[i + 1] - starts[i]));
  return parts;
}

void Group::fail(const Error& error) const noexcept {
  if (transport_ != nullptr) transport_->fail(error);
}

// Channels are numbered so that no two groups that share a pair of ranks have the same: from what every member has
// used so far the next one of all.
Group Group::split(int colour, std::string name) const {
  Group part;
  if (size() == 1) {
    part.name_ = std::move(name);
    return part;
  }
  const double mine[] = {static_cast<double>(colour), static_cast<double>(transport_->next_channel())};
  const std::vector<double> all = all_gather(mine);
  part.members_.clear();
  double channel = 0.0;
  for (int i = 0; i < size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    channel = std::max(channel, all[2 * at + 1]);
    if (all[2 * at] != mine[0]) continue;
    if (i == rank_) part.rank_ = static_cast<int>(part.members_.size());
    part.members_.push_back(members_[at]);
  }
  part.transport_ = transport_;
  part.state_->channel = static_cast<std::uint64_t>(channel);
  transport_->use_channels(part.state_->channel + 1);
  part.name_ = std::move(name);
  return part;
}

}  // namespace fovea::dist
