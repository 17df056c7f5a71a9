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
  static constexpr int kWarpRows = 16;                          // rows of a warp's block
  static constexpr int kBlockN = 16;                            // keys a step
  static constexpr int kResidentKeys = TileRow::kResidentKeys;  // in shared memory
  // a running maximum that rises would change weights
  static constexpr bool kWeigh = kKind == ScoreKind::kBounded;
  static constexpr int kRoom = TileRow::kResidentBytes;
  CUTE_HOST_DEVICE static constexpr StepRoom room() {
    return {kWeigh ? kRoom : 0, 2 * kBlockN * kHeadDim * int(sizeof(Element)),
            kThreads * int(sizeof(uint4))};
  }
  using Streamed = RowTraits<Element, TileRow, kKind>;  // of sequences with more keys
  static_assert(kThreads == Streamed::kThreads, "the same CTA does both");
  CUTE_HOST_DEVICE static constexpr BlockCosts block_costs() { return {kResidentKeys, room()}; }

  using FeatureSource = FragmentSource<Element, kBlockN, Order::kChunksFirst>;
  using TokenSource = FragmentSource<Element, kBlockN, Order::kRowsFirst>;
  using Operand = QuadOrderOperand<Element>;
  using Scores = RegisterRowScores;

  // Features in quad order.
  struct alignas(128) KeyStep {
    Element k[kBlockN * kHeadDim];  // (N,160)
    Element v[kBlockN * kHeadDim];  // (N,160)
  };
  // Keys from the front on; from the back on, weights P (1 - t^2) for sweep 2 of as many of the last steps
  // as there is room for: a lane's A fragment, 16-bit.
  struct Resident {
    float slopes[kMaxHeads];  // of the sequence
    alignas(128) char room[kRoom];

    CUTE_DEVICE KeyStep& keys(int step) { return reinterpret_cast<KeyStep*>(room)[step]; }
    CUTE_DEVICE KeyStep const& keys(int step) const {
      return reinterpret_cast<KeyStep const*>(room)[step];
    }
    // This lane's of the first of `steps`, whether they are kept or not; a step's are kThreads further on.
    CUTE_DEVICE uint4* weights(int steps) {
      return reinterpret_cast<uint4*>(room + kRoom) - steps * kThreads + threadIdx.x;
    }
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
  static_assert(!kWeigh || room().weighed(kResidentKeys / kBlockN) > 0,
                "the last step, which may reach past the keys, is weighed");
};

}  // namespace ragged_attention
