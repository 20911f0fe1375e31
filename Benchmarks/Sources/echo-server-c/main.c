// The baseline: an echo server on raw libuv, written for speed and bounded memory.
//
// Every connection reads into one shared buffer, which is safe because each read is answered before the
// next begins: what the kernel takes at once needs no copy, and only the rest is copied and queued. A
// connection with a queued rest stops reading until it is written, so it never holds more than one read.

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

typedef struct {
  uv_tcp_t tcp;  // First, so that the handle's address is the connection's.
  uv_write_t write;
  char *rest;  // What `write` is sending; NULL when nothing is queued.
} Connection;

static char buffer[64 * 1024];

static void die(const char *what, int status) {
  fprintf(stderr, "echo-server-c: %s: %s\n", what, uv_strerror(status));
  exit(1);
}

static void check(const char *what, int status) {
  if (status < 0) die(what, status);
}

static void didClose(uv_handle_t *handle) {
  Connection *connection = (Connection *)handle;
  free(connection->rest);  // A cancelled write was called back before this; then it is NULL already.
  free(connection);
}

static void closeConnection(Connection *connection) {
  uv_handle_t *handle = (uv_handle_t *)&connection->tcp;
  if (!uv_is_closing(handle)) uv_close(handle, didClose);
}

static void lendBuffer(uv_handle_t *handle, size_t suggested, uv_buf_t *result) {
  (void)handle;
  (void)suggested;
  *result = uv_buf_init(buffer, sizeof buffer);
}

static void didRead(uv_stream_t *stream, ssize_t count, const uv_buf_t *bytes);

static void didWriteRest(uv_write_t *write, int status) {
  Connection *connection = (Connection *)write->handle;
  free(connection->rest);
  connection->rest = NULL;
  if (uv_is_closing((uv_handle_t *)&connection->tcp)) return;
  if (status < 0 || uv_read_start(write->handle, lendBuffer, didRead) < 0) closeConnection(connection);
}

static void writeRest(Connection *connection, const char *bytes, size_t count) {
  uv_stream_t *stream = (uv_stream_t *)&connection->tcp;
  connection->rest = malloc(count);
  if (connection->rest == NULL) die("malloc", UV_ENOMEM);
  memcpy(connection->rest, bytes, count);
  uv_buf_t rest = uv_buf_init(connection->rest, (unsigned)count);
  uv_read_stop(stream);
  if (uv_write(&connection->write, stream, &rest, 1, didWriteRest) < 0) closeConnection(connection);
}

static void didRead(uv_stream_t *stream, ssize_t count, const uv_buf_t *bytes) {
  Connection *connection = (Connection *)stream;
  if (count == 0) return;  // Nothing to read after all.
  if (count < 0) {
    // End of file or a reset. Reading goes on only with nothing queued, so the kernel has every byte of
    // the answer: closing sends them, then FIN.
    closeConnection(connection);
    return;
  }
  uv_buf_t answer = uv_buf_init(bytes->base, (unsigned)count);
  int written = uv_try_write(stream, &answer, 1);
  if (written == UV_EAGAIN) written = 0;
  if (written < 0) {
    closeConnection(connection);
  } else if (written < count) {
    writeRest(connection, bytes->base + written, (size_t)(count - written));
  }
}

static void didConnect(uv_stream_t *listener, int status) {
  if (status < 0) return;  // Out of descriptors, or the client has gone: the next may fare better.
  Connection *connection = calloc(1, sizeof *connection);
  if (connection == NULL) die("calloc", UV_ENOMEM);
  check("tcp", uv_tcp_init(listener->loop, &connection->tcp));
  uv_stream_t *stream = (uv_stream_t *)&connection->tcp;
  if (uv_accept(listener, stream) < 0 || uv_tcp_nodelay(&connection->tcp, 1) < 0 ||
      uv_read_start(stream, lendBuffer, didRead) < 0) {
    closeConnection(connection);
  }
}

static void closeAny(uv_handle_t *handle, void *listener) {
  if (uv_is_closing(handle)) return;
  int isConnection = handle->type == UV_TCP && handle != listener;
  uv_close(handle, isConnection ? didClose : NULL);
}

static void didSignal(uv_signal_t *handle, int number) {
  (void)number;
  uv_walk(handle->loop, closeAny, handle->data);
}

static void watchSignal(uv_loop_t *loop, uv_signal_t *handle, int number, void *listener) {
  check("signal", uv_signal_init(loop, handle));
  handle->data = listener;
  check("signal", uv_signal_start(handle, didSignal, number));
}

static int parseAddress(const char *host, int port, struct sockaddr_storage *address) {
  if (uv_ip4_addr(host, port, (struct sockaddr_in *)address) == 0) return 0;
  return uv_ip6_addr(host, port, (struct sockaddr_in6 *)address);
}

static void announce(uv_tcp_t *listener) {
  struct sockaddr_storage address;
  int length = sizeof address;
  check("getsockname", uv_tcp_getsockname(listener, (struct sockaddr *)&address, &length));
  char host[INET6_ADDRSTRLEN];
  if (address.ss_family == AF_INET6) {
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&address;
    check("name", uv_ip6_name(six, host, sizeof host));
    printf("listening on [%s]:%d\n", host, ntohs(six->sin6_port));
  } else {
    struct sockaddr_in *four = (struct sockaddr_in *)&address;
    check("name", uv_ip4_name(four, host, sizeof host));
    printf("listening on %s:%d\n", host, ntohs(four->sin_port));
  }
  fflush(stdout);
}

static _Noreturn void usage(void) {
  fprintf(stderr, "usage: echo-server-c [--host ADDRESS] [--port PORT]\n");
  exit(64);
}

static int parsePort(const char *text) {
  char *end;
  errno = 0;
  long port = strtol(text, &end, 10);
  if (errno != 0 || end == text || *end != 0 || port < 0 || port > 65535) usage();
  return (int)port;
}

int main(int count, char **arguments) {
  const char *host = "127.0.0.1";
  int port = 7007;
  for (int i = 1; i < count; i += 2) {
    if (i + 1 == count) usage();
    if (strcmp(arguments[i], "--host") == 0) {
      host = arguments[i + 1];
    } else if (strcmp(arguments[i], "--port") == 0) {
      port = parsePort(arguments[i + 1]);
    } else {
      usage();
    }
  }
  signal(SIGPIPE, SIG_IGN);

  uv_loop_t *loop = uv_default_loop();
  uv_tcp_t listener;
  uv_signal_t interrupt, terminate;
  struct sockaddr_storage address;
  check(host, parseAddress(host, port, &address));
  check("tcp", uv_tcp_init(loop, &listener));
  check(host, uv_tcp_bind(&listener, (struct sockaddr *)&address, 0));
  check(host, uv_listen((uv_stream_t *)&listener, 4096, didConnect));
  watchSignal(loop, &interrupt, SIGINT, &listener);
  watchSignal(loop, &terminate, SIGTERM, &listener);
  announce(&listener);

  uv_run(loop, UV_RUN_DEFAULT);
  check("close", uv_loop_close(loop));
  return 0;
}
