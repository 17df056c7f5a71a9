// out and dq, by tiles of rows: two sweeps over the keys with q and dout loaded once.
//
// Sweep 1: S = Q K^T, O += P V. Then lse, and delta = dout . out from the finished row.
// Sweep 2: S and dP = dout V^T again, dQ += dX K.
#pragma once

#include "../device/store.h"
#include "key_ring.h"
#include "row_io.h"
#include "row_softmax.h"
#include "row_traits.h"

namespace ragged_attention {

// dP += dout V^T, and from S: dX = P (1 - t^2) (dP - delta), as an A operand ((2,2,2),M,N/2). Without
// kMayEnd the keys reach past the block, and the test is spared.
template <class T, bool kMayEnd, class TensorS, class TensorP>
CUTE_DEVICE auto weigh_and_multiply(RowSoftmax<T> const& softmax, TensorS& tSrS, TensorP& tSrdP,
                                    typename T::Operand const& dout,
                                    typename T::FeatureSource const& sV, int key) {
  using Element = typename T::Element;
  if constexpr (T::kStrips == 1) {
    multiply_over_features<Element>(
        tSrdP, dout, sV, [&](int step) { softmax.weigh(tSrS, key, step, kFeatureSteps); });
    if constexpr (kMayEnd) softmax.mask_keys(tSrS, key);
    CUTE_UNROLL
    for (int i = 0; i < size(tSrS); ++i) tSrdP(i) *= tSrS(i);
  } else {
    // 16-bit weights: registers are what two strips are short of
    softmax.weigh(tSrS, key, 0, 1);
    if constexpr (kMayEnd) softmax.mask_keys(tSrS, key);
    Tensor const tSrW = pack_operand<Element>(tSrS);
    multiply_over_features<Element>(tSrdP, dout, sV);
    scale_by_operand<Element>(tSrdP, tSrW);
  }
  return pack_operand<Element>(tSrdP);
}

// A sweep over the blocks of keys. With one strip the last is apart, so that the others need no test
// for the end of the keys; with two it would cost registers.
template <class T, class Step>
CUTE_DEVICE void for_key_blocks(Tile const& tile, Step const& step) {
  int key = 0;
  if constexpr (T::kStrips == 1) {
    for (; key + T::kBlockN < tile.keys; key += T::kBlockN) step(std::false_type{}, key);
    step(std::true_type{}, key);
  } else {
    for (; key < tile.keys; key += T::kBlockN) step(std::true_type{}, key);
  }
}

// The rows `shared.rows` of `shared.tile`, at most kBlockM; the tile has keys. All threads of the CTA call it
// after a barrier; `thread` is its index.
template <class T, class Index>
CUTE_DEVICE void stream_rows(KernelParams const& params, typename T::SharedStorage& shared,
                             Index thread) {
  using Element = typename T::Element;
  Problem const& p = params.problem;
  int const warp = thread / 32, lane = thread % 32;
  // read from shared memory where they are needed: registers are short in between
  Tile const& tile = shared.tile;
  auto first_row = [&] { return shared.rows.begin; };
  auto rows = [&] { return shared.rows.end - shared.rows.begin; };
  auto packed_row = [&] { return tile.q_begin * p.heads + first_row(); };

  auto& own = shared.tiles.operands;
  auto* const scores = shared.scores + warp * T::kWarpRows;
  int const warp_row = warp * T::kWarpRows;
  auto copy_own = [&](View const& view, Element* target) {
    copy_rows<T>(params, view, tile, first_row() + warp_row, rows() - warp_row, target, lane);
    cp_async_fence();
  };
  copy_own(p.q, own.q[warp]);
  copy_own(p.dout, own.dout[warp]);
  fill_scores<T>(params, tile, first_row() + warp_row, rows() - warp_row, scores, lane);
  if (threadIdx.x == 0) KeyRing<T>::init_barriers(shared);
  KeyRing<T> ring(shared, p);
  // Where the ring uses the operands' memory, its first half follows q, before dout has landed.
  constexpr int kEarlyStages = T::kRingReusesOperands ? T::kStages / 2 : T::kStages - 1;
  if constexpr (T::kRingReusesOperands) cp_async_wait<1>();  // q
  __syncwarp();
  typename T::Operand const q(typename T::OwnSource(own.q[warp], lane));  // (M,160)
  __syncthreads();
  ring.fill(0, kEarlyStages);
  cp_async_fence();
  cp_async_wait<1>();  // q and dout, but not the ring
  __syncwarp();
  typename T::Operand const dout(typename T::OwnSource(own.dout[warp], lane));  // (M,160)
  if constexpr (T::kRingReusesOperands) {
    __syncthreads();
    ring.fill(kEarlyStages, T::kStages - 1);
  }

  auto const& first = shared.tiles.stages[0];
  auto const sK_features = typename T::FeatureSource(first.k, lane).kept(first.k);
  auto const sK_tokens = typename T::TokenSource(first.k, lane).kept(first.k);
  auto const sV_features = sK_features.shifted(first.v - first.k);
  auto const sV_tokens = sK_tokens.shifted(first.v - first.k);
  RowSoftmax<T> softmax(params.score, {scores, lane}, tile, lane);

  Tensor tOrO = make_accumulator<Element, T::kWarpRows, kHeadDim>();  // ((2,2),M,20)
  clear(tOrO);
  for_key_blocks<T>(tile, [&](auto may_end, int key) {
    Tensor tSrS = make_accumulator<Element, T::kWarpRows, T::kBlockN>();  // ((2,2),M,N)
    clear(tSrS);
    int const stage = ring.acquire();
    multiply_over_features<Element>(tSrS, q, sK_features.shifted(stage));
    Tensor const tOrP =
        softmax.template probabilities<may_end>(tSrS, tOrO, key);  // ((2,2,2),M,N/2)
    multiply_over_tokens<Element>(tOrO, tOrP, sV_tokens.shifted(stage));
    ring.release(key);
  });

  softmax.finish(tOrO, dout);
  CUTE_UNROLL
  for (int i = 0; i < 2 * T::kStrips; ++i) {
    int const m = i / 2, half = i % 2, row = warp_row + softmax.row(m, half);
    bool const valid = row < rows();
    int64_t const packed = packed_row() + row;
    store_row(tOrO, m, half, softmax.inverse_sum(m, half),
              static_cast<Element*>(p.out) + packed * kHeadDim, valid, lane);
    store_statistics(params, softmax.score(m, half), packed, valid, lane);
  }

  Tensor tQrdQ = make_accumulator<Element, T::kWarpRows, kHeadDim>();  // ((2,2),M,20)
  clear(tQrdQ);
  for_key_blocks<T>(tile, [&](auto may_end, int key) {
    Tensor tSrS = make_accumulator<Element, T::kWarpRows, T::kBlockN>();   // ((2,2),M,N)
    Tensor tSrdP = make_accumulator<Element, T::kWarpRows, T::kBlockN>();  // ((2,2),M,N)
    clear(tSrS);
    softmax.start_at_neg_delta(tSrdP);
    int const stage = ring.acquire();
    multiply_over_features<Element>(tSrS, q, sK_features.shifted(stage));
    Tensor const tQrdX =
        weigh_and_multiply<T, may_end>(softmax, tSrS, tSrdP, dout, sV_features.shifted(stage), key);
    multiply_over_tokens<Element>(tQrdQ, tQrdX, sK_tokens.shifted(stage));
    ring.release(ring.sweep_keys() + key);
  });
  CUTE_UNROLL
  for (int i = 0; i < 2 * T::kStrips; ++i) {
    int const m = i / 2, half = i % 2, row = warp_row + softmax.row(m, half);
    store_row(tQrdQ, m, half, p.scale,
              static_cast<Element*>(p.dq) + (packed_row() + row) * kHeadDim, row < rows(), lane);
  }
}

template <class T>
CUTE_DEVICE void row_cta(KernelParams const& params) {
  auto& shared = shared_storage<typename T::SharedStorage>();
  Problem const& p = params.problem;
  prepare_key_kernel(params, T::kThreads);
  find_tile<T::kThreads>(params.row_cut(T::kBlockM), blockIdx.x, shared.search, shared.tile);
  Tile const& tile = shared.tile;
  int const first = tile.block * T::kBlockM;
  int const rows = min(tile.queries * p.heads - first, T::kBlockM);
  if (rows <= 0) return;  // the grid is an upper bound
  if (tile.keys == 0) {
    return store_zero_rows(p, tile.q_begin * int64_t{p.heads} + first, rows, T::kThreads);
  }
  if (threadIdx.x == 0) shared.rows = {first, first + rows};
  __syncthreads();
  stream_rows<T>(params, shared, threadIdx.x);
}

template <class T>
__global__ void __launch_bounds__(T::kThreads, 1)
    row_kernel(__grid_constant__ KernelParams const params) {
  if constexpr (T::kCompiled) row_cta<T>(params);
}

}  // namespace ragged_attention
