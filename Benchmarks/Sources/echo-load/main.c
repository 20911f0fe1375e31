// Load for an echo server: a closed loop on one thread, with epoll and nothing else.
//
// Each connection keeps `pipeline` messages on their way and sends the next when one has come back. Every
// byte that comes back is compared with the byte sent. Nothing is allocated once the loop runs.

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "histogram.h"
#include "options.h"

enum {
  chunkSize = 256 * 1024,  // The most bytes for one send or receive.
  patternPeriod = 65521,   // Prime, so a lost or repeated block never lines up with it.
  connectsAtOnce = 64,
  eventsAtOnce = 256,
};

static const uint64_t second = 1000000000;
static const uint64_t patience = 10 * second;  // How long an answer may take before we call it lost.

typedef struct {
  int descriptor;
  uint32_t interest;  // What epoll watches for.
  uint64_t queued;    // Bytes of all messages begun, sent or not. sent <= queued, received <= sent.
  uint64_t sent;
  uint64_t received;
  uint64_t answered;  // Whole messages received.
  uint64_t *begun;    // When each message on its way was begun: a ring of `pipeline` times.
} Connection;

static Options options;
static struct addrinfo *server;
static int poller;
static Connection *connections;
static unsigned attempted, connected;

// The bytes every connection sends over and over, each from a place of its own, so one connection's bytes
// are not another's. The first chunk is repeated at the end: every chunk is one piece of memory.
static unsigned char pattern[patternPeriod + chunkSize];
static unsigned char incoming[chunkSize];

static bool refilling = true;  // Whether an answer is followed by the next message.
static uint64_t measureFrom, measureUntil;
static Histogram latencies;

static _Noreturn __attribute__((format(printf, 1, 2))) void fail(const char *format, ...) {
  va_list values;
  va_start(values, format);
  fputs("echo-load: ", stderr);
  vfprintf(stderr, format, values);
  fputc('\n', stderr);
  va_end(values);
  exit(1);
}

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * second + (uint64_t)time.tv_nsec;
}

static unsigned numberOf(const Connection *connection) {
  return (unsigned)(connection - connections);
}

static const unsigned char *patternAt(const Connection *connection, uint64_t offset) {
  return pattern + (numberOf(connection) * UINT64_C(7919) + offset) % patternPeriod;
}

static void fillPattern(void) {
  uint64_t state = 88172645463325252;
  for (size_t i = 0; i < sizeof pattern; i++) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;  // xorshift64
    pattern[i] = i < patternPeriod ? (unsigned char)(state >> 32) : pattern[i - patternPeriod];
  }
}

static void watch(Connection *connection, uint32_t interest) {
  if (connection->interest == interest) return;
  int action = connection->interest == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  struct epoll_event event = {.events = interest, .data.ptr = connection};
  if (epoll_ctl(poller, action, connection->descriptor, &event) < 0) {
    fail("epoll_ctl: %s", strerror(errno));
  }
  connection->interest = interest;
}

// MARK: Sending and receiving

