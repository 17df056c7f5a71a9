// Accumulators and operands of a warp for Python: matrices go in and out by CuTe's coordinates.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "cutlass_kernels/device/quad_order.h"
#include "cutlass_kernels/device/store.h"

namespace host_tests {

namespace py = pybind11;
using namespace pybind11::literals;
using namespace ragged_attention;
using Matrix = py::array_t<float, py::array::c_style | py::array::forcecast>;

constexpr int kMatrixRows = 32;

// A lane's accumulators ((2,2),2,N) of a matrix (32,8N), and a visit of them with their places.
template <class Element, int kColumns>
struct LaneAccumulators {
  decltype(make_accumulator<Element, kMatrixRows, kColumns>()) tCrC =
      make_accumulator<Element, kMatrixRows, kColumns>();

  template <class Function>  // function(value, row, column)
  void visit(int lane, Function&& function) {
    using CLayout = typename cute::MMA_Traits<MmaOp<Element>>::CLayout;
    for (int n = 0; n < kColumns / 8; ++n) {
      for (int m = 0; m < kMatrixRows / 16; ++m) {
        for (int i = 0; i < 4; ++i) {
          int const index = CLayout{}(lane, i);
          function(tCrC(i, m, n), m * 16 + index % 16, n * 8 + index / 16);
        }
      }
    }
  }
  void load(int lane, Matrix const& matrix) {
    visit(lane, [&](float& value, int row, int column) { value = matrix.at(row, column); });
  }
  void store(int lane, Matrix& matrix) {
    visit(lane, [&](float& value, int row, int column) { matrix.mutable_at(row, column) = value; });
  }
};

inline Matrix nan_matrix(int columns) {
  Matrix matrix({kMatrixRows, columns});
  std::fill(matrix.mutable_data(), matrix.mutable_data() + matrix.size(), NAN);
  return matrix;
}

// (32,32) fp32 to 16 bits by pack_operand; what it makes is read as an MMA reads its A operand.
template <class Element>
Matrix packed(Matrix const& matrix) {
  using ALayout = typename cute::MMA_Traits<MmaOp<Element>>::ALayout;
  Matrix result = nan_matrix(32);
  for (int lane = 0; lane < 32; ++lane) {
    LaneAccumulators<Element, 32> accumulators;
    accumulators.load(lane, matrix);
    cute::Tensor const tCrA = pack_operand<Element>(accumulators.tCrC);  // ((2,2,2),2,2)
    for (int k = 0; k < 2; ++k) {
      for (int m = 0; m < kMatrixRows / 16; ++m) {
        for (int i = 0; i < 8; ++i) {
          int const index = ALayout{}(lane, i);
          result.mutable_at(m * 16 + index % 16, k * 16 + index / 16) =
              static_cast<float>(tCrA(i, m, k));
        }
      }
    }
  }
  return result;
}

// (32,32) times (32,32), element by element, the second as 16-bit operand.
template <class Element>
Matrix scaled(Matrix const& matrix, Matrix const& factors) {
  Matrix result = nan_matrix(32);
  for (int lane = 0; lane < 32; ++lane) {
    LaneAccumulators<Element, 32> accumulators, others;
    accumulators.load(lane, matrix);
    others.load(lane, factors);
    scale_by_operand<Element>(accumulators.tCrC, pack_operand<Element>(others.tCrC));
    accumulators.store(lane, result);
  }
  return result;
}

// (32,160) sums that CTAs with `first`, then `middle` in their accumulators leave to one with `last`, and what
// that has in the end.
inline Matrix sums_in_turn(Matrix const& first, Matrix const& middle, Matrix const& last) {
  Matrix sums = nan_matrix(kHeadDim), result = nan_matrix(kHeadDim);
  auto for_rows = [&](Matrix const& matrix, auto function) {
    for (int lane = 0; lane < 32; ++lane) {
      LaneAccumulators<cute::half_t, kHeadDim> accumulators;
      accumulators.load(lane, matrix);
      for (int i = 0; i < kMatrixRows / 8; ++i) {
        function(accumulators.tCrC, i / 2, i % 2, sums.mutable_data(i * 8 + lane / 4, 0), lane);
      }
      accumulators.store(lane, result);
    }
  };
  for_rows(first, [](auto&&... arguments) { store_sums<false>(arguments...); });
  for_rows(middle, [](auto&&... arguments) { store_sums<true>(arguments...); });
  for_rows(last, [](auto&&... arguments) { add_sums(arguments...); });
  return result;
}

// (32,160) accumulators times `factor` as store_row rounds and writes them; only `valid_rows` of the
// rows are valid.
template <class Element>
Matrix stored_rows(Matrix const& matrix, float factor, int valid_rows) {
  std::vector<Element> stored(kMatrixRows * kHeadDim, Element(NAN));
  HostBlock::run(32, [&] {
    int const lane = HostBlock::thread_index.x;
    LaneAccumulators<Element, kHeadDim> accumulators;
    accumulators.load(lane, matrix);
    for (int i = 0; i < kMatrixRows / 8; ++i) {
      int const row = i * 8 + lane / 4;
      store_row(accumulators.tCrC, i / 2, i % 2, factor, stored.data() + row * kHeadDim,
                row < valid_rows, lane);
    }
  });
  Matrix result({kMatrixRows, kHeadDim});
  std::copy(stored.begin(), stored.end(), result.mutable_data());
  return result;
}

// (16,160) rows as copy_in_quad_order leaves them in a tile, by position; rows from `valid_rows` on are
// not valid.
inline Matrix quad_order_tile(Matrix const& matrix, int valid_rows) {
  using Element = cute::half_t;
  std::vector<Element> rows(16 * kHeadDim), tile(16 * kHeadDim, Element(NAN));
  std::copy(matrix.data(), matrix.data() + rows.size(), rows.begin());
  Matrix result({16, kHeadDim});
  for (int row = 0; row < 16; ++row) {
    for (int block = 0; block < kHeadDim / 32; ++block) {
      copy_in_quad_order(rows.data() + row * kHeadDim, tile.data(), row, block, row < valid_rows);
    }
    for (int i = 0; i < kHeadDim; ++i) {
      result.mutable_at(row, i) = static_cast<float>(tile[TileLayout<16>{}(row, i)]);
    }
  }
  return result;
}

// (16,160) rows as an MMA reads a QuadOrderOperand, by position.
inline Matrix quad_order_operand(Matrix const& matrix) {
  using Element = cute::half_t;
  using ALayout = typename cute::MMA_Traits<MmaOp<Element>>::ALayout;
  std::vector<Element> rows(16 * kHeadDim);
  std::copy(matrix.data(), matrix.data() + rows.size(), rows.begin());
  Matrix result({16, kHeadDim});
  for (int lane = 0; lane < 32; ++lane) {
    QuadOrderOperand<Element> operand;
    for (int half = 0; half < 2; ++half) {
      operand.load(half, rows.data() + (half * 8 + lane / 4) * kHeadDim, lane);
    }
    for (int step = 0; step < kFeatureSteps; ++step) {
      for (int i = 0; i < 8; ++i) {
        int const index = ALayout{}(lane, i);
        result.mutable_at(index % 16, step * 16 + index / 16) =
            static_cast<float>(operand(step)(i, 0));
      }
    }
  }
  return result;
}

// (16,160) accumulators, by position, times `factor` as store_in_quad_order writes them.
inline Matrix stored_in_quad_order(Matrix const& matrix, float factor) {
  using Element = cute::half_t;
  std::vector<Element> stored(16 * kHeadDim, Element(NAN));
  using CLayout = typename cute::MMA_Traits<MmaOp<Element>>::CLayout;
  for (int lane = 0; lane < 32; ++lane) {
    auto tCrC = make_accumulator<Element, 16, kHeadDim>();
    for (int n = 0; n < kFeatureTiles; ++n) {
      for (int i = 0; i < 4; ++i) {
        int const index = CLayout{}(lane, i);
        tCrC(i, 0, n) = matrix.at(index % 16, n * 8 + index / 16);
      }
    }
    for (int half = 0; half < 2; ++half) {
      store_in_quad_order(tCrC, half, factor, stored.data() + (half * 8 + lane / 4) * kHeadDim,
                          lane);
    }
  }
  Matrix result({16, kHeadDim});
  std::copy(stored.begin(), stored.end(), result.mutable_data());
  return result;
}

inline void bind_operands(py::module_& module) {
  module.def("packed_float16", &packed<cute::half_t>, "matrix"_a);
  module.def("packed_bfloat16", &packed<cute::bfloat16_t>, "matrix"_a);
  module.def("scaled_float16", &scaled<cute::half_t>, "matrix"_a, "factors"_a);
  module.def("scaled_bfloat16", &scaled<cute::bfloat16_t>, "matrix"_a, "factors"_a);
  module.def("stored_rows_float16", &stored_rows<cute::half_t>, "matrix"_a, "factor"_a,
             "valid_rows"_a);
  module.def("stored_rows_bfloat16", &stored_rows<cute::bfloat16_t>, "matrix"_a, "factor"_a,
             "valid_rows"_a);
  module.def("quad_order_tile", &quad_order_tile, "matrix"_a, "valid_rows"_a);
  module.def("quad_order_operand", &quad_order_operand, "matrix"_a);
  module.def("stored_in_quad_order", &stored_in_quad_order, "matrix"_a, "factor"_a);
  module.def("sums_in_turn", &sums_in_turn, "first"_a, "middle"_a, "last"_a);
}

}  // namespace host_tests
