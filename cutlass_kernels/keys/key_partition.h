// Keys for a grid that is as large as the card, where key tiles are too few to fill it: the work is laid out
// on lines of costs, and every CTA gets a stretch of one, which it goes through part by part. CTAs that
// share a tile add to its sums in turn.
//
// On the first line are tiles one after the other and, within a tile, its rows. Where a sequence has a
// few tiles of keys, a team of as many CTAs may go through its rows together, each with a tile of its own,
// so that a row comes from device memory once for all of them; such sequences lie on lines of their own, one
// for each size of a team, whose stretches go to teams.
#pragma once

#include "../params.h"
#include "../partition.h"

namespace ragged_attention {

// A CTA's place among those that share a tile.
struct Turn {
  int index, count;

  CUTE_HOST_DEVICE bool is_first() const { return index == 0; }
  CUTE_HOST_DEVICE bool is_last() const { return index + 1 == count; }
};

// What a tile costs besides, in row blocks.
constexpr int kTileRowBlocks = 3;

// CTAs with fewer row blocks of whole tiles would mostly wait for their turn.
constexpr int64_t kLeastRowBlocks = 12;

// How a kernel cuts keys: tiles of `block` keys at most.
struct KeyTiling {
  int block;
  int largest_team;  // of CTAs; 1: no teams
  KeyCosts costs;
};

// One segment on its line.
struct KeyLine {
  int keys;
  int tiles;
  int members;  // of the team that goes through its rows; 1: each CTA goes by itself
  int width;    // keys of a tile, which are of one width for a team; the last may have fewer
  int row_blocks;
  KeyCosts costs;

  CUTE_HOST_DEVICE KeyLine(Span const& span, int heads, KeyTiling const& tiling)
      : keys(span.own_length),
        tiles((keys + tiling.block - 1) / tiling.block),
        members(tiles > 1 && tiles <= tiling.largest_team ? tiles : 1),
        width(members > 1 ? ((keys + 15) / 16 + tiles - 1) / tiles * 16 : tiling.block),
        row_blocks(
            static_cast<int>((int64_t{span.other_length} * heads + kKeyRows - 1) / kKeyRows)),
        costs(tiling.costs) {}

  CUTE_HOST_DEVICE Range keys_of(int tile) const {
    int const begin = tile * width, end = begin + width;
    return {begin, end < keys ? end : keys};
  }
  // Keys whose products a CTA computes: for a team as many in the last tile as in the others, or its CTA
  // would run ahead of the others.
  CUTE_HOST_DEVICE int computed_keys(int tile) const {
    Range const own = keys_of(tile);
    return members > 1 ? width : own.end - own.begin;
  }
  CUTE_HOST_DEVICE int64_t tile_cost(int tile) const {
    return (int64_t{row_blocks} + kTileRowBlocks) * costs.row_block(computed_keys(tile));
  }
  // Its length on the line.
  CUTE_HOST_DEVICE int64_t cost() const {
    if (keys == 0) return 0;
    return members > 1 ? tile_cost(0) : (tiles - 1) * tile_cost(0) + tile_cost(tiles - 1);
  }
  // The tile at `point` from the segment's start, without teams, and where a tile begins.
  CUTE_HOST_DEVICE int tile_at(int64_t point) const {
    int64_t const tile = point / tile_cost(0);
    return tile < tiles ? static_cast<int>(tile) : tiles - 1;
  }
  CUTE_HOST_DEVICE int64_t tile_start(int tile) const {
    return members > 1 || tile == 0 ? 0 : tile * tile_cost(0);
  }

  // The first row block that begins at or after `point` from the tile's start.
  CUTE_HOST_DEVICE int row_block_at(int tile, int64_t point) const {
    int const each = costs.row_block(computed_keys(tile)), before = kTileRowBlocks * each;
    int64_t const index = (point - before + each - 1) / each;
    return point <= before ? 0 : index < row_blocks ? static_cast<int>(index) : row_blocks;
  }
};

// How one line is shared by teams (or by CTAs): one waits only for those launched before it, so the line's
// last stretch is that of team 0.
struct KeyShares {
  int64_t whole;
  int teams;

  CUTE_HOST_DEVICE Stretch stretch(int team) const {
    return equal_stretch(whole, teams - 1 - team, teams);
  }
  // The team in whose stretch `point` lies.
  CUTE_HOST_DEVICE int team_at(int64_t point) const {
    return teams - static_cast<int>(((point + 1) * teams + whole - 1) / whole);
  }
  CUTE_HOST_DEVICE Turn turn(int team, int64_t tile_begin, int64_t tile_end) const {
    int const first = team_at(tile_end - 1);
    return {team - first, team_at(tile_begin) - first + 1};
  }
};

constexpr int kLargestTeam = 4;

// How the CTAs of a grid are dealt out: first to the largest teams, at last to those that go by themselves.
struct KeyGrid {
  KeyShares lines[kLargestTeam + 1];  // by members of a team

  // For lines of these costs; by_themselves: if all sequences were on the first line. Teams that would take
  // too much longer than that, since a grid is seldom a multiple of their sizes, are not formed.
  CUTE_HOST_DEVICE KeyGrid(int64_t const (&costs)[kLargestTeam + 1], int64_t by_themselves,
                           int64_t least, int ctas)
      : lines{} {
    constexpr float kPatience = 1.125f, kStep = 1.0f / 256;
    int64_t work = 0;  // of all CTAs
    for (int members = 1; members <= kLargestTeam; ++members) work += members * costs[members];
    float const even = static_cast<float>(work > by_themselves ? work : by_themselves) / ctas;
    for (float factor = 1.0f; work > costs[1] && factor < kPatience; factor += kStep) {
      float const floor = static_cast<float>(least);
      float const length = even * factor > floor ? even * factor : floor;
      int left = ctas;
      for (int members = kLargestTeam; members > 1; --members) {
        int const teams = static_cast<int>(ceilf(static_cast<float>(costs[members]) / length));
        lines[members] = {costs[members], teams};
        left -= members * teams;
      }
      if (static_cast<float>(costs[1]) > length * static_cast<float>(left)) continue;
      lines[1] = {costs[1], limited(costs[1], least, left)};
      return;
    }
    for (auto& line : lines) line = {};
    lines[1] = {by_themselves, limited(by_themselves, least, ctas)};
  }

