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

uint64_t print_switches(void) {
    const int switches[] = {glob_dot_filenames, shell_compatibility_level, ignoreeof, posixly_correct, interactive_comments,
                            source_uses_path, source_searches_cwd, inherit_errexit, expand_aliases, print_shift_error};
    uint64_t print = 1;
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++)
        print = mix(print, (uint64_t)switches[i]);
    return print;
}

static uint64_t walk_print;

static int print_element(ARRAY_ELEMENT *element, void *unused) {
    (void)unused;
    walk_print = print_bytes(mix(walk_print, (uint64_t)element->index), element->value);
    return 0;
}

static int print_pair(BUCKET *pair) {
    walk_print = print_bytes(print_bytes(walk_print, pair->key), pair->data);
    return 0;
}

uint64_t print_value(uint64_t hash, const SHELL_VAR *variable) {
    if (variable->value == NULL)
        return hash | 1;
    walk_print = hash;
    if (variable->attributes & ATT_ARRAY)
        array_walk((ARRAY *)variable->value, print_element, NULL);
    else if (variable->attributes & ATT_ASSOC)
        hash_walk((HASH_TABLE *)variable->value, print_pair);
    else
        walk_print = print_bytes(hash, variable->value);
    return walk_print | 1;
}

/* Where a name is, or where it would be put. */
static ENTRY **slot_for(TABLE *table, const char *name) {
    size_t slot = print_bytes(0, name) & (table->capacity - 1);
    while (table->entries[slot] && strcmp(table->entries[slot]->name, name) != 0)
        slot = (slot + 1) & (table->capacity - 1);
    return &table->entries[slot];
}

static void grow(TABLE *table) {
    size_t capacity = table->capacity ? table->capacity * 2 : 512;
    TABLE bigger = *table;
    bigger.entries = zeroed(capacity, sizeof(ENTRY *));
    bigger.capacity = capacity;
    for (size_t i = 0; i < table->capacity; i++)
        if (table->entries[i])
            *slot_for(&bigger, table->entries[i]->name) = table->entries[i];
    free(table->entries);
    *table = bigger;
}

ENTRY *entry_for(TABLE *table, const char *name) {
    if (table->used * 2 >= table->capacity)
        grow(table);
    ENTRY **slot = slot_for(table, name);
    if (*slot == NULL) {
        *slot = zeroed(1, sizeof(ENTRY));
        (*slot)->name = copied(name);
        table->used++;
    }
    return *slot;
}
