/* Putting a state into a bare bash.
 *
 * Variables go straight into bash's tables with their attributes, so no value is ever parsed and none can be
 * misread. Functions and the directory stack go through bash's parser, before any alias, option or trap of the session
 * is in force: the daemon sends the facts in that order. */

#include "state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

int homeless;

static BUFFER *problem_list;
static uint32_t problem_count;

static void problem(const char *what, const char *why) {
    put_string(problem_list, what);
    put_string(problem_list, why);
    problem_count++;
}

/* Whether nothing was evaluated since the rehearsal. */
static int is_rehearsed;

/* Runs a text of our own making. A jump out of it ends only itself, and `$?` stays as it was. */
static void evaluate(char *text) {
    sigjmp_buf outer;
    int status = last_command_exit_value;
    memcpy(outer, top_level, sizeof outer);
    if (sigsetjmp(top_level, 0) == 0)
        parse_and_execute(text, "restore", SEVAL_NOHIST | SEVAL_RESETLINE | SEVAL_NOOPTIMIZE);
    memcpy(top_level, outer, sizeof outer);
    last_command_exit_value = status;
    is_rehearsed = 0;
}

static char *join(const char *a, const char *b) {
    char *text = xmalloc(strlen(a) + strlen(b) + 1);
    strcpy(text, a);
    strcat(text, b);
    return text;
}

/* ---- variables ---- */

static void make_room(const char *name, int wanted) {
    /* Not what a nameref of that name leads to. */
    SHELL_VAR *old = find_variable_noref(name);
    if (old == NULL)
        return;
    int kinds = ATT_ARRAY | ATT_ASSOC | ATT_NAMEREF;
    if (old->dynamic_value || old->assign_func || (old->attributes & kinds) || (wanted & kinds)) {
        unbind_variable_noref(name);
    } else {
        old->attributes &= ~(ATT_READONLY | ATT_INTEGER | ATT_UPPERCASE | ATT_LOWERCASE | ATT_CAPCASE);
    }
}

static void set_attributes(SHELL_VAR *variable, int attributes) {
    int all = ATT_EXPORTED | ATT_READONLY | ATT_INTEGER | ATT_TRACE | ATT_UPPERCASE | ATT_LOWERCASE | ATT_CAPCASE |
              ATT_NAMEREF | ATT_INVISIBLE;
    variable->attributes = (variable->attributes & ~all) | (attributes & all);
    free(variable->exportstr);
    variable->exportstr = NULL;
    array_needs_making = 1;
}

static SHELL_VAR *fill_array(CURSOR *in, char *name) {
    SHELL_VAR *variable = make_new_array_variable(name);
    for (uint32_t left = get_u32(in); left && !in->bad; left--) {
        intmax_t index = (intmax_t)get_u64(in);
        char *value = get_string(in);
        array_insert((ARRAY *)variable->value, index, value);
        free(value);
    }
    return variable;
}

/* Bash puts a new pair in front of its bucket, so the pairs go in from the last to the first: then a walk finds them
 * in the order in which they were captured. */
static SHELL_VAR *fill_map(CURSOR *in, char *name) {
    SHELL_VAR *variable = make_new_assoc_variable(name);
    uint32_t count = get_u32(in);
    if (count > in->left / 8)
        return variable;
    char **strings = xmalloc((count * 2 + 1) * sizeof *strings);
    for (uint32_t i = 0; i < count * 2; i++)
        strings[i] = get_string(in);
    for (uint32_t i = count; i-- > 0;) {
        assoc_insert((HASH_TABLE *)variable->value, strings[i * 2], strings[i * 2 + 1]);
        free(strings[i * 2 + 1]);
    }
    free(strings);
    return variable;
}

static SHELL_VAR *declare(char *name, int attributes) {
    if (attributes & ATT_ARRAY)
        return make_new_array_variable(name);
    if (attributes & ATT_ASSOC)
        return make_new_assoc_variable(name);
    return bind_variable(name, NULL, 0);
}

static void restore_value(unsigned fact, CURSOR *in) {
    char *name = get_string(in);
    if (fact == FACT_REMOVED || fact == FACT_FORGOTTEN) {
        unbind_variable_noref(name);
        stupidly_hack_special_variables(name);
        free(name);
        return;
    }
    int attributes = (int)get_u32(in);
    SHELL_VAR *variable;
    make_room(name, attributes);
    if (fact == FACT_ARRAY) {
        variable = fill_array(in, name);
    } else if (fact == FACT_MAP) {
        variable = fill_map(in, name);
    } else if (fact == FACT_DECLARED) {
        variable = declare(name, attributes);
    } else {
        char *value = get_string(in);
        variable = bind_variable(name, value, 0);
        free(value);
    }
    if (variable)
        set_attributes(variable, attributes);
    /* A nameref would send bash to look at its target. */
    if (!(attributes & (ATT_NAMEREF | ATT_INVISIBLE)))
        stupidly_hack_special_variables(name);
    free(name);
}