  CUTE_HOST_DEVICE bool has_teams() const {
    for (int members = 2; members <= kLargestTeam; ++members) {
      if (lines[members].teams > 0) return true;
    }
    return false;
  }

 private:
  // CTAs that go by themselves, of `most`.
  CUTE_HOST_DEVICE static int limited(int64_t cost, int64_t least, int most) {
    int64_t const wanted = cost / least;
    return cost == 0 ? 0 : wanted < 1 ? 1 : wanted < most ? static_cast<int>(wanted) : most;
  }
};

// A CTA's place in the grid.
struct KeyPlace {
  KeyShares shares;  // of its line; none: it has nothing to do
  int members;       // of its team
  int member;
  int team;
  int largest_team;  // anywhere in the grid

  CUTE_HOST_DEVICE KeyPlace(KeyGrid const& grid, int cta)
      : shares{}, members(1), member(0), team(0), largest_team(1) {
    if (grid.has_teams()) largest_team = kLargestTeam;
    int first = 0;
    for (int size = kLargestTeam; size > 0; --size) {
      int const ctas = size * grid.lines[size].teams;
      if (first <= cta && cta < first + ctas) {
        shares = grid.lines[size];
        members = size;
        member = (cta - first) % size;
        team = (cta - first) / size;
      }
      first += ctas;
    }
  }
  KeyPlace() = default;
};

// What a CTA works on at a time: some rows of a tile.
struct KeyPart {
  Tile tile;
  Range keys;
  int computed_keys;  // from the first on; those that are not the tile's are zeros
  Range rows;
  Turn turn;
  int slot;  // of the tile, for its counter of turns
};

#ifdef __CUDACC__
// Finds this CTA's place, and the part that is next on its stretch. All threads of the CTA call them; place,
// position and part lie in shared memory.
template <int kThreads>
struct KeyPartition {
  Cut const& cut;
  int heads;
  KeyTiling tiling;
  int64_t* warp_sums;

  // Calls visit(segment, line, start, cost) for this thread's segments on the line of such teams; returns
  // the cost of all.
  template <class Visit>
  CUTE_DEVICE int64_t scan(int largest_team, int members, Visit const& visit) const {
    KeyTiling const with_teams{tiling.block, largest_team, tiling.costs};
    int const count = cut.own.count();
    int64_t chunk_start = 0, chunk_total = 0;
    for (int base = 0; base < count; base += kThreads, chunk_start += chunk_total) {
      int const segment = base + static_cast<int>(threadIdx.x);
      KeyLine const line(cut.span(segment < count ? segment : 0), heads, with_teams);
      int64_t const cost = segment < count && line.members == members ? line.cost() : 0;
      int64_t const before = exclusive_sum<kThreads>(cost, warp_sums, chunk_total);
      visit(segment, line, chunk_start + before, cost);
    }
    return chunk_start;
  }

  CUTE_DEVICE void find_place(KeyPlace& place) const {
    auto const cost_of_line = [&](int largest_team, int members) {
      return scan(largest_team, members, [](auto...) {});
    };
    int64_t costs[kLargestTeam + 1] = {};
    int64_t const by_themselves = cost_of_line(1, 1);
    if (tiling.largest_team > 1) {
      CUTE_UNROLL
      for (int members = 1; members <= kLargestTeam; ++members) {
        costs[members] = cost_of_line(tiling.largest_team, members);
      }
    }
    int64_t const least = kLeastRowBlocks * tiling.costs.row_block(tiling.block);
    KeyGrid const grid(costs, by_themselves, least, gridDim.x);
    if (threadIdx.x == 0) place = KeyPlace(grid, blockIdx.x);
    __syncthreads();
  }

  // The part at `position` on the line, which then moves behind it; negative at first. False if there is none.
  CUTE_DEVICE bool find_part(KeyPlace const& place, int64_t& position, KeyPart& part) const {
    if (place.shares.teams == 0) return false;
    Stretch const own = place.shares.stretch(place.team);
    int64_t const low = position < 0 ? own.low : position;
    if (low >= own.high) return false;
    __syncthreads();  // all have read the position
    scan(place.largest_team, place.members,
         [&](int segment, KeyLine const& line, int64_t start, int64_t cost) {
           if (low < start || start + cost <= low) return;
           int const tile = line.members > 1 ? place.member : line.tile_at(low - start);
           int64_t const begin = start + line.tile_start(tile), end = begin + line.tile_cost(tile);
           position = end < own.high ? end : own.high;
           part.tile = cut.tile(segment, tile, cut.span(segment));
           part.keys = line.keys_of(tile);
           part.computed_keys = line.computed_keys(tile);
           auto row_at = [&](int64_t point) {
             int const row = line.row_block_at(tile, point - begin) * kKeyRows;
             int const rows = part.tile.queries * heads;
             return row < rows ? row : rows;
           };
           part.rows = {row_at(low), row_at(position)};
           part.turn = place.shares.turn(place.team, begin, end);
           part.slot = static_cast<int>(first_slot(cut.own, segment, 1, cut.block)) + tile;
         });
    __syncthreads();
    return true;
  }
};
#endif

}  // namespace ragged_attention
