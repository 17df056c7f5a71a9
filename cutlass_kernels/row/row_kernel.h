// out and dq, by tiles of rows: two sweeps over the keys with q and dout loaded once.
//
// Sweep 1: S = Q K^T, O += P V. Then lse, and delta = dout . out from the finished row.
// Sweep 2: S and dP = dout V^T again, dQ += dX K.
#pragma once

#include "../device/store.h"
#include "key_ring.h"
#include "row_softmax.h"
#include "row_traits.h"

namespace ragged_attention {

// Rows without a key: out = dq = 0.
template <class T>
CUTE_DEVICE void store_zero_rows(Problem const& p, int64_t row, int rows) {
  int64_t const begin = row * kHeadDim / 8;
  for (int i = threadIdx.x; i < rows * (kHeadDim / 8); i += T::kThreads) {
    static_cast<uint4*>(p.out)[begin + i] = uint4{};
    static_cast<uint4*>(p.dq)[begin + i] = uint4{};
  }
}

// Starts the copies of this warp's rows of q and dout, and fills in their RowScores.
template <class T>
CUTE_DEVICE void load_rows(KernelParams const& params, Tile const& tile, int first_row, int rows,
                           typename T::WarpOperands& own, typename T::RowScore* scores, int lane) {
  using Element = typename T::Element;
  Problem const& p = params.problem;
  int const chunk = lane & 3;
  RowCursor cursor(first_row + lane / 4, p.heads);
  CUTE_UNROLL
  for (int i = 0; i < T::kWarpRows / 8; ++i, cursor.advance(8, p.heads)) {
    int const row = i * 8 + lane / 4;
    bool const valid = row < rows;
    int64_t const token = tile.q_begin + (valid ? cursor.token : 0);
    int const head = valid ? cursor.head : 0;
    auto row_of = [&](View const& view) {
      return static_cast<Element const*>(view.data) + token * view.token_stride +
             head * view.head_stride + chunk * 8;
    };
    copy_row_async<T::kWarpRows>(row_of(p.q), chunk_address<T::kWarpRows>(own.q, row, chunk),
                                 valid);
    copy_row_async<T::kWarpRows>(row_of(p.dout), chunk_address<T::kWarpRows>(own.dout, row, chunk),
                                 valid);
  }
  cp_async_fence();
  if (lane < T::kWarpRows) {
    RowCursor const own_row(first_row + lane, p.heads);
    bool const valid = lane < rows;
    float const neg_slope = valid ? neg_log2_slope(p, tile.sequence, own_row.head) : 0.0f;
    int const position = own_row.token + tile.shift();
    scores[lane] = {neg_slope, static_cast<float>(position),
                    neg_bias_maximum(neg_slope, position, tile.keys), 0.0f};
  }
}

// dP += dout V^T, and from S: dX = P (1 - t^2) (dP - delta), as an A operand ((2,2,2),M,N/2).
template <class T, class TensorS, class TensorP>
CUTE_DEVICE auto weigh_and_multiply(RowSoftmax<T> const& softmax, TensorS& tSrS, TensorP& tSrdP,
                                    typename T::Operand const& dout,
                                    typename T::FeatureSource const& sV, int key) {
  using Element = typename T::Element;
  if constexpr (T::kStrips == 1) {
    constexpr int kParts = kFeatureSteps * T::kBlockN / 16;
    multiply_over_features<Element>(tSrdP, dout, sV, [&](int part) {
      softmax.weigh(tSrS, key, part, kParts);
    });
    softmax.mask_keys(tSrS, key);
    CUTE_UNROLL
    for (int i = 0; i < size(tSrS); ++i) tSrdP(i) *= tSrS(i);
  } else {
    // 16-bit weights: registers are what two strips are short of
    softmax.weigh(tSrS, key, 0, 1);
    softmax.mask_keys(tSrS, key);
    Tensor const tSrW = pack_operand<Element>(tSrS);
    multiply_over_features<Element>(tSrdP, dout, sV);
    scale_by_operand<Element>(tSrdP, tSrW);
  }
  return pack_operand<Element>(tSrdP);
}

template <class T>
CUTE_DEVICE void row_cta(KernelParams const& params) {
  using Element = typename T::Element;
  extern __shared__ char shared_memory[];
  auto& shared = *reinterpret_cast<typename T::SharedStorage*>(shared_memory);
  Problem const& p = params.problem;
  int const warp = threadIdx.x / 32;
  int const lane = threadIdx.x % 32;

  Tile const tile = find_tile(params.q_segments(), params.k_segments(), /*own_is_q=*/true,
                              blockIdx.x, p.heads, T::kBlockM);
  int const first_row = tile.block * T::kBlockM;  // within the sequence
  int const rows = min(tile.queries * p.heads - first_row, T::kBlockM);
  if (rows <= 0) return;  // the grid is an upper bound
  int64_t const packed_row = tile.q_begin * p.heads + first_row;
  if (tile.keys == 0) return store_zero_rows<T>(p, packed_row, rows);

  auto& own = shared.tiles.operands[warp];
  auto* const scores = shared.rows + warp * T::kWarpRows;
  int const warp_row = warp * T::kWarpRows;
  load_rows<T>(params, tile, first_row + warp_row, rows - warp_row, own, scores, lane);
  if (threadIdx.x == 0) KeyRing<T>::init_barriers(shared);
  KeyRing<T> ring(shared, p, tile, /*sweeps=*/2);
  if constexpr (!T::kRingReusesOperands) {
    __syncthreads();
    ring.fill();
    cp_async_fence();
    cp_async_wait<1>();  // q and dout, but not the ring
  } else {
    cp_async_wait<0>();
  }
  __syncwarp();
  typename T::Operand const q(typename T::OwnSource(own.q, lane));        // (M,160)
  typename T::Operand const dout(typename T::OwnSource(own.dout, lane));  // (M,160)
  if constexpr (T::kRingReusesOperands) {
    __syncthreads();
    ring.fill();
  }

  auto const& first = shared.tiles.stages[0];
  typename T::FeatureSource const sK_features(first.k, lane), sV_features(first.v, lane);
  typename T::TokenSource const sK_tokens(first.k, lane), sV_tokens(first.v, lane);
  RowSoftmax<T> softmax(params.score, scores, tile.keys, lane);

  Tensor tOrO = make_accumulator<Element, T::kWarpRows, kHeadDim>();  // ((2,2),M,20)
  clear(tOrO);
  for (int key = 0; key < tile.keys; key += T::kBlockN) {
    Tensor tSrS = make_accumulator<Element, T::kWarpRows, T::kBlockN>();  // ((2,2),M,N)
    clear(tSrS);
    int const stage = ring.acquire();
    multiply_over_features<Element>(tSrS, q, sK_features.shifted(stage));
    Tensor const tOrP = softmax.probabilities(tSrS, tOrO, key);  // ((2,2,2),M,N/2)
    multiply_over_tokens<Element>(tOrO, tOrP, sV_tokens.shifted(stage));
    ring.release();
  }

  softmax.finish(tOrO, dout);
  CUTE_UNROLL
  for (int m = 0; m < T::kStrips; ++m) {
    CUTE_UNROLL
    for (int half = 0; half < 2; ++half) {
      int const row = warp_row + softmax.row(m, half);
      bool const valid = row < rows;
      store_row(tOrO, m, half, softmax.inverse_sum(m, half),
                static_cast<Element*>(p.out) + (packed_row + row) * kHeadDim, valid, lane);
      if (valid && lane % 4 == 0) {
        params.neg_lse[packed_row + row] = softmax.score(m, half).neg_reference;
        params.neg_delta[packed_row + row] = softmax.score(m, half).neg_delta;
      }
    }
  }

  Tensor tQrdQ = make_accumulator<Element, T::kWarpRows, kHeadDim>();  // ((2,2),M,20)
  clear(tQrdQ);
  for (int key = 0; key < tile.keys; key += T::kBlockN) {
    Tensor tSrS = make_accumulator<Element, T::kWarpRows, T::kBlockN>();    // ((2,2),M,N)
    Tensor tSrdP = make_accumulator<Element, T::kWarpRows, T::kBlockN>();  // ((2,2),M,N)
    clear(tSrS);
    softmax.start_at_neg_delta(tSrdP);
    int const stage = ring.acquire();
    multiply_over_features<Element>(tSrS, q, sK_features.shifted(stage));
    Tensor const tQrdX = weigh_and_multiply<T>(softmax, tSrS, tSrdP, dout,  //
                                               sV_features.shifted(stage), key);
    multiply_over_tokens<Element>(tQrdQ, tQrdX, sK_tokens.shifted(stage));
    ring.release();
  }
  CUTE_UNROLL
  for (int m = 0; m < T::kStrips; ++m) {
    CUTE_UNROLL
    for (int half = 0; half < 2; ++half) {
      int const row = warp_row + softmax.row(m, half);
      store_row(tQrdQ, m, half, p.scale,
                static_cast<Element*>(p.dq) + (packed_row + row) * kHeadDim, row < rows, lane);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(T::kThreads, 1)
    row_kernel(__grid_constant__ KernelParams const params) {
  if constexpr (T::kCompiled) row_cta<T>(params);
}

}  // namespace ragged_attention
