/* A disk that hangs: calls that would touch a file below $SLOW_DISK_PATH return after $SLOW_DISK_SECONDS, and then do
 * what they do on any disk. A real one of a server that is away returns when the server is back (nfs(5), "hard").
 * With $SLOW_DISK_WHEN it hangs only while there is a file of that name. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void hang(const char *path) {
  const char *slow = getenv("SLOW_DISK_PATH"), *seconds = getenv("SLOW_DISK_SECONDS");
  const char *when = getenv("SLOW_DISK_WHEN");
  if (when && access(when, F_OK) != 0)
    return;
  if (path && slow && seconds && strncmp(path, slow, strlen(slow)) == 0)
    sleep((unsigned)atoi(seconds));
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static mode_t mode_of(int flags, va_list rest) {
  return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

#define OPEN(name)                                            \
  int name(const char *path, int flags, ...) {                \
    va_list rest;                                             \
    va_start(rest, flags);                                    \
    mode_t mode = mode_of(flags, rest);                       \
    va_end(rest);                                             \
    REAL(name);                                               \
    hang(path);                                               \
    return real(path, flags, mode);                           \
  }

OPEN(open)
OPEN(open64)

int stat(const char *path, struct stat *status) {
  REAL(stat);
  hang(path);
  return real(path, status);
}

int stat64(const char *path, struct stat64 *status) {
  REAL(stat64);
  hang(path);
  return real(path, status);
}

int mkdir(const char *path, mode_t mode) {
  REAL(mkdir);
  hang(path);
  return real(path, mode);
}

int rename(const char *from, const char *to) {
  REAL(rename);
  hang(from);
  return real(from, to);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
  REAL(renameat2);
  hang(from);
  return real(from_folder, from, to_folder, to, flags);
}