void restore_variable(CURSOR *in) {
    unsigned fact = get_u8(in);
    restore_value(fact, in);
}

/* ---- functions, aliases ---- */

static void restore_function(CURSOR *in) {
    char *name = get_string(in);
    int attributes = (int)get_u32(in);
    /* The text may use extended patterns whether or not the option is on, and a name that posix mode would refuse. */
    int extglob = extended_glob, posix = posixly_correct;
    extended_glob = 1;
    posixly_correct = 0;
    evaluate(get_string(in));
    extended_glob = extglob;
    posixly_correct = posix;
    SHELL_VAR *function = find_function(name);
    if (function == NULL || function->value == NULL)
        problem(name, "bash could not read back its own printing of this function");
    else
        set_attributes(function, attributes & (ATT_EXPORTED | ATT_READONLY | ATT_TRACE));
    free(name);
}

static void restore_aliases(CURSOR *in) {
    for (uint32_t left = get_u32(in); left && !in->bad; left--) {
        char *name = get_string(in), *value = get_string(in);
        add_alias(name, value);
        free(name);
        free(value);
    }
}

/* ---- the small parts ---- */

static int listed(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; at && *at;) {
        const char *end = strchr(at, ':');
        size_t item = end ? (size_t)(end - at) : strlen(at);
        if (item == length && memcmp(at, name, length) == 0)
            return 1;
        at = end ? end + 1 : NULL;
    }
    return 0;
}

/* Switches every name of `from` that is not in `to`. */
static void switch_options(const char *from, const char *to, void (*set)(char *, int), int on) {
    char *copy = copied(from), *rest = NULL;
    for (char *name = strtok_r(copy, ":", &rest); name; name = strtok_r(NULL, ":", &rest))
        if (!listed(to, name))
            set(name, on);
    free(copy);
}

static void set_option(char *name, int on) {
    /* A shell that does not execute could never be told to execute again. */
    if (strcmp(name, "noexec") != 0)
        set_minus_o_option(on ? '-' : '+', name);
}

static void set_shopt(char *name, int on) {
    /* These two say how bash was started; bash does not let them be set. */
    if (strcmp(name, "login_shell") != 0 && strcmp(name, "restricted_shell") != 0)
        shopt_setopt(name, on);
}

/* A variable may have switched options behind the lists. */
static char *option_list(const char *variable) {
    set_shellopts();
    set_bashopts();
    SHELL_VAR *current = find_variable(variable);
    return copied(current && current->value ? current->value : "");
}

static void apply_options(const char *wanted, const char *variable, void (*set)(char *, int)) {
    char *have = option_list(variable);
    switch_options(wanted, have, set, 1);
    switch_options(have, wanted, set, 0);
    set_shellopts();
    set_bashopts();
    free(have);
}

/* The options of the state. */
static char *wanted_shopts, *wanted_set_options;

static void want(char **list, char *names) {
    free(*list);
    *list = names;
}

/* `extdebug` switches options of `set`, and `posix` switches options of `shopt`, so these are compared twice. */
static void restore_options(void) {
    if (wanted_shopts == NULL || wanted_set_options == NULL) {
        /* A state that says nothing has those of a bare bash, and those that its variables stand for: `POSIXLY_CORRECT`,
         * `IGNOREEOF`, `BASH_COMPAT`. Of `GLOBIGNORE` bash would say so. */
        if (glob_dot_filenames) {
            set_shopt("dotglob", 0);
            set_bashopts();
        }
        return;
    }
    apply_options(wanted_shopts, "BASHOPTS", set_shopt);
    apply_options(wanted_set_options, "SHELLOPTS", set_option);
    apply_options(wanted_shopts, "BASHOPTS", set_shopt);
}

static void restore_traps(CURSOR *in) {
    for (uint32_t left = get_u32(in); left && !in->bad; left--) {
        uint32_t number = get_u32(in);
        unsigned is_text = get_u8(in);
        char *text = get_string(in);
        if (number < TRAPS) {
            if (is_text)
                set_signal((int)number, text);
            else
                ignore_signal((int)number);
        }
        free(text);
    }
}

