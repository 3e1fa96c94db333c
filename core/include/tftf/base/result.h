// Errors as values. An Error means "cannot go on"; findings about a checkpoint are Diagnostics
// (diagnostic/diagnostic.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace tftf {

enum class ErrorCode {
#define TFTF_ERROR_CODE(id, text, exit_status, when) id,
#include "tftf/base/error_codes.def"
#undef TFTF_ERROR_CODE
};

// Text of a code as it stands in JSON and docs, e.g. "refused-input".
std::string_view error_code_text(ErrorCode code);
// When the code is used, one sentence.
std::string_view error_code_help(ErrorCode code);
// Process exit status that belongs to the code (1, 2, 3 or 130).
int error_exit_status(ErrorCode code);

// `message` is one full English sentence naming file and tensor where there are some; the other fields repeat
// the parts as data. Names inside `message` are already escaped (base/escape.h); `file` and `tensor` are
// exact.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message{};  // the initialisers let callers name only the fields they set, without a warning
  std::string file{};
  std::string tensor{};
  std::string expected{};
  std::string found{};
};

// A value or an Error. Accessing the wrong one is a programming error (std::get throws).
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Error& error() & { return std::get<1>(state_); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}
  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  Error& error() & { return *error_; }
  const Error& error() const& { return *error_; }
  Error&& error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

}  // namespace tftf

// Return the error of a Result expression, or go on.
#define TFTF_TRY(expression)                                        \
  do {                                                              \
    if (auto tftf_try_result = (expression); !tftf_try_result.ok()) \
      return std::move(tftf_try_result).error();                    \
  } while (false)
