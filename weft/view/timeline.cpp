// Both forms of a timeline. The page's data are lists by column, times as differences: a tenth of what objects take.
#include "weft/view/timeline.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <tuple>

#include "weft/base/error.h"
#include "weft/view/timeline_text.h"

namespace weft::view {
namespace {

constexpr int64_t stretches = 1000;  // of a meter, in a Chrome trace

// JSON that may stand inside HTML and JavaScript.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += fmt::format("\\{}", c);
    else if (byte < 0x20 || c == '<' || c == '>' || c == '&')
      out += fmt::format("\\u{:04x}", byte);
    else
      out += c;
  }
  return out + '"';
}

template <typename List, typename Text>
std::string array(const List& list, Text&& text) {
  std::string out = "[";
  for (const auto& item : list) {
    if (out.size() > 1) out += ',';
    out += text(item);
  }
  return out + ']';
}
std::string array(const std::vector<std::string>& list) { return array(list, quoted); }
std::string array(const std::vector<int64_t>& list) {
  fmt::memory_buffer out;
  out.push_back('[');
  for (size_t i = 0; i < list.size(); ++i) fmt::format_to(std::back_inserter(out), "{}{}", i ? "," : "", list[i]);
  out.push_back(']');
  return {out.data(), out.size()};
}

void check(const Timeline& t) {
  for (const Timeline::Bar& b : t.bars) {
    WEFT_CHECK(b.track < t.tracks.size() && b.name < t.names.size() && b.cause < t.causes.size() &&
                   (b.from == Timeline::none || b.from < t.bars.size()),
               "a bar of track {}, name {}, cause {}, after {}", b.track, b.name, b.cause, b.from);
    WEFT_CHECK(b.wait_ps <= b.begin_ps && b.begin_ps <= b.end_ps, "a bar from {} over {} to {} ps", b.wait_ps,
               b.begin_ps, b.end_ps);
  }
  for (const Timeline::Column& c : t.columns)
    WEFT_CHECK(c.values.size() == t.bars.size(), "{}: {} values for {} bars", c.name, c.values.size(), t.bars.size());
  int64_t at = 0;
  for (const Timeline::Part& p : t.path) {
    WEFT_CHECK(p.begin_ps == at && p.kind < t.kinds.size() && (p.bar == Timeline::none || p.bar < t.bars.size()),
               "a part of the critical path from {} ps where {} ps was reached", p.begin_ps, at);
    at = p.end_ps;
  }
}

// Bars by track and begin: position -> bar. Bars without length stand before the one that begins with them.
std::vector<uint32_t> in_order(const Timeline& t) {
  std::vector<uint32_t> order(t.bars.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const Timeline::Bar &x = t.bars[a], &y = t.bars[b];
    return std::tie(x.track, x.begin_ps, x.end_ps) < std::tie(y.track, y.begin_ps, y.end_ps);
  });
  return order;
}

std::vector<Timeline::Meter::Busy> in_order(const Timeline::Meter& meter) {
  std::vector<Timeline::Meter::Busy> busy = meter.busy;
  std::sort(busy.begin(), busy.end(), [](const auto& a, const auto& b) { return a.begin_ps < b.begin_ps; });
  return busy;
}

std::string bars_json(const Timeline& t, const std::vector<uint32_t>& order, const std::vector<int64_t>& place) {
  std::vector<int64_t> count(t.tracks.size()), begin, length, wait, name, cause, from;
  int64_t at = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const Timeline::Bar& b = t.bars[order[i]];
    if (count[b.track]++ == 0) at = 0;
    begin.push_back(b.begin_ps - at);
    at = b.begin_ps;
    length.push_back(b.end_ps - b.begin_ps);
    wait.push_back(b.begin_ps - b.wait_ps);
    name.push_back(b.name);
    cause.push_back(b.cause);
    from.push_back(b.from == Timeline::none ? -1 : place[b.from]);
  }
  return fmt::format(R"({{"count":{},"begin":{},"length":{},"wait":{},"name":{},"cause":{},"from":{}}})", array(count),
                     array(begin), array(length), array(wait), array(name), array(cause), array(from));
}

