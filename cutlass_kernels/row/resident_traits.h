// Everything the resident row kernel knows at compile time.
#pragma once

#include "../device/quad_order.h"
#include "../score.h"
#include "../tiles.h"
#include "row_partition.h"
#include "row_score.h"
#include "row_traits.h"

namespace ragged_attention {

template <class Element_, class TileRow, ScoreKind kKind_>
struct ResidentTraits {
  using Element = Element_;
  static constexpr ScoreKind kKind = kKind_;
  static constexpr bool kCompiled = kCompiledHere<TileRow>;
  static constexpr int kWarps = TileRow::kResidentWarps;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kStrips = 1;
  static constexpr int kWarpRows = 16;                              // rows of a warp's block
  static constexpr int kBlockN = 16;                                // keys a step
  static constexpr int kResidentKeys = TileRow::kResidentKeys;      // in shared memory
  static constexpr int kWeighedSteps = TileRow::kWeighedKeys / 16;  // with weights beside them
  // a running maximum that rises would change weights
  static constexpr int kWeighedKeys = kKind == ScoreKind::kBounded ? TileRow::kWeighedKeys : 0;
  using Streamed = RowTraits<Element, TileRow, kKind>;  // of sequences with more keys
  static_assert(kThreads == Streamed::kThreads, "the same CTA does both");
  CUTE_HOST_DEVICE static constexpr BlockCosts block_costs() {
    return {kWeighedKeys, kResidentKeys};
  }

  using FeatureSource = FragmentSource<Element, kBlockN, Order::kChunksFirst>;
  using TokenSource = FragmentSource<Element, kBlockN, Order::kRowsFirst>;
  using Operand = QuadOrderOperand<Element>;
  using Scores = RegisterRowScores;

  // Features in quad order.
  struct alignas(128) KeyStep {
    Element k[kBlockN * kHeadDim];  // (N,160)
    Element v[kBlockN * kHeadDim];  // (N,160)
  };
  // w = P (1 - t^2) of a warp's rows: A fragments, 16-bit, between the sweeps.
  struct WeighedKeys {
    KeyStep keys[kWeighedSteps];
    uint4 weights[kWarps][kWeighedSteps][32];
  };
  struct Resident {
    union {
      KeyStep keys[kResidentKeys / kBlockN];
      WeighedKeys weighed;
    };
    float slopes[kMaxHeads];  // of the sequence
  };
  struct SharedStorage {
    union {
      Resident resident;
      typename Streamed::SharedStorage streamed;
    };
    RowPartition<kThreads> partition;
    Share share;
  };
  static_assert(sizeof(SharedStorage) <= TileRow::kMaxSharedMemory,
                "more shared memory than one CTA has");
};

}  // namespace ragged_attention
