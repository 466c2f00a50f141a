// A program that ends when this process ends, whatever ends it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace weft::codegen {

constexpr int cannot_start_status = 127;  // of the supervisor: the program or its log could not be opened

// Starts `command` (an absolute path and its arguments) with its output in `log`, messages in English and TMPDIR at
// `scratch`: a program that is killed cannot tidy up, so what it leaves has to lie where somebody can. The program
// and all that it starts are one process group, whose id is returned: kill(-id, SIGKILL) ends them all, and the death
// of this process (SIGKILL too) or the end of the calling thread does the same. waitpid(id) gives the program's exit
// status, 128 + its signal, or cannot_start_status with the reason in the log. 0: no process could be made; `problem`
// says why.
pid_t start_supervised(std::vector<std::string> command, const std::filesystem::path& log,
                       const std::filesystem::path& scratch, std::string& problem);

}  // namespace weft::codegen
