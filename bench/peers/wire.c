#include "wire.h"

#include "peer.h"

#include <endian.h>
#include <openssl/evp.h>
#include <string.h>

void wire_head_write(uint8_t *bytes, const struct wire_head *head) {
    uint16_t magic = htobe16(WIRE_MAGIC), flags = htobe16(head->flags);
    uint16_t service = htobe16(head->service);
    uint64_t id = htobe64(head->id);
    uint32_t length = htobe32(head->length);
    memcpy(bytes, &magic, 2);
    bytes[2] = WIRE_VERSION;
    bytes[3] = head->type;
    memcpy(bytes + 4, &flags, 2);
    memcpy(bytes + 6, &service, 2);
    memcpy(bytes + 8, &id, 8);
    memcpy(bytes + 16, &length, 4);
}

static bool head_read(const uint8_t *bytes, struct wire_head *head) {
    uint16_t magic;
    memcpy(&magic, bytes, 2);
    memcpy(&head->flags, bytes + 4, 2);
    memcpy(&head->service, bytes + 6, 2);
    memcpy(&head->id, bytes + 8, 8);
    memcpy(&head->length, bytes + 16, 4);
    head->type = bytes[3];
    head->flags = be16toh(head->flags);
    head->service = be16toh(head->service);
    head->id = be64toh(head->id);
    head->length = be32toh(head->length);
    return be16toh(magic) == WIRE_MAGIC && bytes[2] == WIRE_VERSION && !head->flags;
}

ssize_t wire_frame(const uint8_t *bytes, size_t count, struct wire_head *head) {
    if (count < WIRE_HEAD_BYTES)
        return 0;
    if (!head_read(bytes, head) || head->length > WIRE_BUFFER_BYTES - WIRE_HEAD_BYTES)
        return -1;
    size_t frame = WIRE_HEAD_BYTES + (size_t)head->length;
    return count < frame ? 0 : (ssize_t)frame;
}

static uint8_t answer_type(const struct wire_head *head) {
    if (head->type == WIRE_REQUEST && head->id)
        return WIRE_RESPONSE;
    return head->type == WIRE_PING ? WIRE_PONG : 0;
}

ssize_t wire_echo(uint8_t *bytes, size_t count) {
    size_t done = 0;
    struct wire_head head;
    for (ssize_t frame; (frame = wire_frame(bytes + done, count - done, &head));
         done += (size_t)frame) {
        uint8_t type = frame < 0 ? 0 : answer_type(&head);
        if (!type)
            return -1;
        bytes[done + 3] = type;
    }
    return (ssize_t)done;
}

ssize_t wire_digest(const uint8_t *bytes, size_t count, uint8_t *out, size_t *out_count) {
    size_t done = 0;
    struct wire_head head;
    *out_count = 0;
    for (ssize_t frame; (frame = wire_frame(bytes + done, count - done, &head));
         done += (size_t)frame) {
        if (frame < 0 || answer_type(&head) != WIRE_RESPONSE)
            return -1;
        struct wire_head answer = {.type = WIRE_RESPONSE,
                                   .service = head.service,
                                   .id = head.id,
                                   .length = WIRE_DIGEST_BYTES};
        wire_head_write(out + *out_count, &answer);
        wire_digest_rounds(bytes + done + WIRE_HEAD_BYTES, head.length,
                           out + *out_count + WIRE_HEAD_BYTES);
        *out_count += WIRE_HEAD_BYTES + WIRE_DIGEST_BYTES;
    }
    return (ssize_t)done;
}

void wire_digest_rounds(const uint8_t *payload, size_t count, uint8_t *digest) {
    static EVP_MD *sha256; /* fetched once: an implicit fetch per digest costs a microsecond */
    static EVP_MD_CTX *context;
    if (!context &&
        (!(sha256 = EVP_MD_fetch(NULL, "SHA256", NULL)) || !(context = EVP_MD_CTX_new())))
        peer_die("SHA-256");
    memset(digest, 0, WIRE_DIGEST_BYTES);
    for (int round = 0; round < WIRE_DIGEST_ROUNDS; round++) {
        if (!EVP_DigestInit_ex2(context, sha256, NULL) ||
            !EVP_DigestUpdate(context, digest, WIRE_DIGEST_BYTES) ||
            !EVP_DigestUpdate(context, payload, count) ||
            !EVP_DigestFinal_ex(context, digest, NULL))
            peer_die("SHA-256");
    }
}
