#include "mechanisms/watch.h"

namespace fovea {
namespace {

thread_local AttentionWatch* t_watch = nullptr;

}  // namespace

AttentionWatch::AttentionWatch() : outer_(t_watch) { t_watch = this; }
AttentionWatch::~AttentionWatch() { t_watch = outer_; }
AttentionWatch* AttentionWatch::current() { return t_watch; }

}  // namespace fovea
