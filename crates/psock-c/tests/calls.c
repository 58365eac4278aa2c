/*
 * Both ends in one program: what each call does, and its errno. Prints nothing where all is right.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <psock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                     \
	do {                                                                                 \
		if (!(condition)) {                                                          \
			fprintf(stderr, "line %d: %s (errno %d, %s)\n", __LINE__, #condition, errno, \
				strerror(errno));                                            \
			exit(1);                                                             \
		}                                                                            \
	} while (0)
#define FAILS(call, number) CHECK((errno = 0, (call)) == -1 && errno == (number))

static const struct timeval MOMENT = { .tv_usec = 1000 };

static struct sockaddr_in loopback(int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return address;
}

static int port_of(int fd)
{
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);

	CHECK(pgetsockname(fd, (struct sockaddr *)&address, &len) == 0);
	return ntohs(((struct sockaddr_in *)&address)->sin_port);
}

static void set(int fd, int name, int value)
{
	CHECK(setpsockopt(fd, SOL_PSOCK, name, &value, sizeof(value)) == 0);
}

static int get(int fd, int level, int name)
{
	int value = -99;
	socklen_t len = sizeof(value);

	CHECK(getpsockopt(fd, level, name, &value, &len) == 0 && len == sizeof(value));
	return value;
}

static int listening(int memory)
{
	struct sockaddr_in at = loopback(0);
	int fd = psocket(AF_INET, SOCK_STREAM, IPPROTO_PSOCK);

	CHECK(fd >= 0);
	if (memory)
		set(fd, PSOCK_MEMORY_BYTES, memory);
	CHECK(pbind(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
	CHECK(plisten(fd, 5) == 0);
	return fd;
}

static int waits_for(int fd, short events, int timeout_ms)
{
	struct pollfd entry = { .fd = fd, .events = events };

	CHECK(poll(&entry, 1, timeout_ms) >= 0);
	return entry.revents & events;
}

static void wrong_descriptors(void)
{
	struct sockaddr_in to = loopback(1);
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	int ends[2], value = 1, fd;
	char byte;

	CHECK(pipe(ends) == 0);
	fd = psocket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd >= 0);
	/* One that was closed by close(2), and whose number another file has now. */
	CHECK(close(fd) == 0);
	CHECK(dup2(ends[0], fd) == fd);
	int wrong[] = { -1, 12345, ends[0], fd };
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		int bad = wrong[i];
		FAILS(psend(bad, "x", 1, 0), EBADF);
		FAILS(precv(bad, &byte, 1, 0), EBADF);
		FAILS(pbind(bad, (struct sockaddr *)&to, sizeof(to)), EBADF);
		FAILS(pconnect(bad, (struct sockaddr *)&to, sizeof(to)), EBADF);
		FAILS(plisten(bad, 1), EBADF);
		FAILS(paccept(bad, NULL, NULL), EBADF);
		FAILS(pshutdown(bad, SHUT_WR), EBADF);
		FAILS(setpsockopt(bad, SOL_PSOCK, PSOCK_FAIR, &value, sizeof(value)), EBADF);
		FAILS(getpsockopt(bad, SOL_PSOCK, PSOCK_FAIR, &value, &len), EBADF);
		FAILS(pgetsockname(bad, (struct sockaddr *)&from, &len), EBADF);
		FAILS(pgetpeername(bad, (struct sockaddr *)&from, &len), EBADF);
		FAILS(psclose(bad), EBADF);
	}
	/* psclose has not closed what is not its own. */
	CHECK(fcntl(fd, F_GETFD) >= 0);
	close(fd);
	close(ends[0]);
	close(ends[1]);
}

