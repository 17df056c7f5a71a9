// out and dq where key sequences are short: K and V stay in shared memory for all rows of a sequence.
//
// The same two sweeps as in row_kernel.h. Warps need no barrier among each other while the keys fit:
// each goes from tile to tile of 16 rows, and its next q arrives while it works. Steps of 16 keys overlap:
// the product over tokens of one step runs between those over features of the next. Longer sequences pass
// panel by panel.
#pragma once

#include "resident_traits.h"
#include "row_io.h"
#include "row_softmax.h"

namespace ragged_attention {

// Loads K and V of keys [begin, begin + kPanelKeys) once all warps have left the panel before.
template <class T>
CUTE_DEVICE void load_panel(Problem const& p, typename T::SharedStorage& shared, int begin) {
  using Element = typename T::Element;
  Tile const& tile = shared.tile;
  __syncthreads();
  int const chunk = threadIdx.x % 4;
  int const rows = min(int{T::kPanelKeys}, (tile.keys - begin + 15) / 16 * 16);
  for (int row = threadIdx.x / 4; row < rows; row += T::kThreads / 4) {
    bool const valid = begin + row < tile.keys;
    int64_t const token = tile.k_begin + (valid ? begin + row : 0);
    auto source = [&](View const& view) {
      return static_cast<Element const*>(view.data) + token * view.token_stride + chunk * 8;
    };
    copy_row_async<T::kPanelKeys>(source(p.k), chunk_address<T::kPanelKeys>(shared.k, row, chunk),
                                  valid);
    copy_row_async<T::kPanelKeys>(source(p.v), chunk_address<T::kPanelKeys>(shared.v, row, chunk),
                                  valid);
  }
  cp_async_fence();
  cp_async_wait<0>();
  __syncthreads();
}

// A lane's ldmatrix sources in the panel, and how far a step of 16 keys is.
template <class T>
struct PanelSources {
  typename T::FeatureSource k_features, v_features;
  typename T::TokenSource k_tokens, v_tokens;

