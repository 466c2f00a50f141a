// Read as a document whose numbers are long doubles: microseconds since 1970 with three decimals fit their 64 bits.
#include "weft/trace/chrome.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "weft/base/error.h"

namespace weft::trace {
namespace {

using Json = nlohmann::basic_json<std::map, std::vector, std::string, bool, std::int64_t, std::uint64_t, long double>;

std::string text_of(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at == object.end() ? "" : at->is_string() ? at->get<std::string>() : at->dump();
}

bool time_of(const Json& object, const char* key, int64_t& ns) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_number()) return false;
  const long double us = at->get<long double>();
  if (!(std::fabs(us) < 9e15L)) return false;
  ns = std::llround(us * 1000);
  return true;
}

class Reader {
 public:
  Reader(std::string name, size_t most) : name_(std::move(name)), most_(most) {}
  ChromeTrace read(std::string_view text) {
    const Json all = parse(text);
    const Json* events = all.is_array() ? &all : nullptr;
    if (all.is_object() && all.contains("traceEvents")) events = &all["traceEvents"];
    if (!events || !events->is_array())
      throw Error(ErrorKind::user, fmt::format("{} has no list of traceEvents", name_), "a Chrome trace has one");
    for (size_t i = 0; i < events->size(); ++i) event((*events)[i], fmt::format("{} event {}", name_, i));
    for (auto& [thread, spans] : threads_) lay(thread, spans);
    return std::move(out_);
  }

 private:
  using Thread = std::pair<std::string, std::string>;
  struct Read {
    ChromeTrace::Span span;
    bool wait = false;
  };
  Json parse(std::string_view text) const {
    try {
      return Json::parse(text);
    } catch (const Json::parse_error& error) {
      throw Error(ErrorKind::user, fmt::format("{}: byte {}: {}", name_, error.byte, error.what()),
                  "is the file whole?");
    }
  }
  void event(const Json& e, const std::string& where) {
    if (!e.is_object()) return out_.dropped.add("events that are no objects", where);
    const std::string ph = text_of(e, "ph");
    const Thread thread{text_of(e, "pid"), text_of(e, "tid")};
    if (ph == "M") return name(e, thread);
    if (ph != "X") return out_.dropped.add(fmt::format("events of phase {}: only spans are drawn", ph), where);
    Read read;
    int64_t length = 0;
    if (!time_of(e, "ts", read.span.begin_ns) || !time_of(e, "dur", length) || length < 0)
      return out_.dropped.add("spans without a time or a length, or with one below 0", where);
    if (++spans_ > most_)
      throw Error(ErrorKind::timeout, fmt::format("{} has more than {} spans", name_, most_), "raise --most-spans");
    read.span.wait_ns = read.span.begin_ns;
    read.span.end_ns = read.span.begin_ns + length;
    read.span.name = text_of(e, "name");
    read.wait = text_of(e, "cat") == "wait";
    threads_[thread].push_back(std::move(read));
  }
  void name(const Json& e, const Thread& thread) {
    const auto args = e.find("args");
    if (args == e.end() || !args->is_object()) return;
    if (text_of(e, "name") == "process_name") processes_[thread.first] = text_of(*args, "name");
    if (text_of(e, "name") == "thread_name") names_[thread] = text_of(*args, "name");
  }
  // One track for what does not overlap, more for what lies inside.
  void lay(const Thread& thread, std::vector<Read>& spans) {
    std::stable_sort(spans.begin(), spans.end(), [](const Read& a, const Read& b) {
      return std::make_tuple(a.span.begin_ns, !a.wait, -a.span.end_ns) <
             std::make_tuple(b.span.begin_ns, !b.wait, -b.span.end_ns);
    });
    const auto process = processes_.find(thread.first);
    const auto known = names_.find(thread);
    const ChromeTrace::Track track{process == processes_.end() ? thread.first : process->second,
                                   known == names_.end() ? thread.second : known->second};
    std::vector<std::pair<uint32_t, int64_t>> rows;  // track, and where its last span ends
    for (size_t i = 0; i < spans.size(); ++i) {
      ChromeTrace::Span span = spans[i].span;
      if (spans[i].wait && i + 1 < spans.size() && spans[i + 1].span.begin_ns == span.end_ns) {
        spans[i + 1].span.wait_ns = span.begin_ns;
        continue;
      }
      auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.second <= span.begin_ns; });
      if (row == rows.end()) {
        rows.emplace_back(static_cast<uint32_t>(out_.tracks.size()), 0);
        row = rows.end() - 1;
        out_.tracks.push_back(track);
        if (rows.size() > 1) out_.tracks.back().thread = fmt::format("{} ({})", track.thread, rows.size());
      }
      row->second = span.end_ns;
      span.track = row->first;
      const bool first = out_.spans.empty();
      out_.begin_ns = first ? span.wait_ns : std::min(out_.begin_ns, span.wait_ns);
      out_.end_ns = first ? span.end_ns : std::max(out_.end_ns, span.end_ns);
      out_.spans.push_back(std::move(span));
    }
  }

  std::string name_;
  size_t most_, spans_ = 0;
  ChromeTrace out_;
  std::map<std::string, std::string> processes_;
  std::map<Thread, std::string> names_;
  std::map<Thread, std::vector<Read>> threads_;
};

}  // namespace

ChromeTrace read_chrome(const std::string& name, std::string_view text, size_t most) {
  return Reader(name, most).read(text);
}

}  // namespace weft::trace
