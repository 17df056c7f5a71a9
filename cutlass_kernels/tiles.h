// The tile table: one row per class of card. A row runs on every card that has its shared
// memory and at least its capability; code for older architectures leaves it out.
#pragma once

#include "api.h"

namespace ragged_attention {

// Strips are 16 rows of an MMA that one warp owns. With one strip its own operand stays in registers;
// with two, each fragment read from shared memory feeds two products, and the operand is read again.
struct TilesSm86 {
  static constexpr Tiles kRow = Tiles::kSm86;
  static constexpr char const* kName = "sm86";
  static constexpr int kMinCapability = 86;
  static constexpr int kMaxSharedMemory = 101376;  // bytes a block may have

  // Row kernel: kRowWarps x kRowStrips x 16 rows a CTA, kRowKeys keys a stage.
  static constexpr int kRowWarps = 8;
  static constexpr int kRowStrips = 1;
  static constexpr int kRowKeys = 32;
  static constexpr int kRowStages = 4;

  // Key kernel: kKeyPairs x kKeyStrips x 16 keys a CTA, kKeyRows rows a stage.
  static constexpr int kKeyPairs = 6;
  static constexpr int kKeyStrips = 1;
  static constexpr int kKeyRows = 32;
  static constexpr int kKeyStages = 4;
};

struct TilesSm90 {
  static constexpr Tiles kRow = Tiles::kSm90;
  static constexpr char const* kName = "sm90";
  static constexpr int kMinCapability = 90;
  static constexpr int kMaxSharedMemory = 232448;

  static constexpr int kRowWarps = 8;
  static constexpr int kRowStrips = 2;
  static constexpr int kRowKeys = 32;
  static constexpr int kRowStages = 3;

  static constexpr int kKeyPairs = 4;
  static constexpr int kKeyStrips = 2;
  static constexpr int kKeyRows = 32;
  static constexpr int kKeyStages = 4;
};

#ifdef __CUDA_ARCH__
template <class TileRow>
constexpr bool kCompiledHere = __CUDA_ARCH__ >= 10 * TileRow::kMinCapability;
#else
template <class TileRow>
constexpr bool kCompiledHere = true;
#endif

}  // namespace ragged_attention
