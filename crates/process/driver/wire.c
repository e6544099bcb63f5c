#include "wire.h"
#include "bash.h"

#include <stdlib.h>
#include <string.h>

void put_bytes(BUFFER *out, const void *bytes, size_t length) {
    if (out->length + length > out->capacity) {
        size_t capacity = out->capacity ? out->capacity : 4096;
        while (capacity < out->length + length)
            capacity *= 2;
        out->bytes = xrealloc(out->bytes, capacity);
        out->capacity = capacity;
    }
    memcpy(out->bytes + out->length, bytes, length);
    out->length += length;
}

void put_u8(BUFFER *out, unsigned value) {
    unsigned char byte = (unsigned char)value;
    put_bytes(out, &byte, 1);
}

void put_u32(BUFFER *out, uint32_t value) { put_bytes(out, &value, sizeof value); }

void put_u64(BUFFER *out, uint64_t value) { put_bytes(out, &value, sizeof value); }

void put_string(BUFFER *out, const char *text) {
    size_t length = text ? strlen(text) : 0;
    put_u32(out, (uint32_t)length);
    put_bytes(out, text ? text : "", length);
}

size_t put_hole(BUFFER *out) {
    size_t where = out->length;
    put_u32(out, 0);
    return where;
}

void fill_hole(BUFFER *out, size_t where, uint32_t value) { memcpy(out->bytes + where, &value, sizeof value); }

static void take(CURSOR *in, void *into, size_t length) {
    if (in->bad || in->left < length) {
        in->bad = 1;
        memset(into, 0, length);
        return;
    }
    memcpy(into, in->at, length);
    in->at += length;
    in->left -= length;
}

unsigned get_u8(CURSOR *in) {
    unsigned char value;
    take(in, &value, 1);
    return value;
}

uint32_t get_u32(CURSOR *in) {
    uint32_t value;
    take(in, &value, sizeof value);
    return value;
}

uint64_t get_u64(CURSOR *in) {
    uint64_t value;
    take(in, &value, sizeof value);
    return value;
}

char *get_string(CURSOR *in) {
    size_t length = get_u32(in);
    if (length > in->left) {
        in->bad = 1;
        length = 0;
    }
    char *text = xmalloc(length + 1);
    take(in, text, length);
    text[length] = '\0';
    return text;
}