  CUTE_DEVICE PanelSources(typename T::SharedStorage const& shared, int lane)
      : k_features(shared.k, lane),
        v_features(shared.v, lane),
        k_tokens(shared.k, lane),
        v_tokens(shared.v, lane) {}
  CUTE_DEVICE static int offset(int step) { return step * 16 * 32; }
};

// Calls step(index, may_end, between) for each step of 16 keys, where `between` carries out the product
// over tokens of the step before, and at last follows with that of the last step. Only the last step, and
// the first where it is the only one, may reach past the keys.
template <class Step, class Product>
CUTE_DEVICE void overlap_steps(int steps, Step const& step, Product const& product) {
  step(0, true_type{}, Nothing{});
  for (int i = 1; i < steps - 1; ++i) {
    step(i, false_type{}, [&](int d) { product(i - 1, d); });
  }
  if (steps > 1) step(steps - 1, true_type{}, [&](int d) { product(steps - 2, d); });
  CUTE_UNROLL
  for (int d = 0; d < kFeatureSteps; ++d) product(steps - 1, d);
}

// Sweep 1 over a panel of `steps` x 16 keys that begins at `begin`: O += P V.
template <class T, class TensorO>
CUTE_DEVICE void sweep_forward(RowSoftmax<T>& softmax, typename T::Operand const& q, TensorO& tOrO,
                               PanelSources<T> const& panel, int begin, int steps) {
  using Element = typename T::Element;
  Tensor tOrP = make_operand<Element, T::kWarpRows, T::kBlockN>();  // ((2,2,2),M,1)
  auto scores = [&](int step, auto may_end, auto between) {
    Tensor tSrS = make_accumulator<Element, T::kWarpRows, T::kBlockN>();  // ((2,2),M,2)
    clear(tSrS);
    multiply_over_features<Element>(tSrS, q, panel.k_features.shifted(panel.offset(step)), between);
    tOrP = softmax.template probabilities<may_end>(tSrS, tOrO, begin + step * T::kBlockN);
  };
  overlap_steps(steps, scores, [&](int step, int d) {
    token_step<Element>(tOrO, tOrP, panel.v_tokens.shifted(panel.offset(step)), 0, d);
  });
}

// Sweep 2: dQ += dX K.
template <class T, class TensorQ>
CUTE_DEVICE void sweep_backward(RowSoftmax<T> const& softmax, typename T::Operand const& q,
                                typename T::Operand const& dout, TensorQ& tQrdQ,
                                PanelSources<T> const& panel, int begin, int steps) {
  using Element = typename T::Element;
  Tensor tQrdX = make_operand<Element, T::kWarpRows, T::kBlockN>();  // ((2,2,2),M,1)
  auto weights = [&](int step, auto may_end, auto between) {
    Tensor tSrS = make_accumulator<Element, T::kWarpRows, T::kBlockN>();   // ((2,2),M,2)
    Tensor tSrdP = make_accumulator<Element, T::kWarpRows, T::kBlockN>();  // ((2,2),M,2)
    clear(tSrS);
    softmax.start_at_neg_delta(tSrdP);
    auto const v = panel.v_features.shifted(panel.offset(step));
    multiply_over_features<Element>(tSrS, q, panel.k_features.shifted(panel.offset(step)),
                                    [&](int d) {
                                      feature_step<Element>(tSrdP, dout(d), v, d);
                                      between(d);
                                    });
    int const key = begin + step * T::kBlockN;
    softmax.weigh(tSrS, key, 0, 1);
    if constexpr (may_end) softmax.mask_keys(tSrS, key);
    CUTE_UNROLL
    for (int i = 0; i < size(tSrS); ++i) tSrdP(i) *= tSrS(i);
    pack_operand(tSrdP, tQrdX);
  };
  overlap_steps(steps, weights, [&](int step, int d) {
    token_step<Element>(tQrdQ, tQrdX, panel.k_tokens.shifted(panel.offset(step)), 0, d);
  });
}

// The rows of one share: blocks of 16, warps in turn.
template <class T>
CUTE_DEVICE void resident_share(KernelParams const& params, typename T::SharedStorage& shared,
                                Share const& share) {
  using Element = typename T::Element;
  Problem const& p = params.problem;
  int const warp = threadIdx.x / 32;
  int const lane = threadIdx.x % 32;
  __syncthreads();  // all warps have left the tile before
  if (threadIdx.x == 0) {
    shared.tile = params.row_cut(T::kWarpRows).tile(share.segment, share.begin, share.span);
  }
  __syncthreads();
  // read from shared memory where they are needed: registers are short in between
  Tile const& tile = shared.tile;
  auto packed_row = [&](int block) { return tile.q_begin * p.heads + block * T::kWarpRows; };
  auto rows_of = [&](int block) {
    return min(tile.queries * p.heads - block * T::kWarpRows, int{T::kWarpRows});
  };
  if (tile.keys == 0) {
    int const rows =
        min(tile.queries * p.heads, share.end * T::kWarpRows) - share.begin * T::kWarpRows;
    return store_zero_rows(p, packed_row(share.begin), rows, T::kThreads);
  }

  Element* const own = shared.rows[warp];
  auto copy_own = [&](View const& view, int block) {
    if (block < share.end) {
      copy_rows<T>(params, view, tile, block * T::kWarpRows, rows_of(block), own, lane);
    }
    cp_async_fence();
  };
  auto landed = [&] {
    cp_async_wait<0>();
    __syncwarp();
  };
  typename T::OwnSource const own_source(own, lane);
  PanelSources<T> const panel(shared, lane);
  bool const whole = tile.keys <= T::kPanelKeys;
  auto for_panels = [&](auto sweep) {
    for (int begin = 0; begin < tile.keys; begin += T::kPanelKeys) {
      if (!whole) load_panel<T>(p, shared, begin);
      sweep(begin, (min(tile.keys - begin, int{T::kPanelKeys}) + 15) / 16);
    }
  };

  copy_own(p.q, share.begin + warp);
  for (int head = threadIdx.x; head < p.heads; head += T::kThreads) {
    shared.neg_slopes[head] = neg_log2_slope(p, tile.sequence, head);
  }
  whole ? load_panel<T>(p, shared, 0) : __syncthreads();
  for (int first = share.begin; first < share.end; first += T::kWarps) {
    int const block = first + warp;
    if (whole && block >= share.end) break;  // panels need all warps at every load
    landed();
    typename T::Operand const q(own_source);  // (M,160)
    __syncwarp();
    copy_own(p.dout, block);
    fill_scores<T>(
        params, tile, block * T::kWarpRows, block < share.end ? rows_of(block) : 0,
        [&](int head) { return shared.neg_slopes[head]; }, shared.scores[warp], lane);
    __syncwarp();
    RowSoftmax<T> softmax(params.score, shared.scores[warp], tile, lane);

    Tensor tOrO = make_accumulator<Element, T::kWarpRows, kHeadDim>();  // ((2,2),M,20)
    clear(tOrO);
    for_panels(
        [&](int begin, int steps) { sweep_forward<T>(softmax, q, tOrO, panel, begin, steps); });

    landed();
    typename T::Operand const dout(own_source);  // (M,160)
    __syncwarp();
    copy_own(p.q, block + T::kWarps);
    softmax.finish(tOrO, dout);
    auto for_rows = [&](auto store) {
      CUTE_UNROLL
      for (int half = 0; half < 2; ++half) {
        int const row = softmax.row(0, half);
        store(half, packed_row(block) + row, block < share.end && row < rows_of(block));
      }
    };
    for_rows([&](int half, int64_t row, bool valid) {
      store_row(tOrO, 0, half, softmax.inverse_sum(0, half),
                static_cast<Element*>(p.out) + row * kHeadDim, valid, lane);
      store_statistics(params, softmax.score(0, half), row, valid, lane);
    });

    Tensor tQrdQ = make_accumulator<Element, T::kWarpRows, kHeadDim>();  // ((2,2),M,20)
    clear(tQrdQ);
    for_panels([&](int begin, int steps) {
      sweep_backward<T>(softmax, q, dout, tQrdQ, panel, begin, steps);
    });
    for_rows([&](int half, int64_t row, bool valid) {
      store_row(tQrdQ, 0, half, p.scale, static_cast<Element*>(p.dq) + row * kHeadDim, valid, lane);
    });
  }
}

template <class T>
__global__ void __launch_bounds__(T::kThreads, 1)
    resident_row_kernel(__grid_constant__ KernelParams const params) {
  if constexpr (T::kCompiled) {
    auto& shared = shared_storage<typename T::SharedStorage>();
    clear_turns(params, T::kThreads);
    for_own_shares<T::kThreads>(
        params.row_cut(T::kWarpRows), shared.partition,
        [&](Share const& share) { resident_share<T>(params, shared, share); });
  }
}

}  // namespace ragged_attention
