#include "launcher/command_line.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

const char command_line_usage[] =
    "Usage: srt [options] [command...]\n"
    "       srt [options] -c <command>\n"
    "       srt check [--settings <path>] [<host>:<port>...]\n"
    "       srt connect <host> <port>\n"
    "       srt ca create --out <dir> | srt ca show <file>\n"
    "       srt proxy --settings <path> [--listen <address>...]\n"
    "\n"
    "Runs a command in a box: it writes where the settings say, reads what they do\n"
    "not hide, and reaches the hosts they allow through a filtering proxy.\n"
    "\n"
    "  -c <command>           a string for bash, instead of command words\n"
    "  -s, --settings <path>  settings file (default: ~/.srt-settings.json)\n"
    "      --control-fd <fd>  settings updates from an inherited descriptor, a line each\n"
    "  -d, --debug            debug log on stderr\n"
    "  -V, --version          print the version\n"
    "  -h, --help             print this\n"
    "\n"
    "Before the first command word only:\n"
    "      --print-plan           print what would be done, and do nothing\n"
    "      --json                 with --print-plan: as JSON\n"
    "      --log <file>           decision log of the proxy, a JSON line for each connection\n"
    "      --violations <target>  what was refused, a JSON line each, to a file or fd:<n>\n"
    "      --annotate             list on stderr what was refused, when the command is over\n"
    "      --ask                  ask at the terminal about hosts that no rule decides\n"
    "      --ask-timeout <seconds>  how long a question waits for its answer (default: 120)\n"
    "      --exit-codes <mode>    compatible (default), or strict: 125 when srt itself fails,\n"
    "                             128+n when srt itself is ended by signal n\n"
    "\n"
    "  check    says whether a settings file is right, and what it decides for a host\n"
    "  connect  standard input and output through the proxy, as ssh's ProxyCommand\n"
    "  proxy    the filtering proxy alone\n"
    "\n"
    "Options are read after the first command word too; put -- before a command that has\n"
    "options of its own.\n"
    "See srt(1), srt-proxy(8), srt-settings(5).\n";

enum option_id {
    OPTION_DEBUG,
    OPTION_SETTINGS,
    OPTION_COMMAND,
    OPTION_CONTROL_FD,
    OPTION_VERSION,
    OPTION_HELP,
    OPTION_PRINT_PLAN,
    OPTION_JSON,
    OPTION_ANNOTATE,
    OPTION_ASK,
    OPTION_ASK_TIMEOUT,
    OPTION_VIOLATIONS,
    OPTION_LOG,
    OPTION_EXIT_CODES
};

struct option {
    const char *name;  /* long, without dashes; NULL: none */
    const char *value; /* as messages show the option when it takes a value; NULL: it takes none */
    enum option_id id;
    char letter; /* 0: none */
    bool alone;  /* the letter starts no bundle */
    bool early;  /* known before the first command word only */
};

static const struct option options[] = {
    {.id = OPTION_DEBUG, .letter = 'd', .name = "debug"},
    {.id = OPTION_SETTINGS, .letter = 's', .name = "settings", .value = "-s, --settings <path>"},
    {.id = OPTION_COMMAND, .letter = 'c', .value = "-c <command>"},
    {.id = OPTION_CONTROL_FD, .name = "control-fd", .value = "--control-fd <fd>"},
    {.id = OPTION_VERSION, .letter = 'V', .name = "version"},
    {.id = OPTION_HELP, .letter = 'h', .name = "help", .alone = true},
    {.id = OPTION_PRINT_PLAN, .name = "print-plan", .early = true},
    {.id = OPTION_JSON, .name = "json", .early = true},
    {.id = OPTION_ANNOTATE, .name = "annotate", .early = true},
    {.id = OPTION_ASK, .name = "ask", .early = true},
    {.id = OPTION_ASK_TIMEOUT,
     .name = "ask-timeout",
     .value = "--ask-timeout <seconds>",
     .early = true},
    {.id = OPTION_VIOLATIONS,
     .name = "violations",
     .value = "--violations <target>",
     .early = true},
    {.id = OPTION_LOG, .name = "log", .value = "--log <file>", .early = true},
    {.id = OPTION_EXIT_CODES, .name = "exit-codes", .value = "--exit-codes <mode>", .early = true},
};
enum { OPTION_COUNT = sizeof options / sizeof options[0] };

/* What became of one argument. */
enum step {
    STEP_OPTION, /* taken; go on */
    STEP_WORD,   /* not an option of ours: a command word */
    STEP_DASHES, /* "--": the rest is the command */
    STEP_DONE,   /* nothing after this one counts */
    STEP_FAILED  /* the error is written */
};

