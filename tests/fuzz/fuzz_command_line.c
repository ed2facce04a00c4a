/* Any argument list is parsed or refused with a line; quoted words split into themselves. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "launcher/command_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARGUMENTS_MAX = 64 };

/* The next word as a POSIX shell reads it, of a text with no expansions; false at the end. */
static bool next_word(const char **at, struct buf *word)
{
    const char *c = *at + strspn(*at, " ");
    if (*c == 0)
        return false;
    while (*c != 0 && *c != ' ') {
        if (*c == '\'' || *c == '"') {
            const char *end = strchr(c + 1, *c);
            assert(end != NULL);
            /* Double quotes are used for the other kind alone: nothing in them is expanded. */
            assert(*c == '\'' || (end == c + 2 && c[1] == '\''));
            buf_append(word, c + 1, (size_t)(end - c - 1));
            c = end + 1;
        } else {
            assert(strchr("\\$`\"'|&;<>()*?[]#~!{}\t\n\r", *c) == NULL);
            buf_append(word, c++, 1);
        }
    }
    *at = c;
    return true;
}

static void check_quoting(const char *const *words, size_t count, size_t size)
{
    struct buf text, word;
    buf_init(&text, 6 * size + 4 * count + 1);
    buf_init(&word, size + 1);
    command_line_quote(words, count, &text);
    const char *at = buf_cstr(&text);
    for (size_t i = 0; i < count; i++) {
        bool more = next_word(&at, &word);
        assert(more && strcmp(buf_cstr(&word), words[i]) == 0);
        buf_clear(&word);
    }
    assert(at[strspn(at, " ")] == 0);
    buf_free(&text);
    buf_free(&word);
}

static void check_result(const struct command_line *c, int argc, size_t size)
{
    assert(c->word_count < (size_t)argc && c->words[c->word_count] == NULL);
    assert(c->control_fd == -1 || c->control_fd >= 3);
    assert(c->ask_timeout_s >= 1 && c->ask_timeout_s <= ASK_TIMEOUT_MAX_S);
    assert(!c->option_after_words || c->word_count != 0);
    assert(c->subcommand == NULL || c->word_count == 0);
    check_quoting(c->words, c->word_count, size);
}

/* After "--" nothing is an option. */
static void check_dashes(char **arguments, int count)
{
    char *argv[ARGUMENTS_MAX + 3] = {NULL};
    char program[] = "srt", dashes[] = "--";
    struct command_line c;
    struct buf error;
    argv[0] = program;
    argv[1] = dashes;
    for (int i = 0; i < count; i++)
        argv[2 + i] = arguments[i];
    buf_init(&error, 1000);
    bool good = command_line_parse(2 + count, argv, &c, &error);
    assert(good && c.word_count == (size_t)count && c.subcommand == NULL && !c.help && !c.version);
    for (int i = 0; i < count; i++)
        assert(c.words[i] == arguments[i]);
    command_line_free(&c);
    buf_free(&error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = size != 0 ? mem_dup_n((const char *)data, size) : mem_dup("");
    char *argv[ARGUMENTS_MAX + 2] = {NULL};
    char program[] = "srt";
    int argc = 1;
    argv[0] = program;
    for (size_t at = 0; at < size && argc <= ARGUMENTS_MAX; at += strlen(text + at) + 1)
        argv[argc++] = text + at;

    check_dashes(argv + 1, argc - 1);

    struct command_line c;
    struct buf error;
    buf_init(&error, 2000);
    if (command_line_parse(argc, argv, &c, &error)) {
        assert(buf_len(&error) == 0);
        check_result(&c, argc, size);
        command_line_free(&c);
    } else {
        const char *line = buf_cstr(&error);
        assert(strncmp(line, "error: option '", 15) == 0);
        assert(strchr(line, '\n') == line + buf_len(&error) - 1);
    }
    buf_free(&error);
    free(text);
    return 0;
}
