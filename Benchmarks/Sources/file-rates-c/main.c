// The baseline for files: what libuv's thread pool does when it is asked from C, by one loop.
//
// `prepare` makes in a directory what the other modes read there. The block of 4 KiB with number N begins with N times `factor` in 8
// bytes, so that a few loads tell whether the right bytes have come. Benchmarks/README.md says what the modes are.

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

enum { block = 4096, chunk = 1 << 20, lanes = 16, fileCount = 1000 };

static const uint64_t factor = 0x9E3779B97F4A7C15;

static const char *directory;
static uint64_t totalBytes = 1 << 30, totalReads = 200000, totalStats = 100000;
static uv_loop_t *loop;
static uv_file file;
static char *buffer;  // One chunk.

static _Noreturn void fail(const char *what, const char *why) {
  fprintf(stderr, "file-rates-c: %s: %s\n", what, why);
  exit(1);
}

static int64_t check(const char *what, int64_t status) {
  if (status < 0) fail(what, uv_strerror((int)status));
  return status;
}

static void expect(const char *what, uint64_t value, uint64_t expected) {
  if (value != expected) fail(what, "the wrong result");
}

static char *path(const char *name) {
  static char text[4096];
  if (snprintf(text, sizeof text, "%s/%s", directory, name) >= (int)sizeof text) fail(directory, "too long");
  return text;
}

static char *pathOfFile(unsigned number) {
  char name[32];
  snprintf(name, sizeof name, "files/%04u", number);
  return path(name);
}

static uv_file openFile(const char *path, int flags) {
  uv_fs_t request;
  return (uv_file)check(path, uv_fs_open(NULL, &request, path, flags, 0644, NULL));
}

static void closeFile(uv_file file) {
  uv_fs_t request;
  check("close", uv_fs_close(NULL, &request, file, NULL));
}

static uint64_t firstWord(const char *bytes) {
  uint64_t word;
  memcpy(&word, bytes, sizeof word);
  return word;
}

static uint64_t sumOfBlocks(const char *bytes, size_t count) {
  uint64_t sum = 0;
  for (size_t at = 0; at < count; at += block) sum += firstWord(bytes + at);
  return sum;
}

// The sum of the first words of blocks that are numbered from 0 on.
static uint64_t expectedSum(uint64_t blocks) { return factor * (blocks * (blocks - 1) / 2); }

// Numbers the blocks of the buffer.
static void fillBuffer(uint64_t firstBlock) {
  for (uint64_t i = 0; i < chunk / block; i++) {
    uint64_t word = (firstBlock + i) * factor;
    memcpy(buffer + i * block, &word, sizeof word);
  }
}

static double secondsSince(uint64_t start) { return (double)(uv_hrtime() - start) / 1e9; }

static void printRate(const char *mode, double amount, double seconds, const char *unit) {
  printf("%s %.3f %s\n", mode, amount / seconds, unit);
}

// What the other modes need.

static void prepare(void) {
  uv_file content = openFile(path("content"), O_WRONLY | O_CREAT | O_TRUNC);
  for (uint64_t at = 0; at < totalBytes; at += chunk) {
    fillBuffer(at / block);
    if (pwrite(content, buffer, chunk, (off_t)at) != chunk) fail("prepare", "a write was cut short");
  }
  closeFile(content);
  if (mkdir(path("files"), 0755) != 0 && errno != EEXIST) fail("mkdir", strerror(errno));
  for (unsigned i = 0; i < fileCount; i++) {
    uv_file small = openFile(pathOfFile(i), O_WRONLY | O_CREAT | O_TRUNC);
    if (ftruncate(small, i) != 0) fail("truncate", strerror(errno));
    closeFile(small);
  }
}

// One chunk after the other.

static uv_fs_t transfer;
static uint64_t done, sum;

static void didRead(uv_fs_t *request);
static void didWrite(uv_fs_t *request);

