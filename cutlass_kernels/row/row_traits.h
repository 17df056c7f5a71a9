// Everything the row kernel knows at compile time.
#pragma once

#include "../device/mbarrier.h"
#include "../device/warp_mma.h"
#include "../ragged.h"
#include "../score.h"
#include "../tiles.h"
#include "row_score.h"

namespace ragged_attention {

template <class Element_, class TileRow, ScoreKind kKind_>
struct RowTraits {
  using Element = Element_;
  static constexpr ScoreKind kKind = kKind_;
  static constexpr bool kCompiled = kCompiledHere<TileRow>;
  static constexpr int kWarps = TileRow::kRowWarps;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kStrips = TileRow::kRowStrips;  // of 16 rows a warp
  static constexpr int kWarpRows = kStrips * 16;
  static constexpr int kBlockM = kWarps * kWarpRows;  // rows: (query token, head) pairs
  static constexpr int kBlockN = TileRow::kRowKeys;   // keys
  static constexpr int kStages = TileRow::kRowStages;

  using OwnSource = FragmentSource<Element, kWarpRows, Order::kRowsFirst>;
  using FeatureSource = FragmentSource<Element, kBlockN, Order::kChunksFirst>;
  using TokenSource = FragmentSource<Element, kBlockN, Order::kRowsFirst>;
  using Operand = WarpOperand<Element, kStrips, kWarpRows>;
  using Scores = SharedRowScores;

  struct alignas(128) Stage {
    Element k[kBlockN * kHeadDim];  // (N,160)
    Element v[kBlockN * kHeadDim];  // (N,160)
  };
  struct alignas(128) Operands {
    Element q[kWarps][kWarpRows * kHeadDim];     // (M,160) each
    Element dout[kWarps][kWarpRows * kHeadDim];  // (M,160) each
  };

  // With its operands in registers the ring may use the memory they came through.
  static constexpr bool kRingReusesOperands = kStrips == 1;
  union OneAfterTheOther {
    Operands operands;
    Stage stages[kStages];
  };
  struct SideBySide {
    Operands operands;
    Stage stages[kStages];
  };
  static_assert(!kRingReusesOperands || kStages / 2 * sizeof(Stage) <= sizeof(Operands::q),
                "half the ring lies where q came through");

  struct SharedStorage {
    union {
      TileSearch search;
      std::conditional_t<kRingReusesOperands, OneAfterTheOther, SideBySide> tiles;
    };
    Tile tile;
    Range rows;  // of the tile's sequence
    RowScore scores[kBlockM];
    uint64_t full[kStages];
    uint64_t empty[kStages];
  };
  static_assert(sizeof(SharedStorage) <= TileRow::kMaxSharedMemory,
                "more shared memory than one CTA has");
  static_assert(kThreads == 2 * kBlockN * 4, "a thread copies one quarter row of K or V a stage");
};

}  // namespace ragged_attention
