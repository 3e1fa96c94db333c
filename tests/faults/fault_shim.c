// A library to be preloaded: lets the n-th call of a kind fail, be short, be interrupted, or end the process.
//
//   FAULT_ROOT    only calls on files below this folder count
//   FAULT_CLASS   read write sync rename stat open remove list make; none: no call fails
//   FAULT_NUMBER  which of them, from 1
//   FAULT_KIND    EIO EACCES ENOSPC (from then on always) EINTR short kill (a write is half done before)
//   FAULT_REPORT  a file that is made when it happens: the call's name and its path
//
// Nothing is synced: a test machine's disk has better things to do.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum { kPass = 0, kFail, kShort, kKill };

static const char* root;
static size_t root_length;
static const char* class_name = "none";
static const char* kind = "";
static long number;
static atomic_long count;

__attribute__((constructor)) static void set_up(void) {
  root = getenv("FAULT_ROOT");
  root_length = root ? strlen(root) : 0;
  const char* text = getenv("FAULT_CLASS");
  if (text) class_name = text;
  text = getenv("FAULT_KIND");
  if (text) kind = text;
  text = getenv("FAULT_NUMBER");
  number = text ? atol(text) : 0;
}

static void report(const char* call, const char* path) {
  const char* file = getenv("FAULT_REPORT");
  if (!file) return;
  char text[2 * PATH_MAX];
  const int length = snprintf(text, sizeof text, "%s %s\n", call, path);
  const int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return;
  (void)!syscall(SYS_write, fd, text, length);
  syscall(SYS_close, fd);
}

// What happens to this call.
static int decide(const char* class, const char* call, const char* path) {
  if (root_length == 0 || strcmp(class, class_name) != 0) return kPass;
  if (path[0] == '/' && strncmp(path, root, root_length) != 0) return kPass;
  const long now = atomic_fetch_add(&count, 1) + 1;
  const int always = strcmp(kind, "ENOSPC") == 0;
  if (now != number && !(always && now > number)) return kPass;
  if (now == number) report(call, path);
  if (strcmp(kind, "short") == 0) return kShort;
  if (strcmp(kind, "kill") == 0) return kKill;
  errno = strcmp(kind, "EIO") == 0      ? EIO
          : strcmp(kind, "EACCES") == 0 ? EACCES
          : strcmp(kind, "EINTR") == 0  ? EINTR
                                        : ENOSPC;
  return kFail;
}

static void end_process(void) {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

static int decide_path(const char* class, const char* call, int folder, const char* path) {
  char text[PATH_MAX];
  if (path[0] != '/' && folder != AT_FDCWD) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    const ssize_t length = readlink(link, text, sizeof text - strlen(path) - 2);
    if (length > 0) {
      text[length] = '/';
      strcpy(text + length + 1, path);
      path = text;
    }
  }
  const int what = decide(class, call, path);
  if (what == kKill) end_process();
  return what;
}

static int decide_file(const char* class, const char* call, int fd) {
  if (strcmp(class, class_name) != 0) return kPass;
  char link[64];
  char text[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, text, sizeof text - 1);
  if (length <= 0 || text[0] != '/') return kPass;
  text[length] = '\0';
  return decide(class, call, text);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t pread(int fd, void* to, size_t size, off_t at) {
  const int what = decide_file("read", "pread", fd);
  if (what == kFail) return -1;
  if (what == kKill) end_process();
  return syscall(SYS_pread64, fd, to, what == kShort && size > 1 ? size / 2 : size, at);
}
ssize_t pread64(int fd, void* to, size_t size, off_t at) { return pread(fd, to, size, at); }
ssize_t read(int fd, void* to, size_t size) {
  const int what = decide_file("read", "read", fd);
  if (what == kFail) return -1;
  if (what == kKill) end_process();
  return syscall(SYS_read, fd, to, what == kShort && size > 1 ? size / 2 : size);
}

ssize_t pwrite(int fd, const void* from, size_t size, off_t at) {
  const int what = decide_file("write", "pwrite", fd);
  if (what == kFail) return -1;
  const ssize_t done =
      syscall(SYS_pwrite64, fd, from, (what == kShort || what == kKill) && size > 1 ? size / 2 : size, at);
  if (what == kKill) end_process();
  return done;
}
ssize_t pwrite64(int fd, const void* from, size_t size, off_t at) { return pwrite(fd, from, size, at); }
ssize_t write(int fd, const void* from, size_t size) {
  const int what = decide_file("write", "write", fd);
  if (what == kFail) return -1;
  const ssize_t done =
      syscall(SYS_write, fd, from, (what == kShort || what == kKill) && size > 1 ? size / 2 : size);
  if (what == kKill) end_process();
  return done;
}
ssize_t copy_file_range(int from, off_t* from_at, int to, off_t* to_at, size_t size, unsigned flags) {
  const int what = decide_file("write", "copy_file_range", to);
  if (what == kFail) return -1;
  const ssize_t done = syscall(SYS_copy_file_range, from, from_at, to, to_at,
                               (what == kShort || what == kKill) && size > 1 ? size / 2 : size, flags);
  if (what == kKill) end_process();
  return done;
}
int ftruncate(int fd, off_t size) {
  const int what = decide_file("write", "ftruncate", fd);
  if (what == kFail) return -1;
  if (what == kKill) end_process();
  return (int)syscall(SYS_ftruncate, fd, size);
}
int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }
int fallocate(int fd, int mode, off_t at, off_t size) {
  const int what = decide_file("write", "fallocate", fd);
  if (what == kFail) return -1;
  if (what == kKill) end_process();
  return (int)syscall(SYS_fallocate, fd, mode, at, size);
}
int fallocate64(int fd, int mode, off_t at, off_t size) { return fallocate(fd, mode, at, size); }