static void transferNext(void) {
  if (done == totalBytes) return;
  uv_buf_t bytes = uv_buf_init(buffer, chunk);
  int status = transfer.fs_type == UV_FS_WRITE
                   ? uv_fs_write(loop, &transfer, file, &bytes, 1, (int64_t)done, didWrite)
                   : uv_fs_read(loop, &transfer, file, &bytes, 1, (int64_t)done, didRead);
  check("transfer", status);
}

static void didWrite(uv_fs_t *request) {
  done += (uint64_t)check("write", request->result);
  uv_fs_req_cleanup(request);
  transferNext();
}

static void didRead(uv_fs_t *request) {
  size_t count = (size_t)check("read", request->result);
  uv_fs_req_cleanup(request);
  expect("read", count, chunk);
  sum += sumOfBlocks(buffer, count);
  done += count;
  transferNext();
}

// Returns how long it took.
static double transferAll(uv_fs_type type) {
  transfer.fs_type = type;
  done = sum = 0;
  uint64_t start = uv_hrtime();
  transferNext();
  uv_run(loop, UV_RUN_DEFAULT);
  return secondsSince(start);
}

static void checkWritten(void) {
  uv_file written = openFile(path("written"), O_RDONLY);
  uint64_t count = 0, sum = 0;
  ssize_t step;
  while ((step = read(written, buffer, chunk)) > 0) {
    count += (uint64_t)step;
    sum += sumOfBlocks(buffer, (size_t)step);
  }
  closeFile(written);
  expect("size written", count, totalBytes);
  expect("sum written", sum, totalBytes / chunk * expectedSum(chunk / block));
}

static void measureWrite(void) {
  fillBuffer(0);
  file = openFile(path("written"), O_WRONLY | O_CREAT | O_TRUNC);
  double seconds = transferAll(UV_FS_WRITE);
  closeFile(file);
  checkWritten();
  unlink(path("written"));
  printRate("write", (double)totalBytes / chunk, seconds, "MiB/s");
}

static double readAll(void) {
  double seconds = transferAll(UV_FS_READ);
  expect("sum read", sum, expectedSum(totalBytes / block));
  return seconds;
}

static void measureRead(void) {
  file = openFile(path("content"), O_RDONLY);
  readAll();
  printRate("read", (double)totalBytes / chunk, readAll(), "MiB/s");
  closeFile(file);
}

// Many at a time: each lane begins its next request when it has the result of the one before.

typedef struct {
  uv_fs_t request;  // First, so that the request's address is the lane's.
  unsigned number;
  uint64_t left, random, sum;
  char bytes[block];
} Lane;

static Lane lane[lanes];

// Returns how long it took.
static double runLanes(uint64_t total, void (*begin)(Lane *)) {
  uint64_t start = uv_hrtime();
  for (unsigned i = 0; i < lanes; i++) {
    lane[i].number = i;
    lane[i].left = total / lanes;
    lane[i].random = i;
    lane[i].sum = 0;
    begin(&lane[i]);
  }
  uv_run(loop, UV_RUN_DEFAULT);
  double seconds = secondsSince(start);
  sum = 0;
  for (unsigned i = 0; i < lanes; i++) sum += lane[i].sum;
  return seconds;
}

// SplitMix64.
static uint64_t nextBlock(uint64_t *state) {
  uint64_t z = *state += factor;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return (z ^ (z >> 31)) % (totalBytes / block);
}

static void didReadBlock(uv_fs_t *request);

static void readBlock(Lane *lane) {
  if (lane->left == 0) return;
  lane->left--;
  uv_buf_t bytes = uv_buf_init(lane->bytes, block);
  int64_t offset = (int64_t)nextBlock(&lane->random) * block;
  check("read", uv_fs_read(loop, &lane->request, file, &bytes, 1, offset, didReadBlock));
}

static void didReadBlock(uv_fs_t *request) {
  Lane *lane = (Lane *)request;
  expect("read", (uint64_t)check("read", request->result), block);
  uv_fs_req_cleanup(request);
  lane->sum += firstWord(lane->bytes);
  readBlock(lane);
}

static uint64_t expectedRandomSum(void) {
  uint64_t sum = 0;
  for (unsigned i = 0; i < lanes; i++) {
    uint64_t random = i;
    for (uint64_t n = 0; n < totalReads / lanes; n++) sum += nextBlock(&random) * factor;
  }
  return sum;
}

