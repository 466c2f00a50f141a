// A job's ranks sit in a loop and are sent a line each; ranks among themselves exchange their answers. The clock among
// ranks is rank 0's as of the last command: budgets of time would otherwise end on one rank before another.
#include "weft/api/commands.h"

#include "weft/base/file.h"
#include "weft/base/text.h"

namespace weft::api {
namespace {

constexpr int64_t answer_bound_ns = 600'000'000'000;

class JobCommands : public Commands {
 public:
  explicit JobCommands(std::unique_ptr<transport::Job> job) : job_(std::move(job)) {}
  int ranks() const override { return job_->ranks(); }
  std::vector<std::string> ask(const std::string& command) override {
    for (int rank = 0; rank < job_->ranks(); rank++) job_->send(rank, command);
    std::vector<std::string> answers;
    for (int rank = 0; rank < job_->ranks(); rank++) answers.push_back(job_->receive(rank, answer_bound_ns));
    return answers;
  }
  int64_t clock_ns() override { return now_ns(); }
  void finish() override { job_->finish(); }

 private:
  std::unique_ptr<transport::Job> job_;
};

class RankCommands : public Commands {
 public:
  RankCommands(transport::Transport& transport, std::function<std::string(std::string_view)> answer)
      : transport_(transport), answer_(std::move(answer)) {
    agree("", "the clock");
  }
  int ranks() const override { return transport_.size(); }
  std::vector<std::string> ask(const std::string& command) override {
    return agree(answer_(command), words(command).at(0));
  }
  int64_t clock_ns() override { return clock_ns_; }

 private:
  std::vector<std::string> agree(const std::string& mine, const std::string& what) {
    std::vector<std::string> all = transport_.exchange(fmt::format("{}\n{}", now_ns(), mine), "tuning: " + what);
    clock_ns_ = std::stoll(all.at(0));
    for (std::string& answer : all) answer.erase(0, answer.find('\n') + 1);
    return all;
  }

  transport::Transport& transport_;
  std::function<std::string(std::string_view)> answer_;
  int64_t clock_ns_ = 0;
};

}  // namespace

std::unique_ptr<Commands> commands_to(std::unique_ptr<transport::Job> job) {
  return std::make_unique<JobCommands>(std::move(job));
}

std::unique_ptr<Commands> commands_among(transport::Transport& transport,
                                         std::function<std::string(std::string_view)> answer) {
  return std::make_unique<RankCommands>(transport, std::move(answer));
}

}  // namespace weft::api
