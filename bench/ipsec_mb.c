/*
 * What intel-ipsec-mb takes for the bytes of one ESP packet, in ns; a JSON document per line, for multibuffer.py.
 *
 * Tunnel mode, an IP packet of PACKET bytes in the clear, 128-bit keys. "one": each packet is finished before the
 * next is begun. "many": all are submitted before the last ones are waited for, so that the library works on
 * several at once where an algorithm is serial. Headers, padding and replay windows are nobody's work here.
 *
 * Usage: ipsec_mb PACKET ROUNDS
 */
#include <intel-ipsec-mb.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PACKETS = 64, BUFFER = 2048, HEADER = 8, BLOCK = 64, TRIES = 200 };

struct suite {
	const char *name;
	IMB_CIPHER_MODE cipher;
	IMB_HASH_ALG hash;
	size_t iv, align, icv;
};

static const struct suite SUITES[] = {
	{ "aes-cbc", IMB_CIPHER_CBC, IMB_AUTH_NULL, 16, 16, 0 },
	{ "aes-cbc-hmac-md5-96", IMB_CIPHER_CBC, IMB_AUTH_MD5, 16, 16, 12 },
	{ "aes-cbc-hmac-sha1-96", IMB_CIPHER_CBC, IMB_AUTH_HMAC_SHA_1, 16, 16, 12 },
	{ "aes-cbc-hmac-sha256-128", IMB_CIPHER_CBC, IMB_AUTH_HMAC_SHA_256, 16, 16, 16 },
	{ "aes-gcm-16", IMB_CIPHER_GCM, IMB_AUTH_AES_GMAC, 8, 4, 16 },
	{ "chacha20-poly1305", IMB_CIPHER_CHACHA20_POLY1305, IMB_AUTH_CHACHA20_POLY1305, 8, 4, 16 },
	{ "null-hmac-md5-96", IMB_CIPHER_NULL, IMB_AUTH_MD5, 0, 4, 12 },
	{ "null-hmac-sha1-96", IMB_CIPHER_NULL, IMB_AUTH_HMAC_SHA_1, 0, 4, 12 },
	{ "null-hmac-sha256-128", IMB_CIPHER_NULL, IMB_AUTH_HMAC_SHA_256, 0, 4, 16 },
};

struct keys {
	DECLARE_ALIGNED(uint32_t enc[4 * 15], 16);
	DECLARE_ALIGNED(uint32_t dec[4 * 15], 16);
	DECLARE_ALIGNED(struct gcm_key_data gcm, 64);
	DECLARE_ALIGNED(uint8_t ipad[BLOCK], 16);
	DECLARE_ALIGNED(uint8_t opad[BLOCK], 16);
	uint8_t raw[32];
};

static uint8_t buffers[PACKETS][BUFFER];
static uint8_t tags[PACKETS][64];
static struct keys keys;

static void hash_block(IMB_MGR *m, IMB_HASH_ALG hash, const uint8_t *block, uint8_t *digest)
{
	if (hash == IMB_AUTH_MD5)
		IMB_MD5_ONE_BLOCK(m, block, digest);
	else if (hash == IMB_AUTH_HMAC_SHA_1)
		IMB_SHA1_ONE_BLOCK(m, block, digest);
	else if (hash == IMB_AUTH_HMAC_SHA_256)
		IMB_SHA256_ONE_BLOCK(m, block, digest);
}

static void expand(IMB_MGR *m, const struct suite *suite)
{
	uint8_t inner[BLOCK], outer[BLOCK];

	memset(keys.raw, 0x5a, sizeof(keys.raw));
	IMB_AES_KEYEXP_128(m, keys.raw, keys.enc, keys.dec);
	IMB_AES128_GCM_PRE(m, keys.raw, &keys.gcm);
	memset(inner, 0x36, BLOCK);
	memset(outer, 0x5c, BLOCK);
	for (size_t i = 0; i < 16; i++) {
		inner[i] ^= keys.raw[i];
		outer[i] ^= keys.raw[i];
	}
	hash_block(m, suite->hash, inner, keys.ipad);
	hash_block(m, suite->hash, outer, keys.opad);
}

