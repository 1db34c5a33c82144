/* A clock that somebody sets: the time of day is that of the machine plus the seconds in the file $CLOCK_SET_BY, as
 * settimeofday(2) and clock_settime(2) change CLOCK_REALTIME. CLOCK_MONOTONIC and CLOCK_BOOTTIME stay (clock_gettime(2)). */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long set_by(void) {
  long seconds = 0;
  const char *path = getenv("CLOCK_SET_BY");
  FILE *file = path ? fopen(path, "r") : NULL;
  if (file) {
    if (fscanf(file, "%ld", &seconds) != 1)
      seconds = 0;
    fclose(file);
  }
  return seconds;
}

int clock_gettime(clockid_t id, struct timespec *now) {
  int result = (int)syscall(SYS_clock_gettime, id, now);
  if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
    now->tv_sec += set_by();
  return result;
}

time_t time(time_t *where) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (where)
    *where = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(struct timeval *restrict where, void *restrict zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  where->tv_sec = now.tv_sec;
  where->tv_usec = now.tv_nsec / 1000;
  return 0;
}
