#include "connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "common.h"
#include "options.h"

enum {
  chunkSize = 256 * 1024,  // The most bytes for one send or receive.
  patternPeriod = 65521,   // Prime, so a lost or repeated block never lines up with it.
};

Connection *connections;
int poller;

// The first chunk is repeated at the end, so every chunk is one piece of memory.
static unsigned char pattern[patternPeriod + chunkSize];
static unsigned char incoming[chunkSize];

unsigned numberOf(const Connection *connection) {
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

static void allocateTimes(void) {
  uint64_t *times = calloc((size_t)options.connections * options.pipeline, sizeof *times);
  if (times == NULL) fail("out of memory");
  for (unsigned i = 0; i < options.connections; i++) {
    connections[i].begun = times + (size_t)i * options.pipeline;
  }
}

void prepareConnections(void) {
  poller = epoll_create1(EPOLL_CLOEXEC);
  if (poller < 0) fail("epoll_create1: %s", strerror(errno));
  fillPattern();
  connections = calloc(options.connections, sizeof *connections);
  if (connections == NULL) fail("out of memory");
  if (options.rate == 0) allocateTimes();
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

// MARK: Connecting

void startConnecting(Connection *connection, const struct addrinfo *server) {
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

void finishConnecting(Connection *connection) {
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(connection->descriptor, SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) fail("connection %u: connect: %s", numberOf(connection), strerror(error));
  watch(connection, EPOLLIN);
}

// MARK: Sending and receiving

void sendQueued(Connection *connection) {
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

uint64_t receive(Connection *connection) {
  ssize_t count = recv(connection->descriptor, incoming, sizeof incoming, 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  if (count < 0) fail("connection %u: receive: %s", numberOf(connection), strerror(errno));
  if (count == 0) fail("connection %u: closed early by the server", numberOf(connection));
  checkBytes(connection, (size_t)count);
  connection->received += (uint64_t)count;
  return connection->received / options.size - connection->answered;
}