std::string meter_json(const Timeline::Meter& meter) {
  std::vector<int64_t> begin, busy;
  int64_t at = 0;
  for (const Timeline::Meter::Busy& b : in_order(meter)) {
    begin.push_back(b.begin_ps - at);
    at = b.begin_ps;
    busy.push_back(b.busy_ps);
  }
  return fmt::format(R"({{"group":{},"name":{},"begin":{},"busy":{}}})", quoted(meter.group), quoted(meter.name),
                     array(begin), array(busy));
}

std::string path_json(const Timeline& t, const std::vector<int64_t>& place) {
  std::vector<int64_t> kind, bar, length;
  std::vector<std::string> detail;
  for (const Timeline::Part& p : t.path) {
    kind.push_back(p.kind);
    bar.push_back(p.bar == Timeline::none ? -1 : place[p.bar]);
    length.push_back(p.end_ps - p.begin_ps);
    detail.push_back(p.detail);
  }
  return fmt::format(R"({{"kind":{},"bar":{},"length":{},"detail":{}}})", array(kind), array(bar), array(length),
                     array(detail));
}

std::string data_json(const Timeline& t) {
  const std::vector<uint32_t> order = in_order(t);
  std::vector<int64_t> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int64_t>(i);
  const auto pair = [](const std::string& a, const std::string& b) {
    return fmt::format("[{},{}]", quoted(a), quoted(b));
  };
  const auto column = [&](const Timeline::Column& c) {
    std::vector<int64_t> values;
    for (const uint32_t bar : order) values.push_back(c.values[bar]);
    return fmt::format(R"({{"name":{},"values":{}}})", quoted(c.name), array(values));
  };
  std::string out =
      fmt::format(R"({{"title":{},"note":{},"end":{},"facts":{},"names":{},"causes":{},"kinds":{},)", quoted(t.title),
                  quoted(t.note), t.end_ps, array(t.facts, [&](const auto& f) { return pair(f.first, f.second); }),
                  array(t.names), array(t.causes), array(t.kinds));
  out += fmt::format("\"tracks\":{},\n", array(t.tracks, [&](const auto& k) { return pair(k.group, k.name); }));
  out += fmt::format("\"bars\":{},\n", bars_json(t, order, place));
  out += fmt::format("\"columns\":{},\n", array(t.columns, column));
  out += fmt::format("\"meters\":{},\n", array(t.meters, meter_json));
  return out + fmt::format("\"path\":{}}}", path_json(t, place));
}

// Microseconds, as Chrome's format wants them, with every picosecond.
std::string us(int64_t ps) { return fmt::format("{}.{:06}", ps / 1'000'000, ps % 1'000'000); }

// Where tracks and meters stand in a Chrome trace: groups are its processes.
struct Processes {
  std::vector<std::string> groups;
  int64_t of(const std::string& group) {
    const auto found = std::find(groups.begin(), groups.end(), group);
    if (found != groups.end()) return found - groups.begin() + 1;
    groups.push_back(group);
    return static_cast<int64_t>(groups.size());
  }
};

