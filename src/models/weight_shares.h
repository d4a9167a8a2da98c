#pragma once

#include <span>
#include <string>
#include <vector>

#include "dist/group.h"
#include "fovea/model.h"
#include "nn/layer_weights.h"
#include "tensor/droppable.h"

namespace fovea {

// The trained weights of the layers of a model, of which each rank keeps a share of every layer. They begin whole.
class WeightShares : public nn::LayerWeights {
 public:
  // A call of all ranks. The parameters are those of one stack, and of other things, which stay whole.
  WeightShares(const Context& context, std::span<const Parameter> parameters, const dist::Group& ranks);

  Tensor room(std::string_view name) const override;
  void open(std::int64_t layer) override;
  void close(std::int64_t layer) override;

  const Tensor& share(std::int64_t layer) const { return at(layer).share; }  // this rank's numbers, one after another
  void take() const;                                                         // shares of what is whole, of all layers
  void open_all();
  void close_all();

  std::size_t whole_bytes() const { return now_; }  // of layers that are open
  std::size_t most() const { return peak_; }        // at once, since all were closed for the first time
  std::size_t share_bytes() const;

 private:
  struct Placed {
    std::string name;
    Shape shape;
    std::size_t begin;  // bytes
  };
  struct Layer {
    std::vector<Placed> parameters;
    std::vector<std::int64_t> rows;  // numbers of each rank
    Droppable whole;
    Tensor all, share;  // flat: all numbers, where they are whole, and this rank's
    bool open = true;
  };
  const Layer& at(std::int64_t layer) const { return layers_[static_cast<std::size_t>(layer)]; }

  const Context& context_;
  dist::Group ranks_;
  DType dtype_;
  std::vector<Layer> layers_;
  std::size_t now_ = 0, peak_ = 0;
  bool begun_ = false;
};

// All weights of a model are whole while one of these lives: a call of all ranks. Where none is divided nothing
// happens.
class WholeWeights {
 public:
  explicit WholeWeights(const Model& model);
  ~WholeWeights();
  WholeWeights(const WholeWeights&) = delete;
  WholeWeights& operator=(const WholeWeights&) = delete;

 private:
  WeightShares* shares_;
};

}  // namespace fovea
