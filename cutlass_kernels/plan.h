// What the host decides before it launches, from totals alone.
#pragma once

#include <algorithm>

#include "api.h"
#include "tiles.h"

namespace ragged_attention {

// Into how many parts the rows of each sequence are split for dk and dv.
//
// Few key tiles leave multiprocessors idle, so they are split until there are about three CTAs for each;
// every split costs an fp32 copy of dk and dv, so with two tiles for each there is none.
inline int key_splits(Problem const& p, Tiles tiles, int multiprocessors) {
  int const block = tiles == Tiles::kSm90
                        ? TilesSm90::kKeyPairs * TilesSm90::kKeyStrips * 16
                        : TilesSm86::kKeyPairs * TilesSm86::kKeyStrips * 16;
  constexpr int64_t kMinRows = 1024;  // a split's start-up has to be worth it
  int64_t const expected_tiles = std::max<int64_t>(1, p.total_k / block + p.batch / 2);
  if (expected_tiles >= 2 * multiprocessors) return 1;
  int64_t const rows = p.total_q * p.heads / std::max(1, p.batch);
  int64_t const wanted = (3 * multiprocessors + expected_tiles - 1) / expected_tiles;
  return static_cast<int>(std::max<int64_t>(1, std::min(wanted, rows / kMinRows)));
}

}  // namespace ragged_attention