struct parse {
    struct command_line *out;
    struct buf *error;
    char **argv;
    int argc, next;
    bool foreign_option; /* a word was somebody else's option */
};

static bool known_now(const struct parse *p, const struct option *o)
{
    return !o->early || p->out->word_count == 0;
}

static const struct option *find_long(const struct parse *p, const char *name, size_t n)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *o = &options[i];
        if (o->name != NULL && strlen(o->name) == n && memcmp(o->name, name, n) == 0)
            return known_now(p, o) ? o : NULL;
    }
    return NULL;
}

static const struct option *find_letter(char letter)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (options[i].letter == letter && letter != 0)
            return &options[i];
    return NULL;
}

/* Bytes of the command line inside a message: bounded, and nothing that steers a terminal. */
static void put_shown(struct buf *out, const char *text)
{
    enum { SHOWN_MAX = 200 };
    for (size_t i = 0; i < SHOWN_MAX && text[i] != 0; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == 0x7F)
            buf_printf(out, "\\x%02X", c);
        else
            buf_append(out, &c, 1);
    }
}

static enum step bad_value(struct parse *p, const struct option *o, const char *value,
                           const char *why)
{
    buf_printf(p->error, "error: option '%s' argument '", o->value);
    put_shown(p->error, value);
    buf_printf(p->error, "' is invalid. %s\n", why);
    return STEP_FAILED;
}

/* Decimal digits only, at least 3. A number past int is nobody's descriptor, as INT_MAX is not. */
static bool parse_descriptor(const char *text, int *fd)
{
    long n = 0;
    for (const char *c = text; *c != 0; c++) {
        if (*c < '0' || *c > '9')
            return false;
        if (n <= INT_MAX)
            n = 10 * n + (*c - '0');
    }
    *fd = n > INT_MAX ? INT_MAX : (int)n;
    return n >= 3;
}

static enum step take_control_fd(struct parse *p, const struct option *o, const char *value)
{
    if (parse_descriptor(value, &p->out->control_fd))
        return STEP_OPTION;
    return bad_value(p, o, value,
                     "must be an integer file descriptor >= 3 (0-2 are stdin, stdout and "
                     "stderr).");
}

static enum step take_ask_timeout(struct parse *p, const struct option *o, const char *value)
{
    unsigned seconds = 0;
    const char *c = value;
    for (; *c >= '0' && *c <= '9' && seconds <= ASK_TIMEOUT_MAX_S; c++)
        seconds = 10 * seconds + (unsigned)(*c - '0');
    p->out->ask_timeout_s = seconds;
    if (*c == 0 && seconds >= 1 && seconds <= ASK_TIMEOUT_MAX_S)
        return STEP_OPTION;
    return bad_value(p, o, value, "must be a number of seconds from 1 to 86400.");
}

static enum step take_exit_codes(struct parse *p, const struct option *o, const char *value)
{
    p->out->strict_exit_codes = strcmp(value, "strict") == 0;
    if (p->out->strict_exit_codes || strcmp(value, "compatible") == 0)
        return STEP_OPTION;
    return bad_value(p, o, value, "Allowed choices are compatible, strict.");
}

static enum step take_flag(struct parse *p, const struct option *o)
{
    struct command_line *out = p->out;
    out->option_after_words = out->option_after_words || out->word_count != 0;
    switch (o->id) {
    case OPTION_DEBUG:
        out->debug = true;
        break;
    case OPTION_VERSION:
        out->version = true;
        out->help = false;
        return STEP_DONE;
    case OPTION_HELP:
        out->help = true;
        break;
    case OPTION_PRINT_PLAN:
        out->print_plan = true;
        break;
    case OPTION_JSON:
        out->json = true;
        break;
    case OPTION_ASK:
        out->ask = true;
        break;
    default:
        out->annotate = true;
        break;
    }
    return STEP_OPTION;
}

static enum step take_value(struct parse *p, const struct option *o, const char *value)
{
    struct command_line *out = p->out;
    out->option_after_words = out->option_after_words || out->word_count != 0;
    switch (o->id) {
    case OPTION_SETTINGS:
        out->settings = value;
        break;
    case OPTION_COMMAND:
        out->command = value;
        break;
    case OPTION_CONTROL_FD:
        return take_control_fd(p, o, value);
    case OPTION_ASK_TIMEOUT:
        return take_ask_timeout(p, o, value);
    case OPTION_VIOLATIONS:
        out->violations = value;
        break;
    case OPTION_LOG:
        out->log = value;
        break;
    default:
        return take_exit_codes(p, o, value);
    }
    return STEP_OPTION;
}