static void wrong_arguments(void)
{
	struct sockaddr_in to = loopback(1), other = loopback(0);
	struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
	int fd = psocket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_PSOCK);
	int value = 65;
	char byte;

	CHECK(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	FAILS(psocket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
	FAILS(psocket(AF_INET, SOCK_DGRAM, 0), EINVAL);
	FAILS(psocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
	FAILS(psend(fd, "x", 1, 0), ENOTCONN);
	FAILS(precv(fd, &byte, 1, 0), ENOTCONN);
	FAILS(psend(fd, "x", 1, MSG_OOB), EOPNOTSUPP);
	FAILS(precv(fd, &byte, 1, MSG_OOB), EOPNOTSUPP);
	FAILS(paccept(fd, NULL, NULL), EINVAL);
	FAILS(plisten(fd, 1), EINVAL);
	FAILS(pshutdown(fd, SHUT_WR), ENOTCONN);
	FAILS(pgetpeername(fd, (struct sockaddr *)&other, &(socklen_t){ sizeof(other) }), ENOTCONN);
	FAILS(pbind(fd, NULL, sizeof(to)), EFAULT);
	FAILS(pbind(fd, (struct sockaddr *)&to, 4), EINVAL);
	FAILS(pbind(fd, (struct sockaddr *)&six, sizeof(six)), EAFNOSUPPORT);
	FAILS(setpsockopt(fd, SOL_PSOCK, PSOCK_MAX_STREAM_CNT, &value, sizeof(value)), EINVAL);
	FAILS(setpsockopt(fd, SOL_PSOCK, PSOCK_MAX_STREAM_CNT, &value, 1), EINVAL);
	FAILS(setpsockopt(fd, SOL_PSOCK, PSOCK_MAX_STREAM_CNT, NULL, sizeof(value)), EFAULT);
	FAILS(setpsockopt(fd, SOL_PSOCK, PSOCK_SCHEDULER, "fastest", 7), EINVAL);
	FAILS(setpsockopt(fd, SOL_PSOCK, 999, &value, sizeof(value)), ENOPROTOOPT);
	FAILS(setpsockopt(fd, 999, 1, &value, sizeof(value)), ENOPROTOOPT);
	CHECK(pbind(fd, (struct sockaddr *)&other, sizeof(other)) == 0);
	FAILS(pbind(fd, (struct sockaddr *)&other, sizeof(other)), EINVAL);
	CHECK(psclose(fd) == 0);
	FAILS(psclose(fd), EBADF);

	/* Others can reach it, and it has no token. */
	fd = psocket(AF_INET, SOCK_STREAM, 0);
	other.sin_addr.s_addr = htonl(INADDR_ANY);
	CHECK(pbind(fd, (struct sockaddr *)&other, sizeof(other)) == 0);
	FAILS(plisten(fd, 1), EACCES);
	CHECK(setpsockopt(fd, SOL_PSOCK, PSOCK_TOKEN, "sixteen bytes!!!", 16) == 0);
	CHECK(plisten(fd, 1) == 0 && get(fd, SOL_SOCKET, SO_ACCEPTCONN) == 1);
	CHECK(psclose(fd) == 0);
}

static void options(void)
{
	int fd = psocket(AF_INET6, SOCK_STREAM, 0);
	struct timeval time = { .tv_sec = 3, .tv_usec = 5 }, found;
	socklen_t len = sizeof(found);
	char text[32];

	set(fd, PSOCK_RCMD_STREAM_CNT, 7);
	set(fd, PSOCK_LOST_MS, 4000);
	set(fd, PSOCK_FAIR, 1);
	CHECK(get(fd, SOL_PSOCK, PSOCK_RCMD_STREAM_CNT) == 7);
	CHECK(get(fd, SOL_PSOCK, PSOCK_MAX_STREAM_CNT) == 64);
	CHECK(get(fd, SOL_PSOCK, PSOCK_LOST_MS) == 4000);
	CHECK(get(fd, SOL_PSOCK, PSOCK_FAIR) == 1);
	CHECK(get(fd, SOL_SOCKET, SO_TYPE) == SOCK_STREAM);
	CHECK(get(fd, SOL_SOCKET, SO_DOMAIN) == AF_INET6);
	CHECK(get(fd, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_PSOCK);
	CHECK(get(fd, SOL_SOCKET, SO_ERROR) == 0);
	CHECK(setpsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)) == 0);
	CHECK(getpsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &found, &len) == 0);
	CHECK(memcmp(&time, &found, sizeof(time)) == 0);
	CHECK(setpsockopt(fd, SOL_PSOCK, PSOCK_SCHEDULER, "poll-all", 8) == 0);
	len = sizeof(text);
	CHECK(getpsockopt(fd, SOL_PSOCK, PSOCK_SCHEDULER, text, &len) == 0);
	CHECK(strcmp(text, "poll-all") == 0 && len == 9);
	CHECK(psclose(fd) == 0);
}

