/* Reading the state out of a running bash.
 *
 * Nothing is printed and nothing is parsed: the driver walks bash's own tables. Each variable has a fingerprint from
 * the last capture, so that a command that changed nothing costs one walk and writes nothing; a function is marked in
 * its own parse tree, because a redefinition always brings a new tree. */

#include "seen.h"
#include "state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Set in the flags of a function's body once it was captured. Bash uses the low bits and copies none of them to a new
 * definition. */
enum { BODY_CAPTURED = 0x40000000 };

enum {
    KEPT_ATTRIBUTES = ATT_EXPORTED | ATT_READONLY | ATT_ARRAY | ATT_INTEGER | ATT_ASSOC | ATT_TRACE | ATT_UPPERCASE |
                      ATT_LOWERCASE | ATT_CAPCASE | ATT_NAMEREF | ATT_INVISIBLE
};

/* Bash computes these; restoring them would be wrong or impossible. */
static const char *const computed[] = {"BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "SHLVL", "UID"};

static TABLE variables, functions;
static uint32_t round_number;
static int at_baseline;
static BUFFER *sink;

static struct {
    uint64_t aliases, options, traps, directories, positional, argv0, builtins;
    mode_t umask;
    rlim_t limits[RLIM_NLIMITS];
    int status;
} last;
static rlim_t base_limits[RLIM_NLIMITS];

/* ---- builtins that change what only the kernel knows ---- */

int limits_touched;

static int (*real_umask)(WORD_LIST *), (*real_ulimit)(WORD_LIST *);

static int watched_umask(WORD_LIST *words) {
    limits_touched = 1;
    return real_umask(words);
}

static int watched_ulimit(WORD_LIST *words) {
    limits_touched = 1;
    return real_ulimit(words);
}

static void watch(const char *name, int (*watcher)(WORD_LIST *), int (**real)(WORD_LIST *)) {
    for (int i = 0; i < num_shell_builtins; i++) {
        if (strcmp(shell_builtins[i].name, name) == 0) {
            *real = shell_builtins[i].function;
            shell_builtins[i].function = watcher;
        }
    }
}

/* ---- variables ---- */

static uint64_t print_variable(const SHELL_VAR *variable) {
    return print_value(mix(1, (uint64_t)(variable->attributes & KEPT_ATTRIBUTES)), variable);
}

static uint32_t walk_count;

static int write_element(ARRAY_ELEMENT *element, void *unused) {
    (void)unused;
    put_u64(sink, (uint64_t)element->index);
    put_string(sink, element->value);
    walk_count++;
    return 0;
}

static int write_pair(BUCKET *pair) {
    put_string(sink, pair->key);
    put_string(sink, pair->data);
    walk_count++;
    return 0;
}

/* A variable larger than this is not kept: the daemon would have to hold it, and so would every store. */
enum { MOST_BYTES = 16 << 20 };
/* Nor are those beyond this many bytes in one answer; the daemon takes no frame over MAX_PAYLOAD in `wire.rs`. */
enum { MOST_FRAME = 48 << 20 };
/* Nor those whose elements would take the daemon more memory than this; it reads no answer that takes MAX_MEMORY there. */
enum { MOST_MEMORY = 160 << 20 };
/* About what one string takes there beside its bytes, and one variable. */
enum { STRING_MEMORY = 64, VARIABLE_MEMORY = 256 + STRING_MEMORY };
static size_t memory;

static void write_variable_whole(const SHELL_VAR *variable) {
    int attributes = variable->attributes & KEPT_ATTRIBUTES;
    int is_array = attributes & ATT_ARRAY, is_map = attributes & ATT_ASSOC;
    int is_unset = variable->value == NULL || (attributes & ATT_INVISIBLE);
    put_u8(sink, is_unset ? FACT_DECLARED : is_array ? FACT_ARRAY : is_map ? FACT_MAP : FACT_SCALAR);
    put_string(sink, variable->name);
    put_u32(sink, (uint32_t)attributes);
    if (is_unset)
        return;
    if (!is_array && !is_map) {
        put_string(sink, variable->value);
        return;
    }
    size_t hole = put_hole(sink);
    walk_count = 0;
    if (is_array)
        array_walk((ARRAY *)variable->value, write_element, NULL);
    else
        hash_walk((HASH_TABLE *)variable->value, write_pair);
    fill_hole(sink, hole, walk_count);
}

static void write_variable(const SHELL_VAR *variable) {
    size_t before = sink->length;
    walk_count = 0;
    write_variable_whole(variable);
    size_t bytes = sink->length - before;
    /* A pair has two strings. */
    size_t takes = VARIABLE_MEMORY + bytes + 2 * (size_t)walk_count * STRING_MEMORY;
    if (bytes <= MOST_BYTES && sink->length <= MOST_FRAME && memory + takes <= MOST_MEMORY) {
        memory += takes;
        return;
    }
    sink->length = before;
    put_u8(sink, FACT_TOO_LARGE);
    put_string(sink, variable->name);
}

static int is_computed(const char *name) {
    for (size_t i = 0; i < sizeof computed / sizeof *computed; i++)
        if (strcmp(name, computed[i]) == 0)
            return 1;
    return 0;
}

static void mark_seen(TABLE *table, ENTRY *entry) {
    entry->round = round_number;
    table->seen++;
    /* A fingerprint of nothing belongs to what was not there. */
    table->present += entry->print == 0;
}

/* Most walks find the same variables in the same order as the last one, so the entry is looked for there first. */
static struct {
    struct {
        const SHELL_VAR *variable;
        ENTRY *entry;
    } *steps;
    size_t capacity, next;
} path;

static ENTRY *entry_on_path(const SHELL_VAR *variable) {
    if (path.next >= path.capacity) {
        path.capacity = path.capacity ? path.capacity * 2 : 256;
        path.steps = xrealloc(path.steps, path.capacity * sizeof *path.steps);
        memset(path.steps + path.next, 0, (path.capacity - path.next) * sizeof *path.steps);
    }
    size_t step = path.next++;
    ENTRY *entry = path.steps[step].entry;
    if (path.steps[step].variable == variable && entry && strcmp(entry->name, variable->name) == 0)
        return entry;
    entry = entry_for(&variables, variable->name);
    path.steps[step].variable = variable;
    path.steps[step].entry = entry;
    return entry;
}

static int see_variable(BUCKET *bucket) {
    const SHELL_VAR *variable = bucket->data;
    if (variable == NULL || (variable->attributes & ATT_NOASSIGN))
        return 0;
    ENTRY *entry = entry_on_path(variable);
    mark_seen(&variables, entry);
    /* A dynamic variable is only there or not there: its value is bash's own doing. */
    uint64_t print = variable->dynamic_value ? 2 : print_variable(variable);
    if (entry->print == print)
        return 0;
    entry->print = print;
    if (at_baseline)
        entry->is_base = 1;
    else if (sink && print != 2 && !is_computed(variable->name))
        write_variable(variable);
    return 0;
}

static void see_missing(TABLE *table, int gone, int base_gone) {
    size_t seen = table->seen;
    table->seen = 0;
    if (seen == table->present)
        return;
    for (size_t i = 0; i < table->capacity; i++) {
        ENTRY *entry = table->entries[i];
        if (entry == NULL || entry->print == 0 || entry->round == round_number)
            continue;
        entry->print = 0;
        table->present--;
        if (sink == NULL)
            continue;
        put_u8(sink, (unsigned)(entry->is_base ? base_gone : gone));
        put_string(sink, entry->name);
    }
}

void capture_variable(BUFFER *out, const char *name) {
    BUFFER *outer = sink;
    const SHELL_VAR *variable = find_variable_noref(name);
    sink = out;
    if (variable) {
        /* However large: it does not leave the shell. */
        write_variable_whole(variable);
    } else {
        put_u8(out, FACT_FORGOTTEN);
        put_string(out, name);
    }
    sink = outer;
}

/* ---- functions and aliases ---- */

static int see_function(BUCKET *bucket) {
    SHELL_VAR *function = bucket->data;
    COMMAND *body = (COMMAND *)function->value;
    if (body == NULL)
        return 0;
    ENTRY *entry = entry_for(&functions, function->name);
    mark_seen(&functions, entry);
    uint64_t print = mix(1, (uint64_t)(function->attributes & KEPT_ATTRIBUTES)) | 1;
    if ((body->flags & BODY_CAPTURED) && entry->print == print)
        return 0;
    entry->print = print;
    body->flags |= BODY_CAPTURED;
    if (sink == NULL)
        return 0;
    put_u8(sink, FACT_FUNCTION);
    put_string(sink, function->name);
    put_u32(sink, (uint32_t)(function->attributes & KEPT_ATTRIBUTES));
    put_string(sink, named_function_string(function->name, body, FUNC_MULTILINE | FUNC_EXTERNAL));
    return 0;
}

static uint64_t walk_print;

static int print_alias(BUCKET *bucket) {
    const ALIAS *alias = bucket->data;
    walk_print = print_bytes(print_bytes(walk_print, alias->name), alias->value);
    return 0;
}

static int write_alias(BUCKET *bucket) {
    const ALIAS *alias = bucket->data;
    put_string(sink, alias->name);
    put_string(sink, alias->value);
    walk_count++;
    return 0;
}

static void see_aliases(void) {
    walk_print = 1;
    hash_walk(aliases, print_alias);
    if (walk_print == last.aliases)
        return;
    last.aliases = walk_print;
    if (sink == NULL)
        return;
    put_u8(sink, FACT_ALIASES);
    size_t hole = put_hole(sink);
    walk_count = 0;
    hash_walk(aliases, write_alias);
    fill_hole(sink, hole, walk_count);
}

/* ---- the small parts ---- */

static void see_text(int fact, uint64_t *seen, const char *text) {
    uint64_t print = print_bytes(1, text);
    if (print == *seen)
        return;
    *seen = print;
    if (sink == NULL)
        return;
    put_u8(sink, (unsigned)fact);
    put_string(sink, text);
}

/* Both lists are written when either changed, so that the daemon never knows only half. They are made again only if one
 * of them, or what bash switches behind them, is not as it was. */
static void see_options(void) {
    static SHELL_VAR *set_options, *shopt_options;
    static uint64_t switches;
    if (set_options == NULL) {
        set_options = find_variable("SHELLOPTS");
        shopt_options = find_variable("BASHOPTS");
    }
    uint64_t print = print_bytes(print_bytes(1, set_options->value), shopt_options->value);
    if (print == last.options && print_switches() == switches)
        return;
    set_shellopts();
    set_bashopts();
    switches = print_switches();
    print = print_bytes(print_bytes(1, set_options->value), shopt_options->value);
    if (print == last.options)
        return;
    last.options = print;
    if (sink == NULL)
        return;
    put_u8(sink, FACT_SET_OPTIONS);
    put_string(sink, set_options->value);
    put_u8(sink, FACT_SHOPT_OPTIONS);
    put_string(sink, shopt_options->value);
}

static int is_trap_text(const char *trap) { return trap != (char *)SIG_DFL && trap != (char *)SIG_IGN; }

static void see_traps(void) {
    uint64_t print = 1;
    for (int i = 0; i < TRAPS; i++) {
        if (is_trap_text(trap_list[i]))
            print = print_bytes(mix(print, (uint64_t)i), trap_list[i]);
        else if (trap_list[i] == (char *)SIG_IGN)
            print = mix(print, (uint64_t)i + 1000);
    }
    if (print == last.traps)
        return;
    last.traps = print;
    if (sink == NULL)
        return;
    put_u8(sink, FACT_TRAPS);
    size_t hole = put_hole(sink);
    uint32_t count = 0;
    for (int i = 0; i < TRAPS; i++) {
        if (trap_list[i] == (char *)SIG_DFL)
            continue;
        put_u32(sink, (uint32_t)i);
        put_u8(sink, is_trap_text(trap_list[i]));
        put_string(sink, is_trap_text(trap_list[i]) ? trap_list[i] : "");
        count++;
    }
    fill_hole(sink, hole, count);
}

static void see_words(int fact, uint64_t *seen, WORD_LIST *list) {
    uint64_t print = 1;
    uint32_t count = 0;
    for (WORD_LIST *l = list; l; l = l->next, count++)
        print = print_bytes(print, l->word->word);
    if (print == *seen)
        return;
    *seen = print;
    if (sink == NULL)
        return;
    put_u8(sink, (unsigned)fact);
    put_u32(sink, count);
    for (WORD_LIST *l = list; l; l = l->next)
        put_string(sink, l->word->word);
}

static void see_directories(void) {
    /* Without a known directory bash would complain on standard error about the lookup. */
    if (the_current_working_directory == NULL)
        return;
    WORD_LIST *list = get_directory_stack(0);
    see_words(FACT_DIRECTORIES, &last.directories, list);
    dispose_words(list);
}

static void see_positional(void) {
    WORD_LIST *list = dollar_vars[1] ? list_rest_of_args() : NULL;
    see_words(FACT_POSITIONAL, &last.positional, list);
    dispose_words(list);
}

static void see_limits(void) {
    if (!limits_touched && !at_baseline)
        return;
    limits_touched = 0;
    mode_t mask = umask(0);
    umask(mask);
    if (mask != last.umask) {
        last.umask = mask;
        if (sink) {
            put_u8(sink, FACT_UMASK);
            put_u32(sink, mask);
        }
    }
    int changed = 0;
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit limit;
        if (getrlimit((__rlimit_resource_t)i, &limit) == 0 && limit.rlim_cur != last.limits[i]) {
            last.limits[i] = limit.rlim_cur;
            changed = 1;
        }
    }
    if (!changed || sink == NULL)
        return;
    put_u8(sink, FACT_LIMITS);
    size_t hole = put_hole(sink);
    uint32_t count = 0;
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        if (last.limits[i] == base_limits[i])
            continue;
        put_u32(sink, (uint32_t)i);
        put_u64(sink, last.limits[i]);
        count++;
    }
    fill_hole(sink, hole, count);
}

