// What a row contributes to its scores; one 16-byte read.
#pragma once

namespace ragged_attention {

struct alignas(16) RowScore {
  float neg_slope;      // log2 units
  float position;       // of the query on the key axis
  float neg_reference;  // log2 units: the exponent's reference, then -lse
  float neg_delta;
};

}  // namespace ragged_attention
