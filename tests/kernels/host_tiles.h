// Tiles in shared memory for Python: where elements lie, and what each lane of a warp reads of them.
//
// A warp's ldmatrix is carried out lane by lane with CuTe's own layout of it; the coordinates that
// an MMA gives to lanes are CuTe's too.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <string>
#include <type_traits>

#include "cutlass_kernels/device/warp_mma.h"

namespace host_tests {

namespace py = pybind11;
using namespace pybind11::literals;
using namespace ragged_attention;

// Calls function(Int<rows>{}) for the row counts that the tests cover.
template <class Function>
auto with_rows(int rows, Function&& function) {
  if (rows == 16) return function(cute::Int<16>{});
  if (rows == 32) return function(cute::Int<32>{});
  if (rows == 256) return function(cute::Int<256>{});
  throw py::value_error("rows: " + std::to_string(rows) + "; 16, 32 or 256 is needed");
}

// (rows,160): the offset of each element, in elements.
inline py::array_t<int> tile_offsets(int rows) {
  return with_rows(rows, [](auto count) {
    py::array_t<int> offsets({int{count}, kHeadDim});
    auto at = offsets.template mutable_unchecked<2>();
    for (int row = 0; row < count; ++row) {
      for (int feature = 0; feature < kHeadDim; ++feature) {
        at(row, feature) = TileLayout<decltype(count)::value>{}(row, feature);
      }
    }
    return offsets;
  });
}

// What copy_row_async asks for of chunk `chunk` of one row: (source, target, valid) of each piece of
// 16 bytes, offsets in elements from the row and from the tile.
inline py::list row_copies(int rows, int row, int chunk, bool valid) {
  static uint16_t source[kHeadDim];
  static uint16_t target[256 * kHeadDim];
  async_copies.clear();
  with_rows(rows, [&](auto count) {
    constexpr int kRows = decltype(count)::value;
    copy_row_async<kRows>(source + chunk * 8, chunk_address<kRows>(target, row, chunk), valid);
  });
  py::list copies;
  for (AsyncCopy const& copy : async_copies) {
    copies.append(py::make_tuple(static_cast<uint16_t const*>(copy.source) - source,
                                 static_cast<uint16_t const*>(copy.target) - target, copy.valid));
  }
  return copies;
}

// ldmatrix for the lane in turn of a warp whose sources are known.
template <class Op>
struct HostLoad {
  static inline uint16_t const* sources[32];
  static inline int lane;

  static uint16_t value(int index) {
    int const bit = typename cute::Copy_Traits<Op>::DstLayout{}(lane, 16 * index);
    return sources[bit / 128][bit % 128 / 16];
  }
  static void copy(cute::uint128_t const&, uint32_t& r0, uint32_t& r1, uint32_t& r2, uint32_t& r3) {
    uint32_t* const registers[] = {&r0, &r1, &r2, &r3};
    for (int i = 0; i < 4; ++i) *registers[i] = value(2 * i) | uint32_t{value(2 * i + 1)} << 16;
  }
};

// Loads one fragment for all lanes of a warp: the sources (32) as offsets in elements, and the row
// and feature (32,8,2) of what each lane gets, in the fragment's order.
template <class Op, Order kOrder, class FragmentShape>
py::tuple load_warp_fragment(int rows, int strip, int step) {
  return with_rows(rows, [&](auto count) {
    constexpr int kRows = decltype(count)::value;
    std::vector<uint16_t> tile(kRows * kHeadDim);
    for (int row = 0; row < kRows; ++row) {
      for (int feature = 0; feature < kHeadDim; ++feature) {
        tile[TileLayout<kRows>{}(row, feature)] = static_cast<uint16_t>(row * kHeadDim + feature);
      }
    }
    auto source = [&](int lane) -> cute::uint128_t const& {
      return FragmentSource<uint16_t, kRows, kOrder>(tile.data(), lane).at(strip, step);
    };
    py::array_t<int> offsets(32);
    for (int lane = 0; lane < 32; ++lane) {
      auto const* const address = reinterpret_cast<uint16_t const*>(&source(lane));
      HostLoad<Op>::sources[lane] = address;
      offsets.mutable_at(lane) = static_cast<int>(address - tile.data());
    }
    py::array_t<int> coordinates({32, 8, 2});
    for (int lane = 0; lane < 32; ++lane) {
      HostLoad<Op>::lane = lane;
      cute::Tensor fragment = cute::make_tensor<uint16_t>(FragmentShape{});
      load_fragment<HostLoad<Op>>(source(lane), fragment);
      for (int i = 0; i < 8; ++i) {
        coordinates.mutable_at(lane, i, 0) = fragment(i) / kHeadDim;
        coordinates.mutable_at(lane, i, 1) = fragment(i) % kHeadDim;
      }
    }
    return py::make_tuple(offsets, coordinates);
  });
}

// (32,values,2): the coordinates in a kRows x kColumns operand of what each lane holds.
template <class ThreadValueLayout, int kRows, int kColumns>
py::array_t<int> mma_coordinates() {
  constexpr int kValues = decltype(cute::size<1>(ThreadValueLayout{}))::value;
  py::array_t<int> coordinates({32, kValues, 2});
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < kValues; ++i) {
      int const index = ThreadValueLayout{}(lane, i);
      coordinates.mutable_at(lane, i, 0) = index % kRows;
      coordinates.mutable_at(lane, i, 1) = index / kRows;
    }
  }
  return coordinates;
}

inline void bind_tiles(py::module_& module) {
  using cute::_2, cute::Shape;
  using Traits = cute::MMA_Traits<MmaOp<cute::half_t>>;
  using OtherTraits = cute::MMA_Traits<MmaOp<cute::bfloat16_t>>;
  static_assert(std::is_same_v<Traits::ALayout, OtherTraits::ALayout> &&
                    std::is_same_v<Traits::BLayout, OtherTraits::BLayout> &&
                    std::is_same_v<Traits::CLayout, OtherTraits::CLayout>,
                "the tests of one dtype stand for both");
  using FragmentA = Shape<Shape<_2, _2, _2>>;
  using FragmentB = Shape<Shape<_2, _2>, _2>;

  module.def("tile_offsets", &tile_offsets, "rows"_a);
  module.def("row_copies", &row_copies, "rows"_a, "row"_a, "chunk"_a, "valid"_a);
  module.def("load_a", &load_warp_fragment<cute::SM75_U32x4_LDSM_N, Order::kRowsFirst, FragmentA>,
             "rows"_a, "strip"_a, "step"_a);
  module.def("load_b_over_features",
             &load_warp_fragment<cute::SM75_U32x4_LDSM_N, Order::kChunksFirst, FragmentB>, "rows"_a,
             "strip"_a, "step"_a);
  module.def("load_b_over_tokens",
             &load_warp_fragment<cute::SM75_U16x8_LDSM_T, Order::kRowsFirst, FragmentB>, "rows"_a,
             "strip"_a, "step"_a);
  module.def("mma_a", &mma_coordinates<Traits::ALayout, 16, 16>);
  module.def("mma_b", &mma_coordinates<Traits::BLayout, 8, 16>);
  module.def("mma_c", &mma_coordinates<Traits::CLayout, 16, 8>);
}

}  // namespace host_tests
