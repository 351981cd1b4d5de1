// What do Tensor Cores compute? A warp holds tiles, spread over its lanes; the last lane to arrive multiplies them.
#pragma once
#include "half.h"

namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };
namespace precision { struct tf32; }

template <class T> struct Stored { using type = T; };
template <> struct Stored<precision::tf32> { using type = f32; };

// Which lane holds what is NVIDIA's secret in wmma; here it is as in the PTX instructions beneath, so that a trace sees
// the same requests: of a and b eight lanes load eight lines of 16 bytes, of an accumulator four lanes hold 8 of a row.
template <class Use, int M, int N, int K, class T, class Layout = void> struct fragment {
  using element_type = typename Stored<T>::type;
  static constexpr int rows = std::is_same_v<Use, matrix_b> ? K : M, columns = std::is_same_v<Use, matrix_a> ? K : N;
  static constexpr int size = rows * columns, num_elements = size / 32;
  static constexpr bool by_columns = std::is_same_v<Layout, col_major>, sum = std::is_same_v<Use, accumulator>;
  static constexpr int lines = by_columns ? columns : rows, length = size / lines;        // of memory, in elements
  static constexpr int most = 16 / sizeof(element_type), share = num_elements < most ? num_elements : most;
  static constexpr int piece = sum ? 2 : share;                                           // elements moved at once
  static constexpr int element(int lane, int i) {                                         // its place in the tile
    const int part = i / piece, place = part * 32 + lane;
    const int line = sum ? part % (lines / 8) * 8 + lane / 4 : place % lines;
    const int first = sum ? part / (lines / 8) * 8 + lane % 4 * 2 : place / lines * piece;
    return line * length + first + i % piece;
  }
  element_type x[num_elements];
};

inline f32 __float_to_tf32(f32 x) {            // 10 bits of fraction, to nearest, ties away from zero
  return cuda_on_cpu::reinterpret<f32>((cuda_on_cpu::reinterpret<uint32_t>(x) + 0x1000) & ~0x1fffu);
}

template <class F, class V> inline void fill_fragment(F& f, V value) {
  for (auto& element : f.x) element = typename F::element_type(value);
}

// Moves the share of this lane, in pieces of 16 bytes where it lies in memory as it does in the fragment.
template <bool mine_by_columns, class F, class V, class Move>
UNTRACED void move_share(F& f, V* tile, unsigned stride, bool by_columns, cuda_on_cpu::Access kind, int line,
                         Move move) {
  if ((uintptr_t)tile % 32 || stride * sizeof(V) % 16)
    cuda_on_cpu::fail(line, "a wmma tile must start at a multiple of 32 bytes and its rows lie a multiple of 16 bytes "
                      "apart, but it starts %d bytes past one, its rows %u elements of %d bytes apart",
                      (int)((uintptr_t)tile % 32), stride, (int)sizeof(V));
  const int piece = mine_by_columns == by_columns ? F::piece : 1;
  for (int i = 0; i < F::num_elements; ++i) {
    const int element = F::element(cuda_on_cpu::lane_in_warp(), i);
    const size_t outer = element / F::length, inner = element % F::length;
    V* address = tile + (mine_by_columns == by_columns ? outer * stride + inner : inner * stride + outer);
    if (i % piece == 0) cuda_on_cpu::accessed(address, piece * (int)sizeof(V), kind, line);
    move(f.x[i], *address);
  }
  __syncwarp(0xffffffffu, line);
}

struct Load {
  template <class E, class V> UNTRACED void operator()(E& mine, const V& memory) const { mine = memory; }
};
struct Store {
  template <class E, class V> UNTRACED void operator()(const E& mine, V& memory) const { memory = mine; }
};

template <class Use, int M, int N, int K, class T, class Layout, class V>
UNTRACED void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& f, const V* tile, unsigned stride, AT_LINE) {
  constexpr bool by_columns = fragment<Use, M, N, K, T, Layout>::by_columns;
  move_share<by_columns>(f, tile, stride, by_columns, cuda_on_cpu::Access::Load, line, Load{});
}
template <int M, int N, int K, class T, class V>
UNTRACED void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const V* tile, unsigned stride, layout_t layout,
                               AT_LINE) {
  move_share<false>(f, tile, stride, layout == mem_col_major, cuda_on_cpu::Access::Load, line, Load{});
}
template <int M, int N, int K, class T, class V>
UNTRACED void store_matrix_sync(V* tile, const fragment<accumulator, M, N, K, T>& f, unsigned stride, layout_t layout,
                                AT_LINE) {
  move_share<false>(f, tile, stride, layout == mem_col_major, cuda_on_cpu::Access::Store, line, Store{});
}

template <class D, class A, class B, class C> struct Operands {
  D* d;
  const A* a;
  const B* b;
  const C* c;
};

template <class T, class E> UNTRACED T number(E element) {
  if constexpr (std::is_arithmetic_v<E>) return (T)element;
  else if constexpr (std::is_same_v<E, f64>) return (T)(double)element;
  else return (T)(float)f32(element);
}

// All elements of a tile in its own order, gathered from the lanes of a warp.
template <class T, class Ops, class Take> UNTRACED void gather(T* tile, cuda_on_cpu::Lane* warp, Take take) {
  for (int lane = 0; lane < 32; ++lane) {
    const auto& part = take(*(Ops*)warp[lane].operand);
    for (int i = 0; i < part.num_elements; ++i) tile[part.element(lane, i)] = number<T>(part.x[i]);
  }
}

template <class D, class A, class B, class C> UNTRACED void multiply(cuda_on_cpu::Lane* warp, unsigned) {
  using Ops = Operands<D, A, B, C>;
  using E = typename D::element_type;
  using Sum = std::conditional_t<std::is_integral_v<E>, int, std::conditional_t<std::is_same_v<E, f64>, double, float>>;
  static Sum a[A::size], b[B::size], sum[D::size];
  gather<Sum, Ops>(a, warp, [](const Ops& ops) -> const A& { return *ops.a; });
  gather<Sum, Ops>(b, warp, [](const Ops& ops) -> const B& { return *ops.b; });
  gather<Sum, Ops>(sum, warp, [](const Ops& ops) -> const C& { return *ops.c; });
  const int m = D::rows, n = D::columns, k = A::columns;
  for (int row = 0; row < m; ++row)
    for (int inner = 0; inner < k; ++inner)
      for (int column = 0; column < n; ++column)
        sum[row * n + column] += a[A::by_columns ? inner * m + row : row * k + inner] *
                                 b[B::by_columns ? column * k + inner : inner * n + column];
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < D::num_elements; ++i) ((Ops*)warp[lane].operand)->d->x[i] = sum[D::element(lane, i)];
  cuda_on_cpu::count(2ull * m * n * k);
}

template <class D, class A, class B, class C>
UNTRACED void mma_sync(D& d, const A& a, const B& b, const C& c, AT_LINE) {
  Operands<D, A, B, C> operands{&d, &a, &b, &c};
  if (cuda_on_cpu::block_threads - (cuda_on_cpu::current->index & ~31) < 32)
    cuda_on_cpu::fail(line, "mma_sync needs a whole warp: launch blocks of a multiple of 32 threads");
  cuda_on_cpu::warp_operation(multiply<D, A, B, C>, 0xffffffffu, 0, 0, line, &operands);
}

}  // namespace wmma
}  // namespace nvcuda