int fsync(int fd) {
  const int what = decide_file("sync", "fsync", fd);
  if (what == kKill) end_process();
  return what == kFail ? -1 : 0;
}
int fdatasync(int fd) { return fsync(fd); }
int sync_file_range(int fd, off_t at, off_t size, unsigned flags) {
  (void)fd, (void)at, (void)size, (void)flags;
  return 0;
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  if (decide_path("rename", "renameat", to_folder, to) == kFail) return -1;
  return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
}
int rename(const char* from, const char* to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }

int unlinkat(int folder, const char* path, int flags) {
  if (decide_path("remove", "unlinkat", folder, path) == kFail) return -1;
  return (int)syscall(SYS_unlinkat, folder, path, flags);
}
int unlink(const char* path) { return unlinkat(AT_FDCWD, path, 0); }

int remove(const char* path) {
  if (decide_path("remove", "remove", AT_FDCWD, path) == kFail) return -1;
  const int done = (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
  return done == 0 || errno != EISDIR ? done : (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

int mkdirat(int folder, const char* path, mode_t mode) {
  if (decide_path("make", "mkdirat", folder, path) == kFail) return -1;
  return (int)syscall(SYS_mkdirat, folder, path, mode);
}
int mkdir(const char* path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
int fchmod(int fd, mode_t mode) {
  const int what = decide_file("make", "fchmod", fd);
  if (what == kKill) end_process();
  return what == kFail ? -1 : (int)syscall(SYS_fchmod, fd, mode);
}
int futimens(int fd, const struct timespec times[2]) {
  const int what = decide_file("make", "futimens", fd);
  if (what == kKill) end_process();
  return what == kFail ? -1 : (int)syscall(SYS_utimensat, fd, NULL, times, 0);
}

int fstatat(int folder, const char* path, struct stat* info, int flags) {
  if (decide_path("stat", "fstatat", folder, path) == kFail) return -1;
  return NEXT(fstatat)(folder, path, info, flags);
}
int stat(const char* path, struct stat* info) {
  if (decide_path("stat", "stat", AT_FDCWD, path) == kFail) return -1;
  return NEXT(stat)(path, info);
}
int lstat(const char* path, struct stat* info) {
  if (decide_path("stat", "lstat", AT_FDCWD, path) == kFail) return -1;
  return NEXT(lstat)(path, info);
}
int fstat(int fd, struct stat* info) {
  const int what = decide_file("stat", "fstat", fd);
  if (what == kFail) return -1;
  if (what == kKill) end_process();
  return NEXT(fstat)(fd, info);
}
int fstatat64(int folder, const char* path, struct stat64* info, int flags) {
  return fstatat(folder, path, (struct stat*)info, flags);
}
int stat64(const char* path, struct stat64* info) { return stat(path, (struct stat*)info); }
int lstat64(const char* path, struct stat64* info) { return lstat(path, (struct stat*)info); }
int fstat64(int fd, struct stat64* info) { return fstat(fd, (struct stat*)info); }
int access(const char* path, int mode) {
  if (decide_path("stat", "access", AT_FDCWD, path) == kFail) return -1;
  return NEXT(access)(path, mode);
}
int faccessat(int folder, const char* path, int mode, int flags) {
  if (decide_path("stat", "faccessat", folder, path) == kFail) return -1;
  return NEXT(faccessat)(folder, path, mode, flags);
}
char* realpath(const char* path, char* to) {
  if (decide_path("stat", "realpath", AT_FDCWD, path) == kFail) return NULL;
  return NEXT(realpath)(path, to);
}
int fstatvfs(int fd, struct statvfs* info) {
  const int what = decide_file("stat", "fstatvfs", fd);
  if (what == kKill) end_process();
  return what == kFail ? -1 : NEXT(fstatvfs)(fd, info);
}
int fstatvfs64(int fd, struct statvfs64* info) { return fstatvfs(fd, (struct statvfs*)info); }

int openat(int folder, const char* path, int flags, ...) {
  mode_t mode = 0;
  if (flags & (O_CREAT | __O_TMPFILE)) {
    va_list list;
    va_start(list, flags);
    mode = va_arg(list, mode_t);
    va_end(list);
  }
  if (decide_path("open", "openat", folder, path) == kFail) return -1;
  return (int)syscall(SYS_openat, folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  mode_t mode = 0;
  if (flags & (O_CREAT | __O_TMPFILE)) {
    va_list list;
    va_start(list, flags);
    mode = va_arg(list, mode_t);
    va_end(list);
  }
  return openat(folder, path, flags, mode);
}
int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if (flags & (O_CREAT | __O_TMPFILE)) {
    va_list list;
    va_start(list, flags);
    mode = va_arg(list, mode_t);
    va_end(list);
  }
  return openat(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  mode_t mode = 0;
  if (flags & (O_CREAT | __O_TMPFILE)) {
    va_list list;
    va_start(list, flags);
    mode = va_arg(list, mode_t);
    va_end(list);
  }
  return openat(AT_FDCWD, path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  if (decide_path("open", "fopen", AT_FDCWD, path) == kFail) return NULL;
  return NEXT(fopen)(path, mode);
}
FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }
DIR* opendir(const char* path) {
  if (decide_path("open", "opendir", AT_FDCWD, path) == kFail) return NULL;
  return NEXT(opendir)(path);
}
struct dirent* readdir(DIR* folder) {
  const int what = decide_file("list", "readdir", dirfd(folder));
  if (what == kKill) end_process();
  return what == kFail ? NULL : NEXT(readdir)(folder);
}
struct dirent64* readdir64(DIR* folder) { return (struct dirent64*)readdir(folder); }
