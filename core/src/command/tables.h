// The rows of the table of commands, by what they are about, and options that several of them share.
#pragma once

#include <optional>
#include <span>
#include <utility>

#include "tftf/command/command.h"

namespace tftf::command {

std::span<const CommandInfo> transform_commands();
std::span<const CommandInfo> inspection_commands();
std::span<const CommandInfo> adapter_commands();
std::span<const CommandInfo> colibri_commands();
std::span<const CommandInfo> program_commands();  // the program itself, completion, help, version

std::span<const CommandOption> general_options();
std::span<const CommandOption> writing_options();

inline constexpr std::string_view kConversionStatus =
    "0 done (the account says what), 1 refused or failed, 2 usage error or a path that does not exist, 130 "
    "interrupted "
    "(the same command continues).";

// "32x100", "0:64": two numbers.
std::optional<std::pair<uint64_t, uint64_t>> two_numbers(std::string_view text, char between);

}  // namespace tftf::command
