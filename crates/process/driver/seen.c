#include "seen.h"

#include <stdlib.h>
#include <string.h>

uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

uint64_t print_bytes(uint64_t hash, const char *text) {
    if (text == NULL)
        return mix(hash, 0x5eed);
    size_t length = strlen(text);
    hash = mix(hash, length);
    while (length >= 8) {
        uint64_t word;
        memcpy(&word, text, 8);
        hash = mix(hash, word);
        text += 8;
        length -= 8;
    }
    uint64_t rest = 0;
    memcpy(&rest, text, length);
    return mix(hash, rest);
}

static void grow(TABLE *table) {
    TABLE bigger = {calloc(table->capacity ? table->capacity * 2 : 512, sizeof(ENTRY)),
                    table->capacity ? table->capacity * 2 : 512, table->used};
    for (size_t i = 0; i < table->capacity; i++) {
        if (table->entries[i].name == NULL)
            continue;
        size_t slot = print_bytes(0, table->entries[i].name) & (bigger.capacity - 1);
        while (bigger.entries[slot].name)
            slot = (slot + 1) & (bigger.capacity - 1);
        bigger.entries[slot] = table->entries[i];
    }
    free(table->entries);
    *table = bigger;
}

ENTRY *entry_for(TABLE *table, const char *name) {
    if (table->used * 2 >= table->capacity)
        grow(table);
    size_t slot = print_bytes(0, name) & (table->capacity - 1);
    while (table->entries[slot].name) {
        if (strcmp(table->entries[slot].name, name) == 0)
            return &table->entries[slot];
        slot = (slot + 1) & (table->capacity - 1);
    }
    table->entries[slot].name = strdup(name);
    table->used++;
    return &table->entries[slot];
}
