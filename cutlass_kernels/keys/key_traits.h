// Everything the key kernel knows at compile time.
#pragma once

#include "../device/mbarrier.h"
#include "../device/warp_mma.h"
#include "../score.h"
#include "../tiles.h"

namespace ragged_attention {

template <class Element_, class TileRow, ScoreKind kKind_>
struct KeyTraits {
  using Element = Element_;
  static constexpr ScoreKind kKind = kKind_;
  static constexpr bool kCompiled = kCompiledHere<TileRow>;
  static constexpr int kPairs = TileRow::kKeyPairs;    // of warps; a pair shares its keys
  static constexpr int kWarps = 2 * kPairs;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kStrips = TileRow::kKeyStrips;  // of 16 keys a pair
  static constexpr int kPairKeys = kStrips * 16;
  static constexpr int kBlockN = kPairs * kPairKeys;   // keys
  static constexpr int kBlockM = TileRow::kKeyRows;    // rows: (query token, head) pairs
  static constexpr int kStages = TileRow::kKeyStages;
  static constexpr int kCopyThreads = 4 * kBlockM;     // the first of the dK warps

  using OwnSource = FragmentSource<Element, kPairKeys, Order::kRowsFirst>;
  using FeatureSource = FragmentSource<Element, kBlockM, Order::kChunksFirst>;
  using TokenSource = FragmentSource<Element, kBlockM, Order::kRowsFirst>;
  using Operand = WarpOperand<Element, kStrips, kPairKeys>;

  struct alignas(128) Stage {
    Element q[kBlockM * kHeadDim];     // (M,160)
    Element dout[kBlockM * kHeadDim];  // (M,160)
    float neg_lse[kBlockM];            // log2 units
    float neg_slope[kBlockM];          // log2 units
    float position[kBlockM];           // of the query on the key axis
    float neg_delta[kBlockM];
  };
  struct alignas(128) PairOperands {
    Element k[kPairKeys * kHeadDim];  // (N,160)
    Element v[kPairKeys * kHeadDim];  // (N,160)
  };

  // With its operands in registers the ring may use the memory they came through.
  static constexpr bool kRingReusesOperands = kStrips == 1;
  union OneAfterTheOther {
    PairOperands operands[kPairs];
    Stage stages[kStages];
  };
  struct SideBySide {
    PairOperands operands[kPairs];
    Stage stages[kStages];
  };

  // u = P (1 - t^2) on its way from the dV warp of a pair to the dK warp: A fragments, 16-bit.
  static constexpr int kFragments = kStrips * kBlockM / 16;
  struct Exchange {
    uint4 weights[2][kFragments][32];
  };

  struct SharedStorage {
    std::conditional_t<kRingReusesOperands, OneAfterTheOther, SideBySide> tiles;
    Exchange exchange[kPairs];
    float neg_slopes[kMaxHeads];  // log2 units
    uint64_t full[kStages];
    uint64_t empty[kStages];
    uint64_t handed[kPairs][2];  // weights are there
    uint64_t taken[kPairs][2];   // weights have been read
  };
  static_assert(sizeof(SharedStorage) <= TileRow::kMaxSharedMemory,
                "more shared memory than one CTA has");
  static_assert(kCopyThreads <= kPairs * 32, "the dK warps copy");
};

}  // namespace ragged_attention
