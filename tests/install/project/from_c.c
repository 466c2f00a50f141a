#include <stdio.h>
#include <stdlib.h>
#include <weft.h>

enum { count = 5000 };

static void fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, weft_last_error());
  exit(1);
}

static void body(weft_comm* comm, void* user) {
  const int rank = weft_comm_rank(comm), size = weft_comm_size(comm);
  float* x = weft_alloc(comm, count * sizeof(float));
  int64_t shape[1] = {count};
  weft_tensor tensor = {0};
  int i;
  (void)user;
  if (!x) fail("weft_alloc");
  for (i = 0; i < count; ++i) x[i] = (float)(i % 100 + rank);
  tensor.data = x;
  tensor.device.device_type = 1;
  tensor.ndim = 1;
  tensor.dtype.code = 2;
  tensor.dtype.bits = 32;
  tensor.dtype.lanes = 1;
  tensor.shape = shape;
  if (weft_all_reduce(comm, NULL, &tensor, WEFT_SUM, NULL) != WEFT_OK) fail("weft_all_reduce");
  for (i = 0; i < count; ++i)
    if (x[i] != (float)(size * (i % 100) + size * (size - 1) / 2)) fail("a sum is wrong");
  if (weft_all_reduce(comm, NULL, &tensor, WEFT_BIT_OR, NULL) != WEFT_ERROR_USER) fail("bits of floats");
  if (weft_free(comm, x) != WEFT_OK) fail("weft_free");
}

int main(void) {
  if (weft_abi_version() < WEFT_ABI_VERSION) fail("an older library");
  if (weft_run(2, body, NULL) != WEFT_OK) fail("weft_run");
  return 0;
}