static void streams_have_options(void)
{
	int listener = listening(0), fd = psocket(AF_INET, SOCK_STREAM, 0), server, nodelay = 1;
	struct sockaddr_in to = loopback(port_of(listener)), from;
	struct pstream_int buffer = { .index = PSOCK_ALL_STREAMS, .value = 20000 };
	socklen_t len = sizeof(buffer);

	set(fd, PSOCK_RCMD_STREAM_CNT, 1);
	CHECK(setpsockopt(fd, SOL_PSOCK, PSOCK_SNDBUF, &buffer, sizeof(buffer)) == 0);
	CHECK(setpsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) == 0);
	CHECK(pconnect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
	buffer.index = 0;
	CHECK(getpsockopt(fd, SOL_PSOCK, PSOCK_SNDBUF, &buffer, &len) == 0);
	/* The kernel doubles it (socket(7)). */
	CHECK(len == sizeof(buffer) && buffer.index == 0 && buffer.value == 40000);
	buffer.value = 30000;
	CHECK(setpsockopt(fd, SOL_PSOCK, PSOCK_SNDBUF, &buffer, sizeof(buffer)) == 0);
	CHECK(get(fd, SOL_SOCKET, SO_SNDBUF) == 60000);
	buffer.index = 1;
	FAILS(setpsockopt(fd, SOL_PSOCK, PSOCK_SNDBUF, &buffer, sizeof(buffer)), EINVAL);
	CHECK(setpsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, sizeof(nodelay)) == 0);
	FAILS(setpsockopt(fd, SOL_PSOCK, PSOCK_FAIR, &nodelay, sizeof(nodelay)), EINVAL);
	CHECK(get(fd, SOL_PSOCK, PSOCK_STREAM_CNT) == 1 && get(fd, SOL_PSOCK, PSOCK_IS_PLAIN) == 0);
	len = sizeof(from);
	server = paccept(listener, (struct sockaddr *)&from, &len);
	CHECK(server >= 0 && len == sizeof(from) && ntohs(from.sin_port) == port_of(fd));
	len = sizeof(from);
	CHECK(pgetpeername(fd, (struct sockaddr *)&from, &len) == 0 && from.sin_port == to.sin_port);
	FAILS(pconnect(fd, (struct sockaddr *)&to, sizeof(to)), EISCONN);
	/* Nobody waits for a session that is broken off. */
	struct linger at_once = { .l_onoff = 1, .l_linger = 0 };
	char byte;
	CHECK(setpsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)) == 0);
	CHECK(psclose(fd) == 0);
	FAILS(precv(server, &byte, 1, 0), ECONNRESET);
	FAILS(psend(server, &byte, 1, 0), ECONNRESET);
	CHECK(get(server, SOL_SOCKET, SO_ERROR) == ECONNRESET);
	FAILS(psclose(server), ECONNRESET);
	CHECK(psclose(listener) == 0);
}

