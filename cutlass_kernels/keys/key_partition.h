// Keys for a grid that is as large as the card, where key tiles are too few to fill it: the work is laid out
// on lines of costs, and every CTA gets a stretch of one, which it goes through part by part. CTAs that
// share a tile add to its sums in turn.
//
// On the first line are tiles one after the other and, within a tile, its rows. Where a sequence has a
// few tiles of keys, a team of as many CTAs may go through its rows together, each with a tile of its own,
// so that a row comes from device memory once for all of them; such sequences lie on lines of their own, one
// for each size of a team, whose stretches go to teams.
#pragma once

#include <cmath>
#include <cute/numeric/math.hpp>

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

// What a turn takes, in row blocks of whole tiles.
constexpr float kTurnRowBlocks = 1.25f;

// How a kernel cuts keys: tiles of `block` keys at most.
struct KeyTiling {
  int block;
  int largest_team;  // of CTAs; 1: no teams
  KeyCosts costs;

  CUTE_HOST_DEVICE float turn_cost() const { return kTurnRowBlocks * costs.row_block(block); }
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

// All segments of a line.
struct KeyLineWork {
  int64_t cost;
  int64_t largest_tile;  // its cost

  // More teams (or CTAs) would mostly wait for their turns. n of them take w / n + (n - 1) / 2 turns for a tile of
  // cost w, if all work until their turn comes: that is least for n^2 = 2 w / turn. At two thirds of this square the
  // first still has a third of the mean to do, and all takes hardly longer.
  CUTE_HOST_DEVICE int most_teams(float turn_cost) const {
    if (cost == 0) return 0;
    float const stretch = sqrtf(0.75f * turn_cost * static_cast<float>(largest_tile));
    constexpr float kEnough = 1 << 20;
    float const teams = static_cast<float>(cost) / stretch;
    return teams < 1.0f ? 1 : static_cast<int>(cute::min(teams, kEnough));
  }
};

// How one line is shared by teams (or by CTAs): one waits only for those launched before it, so the line's
// last stretch is that of team 0.
struct KeyShares {
  int64_t whole;
  int teams;
  float bend;  // of cuts: half a turn over the square of a stretch

  KeyShares() = default;
  CUTE_HOST_DEVICE KeyShares(int64_t whole, int teams, float turn_cost)
      : whole(whole), teams(teams), bend(0.0f) {
    if (teams == 0) return;
    float const length = static_cast<float>(whole) / static_cast<float>(teams);
    bend = 0.5f * turn_cost / (length * length);
  }

  // Where the line's stretch `index` begins.
  CUTE_HOST_DEVICE int64_t begin_of(int index) const { return whole * index / teams; }
  CUTE_HOST_DEVICE Stretch stretch(int team) const {
    int const index = teams - 1 - team;
    return {begin_of(index), begin_of(index + 1)};
  }
  // The team in whose stretch `point` lies. By a search: with a formula in its place, nvcc's code for the loop
  // over rows is 3 % slower (sm86 row on sm_90).
  CUTE_HOST_DEVICE int team_at(int64_t point) const {
    int index = static_cast<int>(point * teams / whole);  // or near it
    while (index > 0 && begin_of(index) > point) --index;
    while (index + 1 < teams && begin_of(index + 1) <= point) ++index;
    return teams - 1 - index;
  }
  // Where a tile is cut for `point`, both from its start: a team has less of it than the next, by what a turn
  // takes, since its turn is earlier.
  CUTE_HOST_DEVICE int64_t cut_at(int64_t point, int64_t tile_cost) const {
    float const before = static_cast<float>(point), after = static_cast<float>(tile_cost - point);
    return point + static_cast<int64_t>(bend * before * after);
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

  // For these lines, [0]: one line without teams. Teams that would take too much longer than that, since a grid
  // is seldom a multiple of their sizes, are not formed.
  CUTE_HOST_DEVICE KeyGrid(KeyLineWork const (&work)[kLargestTeam + 1], float turn_cost, int ctas)
      : lines{} {
    constexpr float kPatience = 1.125f, kStep = 1.0f / 256;
    int most[kLargestTeam + 1];
    int64_t whole = 0;  // of all CTAs
    for (int members = 0; members <= kLargestTeam; ++members) {
      most[members] = work[members].most_teams(turn_cost);
      whole += members * work[members].cost;
    }
    bool const any_team = whole > work[1].cost;
    auto const even = static_cast<float>(cute::max(whole, work[0].cost)) / static_cast<float>(ctas);
    for (float factor = 1.0f; any_team && factor < kPatience; factor += kStep) {
      auto teams = [&](int members) {
        float const wanted = ceilf(static_cast<float>(work[members].cost) / (even * factor));
        return cute::min(static_cast<int>(wanted), most[members]);
      };
      int left = ctas;
      for (int members = kLargestTeam; members > 1; --members) left -= members * teams(members);
      if (teams(1) > left) continue;
      for (int members = kLargestTeam; members > 1; --members) {
        lines[members] = {work[members].cost, teams(members), turn_cost};
      }
      lines[1] = {work[1].cost, cute::min(most[1], left), turn_cost};
      return;
    }
    lines[1] = {work[0].cost, cute::min(most[0], ctas), turn_cost};
  }

  CUTE_HOST_DEVICE bool has_teams() const {
    for (int members = 2; members <= kLargestTeam; ++members) {
      if (lines[members].teams > 0) return true;
    }
    return false;
  }
};

// A CTA's place in the grid.
struct KeyPlace {
  KeyShares shares;  // of its line
  int members;       // of its team
  int member;
  int team;
  int largest_team;   // that may be formed; 1: none is
  int64_t next, end;  // its next part begins at `next` on the line, its stretch ends at `end`

