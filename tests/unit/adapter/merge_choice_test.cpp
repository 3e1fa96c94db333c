// What decides where no shape does: stacks, square weights, names under other prefixes.
#include <catch2/catch.hpp>

#include "adapter/linear_axes.h"
#include "adapter/name_moves.h"
#include "adapter/stack_choice.h"

using namespace tftf;
using namespace tftf::merging;

TEST_CASE("pairs of stacks take parameters of their own, all the same way round") {
  const StackParameter gate_up{"gate_up_proj", {3, 16, 32}, 2}, down{"down_proj", {3, 16, 16}, 2};
  const StackedPair first{6, 16, 32}, second{6, 16, 16};
  // The square one follows the other.
  const auto both = stack_choices({first, second}, {gate_up, down});
  REQUIRE(both.size() == 1);
  CHECK(both[0] == StackChoice{true, {0, 1}});
  CHECK(stack_choices({second}, {down}).size() == 2);
  CHECK(stack_choices({second}, {gate_up}).empty());
  // A rank that is not the configured one, or none at all.
  CHECK(stack_choices({{9, 16, 32}}, {gate_up}).empty());
  CHECK(stack_choices({{9, 16, 32}}, {{"any", {3, 16, 32}}}).size() == 1);
  CHECK(stack_choices({{7, 16, 32}}, {{"any", {3, 16, 32}}}).empty());
  // Two parameters alike.
  CHECK(stack_choices({first, first}, {gate_up, gate_up}).size() == 2);
  // Matrices are never turned, and are no reason to try.
  const auto matrix = stack_choices({{2, 4, 4}}, {{"q.weight", {4, 4}}});
  REQUIRE(matrix.size() == 1);
  CHECK_FALSE(matrix[0].turned);
  CHECK(stack_choices({{2, 4, 6}}, {{"q.weight", {4, 6}}}).empty());
  CHECK(stack_choices({{0, 4, 4}}, {{"q.weight", {0, 4, 4}}}).empty());
}

TEST_CASE("axes of experts come from both shapes, else from the model's type") {
  CHECK(axes_of_shapes({3, 16, 32}, {3, 16, 16}) == StoredAxes::kInOut);
  CHECK(axes_of_shapes({3, 32, 16}, {3, 16, 16}) == StoredAxes::kOutIn);
  CHECK(axes_of_shapes({3, 8, 8}, {3, 8, 4}) == StoredAxes::kOutIn);
  CHECK(axes_of_shapes({3, 8, 8}, {3, 4, 8}) == StoredAxes::kInOut);
  CHECK(axes_of_shapes({3, 8, 8}, {2, 4, 8}) == StoredAxes::kUnknown);
  CHECK(axes_of_shapes({}, {3, 4, 8}) == StoredAxes::kUnknown);
  CHECK(stored_expert_axes({"qwen3_moe"}) == StoredAxes::kOutIn);
  CHECK(stored_expert_axes({"gpt_oss"}) == StoredAxes::kInOut);
  CHECK(stored_expert_axes({"qwen3_vl_moe"}) == StoredAxes::kBoth);
  CHECK(stored_expert_axes({"llava", "mixtral"}) == StoredAxes::kOutIn);
  CHECK(stored_expert_axes({"x"}) == StoredAxes::kUnknown);
  CHECK(interleaves_gate({"gpt_oss"}));
  CHECK_FALSE(interleaves_gate({"qwen3_moe"}));
}

TEST_CASE("PEFT reads stacks as they lie from 0.19.1 on") {
  for (const char* version :
       {"0.19.1", "0.19.2", "0.20.0", "1.0.0", "0.20.1.dev0@UNKNOWN", "0.19.1.post1", "0.19.1+cu1"})
    CHECK(reads_stacks_straight(version));
  for (const char* version :
       {"", "0.19.0", "0.18.1", "0.19.1.dev0", "0.19.1rc1", "0.19", "x", "0.19.x", "9999999999.0.0"})
    CHECK_FALSE(reads_stacks_straight(version));
}

TEST_CASE("square weights lie as others of their name, or as the model's type has them") {
  LinearAxes gpt2(false, {"gpt2"});
  gpt2.add("h.0.mlp.c_proj", false, true);
  gpt2.add("h.0.attn.c_proj", true, true);
  CHECK(gpt2.turned("h.0.attn.c_proj") == std::optional(true));
  CHECK(gpt2.turned("h.0.attn.c_attn") == std::optional(true));
  CHECK(gpt2.turned("lm_head") == std::optional(false));
  // The type and what the shapes say may disagree.
  gpt2.add("h.1.c_fc", true, false);
  CHECK_FALSE(gpt2.turned("h.2.c_fc").has_value());

  LinearAxes named(true, {});
  named.add("a.q", true, false);
  CHECK(named.turned("b.q") == std::optional(false));  // whatever the flag says
  CHECK_FALSE(named.turned("b.v").has_value());        // others say one thing, the flag another
  named.add("c.q", false, true);
  CHECK_FALSE(named.turned("b.q").has_value());

  LinearAxes llama(false, {"llama"});
  llama.add("mlp.up", true, false);
  CHECK(llama.turned("q") == std::optional(false));
  LinearAxes silent(false, {});
  silent.add("a.q_proj", true, true);
  silent.add("a.o_proj", true, true);
  CHECK(silent.turned("a.q_proj") == std::optional(false));
  silent.add("a.c_proj", true, true);  // of GPT-2, perhaps
  CHECK_FALSE(silent.turned("a.c_proj").has_value());
  for (const bool flag : {false, true}) {
    LinearAxes alone(flag, {});
    alone.add("a.c_proj", true, true);
    CHECK(alone.turned("a.c_proj") == std::optional(flag));
  }
}

TEST_CASE("modules are found under other prefixes where one way puts all of them on the base") {
  const auto moves = [](const std::vector<std::string>& modules, const std::vector<std::string_view>& base) {
    return find_moves(modules, base, [&](const std::string& module) {
      return std::find(base.begin(), base.end(), module) != base.end();
    });
  };
  const auto inside =
      moves({"model.layers.0.q", "model.layers.1.q"},
            {"model.language_model.layers.0.q", "model.language_model.layers.1.q", "model.visual.q"});
  CHECK(inside == std::vector<NameMove>{{"model.", "model.language_model."}});
  CHECK(moves_as_options(inside) == "--rename-adapter '^model\\.' 'model.language_model.'");
  CHECK(moved("model.layers.1.q", inside) == "model.language_model.layers.1.q");
  CHECK(moved("other.q", inside) == "other.q");
  const auto outside = moves({"model.layers.0.q"}, {"language_model.model.layers.0.q"});
  CHECK(outside == std::vector<NameMove>{{"", "language_model."}});
  const auto two = moves({"language_model.model.layers.0.q", "language_model.lm_head"},
                         {"model.language_model.layers.0.q", "lm_head"});
  CHECK(two.size() == 2);
  CHECK(moves_as_options(two) ==
        "--rename-adapter '^language_model\\.model\\.' 'model.language_model.' --rename-adapter "
        "'^language_model\\.' ''");
  // One is nowhere; two places fit alike; nothing to move.
  CHECK(moves({"model.layers.0.q", "model.layers.9.z"}, {"text.layers.0.q"}).empty());
  CHECK(moves({"layers.0.q"}, {"vision.layers.0.q", "text.layers.0.q"}).empty());
  CHECK(moves({"layers.0.q"}, {"layers.0.q"}).empty());
  CHECK(modules_of({"a.b.weight", "a.b.bias", "c"}) == std::vector<std::string_view>{"a.b"});
}
