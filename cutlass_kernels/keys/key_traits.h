// Everything the key kernel knows at compile time.
#pragma once

#include "../device/mbarrier.h"
#include "../device/warp_mma.h"
#include "../ragged.h"
#include "../score.h"
#include "../tiles.h"
#include "key_partition.h"

namespace ragged_attention {

template <class Element_, class TileRow, class Shape, ScoreKind kKind_>
struct KeyTraits {
  using Element = Element_;
  static constexpr ScoreKind kKind = kKind_;
  static constexpr int kPairs = Shape::kPairs;  // of warps; a pair shares its keys
  static constexpr int kWarps = 2 * kPairs;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kStrips = Shape::kStrips;  // of 16 keys a pair
  static constexpr int kPairKeys = kStrips * 16;
  static constexpr int kBlockN = kPairs * kPairKeys;  // keys
  static constexpr int kBlockM = kKeyRows;            // rows: (query token, head) pairs
  static constexpr int kStages = Shape::kStages;
  // The last warps of the CTA copy, all of them dK warps: the dV warps have the exponentials to do.
  static constexpr int kCopyThreads = kPairs * 32 < 4 * kBlockM ? kPairs * 32 : 4 * kBlockM;
  static constexpr int kCopyRows = 4 * kBlockM / kCopyThreads;  // a thread's, of each tile

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

  // Pairs whose keys are all past a sequence's end spare their products. Measured: where tiles also come half
  // as wide, the branch costs more than that gains.
  static constexpr bool kPairsMayIdle = kStrips == 1 && TileRow::LongKeys::kStrips == 1;

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
  static_assert(kCopyRows <= 2, "KernelParams::copy_step leads to a thread's second row");
};

// A kernel's two ways with a tile: as wide as its shape, or, for what is left of a sequence's keys at its
// end, half as wide, with one strip a warp.
template <class Element, class TileRow, class Shape, ScoreKind kKind>
struct KeyKernelTraits {
  using Wide = KeyTraits<Element, TileRow, Shape, kKind>;
  using Narrow =
      KeyTraits<Element, TileRow, KeyShape<Shape::kPairs, 1, Shape::kStages, Shape::kCtas>, kKind>;
  static constexpr bool kCompiled = kCompiledHere<TileRow>;
  static constexpr int kThreads = Wide::kThreads;
  static constexpr int kBlockN = Wide::kBlockN;
  static constexpr int kCtas = Shape::kCtas;  // at a time on a multiprocessor
  static constexpr bool kHasNarrow = Wide::kStrips > 1;
  CUTE_HOST_DEVICE static constexpr KeyTiling tiling() {
    return {kBlockN, TileRow::kKeyTeam, TileRow::kKeyCosts};
  }

  struct SharedStorage {
    union {
      TileSearch search;
      KeyPartitionStorage<kThreads> partition;
      typename Wide::SharedStorage wide;
      typename Narrow::SharedStorage narrow;
    };
    KeyPlace place;
    KeyPart part;
  };
  static_assert(TileRow::kKeyTeam <= kLargestTeam, "there is no line for such teams");
  static_assert(kCtas * (sizeof(SharedStorage) + 1024) <= TileRow::kMaxSharedMemory + 1024,
                "more shared memory than the CTAs of a multiprocessor have");
};

}  // namespace ragged_attention
