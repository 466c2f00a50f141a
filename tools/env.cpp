// weft env: every environment variable, its meaning and the value in force.
#include "weft/base/env.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/verbs.h"

namespace weft::tools {

Verb add_env(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  CLI::App* verb = app.add_subcommand("env", "list the environment variables that Weft reads");
  verb->footer("  weft env\n  weft env --json");
  verb->add_flag("--json", *json, "print JSON");
  return [json] {
    nlohmann::json out = nlohmann::json::array();
    for (const EnvVariable& variable : env_variables()) {
      const std::string name(variable.name), value = env(variable.name);
      if (*json)
        out.push_back({{"name", name},
                       {"value", value},
                       {"default", std::string(variable.fallback)},
                       {"meaning", std::string(variable.meaning)}});
      else
        std::printf("%-20s %-12s %s\n", name.c_str(), value.empty() ? "-" : value.c_str(),
                    std::string(variable.meaning).c_str());
    }
    if (*json) std::printf("%s\n", out.dump(2).c_str());
  };
}

}  // namespace weft::tools
