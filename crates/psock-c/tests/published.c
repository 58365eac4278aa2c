/*
 * The example of section 8 of the psock report (docs/reproduce.md), in our words and with its errors mended: every
 * parenthesis is closed, the address has one name, the option call one spelling, no port is set that nothing uses, and
 * the client closes the socket that it opened.
 *
 *     published server PORT &
 *     published client PORT
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <psock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVER "127.0.0.1"
#define RECOMMENDED_STREAMS 3
#define MAXIMUM_STREAMS 5
#define EXTRA_PORTS 5
#define FIRST_STREAM_BYTES 500000
#define CLIENT_BUFFER_BYTES 128

static const char GREETING[] = "Hello over parallel sockets\n";

static void check(int result, const char *what)
{
	if (result < 0) {
		perror(what);
		exit(EXIT_FAILURE);
	}
}

static void serve(struct sockaddr_in address, int port)
{
	struct pstream_int buffer = { .index = 0, .value = FIRST_STREAM_BYTES };
	int ps, ps2, i;

	check(ps = psocket(AF_INET, SOCK_STREAM, IPPROTO_PSOCK), "psocket");
	check(pbind(ps, (struct sockaddr *)&address, sizeof(address)), "pbind");
	check(plisten(ps, 5), "plisten");
	for (i = 1; i <= EXTRA_PORTS; i++) {
		address.sin_port = htons(port + i);
		check(setpsockopt(ps, SOL_PSOCK, PSOCK_ADD_LOCAL_ADDR, &address, sizeof(address)), "address");
	}
	puts("listening");
	fflush(stdout);
	check(ps2 = paccept(ps, NULL, NULL), "paccept");
	check(setpsockopt(ps2, SOL_PSOCK, PSOCK_SNDBUF, &buffer, sizeof(buffer)), "buffer");
	check(psend(ps2, GREETING, strlen(GREETING), 0), "psend");
	check(psclose(ps2), "psclose");
	check(psclose(ps), "psclose");
}

static void ask(struct sockaddr_in address)
{
	char buffer[CLIENT_BUFFER_BYTES];
	ssize_t got;
	int ps;

	check(ps = psocket(AF_INET, SOCK_STREAM, IPPROTO_PSOCK), "psocket");
	check(pconnect(ps, (struct sockaddr *)&address, sizeof(address)), "pconnect");
	while ((got = precv(ps, buffer, sizeof(buffer), 0)) > 0)
		fwrite(buffer, 1, got, stdout);
	check(got, "precv");
	check(psclose(ps), "psclose");
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int recommended = RECOMMENDED_STREAMS, maximum = MAXIMUM_STREAMS, port;

	if (argc != 3)
		return EXIT_FAILURE;
	port = atoi(argv[2]);
	address.sin_port = htons(port);
	inet_aton(SERVER, &address.sin_addr);
	check(psock_setopt(PSOCK_RCMD_STREAM_CNT, &recommended, sizeof(recommended)), "recommended");
	check(psock_setopt(PSOCK_MAX_STREAM_CNT, &maximum, sizeof(maximum)), "maximum");
	if (strcmp(argv[1], "server") == 0)
		serve(address, port);
	else
		ask(address);
	return EXIT_SUCCESS;
}
