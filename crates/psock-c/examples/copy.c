/*
 * Copies bytes from one host to another over several TCP connections.
 *
 *     copy receive ADDRESS PORT > copy.bin
 *     copy send ADDRESS PORT < data.bin
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <psock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(int fd, const char *what)
{
	char text[256] = "";
	socklen_t len = sizeof(text);

	perror(what);
	if (getpsockopt(fd, SOL_PSOCK, PSOCK_ERROR_TEXT, text, &len) == 0 && *text)
		fprintf(stderr, "%s\n", text);
	return EXIT_FAILURE;
}

static int send_all(int fd, const struct sockaddr *to, socklen_t len)
{
	static char buffer[1 << 16];
	int streams = 4;
	size_t got;

	if (setpsockopt(fd, SOL_PSOCK, PSOCK_RCMD_STREAM_CNT, &streams, sizeof(streams)) < 0)
		return failed(fd, "setpsockopt");
	if (pconnect(fd, to, len) < 0)
		return failed(fd, "pconnect");
	while ((got = fread(buffer, 1, sizeof(buffer), stdin)) > 0)
		if (psend(fd, buffer, got, 0) < 0)
			return failed(fd, "psend");
	if (ferror(stdin)) {
		perror("stdin");
		return EXIT_FAILURE;
	}
	/* Only now it is known that everything has arrived. */
	if (psclose(fd) < 0) {
		perror("psclose");
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

static int receive_all(int listener, const struct sockaddr *at, socklen_t len)
{
	static char buffer[1 << 16];
	struct sockaddr_storage bound;
	socklen_t bound_len = sizeof(bound);
	ssize_t got;
	int fd;

	if (pbind(listener, at, len) < 0)
		return failed(listener, "pbind");
	if (plisten(listener, 1) < 0)
		return failed(listener, "plisten");
	if (pgetsockname(listener, (struct sockaddr *)&bound, &bound_len) < 0)
		return failed(listener, "pgetsockname");
	/* The port has the same place in both families. */
	fprintf(stderr, "port %d\n", ntohs(((struct sockaddr_in *)&bound)->sin_port));
	if ((fd = paccept(listener, NULL, NULL)) < 0)
		return failed(listener, "paccept");
	while ((got = precv(fd, buffer, sizeof(buffer), 0)) > 0)
		if (fwrite(buffer, 1, got, stdout) != (size_t)got) {
			perror("stdout");
			return EXIT_FAILURE;
		}
	if (got < 0)
		return failed(fd, "precv");
	if (psclose(fd) < 0 || psclose(listener) < 0 || fflush(stdout) != 0) {
		perror("copy");
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in in = { .sin_family = AF_INET };
	const char *token = getenv("COPY_TOKEN");
	int sends = argc == 4 && strcmp(argv[1], "send") == 0;
	const struct sockaddr *address;
	socklen_t len;
	int fd;

	if (argc != 4 || !(sends || strcmp(argv[1], "receive") == 0)) {
		fprintf(stderr, "usage: copy send|receive ADDRESS PORT\n");
		return EXIT_FAILURE;
	}
	in.sin_port = in6.sin6_port = htons(atoi(argv[3]));
	if (inet_pton(AF_INET, argv[2], &in.sin_addr) == 1) {
		address = (const struct sockaddr *)&in;
		len = sizeof(in);
	} else if (inet_pton(AF_INET6, argv[2], &in6.sin6_addr) == 1) {
		address = (const struct sockaddr *)&in6;
		len = sizeof(in6);
	} else {
		fprintf(stderr, "%s is no address\n", argv[2]);
		return EXIT_FAILURE;
	}
	fd = psocket(address->sa_family, SOCK_STREAM, IPPROTO_PSOCK);
	if (fd < 0) {
		perror("psocket");
		return EXIT_FAILURE;
	}
	if (token && setpsockopt(fd, SOL_PSOCK, PSOCK_TOKEN, token, strlen(token)) < 0)
		return failed(fd, "setpsockopt");
	return sends ? send_all(fd, address, len) : receive_all(fd, address, len);
}