void bar_events(const Timeline& t, const std::vector<int64_t>& process, std::string& out) {
  for (size_t i = 0; i < t.bars.size(); ++i) {
    const Timeline::Bar& b = t.bars[i];
    out += fmt::format(R"({{"ph":"X","name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{"waited_us":{},"for":{})",
                       quoted(t.names[b.name]), process[b.track], b.track, us(b.begin_ps), us(b.end_ps - b.begin_ps),
                       us(b.begin_ps - b.wait_ps), quoted(t.causes[b.cause]));
    for (const Timeline::Column& c : t.columns) out += fmt::format(",{}:{}", quoted(c.name), c.values[i]);
    out += "}},\n";
    if (b.from == Timeline::none || t.bars[b.from].track == b.track) continue;
    const Timeline::Bar& f = t.bars[b.from];
    out += fmt::format(R"({{"ph":"s","cat":"wait","name":{0},"id":{1},"pid":{2},"tid":{3},"ts":{4}}},
{{"ph":"f","bp":"e","cat":"wait","name":{0},"id":{1},"pid":{5},"tid":{6},"ts":{7}}},
)",
                       quoted(t.causes[b.cause]), i, process[f.track], f.track, us(f.begin_ps), process[b.track],
                       b.track, us(b.begin_ps));
  }
}

void meter_events(const Timeline& t, const Timeline::Meter& meter, int64_t process, std::string& out) {
  const std::vector<Timeline::Meter::Busy> busy = in_order(meter);
  const int64_t width = std::max<int64_t>(1, (t.end_ps + stretches - 1) / stretches);
  int64_t last = -1;
  size_t at = 0;
  for (int64_t begin = 0; begin < t.end_ps; begin += width) {
    int64_t sum = 0;
    while (at < busy.size() && busy[at].begin_ps + busy[at].busy_ps <= begin) ++at;
    for (size_t i = at; i < busy.size() && busy[i].begin_ps < begin + width; ++i)
      sum += std::max<int64_t>(
          0, std::min(busy[i].begin_ps + busy[i].busy_ps, begin + width) - std::max(busy[i].begin_ps, begin));
    const int64_t percent = 100 * sum / width;
    if (percent != last)
      out += fmt::format(R"({{"ph":"C","name":{},"pid":{},"ts":{},"args":{{"busy %":{}}}}},
)",
                         quoted(meter.name), process, us(begin), percent);
    last = percent;
  }
}

}  // namespace

std::string html(const Timeline& timeline) {
  check(timeline);
  std::string page(timeline_page());
  constexpr std::string_view mark = "WEFT_TIMELINE_DATA";
  page.replace(page.find(mark), mark.size(), data_json(timeline));
  return page;
}

std::string chrome_trace(const Timeline& t) {
  check(t);
  Processes processes;
  std::vector<int64_t> process;
  for (const Timeline::Track& track : t.tracks) process.push_back(processes.of(track.group));
  std::string out = "{\"displayTimeUnit\":\"ns\",\"otherData\":{";
  out += fmt::format("\"title\":{},\"note\":{}", quoted(t.title), quoted(t.note));
  for (const auto& [fact, value] : t.facts) out += fmt::format(",{}:{}", quoted(fact), quoted(value));
  out += "},\"traceEvents\":[\n";
  bar_events(t, process, out);
  for (const Timeline::Meter& meter : t.meters) meter_events(t, meter, processes.of(meter.group), out);
  const int64_t path = static_cast<int64_t>(processes.groups.size()) + 1;
  for (const Timeline::Part& p : t.path)
    out += fmt::format(R"({{"ph":"X","name":{},"pid":{},"tid":0,"ts":{},"dur":{},"args":{{"of":{}}}}},
)",
                       quoted(t.kinds[p.kind]), path, us(p.begin_ps), us(p.end_ps - p.begin_ps), quoted(p.detail));
  const auto named = [&](const char* what, int64_t pid, size_t tid, const std::string& name) {
    out += fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}},
)",
                       what, pid, tid, quoted(name));
  };
  for (size_t i = 0; i < t.tracks.size(); ++i) named("thread_name", process[i], i, t.tracks[i].name);
  for (size_t i = 0; i < processes.groups.size(); ++i)
    named("process_name", static_cast<int64_t>(i) + 1, 0, processes.groups[i]);
  named("process_name", path, 0, "critical path");
  out.erase(out.size() - 2);
  return out + "\n]}\n";
}

}  // namespace weft::view
