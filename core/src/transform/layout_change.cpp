// `convert`: the layout of names, the form of experts, the text model alone (spec experts 2, 5 and 8).
#include "layout_change.h"

#include <algorithm>

#include "module_lists.h"
#include "pipe.h"
#include "text_part.h"
#include "tftf/base/escape.h"
#include "tftf/base/json_text.h"

namespace tftf::transform {
namespace {

constexpr std::string_view kBody = "model.", kHead = "lm_head.";
constexpr std::string_view kConfigName = "config.json";
constexpr std::string_view kNotOfText = "not of the text model";
// They are about the other parts.
constexpr std::string_view kProcessorFiles[] = {"preprocessor_config.json", "processor_config.json",
                                                "video_preprocessor_config.json"};

// A name in another layout, or at another place.
class NameMoves {
 public:
  NameMoves(const LayoutNames& names, NameLayout to) : names_(&names), to_(to) {}
  std::string of(const std::string& name) const { return names_->convert(name, to_).name; }

 private:
  const LayoutNames* names_;
  NameLayout to_;
};

// The entry of a list: moved like a name, with a dot behind.
std::string moved_entry(const NameMoves& moves, const std::string& entry) {
  std::string name = moves.of(entry + ".");
  if (name.size() < 2 || name.back() != '.') return entry;
  name.pop_back();
  return name;
}

class LayoutChange {
 public:
  LayoutChange(Stream& stream, const LayoutRequest& request) : stream_(stream), request_(request) {}

  Result<void> change() {
    Result<ModelEntry> entry = find_model_entry(stream_.config(), request_.model_type);
    if (!entry) return std::move(entry).error();
    entry_ = *entry;
    counts_.model_type = entry_.type->name;
    if (request_.to == NameLayout::kTransformers4 && entry_.type->only_to5) {
      return Error{
          .code = ErrorCode::kRefusedUnsupported,
          .message = "Model type " + quote_name(entry_.type->name) +
                     " goes to transformers-5 only: there two names of transformers-4 have become one, and "
                     "a file does not tell which is which.",
          .found = std::string(entry_.type->name)};
    }
    const LayoutNames names(entry_);
    TFTF_TRY(request_.text_part ? take_text(names) : convert(names));
    note_nothing();
    stream_.layout_change = sum_of_counts();
    return {};
  }

 private:
  Result<void> convert(const LayoutNames& names) {
    ExpertRequest experts{std::string(entry_.type->name), entry_.experts(), &names, request_.to,
                          request_.experts};
    experts.names_move = names_move(names);
    if (!request_.to) {
      TFTF_TRY(convert_experts(stream_, experts, counts_));
      return changes_anything() ? check_unique_names(stream_) : Result<void>();
    }
    return to_layout(names, entry_, *request_.to, experts);
  }

  // Joins and experts are of names of transformers 5.
  Result<void> to_layout(const LayoutNames& names, const ModelEntry& entry, NameLayout to,
                         const ExpertRequest& experts) {
    const bool to5 = to == NameLayout::kTransformers5;
    if (to5) TFTF_TRY(move_names(names, to));
    TFTF_TRY(convert_joins(stream_, entry.joins(), to, counts_));
    TFTF_TRY(convert_experts(stream_, experts, counts_));
    if (!to5) TFTF_TRY(move_names(names, to));
    return changes_anything() ? check_unique_names(stream_) : Result<void>();
  }

  // Those of config.json too, as soon as some tensor's has moved.
  Result<void> move_names(const LayoutNames& names, NameLayout to) {
    const uint64_t before = counts_.moved;
    TFTF_TRY(convert_names(stream_, names, to, request_.allow_unmapped, counts_));
    if (counts_.moved == before) return {};
    const NameMoves moves(names, to);
    edit_config([&moves](const std::string& entry) { return ModuleMove{moved_entry(moves, entry)}; });
    return {};
  }

  bool names_move(const LayoutNames& names) const {
    if (!names.has_rules() || request_.to) return false;
    return std::any_of(stream_.tensors.begin(), stream_.tensors.end(), [&names](const StreamTensor& tensor) {
      return names.convert(tensor.name, NameLayout::kTransformers5).moved;
    });
  }

  // The text of config.json as it is now; nothing when there is none that can be read.
  std::optional<std::string> config_now() const {
    if (stream_.rewritten != nullptr) return stream_.rewritten->text;
    const SideFile* file = stream_.home->side_file(kConfigName);
    if (file == nullptr || file->document.error) return std::nullopt;
    return file->text;
  }

