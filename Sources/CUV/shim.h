#ifndef CUV_SHIM_H
#define CUV_SHIM_H

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <net/if.h>
#include <unistd.h>
#include <uv.h>

#if UV_VERSION_HEX < 0x012c02
#error "swift-uv needs libuv 1.44.2 or later"
#endif

// GNU extensions that the headers hide without _GNU_SOURCE, which cannot be defined here: it changes types that the
// toolchain's own modules have read without it. They can go once the toolchain's Glibc module shows them.
int accept4(int listener, struct sockaddr *address, socklen_t *length, int flags);
pid_t gettid(void);
int pthread_setname_np(pthread_t thread, const char *name);
#ifndef SEEK_DATA
#define SEEK_DATA 3
#define SEEK_HOLE 4
#endif

// libdispatch exports these for Foundation's run loop and declares them in a private header.
// The first is an eventfd that becomes readable when the main queue has work; the second runs it.
// They can go once libdispatch has public calls for driving the main queue.
int _dispatch_get_main_queue_handle_4CF(void);
void _dispatch_main_queue_callback_4CF(void *message);

// The task that runs on this thread, or null: a function of the Swift runtime that the standard library offers only around a
// closure. It can go once tasks can be told apart without one, as cheaply.
__attribute__((swiftcall)) void *swift_task_getCurrent(void);

#endif
