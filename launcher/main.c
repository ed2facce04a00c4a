/* srt: one program, several faces. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "certs/ca_command.h"
#include "launcher/command_line.h"
#include "launcher/connect.h"
#include "launcher/run.h"
#include "proxy/check.h"
#include "proxy/gateway.h"

static const struct {
    const char *name;
    int (*main)(int argc, char **argv);
} subcommands[] = {
    {"proxy", gateway_main},
    {"check", check_main},
    {"connect", connect_main},
    {"ca", ca_main},
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* A descriptor opened for something else must not become somebody's standard output. */
static void standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            abort();
}

static int run_subcommand(const struct command_line *line, int argc, char **argv)
{
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0]; i++)
        if (strcmp(line->subcommand, subcommands[i].name) == 0)
            return subcommands[i].main(argc - line->subcommand_index,
                                       argv + line->subcommand_index);
    abort();
}

/*
 * Whoever has a directory open can go from it to the directories above it, as they are outside of
 * the box. False, with a line on stderr, when a standard descriptor is one: the command would
 * inherit it.
 */
static bool descriptors_lead_nowhere(void)
{
    static const char *const names[] = {"input", "output", "error"};
    struct stat st;

    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fstat(fd, &st) != 0 || !S_ISDIR(st.st_mode))
            continue;
        fprintf(stderr,
                "Error: standard %s is a directory: the command could walk out of the box by it\n",
                names[fd]);
        return false;
    }
    return true;
}

static int serve(const struct command_line *line, int argc, char **argv)
{
    const char *debug = getenv("SRT_DEBUG");

    if (line->version) {
        puts(SRT_VERSION);
        return 0;
    }
    if (line->help) {
        fputs(command_line_usage, stdout);
        return 0;
    }
    if (line->subcommand != NULL)
        return run_subcommand(line, argc, argv);
    if (line->debug)
        setenv("SRT_DEBUG", "true", 1);
    if (line->debug || (debug != NULL && debug[0] != '\0'))
        log_debug_enable();
    if (!descriptors_lead_nowhere())
        return line->strict_exit_codes ? STATUS_STRICT_FAILURE : STATUS_FAILURE;
    return run_main(line, environ);
}

int main(int argc, char **argv)
{
    struct command_line line;
    struct buf error;
    int status = 1;

    standard_descriptors();
    if (argc > 0 && strcmp(base_name(argv[0]), "srt-proxy") == 0)
        return gateway_main(argc, argv);
    buf_init(&error, 65536);
    if (command_line_parse(argc, argv, &line, &error)) {
        status = serve(&line, argc, argv);
        command_line_free(&line);
    } else {
        fputs(buf_cstr(&error), stderr);
    }
    buf_free(&error);
    return status;
}
