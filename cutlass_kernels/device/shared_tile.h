// Tiles of tokens x 160 features in shared memory: their layout, and the two ways ldmatrix reads them.
#pragma once

#include <cute/tensor.hpp>

#include "../api.h"

namespace ragged_attention {

using namespace cute;

// The index of this thread, hidden from the compiler: in a loop it would derive all that a thread needs before
// the loop and keep it in registers throughout.
CUTE_DEVICE int opaque_thread_index() {
  int index = threadIdx.x;
  asm volatile("" : "+r"(index));
  return index;
}

// The dynamic shared memory of the CTA.
template <class Storage>
CUTE_DEVICE Storage& shared_storage() {
  extern __shared__ char shared_memory[];
  char* base = shared_memory;
#ifdef __CUDA_ARCH__
  // hidden from the compiler, which would build it anew at every use, from a slow special register on sm_90
  asm volatile("" : "+l"(base));
  __builtin_assume(__isShared(base));
#endif
  return *reinterpret_cast<Storage*>(base);
}

// Five column blocks of 32 features. In a block a row is 64 bytes, and its 16-byte chunk c lies at
// c ^ ((row >> 1) & 3): eight rows of one chunk touch all 32 banks once, without padding.
template <int kRows>
using TileLayout = decltype(tile_to_shape(
    composition(Swizzle<2, 3, 3>{}, Layout<Shape<_8, _32>, Stride<_32, _1>>{}),
    Shape<Int<kRows>, Int<kHeadDim>>{}));

// Which 8x8 matrices the four registers of an ldmatrix.x4 hold.
enum class Order {
  kRowsFirst,    // rows 0-7, rows 8-15, then the next 8 features: A operand; B operand, transposed
  kChunksFirst,  // both chunks of 8 features of rows 0-7, then of rows 8-15: B operand
};

// A lane's ldmatrix sources in a tile.
//
// The swizzle moves a 16-feature step only within its block of two, so two base pointers, for even and
// odd steps, and compile-time offsets reach every fragment.
template <class Element, int kRows, Order kOrder>
struct FragmentSource {
  Element const* even;
  Element const* odd;

  CUTE_DEVICE FragmentSource(Element const* tile, int lane) {
    int const second = (lane >> 3) & 1;
    int const third = (lane >> 4) & 1;
    int const row = (lane & 7) + 8 * (kOrder == Order::kRowsFirst ? second : third);
    int const column = 8 * (kOrder == Order::kRowsFirst ? third : second);
    even = tile + TileLayout<kRows>{}(row, column);
    odd = tile + TileLayout<kRows>{}(row, column + 16);
  }

  // The 16 x 16 fragment at rows [16 * strip, +16), features [16 * step, +16).
  CUTE_DEVICE uint128_t const& at(int strip, int step) const {
    Element const* base = step % 2 ? odd : even;
    return *reinterpret_cast<uint128_t const*>(base + strip * 16 * 32 + step / 2 * kRows * 32);
  }

  // The same source, of which one register is kept: else the compiler derives it anew in every loop.
  CUTE_DEVICE FragmentSource kept(Element const* tile) const {
    int offset = static_cast<int>(even - tile);
    asm volatile("" : "+r"(offset));
    FragmentSource other = *this;
    other.even = tile + offset;
    other.odd = tile + (offset ^ 16);  // the other pair of chunks of a block
    return other;
  }

  // The same lane's source in a tile that lies `elements` further on.
  CUTE_DEVICE FragmentSource shifted(int elements) const {
    FragmentSource other = *this;
    other.even += elements;
    other.odd += elements;
    return other;
  }
};

// Fills a fragment of four registers, by rows or transposed.
template <class LoadOp, class Fragment>
CUTE_DEVICE void load_fragment(uint128_t const& source, Fragment&& fragment) {
  Tensor registers = recast<uint32_t>(fragment);
  CUTE_STATIC_ASSERT_V(size(registers) == _4{});
  LoadOp::copy(source, registers(0), registers(1), registers(2), registers(3));
}

// Where a thread's share of a row begins: 16-byte chunk `chunk` of the first column block.
template <int kRows, class Element>
CUTE_DEVICE Element* chunk_address(Element* tile, int row, int chunk) {
  return tile + TileLayout<kRows>{}(row, chunk * 8);
}

// cp.async of a thread's share of one row: 16 bytes in each of the five column blocks.
// A row that is not valid is filled with zeros, because 0 * NaN is NaN.
template <int kRows, class Element>
CUTE_DEVICE void copy_row_async(Element const* source, Element* target, bool valid) {
  using Copy = SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>;
  CUTE_UNROLL
  for (int block = 0; block < kHeadDim / 32; ++block) {
    Copy::copy(*reinterpret_cast<uint128_t const*>(source + block * 32),
               *reinterpret_cast<uint128_t*>(target + block * kRows * 32), valid);
  }
}

}  // namespace ragged_attention
