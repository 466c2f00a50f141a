// This machine as hwloc sees it. Parts that are alike become one with a count, so that 128 cores are a line and not a page.
#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/topo/layout.h"

namespace weft::topo {
namespace {

class Topology {
 public:
  Topology() {
    if (hwloc_topology_init(&topology_) != 0)
      throw Error(ErrorKind::io, "hwloc cannot look at this machine", "is /sys mounted?");
    hwloc_topology_set_io_types_filter(topology_, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (hwloc_topology_load(topology_) != 0) {
      hwloc_topology_destroy(topology_);
      throw Error(ErrorKind::io, "hwloc cannot look at this machine", "is /sys mounted?");
    }
  }
  ~Topology() { hwloc_topology_destroy(topology_); }
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;
  hwloc_obj_t root() const { return hwloc_get_root_obj(topology_); }

 private:
  hwloc_topology_t topology_ = nullptr;
};

std::string info(hwloc_obj_t object, const char* key) {
  const char* text = hwloc_obj_get_info_by_name(object, key);
  return text ? std::string(trim(text)) : std::string();
}

Part describe(hwloc_obj_t object) {
  Part part;
  char text[128];
  hwloc_obj_type_snprintf(text, sizeof text, object, 0);
  part.name = text;
  part.kind = "part";
  switch (object->type) {
    case HWLOC_OBJ_MACHINE:
      part.name = "this machine";
      part.detail = fmt::format("{} of memory", human_bytes(static_cast<double>(object->total_memory)));
      break;
    case HWLOC_OBJ_PACKAGE: part.detail = info(object, "CPUModel"); break;
    case HWLOC_OBJ_NUMANODE:
      part.kind = "memory";
      part.detail = human_bytes(static_cast<double>(object->attr->numanode.local_memory));
      break;
    case HWLOC_OBJ_PCI_DEVICE:
      part.kind = object->attr->pcidev.class_id >> 8 == 3   ? "gpu"
                  : object->attr->pcidev.class_id >> 8 == 2 ? "nic"
                                                            : "pci";
      part.name = part.kind == "gpu" ? "GPU" : part.kind == "nic" ? "NIC" : "PCI device";
      part.detail = info(object, "PCIDevice");
      break;
    case HWLOC_OBJ_OS_DEVICE:
      part.kind = "device";
      part.name = object->name ? object->name : "device";
      break;
    default:
      if (hwloc_obj_type_is_cache(object->type)) {
        part.kind = "cache";
        part.detail = human_bytes(static_cast<double>(object->attr->cache.size));
      }
  }
  return part;
}

bool alike(const Part& a, const Part& b) {
  return a.kind == b.kind && a.name == b.name && a.detail == b.detail && a.count == b.count &&
         std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(), alike);
}

Part part_of(hwloc_obj_t object) {
  Part part = describe(object);
  const auto add = [&](hwloc_obj_t child) {
    Part inner = part_of(child);
    Part* last = part.parts.empty() ? nullptr : &part.parts.back();
    if (last) {
      const int count = last->count;
      last->count = inner.count;
      const bool same = alike(*last, inner);
      last->count = same ? count + inner.count : count;
      if (same) return;
    }
    part.parts.push_back(std::move(inner));
  };
  for (hwloc_obj_t c = object->memory_first_child; c; c = c->next_sibling) add(c);
  for (hwloc_obj_t c = object->first_child; c; c = c->next_sibling) add(c);
  for (hwloc_obj_t c = object->io_first_child; c; c = c->next_sibling) add(c);
  return part;
}

}  // namespace

Layout layout_here() {
  const Topology topology;
  Layout layout;
  layout.root = part_of(topology.root());
  return layout;
}

}  // namespace weft::topo
