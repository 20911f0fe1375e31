// Load for an echo server: one thread, with epoll and nothing else.
//
// In a closed loop each connection keeps `pipeline` messages on their way and sends the next when one has
// come back. In an open loop messages are due at a fixed rate, see pace.h. Every byte that comes back is
// compared with the byte sent. Nothing is allocated once the loop runs.

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "common.h"
#include "connection.h"
#include "measure.h"
#include "options.h"
#include "pace.h"

enum {
  connectsAtOnce = 64,
  eventsAtOnce = 256,
  longestWait = 10000000,  // Nanoseconds. The kernel may prolong a wait by a thousandth, here 10 us.
};

static const uint64_t patience = 10 * second;  // How long an answer may take before we call it lost.

static struct addrinfo *server;
static unsigned attempted, connected;
static bool refilling = true;  // Whether an answer is followed by the next message.

// MARK: Messages

static void beginMessages(Connection *connection, uint64_t count, uint64_t time) {
  uint64_t message = connection->queued / options.size;
  for (uint64_t i = 0; i < count; i++) connection->begun[(message + i) % options.pipeline] = time;
  connection->queued += count * options.size;
  sendQueued(connection);
}

/// When a message on its way was begun; in an open loop, when it should have been.
static uint64_t beginningOf(const Connection *connection, uint64_t message) {
  if (options.rate > 0) return paceTime(connection, message);
  return connection->begun[message % options.pipeline];
}

static void didAnswer(Connection *connection, uint64_t count) {
  uint64_t time = now();
  for (uint64_t i = 0; i < count; i++) {
    measureAnswer(beginningOf(connection, connection->answered), time);
    connection->answered++;
  }
  if (!refilling) return;
  if (options.rate > 0) {
    paceRefill(connection);
  } else {
    beginMessages(connection, count, time);
  }
}

static bool isQuiet(void) {
  for (unsigned i = 0; i < options.connections; i++) {
    if (connections[i].received < connections[i].queued) return false;
  }
  return true;
}

// MARK: The loop

static void handle(const struct epoll_event *event) {
  Connection *connection = event->data.ptr;
  if (connection->interest == EPOLLOUT) {  // Never so once connected.
    finishConnecting(connection);
    connected++;
    return;
  }
  if (event->events & EPOLLOUT) sendQueued(connection);
  if (event->events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
    uint64_t count = receive(connection);
    if (count > 0) didAnswer(connection, count);
  }
}

/// Handles what is ready, waiting at most until `deadline`, and fails if nothing at all happens for long.
static void turn(uint64_t deadline) {
  static uint64_t lastEvent;
  uint64_t time = now();
  if (lastEvent == 0) lastEvent = time;
  uint64_t wait = deadline <= time || options.spin ? 0 : deadline - time;
  struct timespec timeout = {.tv_nsec = wait < longestWait ? (long)wait : longestWait};
  struct epoll_event events[eventsAtOnce];
  int count = epoll_pwait2(poller, events, eventsAtOnce, &timeout, NULL);
  if (count < 0 && errno != EINTR) fail("epoll_pwait2: %s", strerror(errno));
  for (int i = 0; i < count; i++) {
    handle(&events[i]);
    paceKeep();  // Here, because all the events together take longer than a message may be late.
  }
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
      startConnecting(&connections[attempted++], server);
    }
    turn(deadline);
    if (now() > deadline) fail("%u of %u connected in time", connected, options.connections);
  }
}

static void runClosedLoop(uint64_t until) {
  for (unsigned i = 0; i < options.connections; i++) {
    beginMessages(&connections[i], options.pipeline, now());
  }
  while (now() < until) turn(until);
}

static void runOpenLoop(uint64_t start, uint64_t until) {
  paceBegin(start, until);
  while (now() < until) {
    paceKeep();
    turn(paceNext());
  }
  paceEnd();
}

static void exchangeMessages(void) {
  uint64_t start = now();
  uint64_t from = start + (uint64_t)(options.warmup * (double)second);
  uint64_t until = from + (uint64_t)(options.seconds * (double)second);
  measureBetween(from, until);
  if (options.rate > 0) {
    runOpenLoop(start, until);
  } else {
    runClosedLoop(until);
  }
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
  // Otherwise the kernel may end every wait 50 us late. If it refuses, our own delay will show that.
  prctl(PR_SET_TIMERSLACK, 1);
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
  int status = getaddrinfo(options.host, options.port, &hints, &server);
  if (status != 0) fail("%s: %s", options.host, gai_strerror(status));
  prepareConnections();
}

static uint64_t answeredInAll(void) {
  uint64_t count = 0;
  for (unsigned i = 0; i < options.connections; i++) count += connections[i].answered;
  return count;
}

int main(int count, char **arguments) {
  parseOptions(count, arguments);
  prepare();
  connectAll();
  exchangeMessages();
  awaitRest();
  report(answeredInAll());
  return 0;
}
