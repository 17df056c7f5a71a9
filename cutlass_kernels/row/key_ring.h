// The stream of K and V tiles that all warps of a row CTA read, once a sweep.
#pragma once

#include "../params.h"
#include "row_traits.h"

namespace ragged_attention {

template <class T>
struct KeyRing {
  using Element = typename T::Element;
  static constexpr int kStageElements = sizeof(typename T::Stage) / sizeof(Element);

  typename T::SharedStorage& shared;
  Element const* source;  // this thread's chunk of the first row of K or V
  int64_t stride;         // elements between rows
  Element* target;        // where its row of a tile goes in stage 0
  int row;                // its row within a tile
  int keys;
  int next_key = 0;       // first key of the next tile to copy
  int remaining;          // tiles left to copy
  RingPosition<T::kStages> position;

  CUTE_DEVICE KeyRing(typename T::SharedStorage& shared, Problem const& p, Tile const& tile,
                      int sweeps)
      : shared(shared), keys(tile.keys) {
    int const chunk = threadIdx.x % 4;
    bool const is_v = threadIdx.x >= T::kBlockN * 4;
    View const& view = is_v ? p.v : p.k;
    auto& stage = shared.tiles.stages[0];
    stride = view.token_stride;
    row = threadIdx.x / 4 % T::kBlockN;
    source = static_cast<Element const*>(view.data) + tile.k_begin * stride + chunk * 8;
    target = chunk_address<T::kBlockN>(is_v ? stage.v : stage.k, row, chunk);
    remaining = sweeps * ((keys + T::kBlockN - 1) / T::kBlockN);
  }

  // One thread of the CTA; a CTA barrier has to follow.
  CUTE_DEVICE static void init_barriers(typename T::SharedStorage& shared) {
    for (int stage = 0; stage < T::kStages; ++stage) {
      mbarrier_init(&shared.full[stage], T::kThreads);
      mbarrier_init(&shared.empty[stage], T::kWarps);
    }
  }

  CUTE_DEVICE void copy_next(int stage) {
    --remaining;
    bool const valid = next_key + row < keys;
    copy_row_async<T::kBlockN>(source + (valid ? next_key + row : 0) * stride,
                               target + stage * kStageElements, valid);
    mbarrier_arrive_when_copied(&shared.full[stage]);
    next_key += T::kBlockN;
    if (next_key >= keys) next_key = 0;
  }

  // All stages but one, which stays free for the slowest warp.
  CUTE_DEVICE void fill() {
    for (int stage = 0; stage < T::kStages - 1 && remaining > 0; ++stage) copy_next(stage);
  }

  // Waits for the next tile; its offset in elements from stage 0.
  CUTE_DEVICE int acquire() const {
    mbarrier_wait(&shared.full[position.stage], position.parity);
    return position.stage * kStageElements;
  }

  // This warp has read the tile; refills the stage that all warps have left by now, or soon.
  CUTE_DEVICE void release() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(&shared.empty[position.stage]);
    if (remaining > 0) {
      auto const refill = position.refill();
      mbarrier_wait(&shared.empty[refill.stage], refill.parity ^ 1);
      copy_next(refill.stage);
    }
    position.advance();
  }
};

}  // namespace ragged_attention