static void fill(IMB_JOB *job, const struct suite *suite, size_t number, size_t clear, bool out)
{
	uint8_t *packet = buffers[number];

	memset(job, 0, sizeof(*job));
	job->cipher_mode = suite->cipher;
	job->hash_alg = suite->hash;
	job->cipher_direction = out ? IMB_DIR_ENCRYPT : IMB_DIR_DECRYPT;
	job->chain_order = out ? IMB_ORDER_CIPHER_HASH : IMB_ORDER_HASH_CIPHER;
	job->src = packet;
	job->dst = packet + HEADER + suite->iv;
	job->cipher_start_src_offset_in_bytes = HEADER + suite->iv;
	job->msg_len_to_cipher_in_bytes = suite->cipher == IMB_CIPHER_NULL ? 0 : clear;
	job->hash_start_src_offset_in_bytes = 0;
	job->msg_len_to_hash_in_bytes = HEADER + suite->iv + clear;
	job->iv = packet + HEADER;
	job->iv_len_in_bytes = 16;
	job->auth_tag_output = tags[number];
	job->auth_tag_output_len_in_bytes = suite->icv;
	job->enc_keys = keys.enc;
	job->dec_keys = keys.dec;
	job->key_len_in_bytes = 16;
	if (suite->cipher == IMB_CIPHER_GCM) {
		job->enc_keys = job->dec_keys = &keys.gcm;
		job->iv_len_in_bytes = 12;
		job->u.GCM.aad = packet;
		job->u.GCM.aad_len_in_bytes = HEADER;
	} else if (suite->cipher == IMB_CIPHER_CHACHA20_POLY1305) {
		job->enc_keys = job->dec_keys = keys.raw;
		job->key_len_in_bytes = 32;
		job->iv_len_in_bytes = 12;
		job->hash_start_src_offset_in_bytes = HEADER + suite->iv;
		job->msg_len_to_hash_in_bytes = clear;
		job->u.CHACHA20_POLY1305.aad = packet;
		job->u.CHACHA20_POLY1305.aad_len_in_bytes = HEADER;
	} else {
		job->u.HMAC._hashed_auth_key_xor_ipad = keys.ipad;
		job->u.HMAC._hashed_auth_key_xor_opad = keys.opad;
	}
}

static void check(IMB_MGR *m, const IMB_JOB *job, const char *name)
{
	if (job != NULL && job->status == IMB_STATUS_COMPLETED)
		return;
	fprintf(stderr, "ipsec_mb: %s: %s\n", name, imb_get_strerror(imb_get_errno(m)));
	exit(1);
}

/* All packets once; how many were finished. */
static size_t turn(IMB_MGR *m, const struct suite *suite, size_t clear, bool out, bool many)
{
	size_t done = 0;
	IMB_JOB *job;

	for (size_t number = 0; number < PACKETS; number++) {
		fill(IMB_GET_NEXT_JOB(m), suite, number, clear, out);
		job = IMB_SUBMIT_JOB(m);
		if (job == NULL && !many)
			job = IMB_FLUSH_JOB(m);
		if (job != NULL || !many) {
			check(m, job, suite->name);
			done++;
		}
	}
	while ((job = IMB_FLUSH_JOB(m)) != NULL) {
		check(m, job, suite->name);
		done++;
	}
	return done;
}

static double now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(int argc, char **argv)
{
	const size_t packet = argc == 3 ? strtoul(argv[1], NULL, 10) : 0;
	const size_t rounds = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	IMB_MGR *m = alloc_mb_mgr(0);

	if (packet == 0 || packet > BUFFER - 64 || rounds == 0) {
		fprintf(stderr, "usage: ipsec_mb PACKET ROUNDS\n");
		return 2;
	}
	if (m == NULL)
		return 1;
	init_mb_mgr_auto(m, NULL);
	for (size_t round = 0; round < rounds; round++)
		for (size_t s = 0; s < sizeof(SUITES) / sizeof(SUITES[0]); s++)
			for (int kind = 0; kind < 4; kind++) {
				const struct suite *suite = &SUITES[s];
				const bool out = kind < 2, many = kind % 2;
				/* Padding, its length and the next header. */
				const size_t clear = (packet + 2 + suite->align - 1) / suite->align * suite->align;

				expand(m, suite);
				/* What comes first warms the caches up. */
				turn(m, suite, clear, out, many);
				const double begun_ns = now_ns();
				for (int i = 0; i < TRIES; i++)
					if (turn(m, suite, clear, out, many) != PACKETS) {
						fprintf(stderr, "ipsec_mb: %s: packets are missing\n", suite->name);
						return 1;
					}
				printf("{\"suite\":\"%s\",\"way\":\"%s\",\"how\":\"%s\",\"ns\":%.1f}\n", suite->name,
				       out ? "out" : "in", many ? "many" : "one",
				       (now_ns() - begun_ns) / TRIES / PACKETS);
			}
	fprintf(stderr, "%s\n", imb_get_version_str());
	free_mb_mgr(m);
	return 0;
}
