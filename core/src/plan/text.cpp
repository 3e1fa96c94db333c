#include "plan/text.h"

#include "tftf/base/json_text.h"

namespace tftf {
namespace {

constexpr size_t kPiece = 1 << 16;

class Writer {
 public:
  Writer(const Plan& plan, TextOptions options, const std::function<void(std::string_view)>& emit)
      : plan_(plan), options_(options), emit_(emit) {}

  void write() {
    text_ = "plan 1 ";
    text_ += plan_.command();
    if (options_.tiles) text_ += " tile=" + std::to_string(plan_.tile_bytes());
    end_line();
    for (size_t i = 0; i < plan_.inputs().size(); ++i) {
      const Input& input = plan_.inputs()[i];
      text_ += "input " + std::to_string(i) + " " + json_ascii_string(input.path) + " " +
               std::to_string(input.size) + " sha256:" + input.header_sha256;
      end_line();
    }
    for (size_t i = 0; i < plan_.outputs().size(); ++i) {
      const Output& output = plan_.outputs()[i];
      text_ += "output " + std::to_string(i) + " " + json_ascii_string(output.name) + " ";
      text_ += output.known ? std::to_string(output.size) + " header " + std::to_string(output.header_bytes)
                            : "? header ?";
      end_line();
    }
    for (const PlanEntry& entry : plan_.entries()) write_entry(entry);
    emit_(text_);
  }

 private:
  void write_entry(const PlanEntry& entry) {
    using Kind = PlanEntry::Kind;
    text_ += entry_kind_name(entry.kind);
    if (entry.kind == Kind::kMeasure) text_ += " " + entry.word;
    text_ += " " + json_ascii_string(entry.name);
    switch (entry.kind) {
      case Kind::kTensor:
        typed(entry);
        text_ += " " + entry.word;
        extents(entry.from);
        if (!entry.with.empty()) text_ += " with";
        extents(entry.with);
        tiles(entry);
        break;
      case Kind::kAlso:
        typed(entry);
        break;
      case Kind::kCopy:
        typed(entry);
        text_ += " from";
        extents(entry.from);
        break;
      case Kind::kLiteral:
        typed(entry);
        text_ += " hex " + hex_text(as_bytes(entry.bytes));
        break;
      case Kind::kValue:
        extents(entry.from);
        text_ += " hex " + hex_text(as_bytes(entry.bytes));
        break;
      case Kind::kMeasure:
        extents(entry.from);
        if (!entry.with.empty()) text_ += " with";
        extents(entry.with);
        tiles(entry);
        break;
      case Kind::kDrop:
      case Kind::kSide:
        text_ += " " + entry.word;
        break;
    }
    end_line();
    if (options_.steps) steps(entry);
  }

  void typed(const PlanEntry& entry) {
    text_ += " ";
    text_ += dtype_name(entry.dtype);
    text_ += " " + shape_text(entry.shape) + " out ";
    text_ += entry.to_known ? extent_text(entry.to) : "?";
  }

  void extents(const std::vector<Extent>& list) {
    for (const Extent& extent : list) text_ += " " + extent_text(extent);
  }

  void tiles(const PlanEntry& entry) {
    if (!options_.tiles) return;
    uint64_t count = 0;
    for (const Item& item : plan_.items().subspan(entry.item, entry.items)) count += item.tiles;
    text_ += " tiles " + std::to_string(count);
  }

  void steps(const PlanEntry& entry) {
    for (const Item& item : plan_.items().subspan(entry.item, entry.items)) {
      if (item.op->io_from_tables) continue;  // not known while planning
      for (uint64_t t = 0; t < item.tiles; ++t) {
        plan_.io(item.first_step + t, io_);
        text_ += "  step " + std::to_string(item.first_step + t);
        extents(io_.in);
        if (!io_.out.empty()) text_ += " out";
        extents(io_.out);
        end_line();
      }
    }
  }

  void end_line() {
    text_ += '\n';
    if (text_.size() < kPiece) return;
    emit_(text_);
    text_.clear();
  }

  const Plan& plan_;
  TextOptions options_;
  const std::function<void(std::string_view)>& emit_;
  std::string text_;
  StepIo io_;
};

}  // namespace

std::string_view entry_kind_name(PlanEntry::Kind kind) {
  using Kind = PlanEntry::Kind;
  switch (kind) {
    case Kind::kTensor:
      return "tensor";
    case Kind::kAlso:
      return "also";
    case Kind::kCopy:
      return "copy";
    case Kind::kLiteral:
      return "literal";
    case Kind::kValue:
      return "value";
    case Kind::kMeasure:
      return "measure";
    case Kind::kDrop:
      return "drop";
    case Kind::kSide:
      return "side";
  }
  return "";
}

std::string extent_text(const Extent& extent) {
  std::string text = std::to_string(extent.file) + ":" + std::to_string(extent.offset) + "+" +
                     std::to_string(extent.row_bytes);
  if (extent.rows != 1) text += "x" + std::to_string(extent.rows) + "/" + std::to_string(extent.stride);
  return text;
}

void write_text(const Plan& plan, TextOptions options, const std::function<void(std::string_view)>& emit) {
  Writer(plan, options, emit).write();
}

}  // namespace tftf