static void measureRandom(void) {
  uint64_t expected = expectedRandomSum();
  file = openFile(path("content"), O_RDONLY);
  readAll();
  double seconds = runLanes(totalReads, readBlock);
  closeFile(file);
  expect("sum of blocks", sum, expected);
  printRate("random", (double)totalReads, seconds, "reads/s");
}

static char *paths[fileCount];

static void didStat(uv_fs_t *request);

static void statNext(Lane *lane) {
  if (lane->left == 0) return;
  lane->left--;
  unsigned number = (unsigned)(lane->left * lanes + lane->number) % fileCount;
  check("stat", uv_fs_stat(loop, &lane->request, paths[number], didStat));
}

static void didStat(uv_fs_t *request) {
  Lane *lane = (Lane *)request;
  check("stat", request->result);
  lane->sum += request->statbuf.st_size;
  uv_fs_req_cleanup(request);
  statNext(lane);
}

static void measureStat(void) {
  for (unsigned i = 0; i < fileCount; i++) paths[i] = strdup(pathOfFile(i));
  runLanes(fileCount / lanes * lanes, statNext);
  double seconds = runLanes(totalStats, statNext);
  uint64_t expected = 0;
  for (uint64_t n = 0; n < totalStats; n++) expected += n % fileCount;
  expect("sum of sizes", sum, expected);
  printRate("stat", (double)totalStats, seconds, "files/s");
}

// In KiB.
static long memory(const char *name) {
  FILE *status = fopen("/proc/self/status", "r");
  char line[256];
  while (status != NULL && fgets(line, sizeof line, status) != NULL) {
    if (strncmp(line, name, strlen(name)) != 0) continue;
    fclose(status);
    return strtol(line + strlen(name), NULL, 10);
  }
  fail(name, "not in /proc/self/status");
}

static void measureMemory(void) {
  file = openFile(path("content"), O_RDONLY);
  long before = memory("VmRSS:");
  readAll();
  closeFile(file);
  printf("memory %.3f MiB\n", (double)(memory("VmHWM:") - before) / 1024);
}

static _Noreturn void usage(void) {
  fprintf(stderr,
          "usage: file-rates-c prepare|write|read|random|stat|memory --directory DIRECTORY\n"
          "                    [--bytes N] [--reads N] [--stats N]\n"
          "bytes in whole MiB, reads and stats in sixteens\n");
  exit(64);
}

static uint64_t parseCount(const char *text, uint64_t unit) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno != 0 || end == text || *end != 0 || value <= 0 || (uint64_t)value % unit != 0) usage();
  return (uint64_t)value;
}

static void parse(int count, char **arguments) {
  for (int i = 2; i < count; i += 2) {
    if (i + 1 == count) usage();
    if (strcmp(arguments[i], "--directory") == 0) {
      directory = arguments[i + 1];
    } else if (strcmp(arguments[i], "--bytes") == 0) {
      totalBytes = parseCount(arguments[i + 1], chunk);
    } else if (strcmp(arguments[i], "--reads") == 0) {
      totalReads = parseCount(arguments[i + 1], lanes);
    } else if (strcmp(arguments[i], "--stats") == 0) {
      totalStats = parseCount(arguments[i + 1], lanes);
    } else {
      usage();
    }
  }
  if (directory == NULL) usage();
}

int main(int count, char **arguments) {
  static const struct {
    const char *name;
    void (*run)(void);
  } modes[] = {{"prepare", prepare}, {"write", measureWrite}, {"read", measureRead},
               {"random", measureRandom}, {"stat", measureStat}, {"memory", measureMemory}};

  if (count < 2) usage();
  parse(count, arguments);
  loop = uv_default_loop();
  buffer = calloc(1, chunk);
  if (buffer == NULL) fail("calloc", strerror(errno));
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    if (strcmp(arguments[1], modes[i].name) != 0) continue;
    modes[i].run();
    check("close", uv_loop_close(loop));
    return 0;
  }
  usage();
}