/* Streams may come to an address that was added while the server listened already. */
static void addresses_after_listening(void)
{
	int listener = listening(0), fd = psocket(AF_INET, SOCK_STREAM, 0), server;
	struct sockaddr_in at = loopback(0), to = loopback(port_of(listener)), from;
	socklen_t len = sizeof(from);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
	CHECK(setpsockopt(listener, SOL_PSOCK, PSOCK_ADD_LOCAL_ADDR, &at, sizeof(at)) == 0);
	FAILS(setpsockopt(listener, SOL_PSOCK, PSOCK_ADD_LOCAL_ADDR, &at, sizeof(at)), EADDRINUSE);
	FAILS(setpsockopt(listener, SOL_PSOCK, PSOCK_ADD_REMOTE_ADDR, &to, sizeof(to)), EINVAL);
	to.sin_addr = at.sin_addr;
	CHECK(pconnect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
	CHECK(pgetpeername(fd, (struct sockaddr *)&from, &len) == 0);
	CHECK(from.sin_addr.s_addr == at.sin_addr.s_addr);
	server = paccept(listener, NULL, NULL);
	CHECK(server >= 0 && pshutdown(fd, SHUT_WR) == 0);
	CHECK(psclose(server) == 0 && psclose(fd) == 0 && psclose(listener) == 0);
	/* Others can reach it, and it has no token. */
	listener = listening(0);
	at.sin_addr.s_addr = htonl(INADDR_ANY);
	FAILS(setpsockopt(listener, SOL_PSOCK, PSOCK_ADD_LOCAL_ADDR, &at, sizeof(at)), EACCES);
	CHECK(psclose(listener) == 0);
}

static void defaults(void)
{
	int streams = 7, usual = 0, none = -1, bytes = 20000, fd;
	struct sockaddr_in at = loopback(0);

	CHECK(psock_setopt(PSOCK_RCMD_STREAM_CNT, &streams, sizeof(streams)) == 0);
	CHECK(psock_setopt(PSOCK_SNDBUF, &bytes, sizeof(bytes)) == 0);
	FAILS(psock_setopt(PSOCK_RCMD_STREAM_CNT, &none, sizeof(none)), EINVAL);
	FAILS(psock_setopt(PSOCK_RCMD_STREAM_CNT, NULL, sizeof(none)), EFAULT);
	FAILS(psock_setopt(PSOCK_ADD_LOCAL_ADDR, &at, sizeof(at)), ENOPROTOOPT);
	FAILS(psock_setopt(999, &none, sizeof(none)), ENOPROTOOPT);
	fd = psocket(AF_INET6, SOCK_STREAM, 0);
	CHECK(get(fd, SOL_PSOCK, PSOCK_RCMD_STREAM_CNT) == 7 && get(fd, SOL_SOCKET, SO_DOMAIN) == AF_INET6);
	CHECK(psock_setopt(PSOCK_RCMD_STREAM_CNT, &usual, sizeof(usual)) == 0);
	CHECK(get(fd, SOL_PSOCK, PSOCK_RCMD_STREAM_CNT) == 7 && psclose(fd) == 0);
}

static void without_blocking(void)
{
	int listener = listening(4096), server, written = 0, read = 0;
	struct sockaddr_in to = loopback(port_of(listener));
	int fd = psocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	static char buffer[10000];
	ssize_t got;

	set(fd, PSOCK_MEMORY_BYTES, 4096);
	CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
	CHECK(fcntl(listener, F_SETFL, O_NONBLOCK) == 0);
	FAILS(paccept(listener, NULL, NULL), EAGAIN);
	CHECK(!waits_for(listener, POLLIN, 0));
	FAILS(pconnect(fd, (struct sockaddr *)&to, sizeof(to)), EINPROGRESS);
	CHECK(waits_for(fd, POLLOUT, -1));
	CHECK(get(fd, SOL_SOCKET, SO_ERROR) == 0);
	CHECK(waits_for(listener, POLLIN, -1));
	server = paccept(listener, NULL, NULL);
	CHECK(server >= 0 && !waits_for(listener, POLLIN, 0));
	CHECK(!(fcntl(server, F_GETFL) & O_NONBLOCK));
	FAILS(precv(server, buffer, sizeof(buffer), MSG_DONTWAIT), EAGAIN);
	CHECK(setpsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &MOMENT, sizeof(MOMENT)) == 0);
	FAILS(precv(server, buffer, sizeof(buffer), 0), EAGAIN);

	/* As much as both ends have memory for. */
	while (written < 8192) {
		CHECK(waits_for(fd, POLLOUT, -1));
		got = psend(fd, buffer, 1000, 0);
		CHECK(got > 0 || errno == EAGAIN);
		written += got > 0 ? got : 0;
	}
	FAILS(psend(fd, buffer, 1, 0), EAGAIN);
	CHECK(!waits_for(fd, POLLOUT, 0));

	struct epoll_event event = { .events = EPOLLIN, .data.fd = server };
	int poller = epoll_create1(0);
	CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, server, &event) == 0);
	while (read < written) {
		CHECK(epoll_wait(poller, &event, 1, -1) == 1 && event.data.fd == server);
		got = precv(server, buffer, sizeof(buffer), 0);
		CHECK(got > 0);
		read += got;
	}
	CHECK(epoll_wait(poller, &event, 1, 0) == 0);
	CHECK(pshutdown(fd, SHUT_WR) == 0);
	FAILS(psend(fd, buffer, 1, 0), EPIPE);
	CHECK(epoll_wait(poller, &event, 1, -1) == 1);
	CHECK(precv(server, buffer, sizeof(buffer), 0) == 0);
	/* The other direction. */
	CHECK(psend(server, "answer", 6, 0) == 6);
	CHECK(pshutdown(server, SHUT_WR) == 0);
	CHECK(fcntl(fd, F_SETFL, 0) == 0);
	CHECK(precv(fd, buffer, sizeof(buffer), MSG_WAITALL) == 6 && memcmp(buffer, "answer", 6) == 0);
	CHECK(precv(fd, buffer, sizeof(buffer), 0) == 0);
	CHECK(psclose(fd) == 0 && psclose(server) == 0 && psclose(listener) == 0);
	close(poller);
}

