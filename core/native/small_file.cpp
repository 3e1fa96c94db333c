#include "tftf_native/small_file.h"

#include "output_target.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf_native/path_kind.h"

namespace tftf {

Result<std::string> read_small_file(const std::string& path, uint64_t limit) {
  const auto kind = path_kind(path);
  if (!kind.ok()) return kind.error();
  if (*kind == PathKind::kNothing)
    return Error{
        .code = ErrorCode::kUsagePath, .message = "There is no " + quote_name(path) + ".", .file = path};
  auto source = open_file_source(path);
  if (!source.ok()) return std::move(source).error();
  const uint64_t size = (*source)->size();
  if (size > limit)
    return Error{.code = ErrorCode::kRefusedInput,
                 .message = quote_name(path) + " has " + std::to_string(size) + " bytes; up to " +
                            std::to_string(limit) + " are read.",
                 .file = path};
  std::string text(to_size(size), '\0');
  TFTF_TRY((*source)->read(0, {reinterpret_cast<std::byte*>(text.data()), text.size()}));
  return text;
}

Result<void> write_small_file(const std::string& folder, const std::string& name, const std::string& text) {
  auto opened = open_output_folder(folder);
  if (!opened.ok()) return std::move(opened).error();
  OutputFolder& into = **opened;
  TFTF_TRY(into.remove(part_name(name)));
  auto file = into.open(part_name(name), OutputFolder::OpenMode::kNew);
  if (!file.ok()) return std::move(file).error();
  TFTF_TRY((*file)->write(0, as_bytes(text)));
  TFTF_TRY((*file)->sync());
  TFTF_TRY(into.rename(part_name(name), name));
  return into.sync();
}

}  // namespace tftf
