/*
 * run-vectors DIR: judges every row of each DIR/<name>.jsonl whose name a table
 * of vectors.h knows. One line a failing row, then "N passed, N failed". Exit
 * status 1 when a row failed, a file could not be read, or no row was run.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/vectors/vectors.h"

struct tally {
    unsigned long passed;
    unsigned long failed;
};

static vector_row *find_runner(const char *name, size_t n)
{
    const struct vector_file *const tables[] = {vectors_policy, vectors_http, vectors_settings,
                                                vectors_tls, vectors_hello};
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (const struct vector_file *f = tables[t]; f->name != NULL; f++)
            if (strlen(f->name) == n && memcmp(f->name, name, n) == 0)
                return f->run;
    return NULL;
}

static void report(const char *file, const json_t *row, size_t line, struct buf *why)
{
    const json_t *id = json_object_get(row, "id");
    if (json_is_string(id))
        printf("%s: id %s: ", file, json_string_value(id));
    else if (json_is_integer(id))
        printf("%s: id %" JSON_INTEGER_FORMAT ": ", file, json_integer_value(id));
    else
        printf("%s: line %zu: ", file, line);
    puts(buf_cstr(why));
}

static void run_row(const char *file, size_t line, const char *text, size_t n, vector_row *run,
                    struct tally *tally)
{
    struct buf why = {0};
    json_error_t error;
    json_t *row = json_loadb(text, n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);

    buf_init(&why, 1 << 24);
    if (row == NULL) {
        printf("%s: line %zu: not JSON: %s\n", file, line, error.text);
        tally->failed++;
    } else if (run(row, &why)) {
        tally->passed++;
    } else {
        report(file, row, line, &why);
        tally->failed++;
    }
    buf_free(&why);
    json_decref(row);
}

static bool run_file(const char *path, const char *file, vector_row *run, struct tally *tally)
{
    FILE *in = fopen(path, "re");
    char *text = NULL;
    size_t room = 0;
    size_t line = 0;
    ssize_t n;
    bool read;

    if (in == NULL) {
        fprintf(stderr, "run-vectors: %s: %s\n", path, strerror(errno));
        return false;
    }
    while ((n = getline(&text, &room, in)) >= 0) {
        line++;
        if (n > 0 && text[n - 1] == '\n')
            n--;
        if (n > 0)
            run_row(file, line, text, (size_t)n, run, tally);
    }
    read = feof(in) != 0;
    free(text);
    fclose(in);
    return read;
}

static int is_jsonl(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    return n > 6 && strcmp(entry->d_name + n - 6, ".jsonl") == 0;
}

int main(int argc, char **argv)
{
    struct tally tally = {0};
    struct dirent **names;
    struct buf path;
    bool read_all = true;

    if (argc != 2) {
        fputs("usage: run-vectors DIR\n", stderr);
        return 2;
    }
    buf_init(&path, 65536);
    int count = scandir(argv[1], &names, is_jsonl, alphasort);
    if (count < 0) {
        fprintf(stderr, "run-vectors: %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    for (int i = 0; i < count; i++) {
        vector_row *run = find_runner(names[i]->d_name, strlen(names[i]->d_name) - 6);
        if (run != NULL) {
            buf_clear(&path);
            buf_printf(&path, "%s/%s", argv[1], names[i]->d_name);
            if (!run_file(buf_cstr(&path), names[i]->d_name, run, &tally))
                read_all = false;
        }
        free(names[i]);
    }
    free(names);
    buf_free(&path);
    printf("%lu passed, %lu failed\n", tally.passed, tally.failed);
    return read_all && tally.failed == 0 && tally.passed > 0 ? 0 : 1;
}