  // Lists follow what earlier pipes have renamed before they follow this one.
  void edit_config(const ModuleMoves& moves) {
    auto text = config_now();
    if (!text) {
      if (stream_.home->side_file(kConfigName) != nullptr)
        stream_.warnings.push_back(
            "\"config.json\" is not valid JSON, so that no list of modules in it is renamed.");
      return;
    }
    ConfigText config{std::string(kConfigName), *std::move(text)};
    if (stream_.renamed) rename_module_lists(stream_, config, stream_.warnings);
    move_module_lists(moves, "Names are brought into another layout", config, stream_.warnings);
    if (!config.changes().empty()) stream_.rewrite_config(std::move(config));
    stream_.renamed = false;
    stream_.lists_current = true;
    for (StreamTensor& tensor : stream_.tensors) tensor.listed_name.reset();
  }

  Result<void> take_text(const LayoutNames& names) {
    const JsonValue* root = stream_.config();
    Result<TextModel> text = find_text_model(root, *entry_.type);
    if (!text) return std::move(text).error();
    LayoutVote vote(names);
    for (const StreamTensor& tensor : stream_.tensors) vote.add(tensor.name);
    const NameLayout to = request_.to.value_or(vote.layout());
    const ModelType* type = find_model_type(text->type);
    if (type != nullptr && type->only_to5 && to == NameLayout::kTransformers4)
      return Error{.code = ErrorCode::kRefusedUnsupported,
                   .message = "Text model type " + quote_name(text->type) +
                              " goes to transformers-5 only: say --to transformers-5."};

    TFTF_TRY(convert_names(stream_, names, NameLayout::kTransformers5, request_.allow_unmapped, counts_));
    TFTF_TRY(cut_out());
    const NameMoves to5(names, NameLayout::kTransformers5);
    edit_config([&](const std::string& entry) { return cut_entry(to5, entry); });
    rewrite_as_text(*text);
    warn_of_head();
    for (const std::string_view name : kProcessorFiles) stream_.sides_left.push_back(name);
    stream_.relaid = true;
    if (type == nullptr) return check_unique_names(stream_);
    return as_text_type(ModelEntry{type}, to);
  }

  Result<void> as_text_type(const ModelEntry& inner, NameLayout to) {
    const LayoutNames names(inner);
    ExpertRequest experts{std::string(inner.type->name), inner.experts(), &names, to, request_.experts};
    // The wrapper's own may lie in other axes.
    if (!entry_.experts().empty()) {
      const InLayouts<ExpertAxes>& axes = entry_.experts().front().axes;
      for (const ExpertAxes one : {axes.in4, axes.in5})
        if (!inner.experts().empty() && one != inner.experts().front().axes[to]) experts.also_stored = one;
    }
    return to_layout(names, inner, to, experts);
  }

  // "model." or "lm_head." for names below the body or the head; nothing for others.
  std::optional<std::string> text_name(const std::string& name) const {
    const TextPart& part = *entry_.type->text;
    const auto below = [&](std::string_view begin, std::string_view now) -> std::optional<std::string> {
      if (!name.starts_with(begin)) return std::nullopt;
      return std::string(now) + name.substr(begin.size());
    };
    if (auto moved = below(part.body.in5, kBody)) return moved;
    return below(part.head.in5, kHead);
  }

  Result<void> cut_out() {
    std::vector<StreamTensor> kept;
    bool body = false;
    for (StreamTensor& tensor : stream_.tensors) {
      auto name = text_name(tensor.name);
      if (!name) {
        stream_.dropped.push_back({stream_.checkpoint->info(tensor.source).name, std::string(kNotOfText)});
        continue;
      }
      body = body || name->starts_with(kBody);
      tensor.name = *std::move(name);
      kept.push_back(std::move(tensor));
    }
    if (!body) {
      return Error{.code = ErrorCode::kRefusedMissing,
                   .message = "No tensor is below " + quote_name(entry_.type->text->body.in5) +
                              ", where transformers 5 has the text model of " +
                              std::string(entry_.type->name) + ".",
                   .expected = std::string(entry_.type->text->body.in5)};
    }
    stream_.tensors = std::move(kept);
    return {};
  }

  // Entries of the other parts go; those that are no name of the type stay.
  ModuleMove cut_entry(const NameMoves& to5, const std::string& entry) const {
    const std::string name = to5.of(entry + ".");
    if (auto moved = text_name(name)) {
      moved->pop_back();
      return {*std::move(moved)};
    }
    const bool known = LayoutNames(entry_).convert(entry + ".", NameLayout::kTransformers5).known;
    return {.name = entry, .gone = known};
  }

