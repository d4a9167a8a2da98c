#pragma once

#include "inspect/call.h"
#include "inspect/sink.h"

namespace fovea::inspection {

// The map of any mechanism whose output is linear in v, without knowing it: row i is what the gradient of output i is
// with respect to the values. A forward and a backward pass give as many rows of every head as v has channels.
class GradientSource final : public MapSource {
 public:
  // inside: the value to differentiate is the last that an engine gave, before a norm; factor: on it.
  GradientSource(SequenceCall call, bool inside, double factor)
      : call_(std::move(call)), inside_(inside), factor_(factor) {}
  void rows(const Context& context, const tile::WantedRows& wanted, MapSink& sink) const override;

 private:
  SequenceCall call_;
  bool inside_;
  double factor_;
};

// The same where every channel has a map of its own that depends on the distance alone (state spaces): the mean over
// channels, from the first and the last row.
class ToeplitzSource final : public MapSource {
 public:
  explicit ToeplitzSource(SequenceCall call) : call_(std::move(call)) {}
  void rows(const Context& context, const tile::WantedRows& wanted, MapSink& sink) const override;

 private:
  SequenceCall call_;
};

// Where values are mixed channel by channel (the largest of several, a convolution): the mean over the channels of what
// a row of the output changes by when all channels of a token do, at the values that are there. A forward and a
// backward pass for each row.
class ChannelMeanSource final : public MapSource {
 public:
  explicit ChannelMeanSource(SequenceCall call) : call_(std::move(call)) {}
  static bool is_for(const Mechanism& mechanism);
  void rows(const Context& context, const tile::WantedRows& wanted, MapSink& sink) const override;

 private:
  SequenceCall call_;
};

}  // namespace fovea::inspection