static void see_builtins(void) {
    uint64_t print = 1;
    for (int i = 0; i < num_shell_builtins; i++)
        if (shell_builtins[i].function && !(shell_builtins[i].flags & BUILTIN_ENABLED))
            print = print_bytes(print, shell_builtins[i].name);
    if (print == last.builtins)
        return;
    last.builtins = print;
    if (sink == NULL)
        return;
    put_u8(sink, FACT_DISABLED_BUILTINS);
    size_t hole = put_hole(sink);
    uint32_t count = 0;
    for (int i = 0; i < num_shell_builtins; i++) {
        if (shell_builtins[i].function == NULL || (shell_builtins[i].flags & BUILTIN_ENABLED))
            continue;
        put_string(sink, shell_builtins[i].name);
        count++;
    }
    fill_hole(sink, hole, count);
}

static void see_status(void) {
    if (last_command_exit_value == last.status)
        return;
    last.status = last_command_exit_value;
    if (sink == NULL)
        return;
    put_u8(sink, FACT_STATUS);
    put_u32(sink, (uint32_t)last.status);
}

static void see_everything(void) {
    round_number++;
    path.next = 0;
    hash_walk(global_variables->table, see_variable);
    see_missing(&variables, FACT_FORGOTTEN, FACT_REMOVED);
    hash_walk(shell_functions, see_function);
    see_missing(&functions, FACT_FUNCTION_GONE, FACT_FUNCTION_GONE);
    see_aliases();
    see_options();
    see_traps();
    see_directories();
    see_positional();
    see_text(FACT_ARGV0, &last.argv0, dollar_vars[0]);
    see_limits();
    see_builtins();
    see_status();
}

void capture_baseline(void) {
    watch("umask", watched_umask, &real_umask);
    watch("ulimit", watched_ulimit, &real_ulimit);
    at_baseline = 1;
    sink = NULL;
    see_everything();
    at_baseline = 0;
    memcpy(base_limits, last.limits, sizeof base_limits);
}

void capture_forget(void) {
    limits_touched = 1;
    sink = NULL;
    see_everything();
}

void capture_changes(BUFFER *out) {
    sink = out;
    memory = 0;
    see_everything();
    sink = NULL;
}