  KeyPlace() = default;
  CUTE_HOST_DEVICE KeyPlace(KeyGrid const& grid, int cta, int largest_team)
      : shares{},
        members(1),
        member(0),
        team(0),
        largest_team(grid.has_teams() ? largest_team : 1),
        next(0),
        end(0) {
    int first = 0;
    for (int size = kLargestTeam; size > 0; --size) {
      int const ctas = size * grid.lines[size].teams;
      if (first <= cta && cta < first + ctas) {
        shares = grid.lines[size];
        members = size;
        member = (cta - first) % size;
        team = (cta - first) / size;
        Stretch const own = shares.stretch(team);
        next = own.low;
        end = own.high;
      }
      first += ctas;
    }
  }
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

template <int kThreads>
struct KeyPartitionStorage {
  int64_t warp_sums[kThreads / 32];
  KeyLineWork lines[kLargestTeam + 1];  // by members of a team; [0]: one line without teams
};

#ifdef __CUDACC__
// Finds this CTA's place, and the part that is next on its stretch. All threads of the CTA call it; place and
// part lie in shared memory.
template <int kThreads>
struct KeyPartition {
  Cut const& cut;
  int heads;
  KeyTiling tiling;
  KeyPartitionStorage<kThreads>& storage;

  CUTE_DEVICE KeyLine line(int segment, int largest_team) const {
    return {cut.span(segment), heads, {tiling.block, largest_team, tiling.costs}};
  }

  CUTE_DEVICE void find_place(KeyPlace& place) const {
    if (threadIdx.x <= kLargestTeam) storage.lines[threadIdx.x] = {};
    __syncthreads();
    using Whole = unsigned long long;  // whole numbers: in any order
    auto add = [](KeyLineWork& work, KeyLine const& own) {
      if (own.keys == 0) return;
      atomicAdd(reinterpret_cast<Whole*>(&work.cost), static_cast<Whole>(own.cost()));
      atomicMax(reinterpret_cast<Whole*>(&work.largest_tile), static_cast<Whole>(own.tile_cost(0)));
    };
    for (int segment = threadIdx.x; segment < cut.own.count(); segment += kThreads) {
      add(storage.lines[0], line(segment, 1));
      if (tiling.largest_team == 1) continue;
      KeyLine const with_teams = line(segment, tiling.largest_team);
      add(storage.lines[with_teams.members], with_teams);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      KeyGrid const grid(storage.lines, tiling.turn_cost(), gridDim.x);
      place = KeyPlace(grid, blockIdx.x, tiling.largest_team);
    }
    __syncthreads();
  }

  // False if there is none.
  CUTE_DEVICE bool find_part(KeyPlace& place, KeyPart& part) const {
    int64_t const next = place.next;
    if (next >= place.end) return false;
    __syncthreads();  // all have read it
    int const count = cut.own.count();
    int64_t chunk_start = 0, chunk_total = 0;
    for (int base = 0; base < count; base += kThreads, chunk_start += chunk_total) {
      int const segment = base + static_cast<int>(threadIdx.x);
      KeyLine const own = line(segment < count ? segment : 0, place.largest_team);
      bool const on_line = segment < count && own.members == place.members;
      int64_t const cost = on_line ? own.cost() : 0;
      int64_t const start =
          chunk_start + exclusive_sum<kThreads>(cost, storage.warp_sums, chunk_total);
      if (start <= next && next < start + cost) take_part(place, part, own, segment, start);
    }
    __syncthreads();
    return true;
  }

  // By one thread: the next part, of a segment that begins at `start` on the line.
  CUTE_DEVICE void take_part(KeyPlace& place, KeyPart& part, KeyLine const& own, int segment,
                             int64_t start) const {
    int const tile = own.members > 1 ? place.member : own.tile_at(place.next - start);
    int64_t const begin = start + own.tile_start(tile), end = begin + own.tile_cost(tile);
    int64_t const low = place.next, high = end < place.end ? end : place.end;
    part.tile = cut.tile(segment, tile, cut.span(segment));
    part.keys = own.keys_of(tile);
    part.computed_keys = own.computed_keys(tile);
    auto row_at = [&](int64_t point) {
      int const row =
          own.row_block_at(tile, place.shares.cut_at(point - begin, end - begin)) * kKeyRows;
      int const rows = part.tile.queries * heads;
      return row < rows ? row : rows;
    };
    part.rows = {row_at(low), row_at(high)};
    part.turn = place.shares.turn(place.team, begin, end);
    part.slot = static_cast<int>(first_slot(cut.own, segment, 1, cut.block)) + tile;
    place.next = high;
  }
};
#endif

}  // namespace ragged_attention
