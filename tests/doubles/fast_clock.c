/* A clock that runs fast, for a whole process: the file $FAST_CLOCK has "RATE REAL FAST END NEXT": at CLOCK_MONOTONIC's
 * second REAL this process's clocks stood FAST seconds ahead, and since then they run RATE times as fast, from second
 * END on NEXT times. Waits are as much shorter. CPU time, and processes without these variables, are as ever. Calls as in clock_gettime(2),
 * clock_nanosleep(2), sem_timedwait(3), pthread_cond_timedwait(3), epoll_wait(2) and poll(2). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define PART 0.02

static double real(clockid_t id) {
  struct timespec now;
  syscall(SYS_clock_gettime, id, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static struct timespec as_time(double seconds) {
  struct timespec made = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
  return made;
}

static double ahead(double *rate) {
  double since = 0, before = 0, end = 0, next = 1, now = real(CLOCK_MONOTONIC);
  const char *path = getenv("FAST_CLOCK");
  FILE *file = path ? fopen(path, "r") : NULL;
  *rate = 1;
  if (file) {
    if (fscanf(file, "%lf %lf %lf %lf %lf", rate, &since, &before, &end, &next) != 5)
      abort();
    fclose(file);
    if (now >= end) {
      before += (*rate - 1) * (end - since);
      since = end;
      *rate = next;
    }
  }
  return before + (*rate - 1) * (now - since);
}

static int is_moved(clockid_t id) {
  return id == CLOCK_REALTIME || id == CLOCK_MONOTONIC || id == CLOCK_REALTIME_COARSE ||
         id == CLOCK_MONOTONIC_COARSE || id == CLOCK_BOOTTIME || id == CLOCK_MONOTONIC_RAW;
}

/* Seconds of the process until then. */
static double left_until(clockid_t id, const struct timespec *wanted, double *rate) {
  double moved = ahead(rate);
  return (double)wanted->tv_sec + 1e-9 * (double)wanted->tv_nsec - real(id) - moved;
}

/* When a wait ends for the kernel that is to end then for the process, and whether that is all of it: the rate may
 * change meanwhile, so that a wait is made of short ones. */
static int part_of(clockid_t id, const struct timespec *wanted, struct timespec *end) {
  double rate, left = left_until(id, wanted, &rate) / rate;
  *end = as_time(real(id) + (left < 0 ? 0 : left < PART ? left : PART));
  return left <= PART;
}

int clock_gettime(clockid_t id, struct timespec *now) {
  double rate;
  if (!is_moved(id))
    return (int)syscall(SYS_clock_gettime, id, now);
  *now = as_time(real(id) + ahead(&rate));
  return 0;
}

time_t time(time_t *where) {
  double rate;
  time_t now = (time_t)(real(CLOCK_REALTIME) + ahead(&rate));
  if (where)
    *where = now;
  return now;
}

int gettimeofday(struct timeval *restrict where, void *restrict zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  where->tv_sec = now.tv_sec;
  where->tv_usec = now.tv_nsec / 1000;
  return 0;
}

int clock_nanosleep(clockid_t id, int flags, const struct timespec *wanted, struct timespec *left) {
  struct timespec end, until = *wanted;
  int is_last;
  if (!(flags & TIMER_ABSTIME)) {
    clock_gettime(id, &until);
    until = as_time((double)(until.tv_sec + wanted->tv_sec) + 1e-9 * (double)(until.tv_nsec + wanted->tv_nsec));
  }
  do {
    is_last = part_of(id, &until, &end);
    if (syscall(SYS_clock_nanosleep, id, TIMER_ABSTIME, &end, left))
      return EINTR;
  } while (!is_last);
  return 0;
}

int sem_clockwait(sem_t *sem, clockid_t id, const struct timespec *wanted) {
  static int (*theirs)(sem_t *, clockid_t, const struct timespec *);
  struct timespec end;
  int is_last, result;
  if (!theirs)
    *(void **)&theirs = dlsym(RTLD_NEXT, "sem_clockwait");
  do {
    is_last = part_of(id, wanted, &end);
    result = theirs(sem, id, &end);
  } while (result && errno == ETIMEDOUT && !is_last);
  return result;
}

int sem_timedwait(sem_t *restrict sem, const struct timespec *restrict wanted) {
  return sem_clockwait(sem, CLOCK_REALTIME, wanted);
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict wanted) {
  clockid_t id = wanted->tv_sec > 1000000000 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
  struct timespec end;
  int is_last, result;
  do {
    is_last = part_of(id, wanted, &end);
    result = pthread_cond_clockwait(cond, mutex, id, &end);
  } while (result == ETIMEDOUT && !is_last);
  return result;
}

/* Of a wait of so many milliseconds that ends at `until`, the next part in the kernel's; -1 = without end. */
static int next_part(int milliseconds, const struct timespec *until) {
  double rate, left;
  if (milliseconds <= 0)
    return milliseconds;
  left = left_until(CLOCK_MONOTONIC, until, &rate) / rate;
  return left < 0 ? 0 : 1 + (int)(1e3 * (left < PART ? left : PART));
}

static struct timespec after(int milliseconds) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return as_time((double)now.tv_sec + 1e-9 * (double)now.tv_nsec + 1e-3 * milliseconds);
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int milliseconds) {
  static int (*theirs)(int, struct epoll_event *, int, int);
  struct timespec until = after(milliseconds);
  int part, result;
  if (!theirs)
    *(void **)&theirs = dlsym(RTLD_NEXT, "epoll_wait");
  do {
    part = next_part(milliseconds, &until);
    result = theirs(epoll, events, most, part);
  } while (result == 0 && part > 0);
  return result;
}

int poll(struct pollfd *files, nfds_t count, int milliseconds) {
  static int (*theirs)(struct pollfd *, nfds_t, int);
  struct timespec until = after(milliseconds);
  int part, result;
  if (!theirs)
    *(void **)&theirs = dlsym(RTLD_NEXT, "poll");
  do {
    part = next_part(milliseconds, &until);
    result = theirs(files, count, part);
  } while (result == 0 && part > 0);
  return result;
}