static void restore_directories(CURSOR *in) {
    uint32_t count = get_u32(in);
    if (count == 0 || count > in->left / 4)
        return;
    char *cwd = get_string(in);
    homeless = chdir(cwd) != 0;
    if (homeless)
        problem("cwd", strerror(errno));
    /* Either way it is where the session is; the daemon sees to it that nothing runs where it is not. */
    set_working_directory(cwd);
    free(cwd);
    char **stack = xmalloc(count * sizeof *stack);
    for (uint32_t i = 1; i < count; i++)
        stack[i] = get_string(in);
    for (uint32_t i = count; i-- > 1;) {
        char *quoted = sh_single_quote(stack[i]);
        evaluate(join("pushd -n -- ", quoted));
        free(quoted);
        free(stack[i]);
    }
    free(stack);
}

static const char set_positional[] = "set --";

static void restore_positional(CURSOR *in) {
    uint32_t count = get_u32(in);
    /* Most sessions have none, and that was set already. */
    if (count == 0 && is_rehearsed)
        return;
    BUFFER text = {0};
    put_bytes(&text, set_positional, sizeof set_positional - 1);
    for (uint32_t left = count; left && !in->bad; left--) {
        char *word = get_string(in), *quoted = sh_single_quote(word);
        put_bytes(&text, " ", 1);
        put_bytes(&text, quoted, strlen(quoted));
        free(word);
        free(quoted);
    }
    put_bytes(&text, "", 1);
    evaluate((char *)text.bytes);
}

static void restore_limits(CURSOR *in) {
    for (uint32_t left = get_u32(in); left && !in->bad; left--) {
        uint32_t resource = get_u32(in);
        rlim_t soft = (rlim_t)get_u64(in);
        struct rlimit limit;
        if (resource >= RLIM_NLIMITS || getrlimit((__rlimit_resource_t)resource, &limit) != 0)
            continue;
        limit.rlim_cur = soft > limit.rlim_max ? limit.rlim_max : soft;
        if (setrlimit((__rlimit_resource_t)resource, &limit) != 0)
            problem("ulimit", strerror(errno));
    }
}

static void restore_builtins(CURSOR *in) {
    for (uint32_t left = get_u32(in); left && !in->bad; left--) {
        char *name = get_string(in);
        for (int i = 0; i < num_shell_builtins; i++)
            if (strcmp(shell_builtins[i].name, name) == 0)
                shell_builtins[i].flags &= ~BUILTIN_ENABLED;
        free(name);
    }
}

static void restore_argv0(CURSOR *in) {
    free(dollar_vars[0]);
    dollar_vars[0] = get_string(in);
}

/* A fact that is not known ends the reading. */
static int restore_fact(CURSOR *in) {
    unsigned fact = get_u8(in);
    switch (fact) {
    case FACT_DIRECTORIES: restore_directories(in); return 1;
    case FACT_SCALAR:
    case FACT_ARRAY:
    case FACT_MAP:
    case FACT_DECLARED:
    case FACT_REMOVED: restore_value(fact, in); return 1;
    case FACT_FUNCTION: restore_function(in); return 1;
    case FACT_ALIASES: restore_aliases(in); return 1;
    case FACT_POSITIONAL: restore_positional(in); return 1;
    case FACT_ARGV0: restore_argv0(in); return 1;
    case FACT_UMASK: umask((mode_t)get_u32(in)); return 1;
    case FACT_LIMITS: restore_limits(in); return 1;
    case FACT_DISABLED_BUILTINS: restore_builtins(in); return 1;
    case FACT_SHOPT_OPTIONS: want(&wanted_shopts, get_string(in)); return 1;
    case FACT_SET_OPTIONS: want(&wanted_set_options, get_string(in)); return 1;
    case FACT_TRAPS: restore_traps(in); return 1;
    case FACT_STATUS: last_command_exit_value = (int)get_u32(in); return 1;
    default: in->bad = 1; return 0;
    }
}

uint32_t restore_facts(CURSOR *in, BUFFER *problems) {
    problem_list = problems;
    problem_count = 0;
    want(&wanted_shopts, NULL);
    want(&wanted_set_options, NULL);
    while (in->left && !in->bad && restore_fact(in))
        ;
    if (in->bad)
        problem("state", "the state could not be read to its end");
    /* Last, because a variable may have switched some. Nothing is executed after them. */
    restore_options();
    is_rehearsed = 0;
    return problem_count;
}

void rehearse(void) {
    evaluate(copied(set_positional));
    is_rehearsed = 1;
    capture_forget();
}