static void nobody_there(void)
{
	int taken = socket(AF_INET, SOCK_STREAM, 0), fd = psocket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in at = loopback(0);
	socklen_t len = sizeof(at);
	char text[200] = "";

	/* Bound, so that nobody else has the port, and not listening. */
	CHECK(bind(taken, (struct sockaddr *)&at, sizeof(at)) == 0);
	CHECK(getsockname(taken, (struct sockaddr *)&at, &len) == 0);
	FAILS(pconnect(fd, (struct sockaddr *)&at, sizeof(at)), ECONNREFUSED);
	len = sizeof(text);
	CHECK(getpsockopt(fd, SOL_PSOCK, PSOCK_ERROR_TEXT, text, &len) == 0);
	CHECK(strstr(text, "cannot connect to 127.0.0.1:") != NULL);
	CHECK(psclose(fd) == 0);

	fd = psocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	FAILS(pconnect(fd, (struct sockaddr *)&at, sizeof(at)), EINPROGRESS);
	CHECK(waits_for(fd, POLLOUT, -1));
	CHECK(get(fd, SOL_SOCKET, SO_ERROR) == ECONNREFUSED);
	CHECK(get(fd, SOL_SOCKET, SO_ERROR) == 0);
	FAILS(psend(fd, "x", 1, 0), ENOTCONN);
	CHECK(psclose(fd) == 0);

	/* An address that is in use is known when the server listens. */
	CHECK(listen(taken, 1) == 0);
	fd = psocket(AF_INET, SOCK_STREAM, 0);
	CHECK(pbind(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
	FAILS(plisten(fd, 1), EADDRINUSE);
	CHECK(psclose(fd) == 0);
	close(taken);
}

/* A session: what each end has. */
static void pair(int listener, int *client, int *server)
{
	struct sockaddr_in to = loopback(port_of(listener));

	*client = psocket(AF_INET, SOCK_STREAM, 0);
	CHECK(pconnect(*client, (struct sockaddr *)&to, sizeof(to)) == 0);
	*server = paccept(listener, NULL, NULL);
	CHECK(*server >= 0);
}

/* Waits until so many bytes can be read, without reading them. */
static void wait_for_bytes(int fd, char *into, int count)
{
	while (precv(fd, into, count, MSG_PEEK) < count)
		CHECK(waits_for(fd, POLLIN, -1));
}

static void messages(void)
{
	int listener = listening(0), client, server;
	char head[3], body[8] = "", all[16];
	struct iovec out[3] = { { "ab", 2 }, { NULL, 0 }, { "cdefg", 5 } };
	struct iovec in[2] = { { head, sizeof(head) }, { body, sizeof(body) } };
	struct msghdr sent = { .msg_iov = out, .msg_iovlen = 3 };
	struct msghdr got = { .msg_iov = in, .msg_iovlen = 2, .msg_namelen = 7, .msg_flags = 9 };

	pair(listener, &client, &server);
	CHECK(psendmsg(client, &sent, MSG_NOSIGNAL) == 7);
	wait_for_bytes(server, all, 7);
	CHECK(memcmp(all, "abcdefg", 7) == 0);
	/* What was only looked at is there again. */
	CHECK(precvmsg(server, &got, MSG_PEEK) == 7 && memcmp(head, "abc", 3) == 0 && memcmp(body, "defg", 4) == 0);
	CHECK(got.msg_namelen == 0 && got.msg_controllen == 0 && got.msg_flags == 0);
	CHECK(precv(server, all, 1, 0) == 1);
	CHECK(precvmsg(server, &got, 0) == 6 && memcmp(head, "bcd", 3) == 0 && memcmp(body, "efg", 3) == 0);
	FAILS(precvmsg(server, &got, MSG_DONTWAIT), EAGAIN);
	FAILS(precv(server, all, 1, MSG_DONTWAIT | MSG_PEEK), EAGAIN);
	FAILS(precvmsg(server, &got, MSG_OOB), EOPNOTSUPP);
	FAILS(precvmsg(server, NULL, 0), EFAULT);
	in[1].iov_base = NULL;
	FAILS(precvmsg(server, &got, 0), EFAULT);

	FAILS(psendmsg(client, NULL, 0), EFAULT);
	out[1].iov_len = 1;
	FAILS(psendmsg(client, &sent, 0), EFAULT);
	sent.msg_iovlen = 100000;
	FAILS(psendmsg(client, &sent, 0), EMSGSIZE);
	sent.msg_iovlen = 0;
	CHECK(psendmsg(client, &sent, 0) == 0);
	sent.msg_control = all;
	sent.msg_controllen = sizeof(all);
	FAILS(psendmsg(client, &sent, 0), EOPNOTSUPP);
	CHECK(pshutdown(client, SHUT_WR) == 0);
	CHECK(precv(server, all, 1, MSG_PEEK) == 0 && precv(server, all, 1, 0) == 0);
	CHECK(psclose(server) == 0 && psclose(client) == 0 && psclose(listener) == 0);
}

static void accepted_with_flags(void)
{
	int listener = listening(0), flags[] = { 0, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_CLOEXEC | SOCK_NONBLOCK };
	struct sockaddr_in to = loopback(port_of(listener));

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		int client = psocket(AF_INET, SOCK_STREAM, 0), server;

		CHECK(pconnect(client, (struct sockaddr *)&to, sizeof(to)) == 0);
		server = paccept4(listener, NULL, NULL, flags[i]);
		CHECK(server >= 0);
		CHECK(!(fcntl(server, F_GETFD) & FD_CLOEXEC) == !(flags[i] & SOCK_CLOEXEC));
		CHECK(!(fcntl(server, F_GETFL) & O_NONBLOCK) == !(flags[i] & SOCK_NONBLOCK));
		CHECK(pshutdown(client, SHUT_WR) == 0 && psclose(server) == 0 && psclose(client) == 0);
	}
	FAILS(paccept4(listener, NULL, NULL, 1), EINVAL);
	CHECK(psclose(listener) == 0);
}

/* Whether every other thread of this process waits for a file or for another thread. */
static int at_rest(void)
{
	char own[32], path[64];
	struct dirent *entry;
	DIR *tasks = opendir("/proc/self/task");
	int all = 1;

	CHECK(tasks != NULL);
	snprintf(own, sizeof(own), "%ld", syscall(SYS_gettid));
	while ((entry = readdir(tasks)) != NULL) {
		long number = -1;
		FILE *file;

		if (entry->d_name[0] == '.' || strcmp(entry->d_name, own) == 0)
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%.20s/syscall", entry->d_name);
		file = fopen(path, "r");
		if (file == NULL)
			continue; /* It has ended. */
		all &= fscanf(file, "%ld", &number) == 1 && (number == SYS_ppoll || number == SYS_futex);
		fclose(file);
	}
	closedir(tasks);
	return all;
}

/* What was forked has no sockets of its parent's, may make its own, and takes none away from its parent. */
static void forked(void)
{
	int listener = listening(0), client, server, status;
	int port = port_of(listener);
	char byte;
	pid_t child;

	pair(listener, &client, &server);
	/* A thread that allocates while the process forks would lock the allocator of AddressSanitizer in the child. */
	while (!at_rest())
		usleep(1000);
	child = fork();
	if (child == 0) {
		struct sockaddr_in to = loopback(port);

		FAILS(psend(client, "x", 1, 0), EBADF);
		FAILS(precv(server, &byte, 1, 0), EBADF);
		FAILS(paccept(listener, NULL, NULL), EBADF);
		FAILS(pshutdown(client, SHUT_WR), EBADF);
		FAILS(psclose(client), EBADF);
		client = psocket(AF_INET, SOCK_STREAM, 0);
		CHECK(pconnect(client, (struct sockaddr *)&to, sizeof(to)) == 0);
		CHECK(psend(client, "y", 1, 0) == 1 && psclose(client) == 0);
		_exit(0);
	}
	CHECK(psend(client, "z", 1, 0) == 1 && precv(server, &byte, 1, 0) == 1 && byte == 'z');
	CHECK(pshutdown(client, SHUT_WR) == 0 && psclose(server) == 0 && psclose(client) == 0);
	server = paccept(listener, NULL, NULL);
	CHECK(server >= 0 && precv(server, &byte, 1, 0) == 1 && byte == 'y');
	CHECK(precv(server, &byte, 1, 0) == 0);
	CHECK(psclose(server) == 0 && psclose(listener) == 0);
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000L + now.tv_nsec / 1000000;
}

/* However a process ends that has not closed its sockets, the other end knows it, and not after a time-out. */
static void ended(int how)
{
	int listener = listening(0), port = port_of(listener), server, status;
	char buffer[16];
	long begun;
	pid_t child = fork();

	if (child == 0) {
		struct sockaddr_in to = loopback(port);
		int fd = psocket(AF_INET, SOCK_STREAM, 0);

		CHECK(pconnect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
		CHECK(psend(fd, "x", 1, 0) == 1);
		CHECK(precv(fd, buffer, 1, 0) == 1);
		if (how == 0)
			exit(0);
		if (how == SIGKILL)
			raise(SIGKILL);
		_exit(0);
	}
	server = paccept(listener, NULL, NULL);
	CHECK(server >= 0 && precv(server, buffer, 1, 0) == 1 && psend(server, "y", 1, 0) == 1);
	CHECK(waitpid(child, &status, 0) == child);
	begun = now_ms();
	FAILS(precv(server, buffer, 1, 0), ECONNRESET);
	/* Limits of 15 s apply where nothing is known. */
	CHECK(now_ms() - begun < 6000);
	FAILS(psclose(server), ECONNRESET);
	CHECK(psclose(listener) == 0);
}

int main(void)
{
	wrong_descriptors();
	wrong_arguments();
	options();
	streams_have_options();
	without_blocking();
	nobody_there();
	messages();
	accepted_with_flags();
	forked();
	addresses_after_listening();
	ended(0);
	ended(SIGKILL);
	ended(-1);
	/* The last, as it changes what every socket has. */
	defaults();
	return 0;
}
