// The tile table: one row per class of card. A row runs on every card that has its shared
// memory and at least its capability; code for older architectures leaves it out.
#pragma once

#include <cute/config.hpp>

#include "api.h"

namespace ragged_attention {

// Strips are 16 rows of an MMA that one warp owns. With one strip its own operand stays in registers;
// with two, each fragment read from shared memory feeds two products, and the operand is read again.
constexpr int kKeyRows = 32;  // rows a stage of the key kernel

template <int kPairs_, int kStrips_, int kStages_, int kCtas_>
struct KeyShape {
  static constexpr int kPairs = kPairs_;  // of warps; a CTA has kPairs x kStrips x 16 keys
  static constexpr int kStrips = kStrips_;
  static constexpr int kStages = kStages_;
  static constexpr int kCtas = kCtas_;  // at a time on a multiprocessor
  static constexpr int kKeys = kPairs * kStrips * 16;
};

// What a block of kKeyRows rows past the keys of a tile costs, in percent of that of a whole tile.
struct KeyCosts {
  int narrow_keys;   // at most so many take one strip a warp
  int narrow, wide;  // whatever the number of keys
  int per_pairs;     // for each 32 keys, or two pairs of warps, one warp on each scheduler

  CUTE_HOST_DEVICE constexpr int row_block(int keys) const {
    return (keys <= narrow_keys ? narrow : wide) + (keys + 31) / 32 * per_pairs;
  }
};

struct TilesSm86 {
  static constexpr Tiles kRow = Tiles::kSm86;
  static constexpr char const* kName = "sm86";
  static constexpr int kMinCapability = 86;
  static constexpr int kMaxSharedMemory = 101376;  // bytes a block may have

  // Row kernel: kRows rows a CTA, kRowKeys keys a stage.
  static constexpr int kRowWarps = 8;
  static constexpr int kRowStrips = 1;
  static constexpr int kRows = kRowWarps * kRowStrips * 16;
  static constexpr int kRowKeys = 32;
  static constexpr int kRowStages = 4;

  using LongKeys = KeyShape<6, 1, 4, 1>;
  using ShortKeys = LongKeys;
  static constexpr KeyCosts kKeyCosts{0, 0, 49, 17};  // of LongKeys, as measured
  static constexpr int kKeyTeam = 4;  // CTAs at most that read rows together: device memory is slow

  // Resident row kernel: in kResidentBytes of shared memory K and V of at most kResidentKeys keys, and weights
  // beside them; taken for sequences of at most kResidentMeanKeys keys on average.
  static constexpr int kResidentWarps = 8;
  static constexpr int kResidentBytes = 98560;
  static constexpr int kResidentKeys = 144;
  static constexpr int kResidentMeanKeys = 256;
};

struct TilesSm90 {
  static constexpr Tiles kRow = Tiles::kSm90;
  static constexpr char const* kName = "sm90";
  static constexpr int kMinCapability = 90;
  static constexpr int kMaxSharedMemory = 232448;

  static constexpr int kRowWarps = 8;
  static constexpr int kRowStrips = 2;
  static constexpr int kRows = kRowWarps * kRowStrips * 16;
  static constexpr int kRowKeys = 32;
  static constexpr int kRowStages = 3;

  using LongKeys = KeyShape<4, 2, 4, 1>;
  using ShortKeys = KeyShape<2, 2, 3, 2>;  // fewer keys past a short sequence's end
  static constexpr KeyCosts kKeyCosts{64, 70, 100, 0};
  static constexpr int kKeyTeam = 1;

  static constexpr int kResidentWarps = 8;
  static constexpr int kResidentBytes = 229632;
  static constexpr int kResidentKeys = 352;
  static constexpr int kResidentMeanKeys = 304;
};

#ifdef __CUDA_ARCH__
template <class TileRow>
constexpr bool kCompiledHere = __CUDA_ARCH__ >= 10 * TileRow::kMinCapability;
#else
template <class TileRow>
constexpr bool kCompiledHere = true;
#endif

}  // namespace ragged_attention
