// The filters are parsed where they are used (collectives_choice.h); here their errors get the variable's name.
#include "weft/api/environment.h"

#include "weft/api/collectives_choice.h"
#include "weft/base/env.h"

namespace weft::api {

void check_environment() {
  weft::check_environment();
  for (const char* variable : {"WEFT_ALGO", "NCCL_ALGO", "WEFT_PROTO", "NCCL_PROTO"}) {
    ChoiceSettings settings;
    const std::string name = variable, value = env(variable);
    (name.ends_with("ALGO") ? settings.algorithms : settings.protocols) = value;
    try {
      check_filters(settings);
    } catch (const Error& error) {
      throw Error(ErrorKind::user, fmt::format("{}={}: {}", name, value, error.message()),
                  error.remedy().empty() ? "unset it, or see docs/communicator.md" : error.remedy());
    }
  }
}

}  // namespace weft::api
