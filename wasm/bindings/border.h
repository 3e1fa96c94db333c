// The border to JavaScript: no exception crosses it, numbers that JavaScript cannot hold are refused, and byte
// ranges go out under numbers of their own.
#pragma once

#include <emscripten/bind.h>

#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tftf/base/bytes.h"
#include "tftf/base/json_text.h"
#include "tftf/base/json_value.h"
#include "tftf/base/result.h"

namespace tftf::wasm {

// What the last call could not do; taken by JavaScript after every call (takeError()).
void set_error(const Error& error);

// Thrown inside the bindings only.
struct Failure {
  Error error;
};

template <class T>
T need(Result<T> result) {
  if (!result) throw Failure{std::move(result).error()};
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// Runs a call of JavaScript's; on a failure the error is kept and a value of its type is returned.
template <class Work>
auto guarded(Work&& work) noexcept -> decltype(work()) {
  using R = decltype(work());
  try {
    return work();
  } catch (const Failure& failure) {
    set_error(failure.error);
  } catch (const std::bad_alloc&) {
    set_error({.code = ErrorCode::kInternal, .message = "There was not enough memory."});
  } catch (const std::exception& error) {
    set_error({.code = ErrorCode::kInternal,
               .message = "A defect of this program: " + std::string(error.what()) + "."});
  } catch (...) {
    set_error({.code = ErrorCode::kInternal, .message = "A defect of this program."});
  }
  if constexpr (!std::is_void_v<R>) return R{};
}

// A member or free function as Embind takes it, guarded: guard<&T::f>.
template <auto Function>
struct Guard;
template <class T, class R, class... A, R (T::*Method)(A...)>
struct Guard<Method> {
  static R call(T& self, A... a) {
    return guarded([&] { return (self.*Method)(std::forward<A>(a)...); });
  }
};
template <class T, class R, class... A, R (T::*Method)(A...) const>
struct Guard<Method> {
  static R call(const T& self, A... a) {
    return guarded([&] { return (self.*Method)(std::forward<A>(a)...); });
  }
};
template <class R, class... A, R (*Function)(A...)>
struct Guard<Function> {
  static R call(A... a) {
    return guarded([&] { return Function(std::forward<A>(a)...); });
  }
};
template <auto Function>
inline constexpr auto guard = &Guard<Function>::call;

// Positions and sizes cross as doubles, exact up to 2^53; anything else is refused.
double to_number(uint64_t value);
uint64_t from_number(double value);

// JavaScript's own JSON, which is always sound.
JsonValue parse_argument(const std::string& json);
// Its members; absent and null ones are the fallback, those of another kind are refused with kUsage.
std::string text_of(const JsonValue& object, std::string_view key);
bool flag_of(const JsonValue& object, std::string_view key);
uint64_t number_of(const JsonValue& object, std::string_view key, uint64_t fallback);
double real_of(const JsonValue& object, std::string_view key, double fallback);
std::vector<std::string> texts_of(const JsonValue& object, std::string_view key);

inline Bytes bytes_at(uintptr_t data, uint32_t length) {
  return {reinterpret_cast<const std::byte*>(data), length};
}

// Requests that JavaScript is to answer, known by their numbers.
template <class Request>
class Requests {
 public:
  // One line of want()'s list.
  void add(OrderedJson& list, OrderedJson line, Request request) {
    line["id"] = open_.size();
    list.push_back(std::move(line));
    open_.push_back(std::move(request));
  }
  const Request& at(uint32_t id) const {
    if (id >= open_.size())
      throw Failure{{.code = ErrorCode::kInternal, .message = "There is no such request."}};
    return open_[id];
  }

 private:
  std::vector<Request> open_;
};

OrderedJson range_line(const std::string& file, uint64_t offset, uint64_t length);

}  // namespace tftf::wasm
