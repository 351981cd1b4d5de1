// Which arguments does a kernel take? Its own signature says; the entries of a source's kernels are collected here.
#pragma once
#include <string>
#include <tuple>
#include <utility>
#include "half.h"

namespace cuda_on_cpu {

struct Kernel {
  const char* name;
  std::string parameters;                      // each followed by a space, as `spelled` gives them
  void* function;
  void (*call)(void* function, void** arguments);
};
extern const Kernel kernels[];                 // defined behind the source
extern const int kernel_count;

// "f4" for float, "i1x4" for char4, "V12" for a struct of 12 bytes: NumPy's kind and size, "b2" for bfloat16.
template <class T> std::string element_spelled() {
  if constexpr (std::is_void_v<T>) return "void";
  else if constexpr (std::is_pointer_v<T>) return "pointer";
  else if constexpr (std::is_enum_v<T>) return element_spelled<std::underlying_type_t<T>>();
  else if constexpr (Vector<T>::length)
    return element_spelled<typename Vector<T>::element>() + "x" + std::to_string(Vector<T>::length);
  else if constexpr (std::is_same_v<T, f32>) return "f4";
  else if constexpr (std::is_same_v<T, f64>) return "f8";
  else if constexpr (std::is_same_v<T, __half>) return "f2";
  else if constexpr (std::is_same_v<T, __nv_bfloat16>) return "b2";
  else if constexpr (std::is_same_v<T, bool>) return "?1";
  else if constexpr (std::is_integral_v<T>) return (std::is_signed_v<T> ? "i" : "u") + std::to_string(sizeof(T));
  else return "V" + std::to_string(sizeof(T));
}

template <class T> std::string spelled() {     // "*f4" for float*, "&f4" for const float*
  if constexpr (std::is_pointer_v<T>) {
    using Target = std::remove_pointer_t<T>;
    return (std::is_const_v<Target> ? "&" : "*") + element_spelled<std::remove_cv_t<Target>>();
  } else return element_spelled<T>();
}

template <class... P> struct Signature {
  template <size_t... I> UNTRACED static void apply(void (*kernel)(P...), void** arguments, std::index_sequence<I...>) {
    kernel(*(std::remove_reference_t<P>*)arguments[I]...);
  }
  UNTRACED static void call(void* kernel, void** arguments) {
    apply((void (*)(P...))kernel, arguments, std::index_sequence_for<P...>{});
  }
};

template <class... P> Kernel entry(const char* name, void (*kernel)(P...)) {
  std::string parameters;
  ((parameters += spelled<std::remove_cv_t<P>>() + " "), ...);
  return {name, parameters, (void*)kernel, &Signature<P...>::call};
}

}  // namespace cuda_on_cpu
