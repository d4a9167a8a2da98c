#include "data/prefetch.h"

namespace fovea {

Prefetcher::Prefetcher(const Context& context, const Split& split, Batches batches, std::size_t ahead,
                       const BatchShare& share)
    : context_(context), split_(&split), batches_(std::move(batches)), ahead_(ahead), share_(share) {
  if (ahead_ > 0) thread_ = std::thread([this] { work(); });
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Prefetcher::Item Prefetcher::make(const Context& context) {
  const auto pass = [this](std::int64_t count) {
    while (count-- > 0) batches_.plan();
  };
  if (taken_ == 0) pass(share_.first);
  const BatchPlan plan = batches_.plan();
  if (++taken_ == share_.count) {
    taken_ = 0;
    pass(share_.of - share_.first - share_.count);
  }
  return {to_device(context_, plan.make(context, *split_)), batches_.position()};
}

Prefetcher::Item Prefetcher::next() {
  if (ahead_ == 0) return make(context_);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !ready_.empty() || failure_; });
  if (ready_.empty()) std::rethrow_exception(failure_);
  Item item = std::move(ready_.front());
  ready_.pop_front();
  lock.unlock();
  changed_.notify_all();
  return item;
}

// Batches are made by one thread, beside those that the model runs on, and on the host.
void Prefetcher::work() {
  try {
    const Context context({.threads = 1, .seed = context_.seed()});
    fill(context);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
  }
  changed_.notify_all();
}

void Prefetcher::fill(const Context& context) {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || ready_.size() < ahead_; });
      if (stop_) return;
    }
    Item item = make(context);
    {
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(item));
    }
    changed_.notify_all();
  }
}

}  // namespace fovea
