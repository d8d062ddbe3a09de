/* Preloaded into a process, it makes every read of a file named in BAD_SECTORS fail with EIO, as a
 * disk with bad sectors does. The names are parts of paths, separated by ':'. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static int is_bad(int fd) {
  char link[64], path[PATH_MAX], names[4096];
  const char *bad = getenv("BAD_SECTORS");
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (bad == NULL || length < 0) return 0;
  path[length] = '\0';
  snprintf(names, sizeof names, "%s", bad);
  for (char *rest, *name = strtok_r(names, ":", &rest); name; name = strtok_r(NULL, ":", &rest))
    if (strstr(path, name)) return 1;
  return 0;
}

#define FAILING(name, type, signature, arguments)                        \
  type name signature {                                                  \
    type(*real) signature = (type(*) signature)dlsym(RTLD_NEXT, #name);  \
    if (is_bad(fd)) {                                                    \
      errno = EIO;                                                       \
      return -1;                                                         \
    }                                                                    \
    return real arguments;                                               \
  }

FAILING(read, ssize_t, (int fd, void *data, size_t size), (fd, data, size))
FAILING(pread, ssize_t, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
FAILING(pread64, ssize_t, (int fd, void *data, size_t size, off64_t at), (fd, data, size, at))
FAILING(preadv, ssize_t, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at))
FAILING(preadv64, ssize_t, (int fd, const struct iovec *v, int n, off64_t at), (fd, v, n, at))
FAILING(preadv2, ssize_t, (int fd, const struct iovec *v, int n, off_t at, int f), (fd, v, n, at, f))
FAILING(preadv64v2, ssize_t, (int fd, const struct iovec *v, int n, off64_t at, int f),
        (fd, v, n, at, f))