/* An option that stands by itself; its value is the next argument, whatever that looks like. */
static enum step take_alone(struct parse *p, const struct option *o)
{
    if (o->value == NULL)
        return take_flag(p, o);
    if (p->next >= p->argc) {
        buf_printf(p->error, "error: option '%s' argument missing\n", o->value);
        return STEP_FAILED;
    }
    return take_value(p, o, p->argv[p->next++]);
}

static enum step take_long(struct parse *p, const char *word)
{
    const char *name = word + 2;
    size_t n = strcspn(name, "=");
    const struct option *o = find_long(p, name, n);
    if (o == NULL)
        return STEP_WORD;
    if (name[n] == 0)
        return take_alone(p, o);
    return o->value != NULL ? take_value(p, o, name + n + 1) : STEP_WORD;
}

/*
 * One argument. Of a bundle (-dc CMD) the first letter is taken, and the rest, with a dash put in
 * the place of that letter, is the next argument: it may turn out to be anything, a word too,
 * which *word then points to.
 */
static enum step take_argument(struct parse *p, char **word)
{
    for (;;) {
        char *w = *word;
        if (w[0] != '-' || w[1] == 0)
            return STEP_WORD;
        if (w[1] == '-')
            return w[2] == 0 ? STEP_DASHES : take_long(p, w);
        const struct option *o = find_letter(w[1]);
        if (o == NULL || (o->alone && w[2] != 0))
            return STEP_WORD;
        if (w[2] == 0)
            return take_alone(p, o);
        if (o->value != NULL)
            return take_value(p, o, w + 2);
        enum step step = take_flag(p, o);
        if (step != STEP_OPTION)
            return step;
        w[1] = '-';
        *word = w + 1;
    }
}

static void add_word(struct command_line *out, const char *word)
{
    out->words[out->word_count++] = word;
}

/*
 * `check` and `connect` are only ours: beside a -c they are words, which do not count, as they
 * are for a command line made for somebody else's srt.
 */
static bool is_subcommand(const struct command_line *c, const char *word)
{
    if (c->word_count != 0 || c->help)
        return false;
    if (strcmp(word, "proxy") == 0)
        return true;
    bool has_command = c->command != NULL && c->command[0] != 0;
    return !has_command &&
           (strcmp(word, "check") == 0 || strcmp(word, "connect") == 0 || strcmp(word, "ca") == 0);
}

/* The rest is the command. A "--" that comes after another program's option is that program's. */
static void take_rest(struct parse *p, const char *dashes)
{
    if (p->foreign_option)
        add_word(p->out, dashes);
    while (p->next < p->argc)
        add_word(p->out, p->argv[p->next++]);
}

static bool parse_all(struct parse *p)
{
    while (p->next < p->argc) {
        int index = p->next;
        char *word = p->argv[p->next++];
        switch (take_argument(p, &word)) {
        case STEP_OPTION:
            break;
        case STEP_WORD:
            if (is_subcommand(p->out, word)) {
                p->out->subcommand = word;
                p->out->subcommand_index = index;
                return true;
            }
            p->foreign_option = p->foreign_option || (word[0] == '-' && word[1] != 0);
            add_word(p->out, word);
            break;
        case STEP_DASHES:
            take_rest(p, word);
            return true;
        case STEP_DONE:
            return true;
        case STEP_FAILED:
            return false;
        }
    }
    return true;
}

bool command_line_parse(int argc, char **argv, struct command_line *out, struct buf *error)
{
    *out = (struct command_line){.control_fd = -1, .ask_timeout_s = ASK_TIMEOUT_S};
    struct parse p = {.out = out, .error = error, .argv = argv, .argc = argc, .next = 1};
    out->words = mem_array(argc > 0 ? (size_t)argc + 1 : 1, sizeof out->words[0]);
    if (parse_all(&p))
        return true;
    command_line_free(out);
    return false;
}

void command_line_free(struct command_line *c)
{
    free(c->words);
    c->words = NULL;
    c->word_count = 0;
}

static bool is_bare(const char *word)
{
    static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                               "_./:=@+,-";
    size_t n = strlen(word);
    return n != 0 && word[0] != '=' && strspn(word, safe) == n;
}

static void quote(const char *word, struct buf *out)
{
    buf_puts(out, "'");
    for (size_t n; *word != 0; word += n) {
        n = strcspn(word, "'");
        buf_append(out, word, n);
        if (word[n] != 0) {
            buf_puts(out, "'\"'\"'");
            n++;
        }
    }
    buf_puts(out, "'");
}

void command_line_quote(const char *const *words, size_t count, struct buf *out)
{
    for (size_t i = 0; i < count; i++) {
        if (i != 0)
            buf_puts(out, " ");
        if (is_bare(words[i]))
            buf_puts(out, words[i]);
        else
            quote(words[i], out);
    }
}