static void sendQueued(Connection *connection) {
  while (connection->sent < connection->queued) {
    uint64_t left = connection->queued - connection->sent;
    size_t count = left < chunkSize ? left : chunkSize;
    const unsigned char *bytes = patternAt(connection, connection->sent);
    ssize_t taken = send(connection->descriptor, bytes, count, MSG_NOSIGNAL);
    if (taken < 0 && errno == EINTR) continue;
    if (taken < 0 && errno == EAGAIN) break;
    if (taken < 0) fail("connection %u: send: %s", numberOf(connection), strerror(errno));
    connection->sent += (uint64_t)taken;
  }
  watch(connection, connection->sent < connection->queued ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void queueMessages(Connection *connection, uint64_t count, uint64_t time) {
  uint64_t message = connection->queued / options.size;
  for (uint64_t i = 0; i < count; i++) connection->begun[(message + i) % options.pipeline] = time;
  connection->queued += count * options.size;
}

static void checkBytes(const Connection *connection, size_t count) {
  if (connection->received + count > connection->sent) {
    fail("connection %u: more bytes came back than were sent", numberOf(connection));
  }
  const unsigned char *expected = patternAt(connection, connection->received);
  if (memcmp(incoming, expected, count) == 0) return;
  size_t i = 0;
  while (incoming[i] == expected[i]) i++;
  fail("connection %u: wrong byte at offset %llu: sent 0x%02x, received 0x%02x", numberOf(connection),
       (unsigned long long)(connection->received + i), expected[i], incoming[i]);
}

static void recordAnswers(Connection *connection, uint64_t until, uint64_t time) {
  bool measuring = time >= measureFrom && time < measureUntil;
  for (; connection->answered < until; connection->answered++) {
    uint64_t begun = connection->begun[connection->answered % options.pipeline];
    if (measuring) histogramAdd(&latencies, time - begun);
  }
}

static void receive(Connection *connection) {
  ssize_t count = recv(connection->descriptor, incoming, sizeof incoming, 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count < 0) fail("connection %u: receive: %s", numberOf(connection), strerror(errno));
  if (count == 0) fail("connection %u: closed early by the server", numberOf(connection));
  checkBytes(connection, (size_t)count);
  connection->received += (uint64_t)count;

  uint64_t complete = connection->received / options.size;
  uint64_t fresh = complete - connection->answered;
  if (fresh == 0) return;
  uint64_t time = now();
  recordAnswers(connection, complete, time);
  if (refilling) {
    queueMessages(connection, fresh, time);
    sendQueued(connection);
  }
}

// MARK: The loop

static bool isQuiet(void) {
  for (unsigned i = 0; i < options.connections; i++) {
    if (connections[i].received < connections[i].queued) return false;
  }
  return true;
}

static void startConnecting(Connection *connection) {
  int type = server->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, on = 1;
  connection->descriptor = socket(server->ai_family, type, server->ai_protocol);
  if (connection->descriptor < 0) fail("socket: %s", strerror(errno));
  setsockopt(connection->descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  int status = connect(connection->descriptor, server->ai_addr, server->ai_addrlen);
  if (status < 0 && errno != EINPROGRESS) {
    fail("connection %u: connect: %s", numberOf(connection), strerror(errno));
  }
  watch(connection, EPOLLOUT);
}

static void finishConnecting(Connection *connection) {
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(connection->descriptor, SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) fail("connection %u: connect: %s", numberOf(connection), strerror(error));
  connected++;
  watch(connection, EPOLLIN);
}

static void handle(const struct epoll_event *event) {
  Connection *connection = event->data.ptr;
  if (connection->interest == EPOLLOUT) {  // Never so once connected.
    finishConnecting(connection);
    return;
  }
  if (event->events & EPOLLOUT) sendQueued(connection);
  if (event->events & (EPOLLIN | EPOLLERR | EPOLLHUP)) receive(connection);
}

/// Handles what is ready, waiting at most until `deadline`, and fails if nothing at all happens for long.
static void turn(uint64_t deadline) {
  static uint64_t lastEvent;
  uint64_t time = now();
  if (lastEvent == 0) lastEvent = time;
  int timeout = deadline <= time ? 0 : (int)((deadline - time) / 1000000) + 1;
  struct epoll_event events[eventsAtOnce];
  int count = epoll_wait(poller, events, eventsAtOnce, timeout < 1000 ? timeout : 1000);
  if (count < 0 && errno != EINTR) fail("epoll_wait: %s", strerror(errno));
  for (int i = 0; i < count; i++) handle(&events[i]);
  if (count > 0) {
    lastEvent = time;
  } else if (now() - lastEvent > patience) {
    fail("the server has not answered for %d s", (int)(patience / second));
  }
}

static void connectAll(void) {
  uint64_t deadline = now() + patience + options.connections * (second / 100);
  while (connected < options.connections) {
    while (attempted < options.connections && attempted - connected < connectsAtOnce) {
      startConnecting(&connections[attempted++]);
    }
    turn(deadline);
    if (now() > deadline) fail("%u of %u connected in time", connected, options.connections);
  }
}

static void exchangeMessages(void) {
  uint64_t start = now();
  measureFrom = start + (uint64_t)(options.warmup * (double)second);
  measureUntil = measureFrom + (uint64_t)(options.seconds * (double)second);
  for (unsigned i = 0; i < options.connections; i++) {
    queueMessages(&connections[i], options.pipeline, now());
    sendQueued(&connections[i]);
  }
  while (now() < measureUntil) turn(measureUntil);
}

/// Waits for what is still on its way, so that its bytes are checked too and none is lost unnoticed.
static void awaitRest(void) {
  refilling = false;
  uint64_t deadline = now() + patience;
  while (!isQuiet()) {
    if (now() > deadline) fail("answers were still missing %d s after the end", (int)(patience / second));
    turn(deadline);
  }
}

// MARK: Before and after

static void prepare(void) {
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
  int status = getaddrinfo(options.host, options.port, &hints, &server);
  if (status != 0) fail("%s: %s", options.host, gai_strerror(status));
  poller = epoll_create1(EPOLL_CLOEXEC);
  if (poller < 0) fail("epoll_create1: %s", strerror(errno));
  fillPattern();
  connections = calloc(options.connections, sizeof *connections);
  uint64_t *times = calloc((size_t)options.connections * options.pipeline, sizeof *times);
  if (connections == NULL || times == NULL) fail("out of memory");
  for (unsigned i = 0; i < options.connections; i++) {
    connections[i].begun = times + (size_t)i * options.pipeline;
  }
}

static double microseconds(double fraction) {
  return (double)histogramValue(&latencies, fraction) / 1000;
}

static unsigned long long answeredInAll(void) {
  unsigned long long count = 0;
  for (unsigned i = 0; i < options.connections; i++) count += connections[i].answered;
  return count;
}

static void report(void) {
  double messages = (double)latencies.total / options.seconds;
  const char *format =
      options.json
          ? "{\"messages_per_second\": %.1f, \"megabytes_per_second\": %.3f, \"p50_us\": %.1f, "
            "\"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f, \"messages\": %llu, "
            "\"connections\": %u, \"size\": %u, \"pipeline\": %u, \"seconds\": %g, "
            "\"messages_with_warmup\": %llu}\n"
          : "%.0f messages/s, %.1f MB/s each way; latency p50 %.1f, p99 %.1f, p999 %.1f, max %.1f us "
            "(%llu messages, %u connections x %u B, pipeline %u, %g s; %llu with warm-up)\n";
  printf(format, messages, messages * options.size / 1e6, microseconds(0.5), microseconds(0.99),
         microseconds(0.999), (double)latencies.max / 1000, (unsigned long long)latencies.total,
         options.connections, options.size, options.pipeline, options.seconds, answeredInAll());
}

int main(int count, char **arguments) {
  options = parseOptions(count, arguments);
  prepare();
  connectAll();
  exchangeMessages();
  awaitRest();
  if (latencies.total == 0) fail("no message was answered in the measured time");
  report();
  return 0;
}