  void rewrite_as_text(const TextModel& text) {
    const JsonValue* root = stream_.config();
    auto now = config_now();
    if (root == nullptr || !now) return;
    // The member's address may have changed with the document.
    TextModel model = text;
    if (model.config != nullptr) model.config = root->get(entry_.type->text->config);
    const std::string made = text_config(model, *root, *now, stream_.warnings);
    ConfigText before{std::string(kConfigName), *std::move(now)};
    auto config = std::make_shared<Stream::Config>();
    if (stream_.rewritten != nullptr) config->changes = stream_.rewritten->changes;
    config->text = made;
    config->document = parse_json(made, JsonDialect::kPython);
    config->changes.push_back({std::string(kConfigName), "", to_ordered_json(before.root()),
                               to_ordered_json(config->document.root)});
    stream_.rewritten = std::move(config);
  }

  void warn_of_head() {
    const bool head = std::any_of(stream_.tensors.begin(), stream_.tensors.end(),
                                  [](const StreamTensor& tensor) { return tensor.name.starts_with(kHead); });
    const JsonValue* root = stream_.config();
    const JsonValue* tie = root == nullptr ? nullptr : root->find("tie_word_embeddings");
    if (head || (tie != nullptr && tie->is_true())) return;
    stream_.warnings.push_back(
        "The text model has no output head, and config.json does not say that it is tied to the embeddings: "
        "readers go by what its class does by itself.");
  }

  bool changes_anything() const {
    const LayoutCounts& c = counts_;
    return request_.text_part || c.moved + c.fused + c.split + c.transposed + c.joined > 0;
  }

  void note_nothing() {
    if (changes_anything()) return;
    stream_.warnings.push_back("Nothing had to be converted: names and experts are in the form asked for.");
  }

  // Several of them in one run.
  LayoutCounts sum_of_counts() const {
    LayoutCounts sum = counts_;
    if (!stream_.layout_change) return sum;
    const LayoutCounts& before = *stream_.layout_change;
    sum.moved += before.moved;
    sum.kept += before.kept;
    sum.unmapped += before.unmapped;
    sum.fused += before.fused;
    sum.split += before.split;
    sum.transposed += before.transposed;
    sum.joined += before.joined;
    return sum;
  }

  Stream& stream_;
  const LayoutRequest& request_;
  ModelEntry entry_;
  LayoutCounts counts_;
};

class ConvertPipe final : public Pipe {
 public:
  explicit ConvertPipe(LayoutRequest request) : request_(std::move(request)) {}

  std::string text() const override {
    std::string text = "convert";
    if (request_.to) text += " to=" + std::string(name_layout_text(*request_.to));
    if (request_.experts) text += " experts=" + std::string(expert_form_text(*request_.experts));
    if (request_.text_part) text += " part=text";
    if (!request_.model_type.empty()) text += " model-type=" + json_ascii_string(request_.model_type);
    return text + (request_.allow_unmapped ? " allow-unmapped" : "");
  }

  Result<void> apply(Stream& stream) const override { return change_layout(stream, request_); }

 private:
  LayoutRequest request_;
};

}  // namespace

Result<void> change_layout(Stream& stream, const LayoutRequest& request) {
  return LayoutChange(stream, request).change();
}

Result<std::unique_ptr<Pipe>> make_convert(const Operation& operation) {
  LayoutRequest request;
  if (const auto* to = operation.find("to")) request.to = find_name_layout(to->front());
  if (const auto* experts = operation.find("experts"))
    request.experts = experts->front() == "fused" ? ExpertForm::kFused : ExpertForm::kSplit;
  request.text_part = operation.find("part") != nullptr;
  if (const auto* type = operation.find("model-type")) request.model_type = type->front();
  request.allow_unmapped = operation.find("allow-unmapped") != nullptr;
  if (!request.to && !request.experts && !request.text_part)
    return Error{.code = ErrorCode::kUsage, .message = "convert needs --to, --experts or --part."};
  return std::unique_ptr<Pipe>(std::make_unique<ConvertPipe>(std::move(request)));
}

std::string convert_obstacle(const Checkpoint& checkpoint) {
  Result<ModelEntry> entry = find_model_entry(checkpoint.config(), "");
  return entry ? "" : entry.error().message;
}

}  // namespace tftf::transform
