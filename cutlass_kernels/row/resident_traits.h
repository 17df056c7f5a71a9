// Everything the resident row kernel knows at compile time.
#pragma once

#include "../device/warp_mma.h"
#include "../score.h"
#include "../tiles.h"
#include "row_partition.h"
#include "row_score.h"

namespace ragged_attention {

template <class Element_, class TileRow, ScoreKind kKind_>
struct ResidentTraits {
  using Element = Element_;
  static constexpr ScoreKind kKind = kKind_;
  static constexpr bool kCompiled = kCompiledHere<TileRow>;
  static constexpr int kWarps = TileRow::kResidentWarps;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kStrips = 1;
  static constexpr int kWarpRows = 16;                       // rows of a warp's tile
  static constexpr int kBlockN = 16;                         // keys a step
  static constexpr int kPanelKeys = TileRow::kResidentKeys;  // keys in shared memory

  using OwnSource = FragmentSource<Element, kWarpRows, Order::kRowsFirst>;
  using FeatureSource = FragmentSource<Element, kPanelKeys, Order::kChunksFirst>;
  using TokenSource = FragmentSource<Element, kPanelKeys, Order::kRowsFirst>;
  using Operand = RegisterOperand<Element, kStrips, kWarpRows>;

  struct alignas(128) SharedStorage {
    Element k[kPanelKeys * kHeadDim];            // (N,160)
    Element v[kPanelKeys * kHeadDim];            // (N,160)
    Element rows[kWarps][kWarpRows * kHeadDim];  // (M,160), q and dout in turn
    float neg_slopes[kMaxHeads];                 // of the sequence, log2 units
    RowScore scores[kWarps][kWarpRows];
    PartitionStorage<kThreads> partition;
    Tile tile;
  };
  static_assert(sizeof(SharedStorage) <= TileRow::kMaxSharedMemory,
                "more shared memory than one CTA has");
};

}  // namespace ragged_attention
