/*
 * Parallel sockets: one stream of bytes over several TCP connections.
 *
 * docs/psock-c.md explains the calls. `cargo test -p weir-psock-c --test header -- --ignored` writes this file.
 */

#ifndef PSOCK_H
#define PSOCK_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

/*
 Level of the options below.
 */
#define SOL_PSOCK 28787

/*
 `int`: streams that a client makes, over all paths in turn; 0: two over each path.
 */
#define PSOCK_RCMD_STREAM_CNT 1

/*
 `int`: most streams of a session, 1 to 64. A client makes no more, a server accepts no more.
 */
#define PSOCK_MAX_STREAM_CNT 2

/*
 `struct sockaddr`: another local address, to connect from or to listen on; after `pbind`, in any number. A server
 may add one after `plisten`.
 */
#define PSOCK_ADD_LOCAL_ADDR 3

/*
 `struct sockaddr`: another address of the server, with its port; in any number.
 */
#define PSOCK_ADD_REMOTE_ADDR 4

/*
 `struct pstream_int`, or `int` for all streams: `SO_SNDBUF` of a stream.
 */
#define PSOCK_SNDBUF 5

/*
 `struct pstream_int`, or `int` for all streams: `SO_RCVBUF` of a stream.
 */
#define PSOCK_RCVBUF 6

/*
 Bytes: the secret that both ends know. A server that others can reach needs one.
 */
#define PSOCK_TOKEN 7

/*
 Text: "earliest", "poll-all", "round-robin", "ecf", "blest" or "redundant".
 */
#define PSOCK_SCHEDULER 8

/*
 `int`: largest block in bytes, up to 65536.
 */
#define PSOCK_BLOCK_BYTES 9

/*
 `int`: buffer of each direction in bytes.
 */
#define PSOCK_MEMORY_BYTES 10

/*
 `int`: most unsent bytes of a stream; 0: the system's limit.
 */
#define PSOCK_UNSENT_BYTES 11

/*
 `int`: milliseconds without a stream that works after which the session fails.
 */
#define PSOCK_LOST_MS 12

/*
 `int`: 1: the streams together take no more of a shared bottleneck than one TCP connection.
 */
#define PSOCK_FAIR 13

/*
 `int`: 1: plain TCP where the server speaks no psock. Not with a token.
 */
#define PSOCK_FALLBACK 14

/*
 `int`, only read: streams that there are now.
 */
#define PSOCK_STREAM_CNT 15

/*
 Text, only read: what went wrong in the last call with this descriptor that failed.
 */
#define PSOCK_ERROR_TEXT 16

/*
 `int`, only read: 1 where plain TCP is used.
 */
#define PSOCK_IS_PLAIN 17

/*
 Stands for every stream in `struct pstream_int`.
 */
#define PSOCK_ALL_STREAMS (-1)

/*
 The protocol of `psocket`.
 */
#define IPPROTO_PSOCK 28787

/*
 TCP port of a server unless told otherwise.
 */
#define PSOCK_PORT 29101

/*
 An option of one stream.
 */
struct pstream_int {
  /*
   The stream's number, from 0 in the order in which streams were made, or `PSOCK_ALL_STREAMS`.
   */
  int index;
  /*
   The option's value.
   */
  int value;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Makes a socket, as socket(2): `AF_INET` or `AF_INET6`, `SOCK_STREAM` with or without `SOCK_NONBLOCK` and
 `SOCK_CLOEXEC`, and `IPPROTO_PSOCK` or 0.
 */
int psocket(int domain, int type, int protocol);

/*
 Gives a socket its local address, as bind(2): where a server listens, or from where a client connects. Whether
 the address can be had is known at `plisten` and `pconnect`.

 `address` has `len` bytes.
 */
int pbind(int fd,
          const struct sockaddr *address,
          socklen_t len);

/*
 Waits for sessions at the address of `pbind` and those of `PSOCK_ADD_LOCAL_ADDR`, as listen(2). The backlog is
 not used: at most 64 sessions wait to be accepted.
 */
int plisten(int fd,
            int backlog);

/*
 The next session, as accept(2). `address` may be null; it gets the address of the first stream's other end.

 `address` is null or has `*len` bytes.
 */
int paccept(int fd, struct sockaddr *address, socklen_t *len);

/*
 As `paccept`, with the flags `SOCK_NONBLOCK` and `SOCK_CLOEXEC` for the new descriptor, as accept4(2).

 `address` is null or has `*len` bytes.
 */
int paccept4(int fd, struct sockaddr *address, socklen_t *len, int flags);

/*
 Opens a session with a server, as connect(2). With `O_NONBLOCK` it fails with `EINPROGRESS`; the descriptor is
 writable when the session is open or has failed, and `SO_ERROR` tells which.

 `address` has `len` bytes.
 */
int pconnect(int fd,
             const struct sockaddr *address,
             socklen_t len);

/*
 Sends bytes, as send(2): all of them, or with `O_NONBLOCK` or `MSG_DONTWAIT` as many as there is room for. It
 never raises SIGPIPE. Success means that the library has the bytes; `psclose` tells whether they arrived.

 `buffer` has `len` bytes.
 */
ssize_t psend(int fd, const void *buffer, size_t len, int flags);

/*
 Sends the bytes of several buffers, as sendmsg(2) and `psend`. The address is not used; control messages are refused
 with `EOPNOTSUPP`.

 `message` and what it refers to are as for sendmsg(2).
 */
ssize_t psendmsg(int fd,
                 const struct msghdr *message,
                 int flags);

/*
 Receives bytes, as recv(2): 0 when the other end has sent everything. `MSG_DONTWAIT`, `MSG_WAITALL` and `MSG_PEEK` are
 known.

 `buffer` has `len` bytes.
 */
ssize_t precv(int fd,
              void *buffer,
              size_t len,
              int flags);

/*
 Receives bytes into several buffers, as recvmsg(2) and `precv`: there is no address, and there are no control
 messages.

 `message` and what it refers to are as for recvmsg(2).
 */
ssize_t precvmsg(int fd, struct msghdr *message, int flags);

/*
 Ends one direction or both, as shutdown(2). After `SHUT_WR` the other end reads the end of the data.
 */
int pshutdown(int fd, int how);

/*
 Closes a socket. It waits until everything that was sent has arrived, unless `SO_LINGER` says otherwise, and
 fails where that cannot be; the descriptor is closed in any case.
 */
int psclose(int fd);

/*
 Sets an option, as setsockopt(2); those of the level `SOL_PSOCK`, and those of TCP and IP for every stream.

 `value` has `len` bytes.
 */
int setpsockopt(int fd, int level, int name, const void *value, socklen_t len);

/*
 Sets what an option of the level `SOL_PSOCK` is for the sockets that are made from now on; not addresses, which
 belong to one socket.

 `value` has `len` bytes.
 */
int psock_setopt(int name,
                 const void *value,
                 socklen_t len);

/*
 Reads an option, as getsockopt(2).

 `value` has `*len` bytes.
 */
int getpsockopt(int fd, int level, int name, void *value, socklen_t *len);

/*
 This end's address, as getsockname(2): that of the first stream, or where a server listens.

 `address` has `*len` bytes.
 */
int pgetsockname(int fd, struct sockaddr *address, socklen_t *len);

/*
 The other end's address, as getpeername(2): that of the first stream.

 `address` has `*len` bytes.
 */
int pgetpeername(int fd, struct sockaddr *address, socklen_t *len);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PSOCK_H */
