#pragma once

#include <vector>

#include "fovea/tensor.h"
#include "ops/spans.h"

// Tokens sorted by a hash of their keys, and cut into chunks that read themselves and the chunk before. Tensors are
// dense, and of all heads: each sorts by itself.
namespace fovea {

struct Chunks {
  struct Chunk {
    std::int64_t begin = 0, count = 0;  // sorted places, as rows of the item
    bool follows = false;               // the chunk before it in the list, which is full, is of its sequence
  };

  std::int64_t width;       // places that a chunk has room for
  std::int64_t each;        // chunks of an item
  std::vector<Chunk> list;  // item after item; empty ones where an item has fewer
};

}  // namespace fovea

namespace fovea::kernels {

// bucket i64 (b, n, heads): the largest of [x ; -x] among the first directions[s] of x (b, n, heads, directions), for
// the rows of sequence s.
struct FindBuckets {
  Tensor x, bucket;
  const RowList* sequences;
  const std::vector<std::int64_t>* directions;
};
template <Device>
void find_buckets(const Context& context, const FindBuckets& io);

// Of order i32 (b, n, heads), the token at each place: the tokens of every chunk, own i32 (b, each width, heads), and
// those of the chunk before and its own, both i32 (b, each 2 width, heads), -1 where there is none; and place i32 (b,
// n, heads), where in `own` each token stands.
struct CutChunks {
  Tensor order, own, both, place;
  const Chunks* chunks;
};
template <Device>
void cut_chunks(const Context& context, const CutChunks& io);

// What one round knows of its tokens, as above, and the bias of its chunks (b each, heads, width, 2 width): -inf where
// a pair is not seen. A token sees itself only when it sees nobody else, in no round.
struct HashRound {
  Tensor bucket, place, both, bias;
};
struct SeenPairs {
  std::vector<HashRound> rounds;
  const Chunks* chunks;
  bool causal, across;  // across: also tokens of other buckets
  bool once;            // a pair that meets in several rounds shares its weight among them
};
template <Device>
void write_seen_pairs(const Context& context, const SeenPairs& io);

}  // namespace fovea::kernels
