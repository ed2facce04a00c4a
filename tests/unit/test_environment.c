#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "launcher/environment.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define TOKEN "0123456789abcdef0123456789abcdef"
/* `echo hi?>` is ZWNobyBoaT8+ in base64: a plus sign to escape. */
#define COMMAND "echo hi?>"
#define PROXY "srt.ZWNobyBoaT8%2B:" TOKEN "@localhost:"
#define SSH "ssh -o ControlMaster=no -o ControlPath=none -o ProxyCommand="

/* What a test says of the options; the rest is as usual. Lists have | between their items. */
struct given {
    const char *inherited, *withheld, *directories;
    const char *socat_path, *java_agent_jar; /* of the settings */
    bool disabled;
    const char *connector, *socat, *java_agent, *temporary, *bundle, *store;
    bool no_token;
    unsigned http_port, socks_port;
};

static char **split(const char *list)
{
    if (list == NULL)
        return NULL;
    size_t count = 0;
    char **items = mem_array(strlen(list) + 2, sizeof items[0]);
    for (;; list++) {
        size_t n = strcspn(list, "|");
        items[count++] = mem_dup_n(list, n);
        list += n;
        if (*list == 0)
            return items;
    }
}

static void free_list(char **items)
{
    for (size_t i = 0; items != NULL && items[i] != NULL; i++)
        free(items[i]);
    free(items);
}

static char *copy(const char *text)
{
    return text != NULL ? mem_dup(text) : NULL;
}

static char **build(const struct given *g)
{
    struct sandbox_settings settings = {.withheld_variables = split(g->withheld),
                                        .git_safe_directories = split(g->directories),
                                        .socat_path = copy(g->socat_path),
                                        .java_agent_jar = copy(g->java_agent_jar),
                                        .filesystem_disabled = g->disabled};
    char **inherited = split(g->inherited);
    struct environment_options o = {.inherited = inherited,
                                    .settings = &settings,
                                    .command = COMMAND,
                                    .command_len = strlen(COMMAND),
                                    .token = g->no_token ? NULL : TOKEN,
                                    .connector = g->connector,
                                    .socat = g->socat,
                                    .java_agent = g->java_agent,
                                    .temporary = g->temporary,
                                    .trust_bundle = g->bundle,
                                    .trust_store = g->store,
                                    .http_port = g->http_port,
                                    .socks_port = g->socks_port};
    char **environment = environment_build(&o);
    free_list(inherited);
    free_list(settings.withheld_variables);
    free_list(settings.git_safe_directories);
    free(settings.socat_path);
    free(settings.java_agent_jar);
    return environment;
}

/* How often a name is there. */
static size_t occurrences(char **environment, const char *name)
{
    size_t n = strlen(name), count = 0;
    for (size_t i = 0; environment[i] != NULL; i++)
        count += strncmp(environment[i], name, n) == 0 && environment[i][n] == '=';
    return count;
}

/* The one value of a name, or NULL. */
static const char *value(char **environment, const char *name)
{
    size_t n = strlen(name);
    assert_true(occurrences(environment, name) <= 1);
    for (size_t i = 0; environment[i] != NULL; i++)
        if (strncmp(environment[i], name, n) == 0 && environment[i][n] == '=')
            return environment[i] + n + 1;
    return NULL;
}

static void assert_value(char **environment, const char *name, const char *expected)
{
    const char *got = value(environment, name);
    if (expected == NULL) {
        assert_null(got);
    } else {
        assert_non_null(got);
        assert_string_equal(got, expected);
    }
}

struct pair {
    const char *name, *value;
};

static void test_variables(void **state)
{
    static const struct pair rows[] = {
        {"SANDBOX_RUNTIME", "1"},
        {"TMPDIR", "/tmp/claude"},
        {"TMP", "/tmp/claude"},
        {"TEMP", "/tmp/claude"},
        {"TMPPREFIX", "/tmp/claude/zsh"},
        {"NO_PROXY",
         "localhost,127.0.0.1,::1,169.254.0.0/16,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16"},
        {"no_proxy",
         "localhost,127.0.0.1,::1,169.254.0.0/16,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16"},
        {"HTTP_PROXY", "http://" PROXY "3128"},
        {"HTTPS_PROXY", "http://" PROXY "3128"},
        {"http_proxy", "http://" PROXY "3128"},
        {"https_proxy", "http://" PROXY "3128"},
        {"GIT_CONFIG_PARAMETERS", "'http.proxyAuthMethod=basic'"},
        {"ALL_PROXY", "http://" PROXY "3128"},
        {"all_proxy", "http://" PROXY "3128"},
        {"GRPC_PROXY", "http://" PROXY "3128"},
        {"grpc_proxy", "http://" PROXY "3128"},
        {"GIT_SSH_COMMAND", SSH "'/usr/bin/srt connect %h %p'"},
        {"FTP_PROXY", "socks5h://" PROXY "1080"},
        {"ftp_proxy", "socks5h://" PROXY "1080"},
        {"RSYNC_PROXY", "localhost:1080"},
        {"DOCKER_HTTP_PROXY", "http://" PROXY "3128"},
        {"DOCKER_HTTPS_PROXY", "http://" PROXY "3128"},
        {"YARN_HTTP_PROXY", "http://" PROXY "3128"},
        {"YARN_HTTPS_PROXY", "http://" PROXY "3128"},
        {"YARN_NO_PROXY", NULL},
        {"NODE_USE_ENV_PROXY", "1"},
        {"CLOUDSDK_PROXY_TYPE", "http"},
        {"CLOUDSDK_PROXY_ADDRESS", "localhost"},
        {"CLOUDSDK_PROXY_PORT", "3128"},
        {"CLOUDSDK_PROXY_USERNAME", "srt.ZWNobyBoaT8+"},
        {"CLOUDSDK_PROXY_PASSWORD", TOKEN},
        {"CLAUDE_CODE_HOST_HTTP_PROXY_PORT", "3128"},
        {"CLAUDE_CODE_HOST_SOCKS_PROXY_PORT", "3128"},
        {"JAVA_TOOL_OPTIONS", NULL},
        {"GIT_CONFIG_COUNT", NULL},
        {"HOME", "/home/u"},
        {"LD_PRELOAD", "/x.so"},
        {"BASH_ENV", "/home/u/.env"},
        {"SRT_ALLOW_NESTED_USERNS", NULL},
        {"SRT_OBSERVE_SOCK", NULL},
        {"SRT_ENCODED_CMD", NULL},
        {"SRT_DEBUG", "true"},
    };
    static const struct given given = {
        .inherited = "HOME=/home/u|LD_PRELOAD=/x.so|BASH_ENV=/home/u/.env|HTTP_PROXY=http://own:1|"
                     "no_proxy=everything|SRT_ALLOW_NESTED_USERNS=1|SRT_OBSERVE_SOCK=/s|"
                     "SRT_ENCODED_CMD=x|TMP=/var/tmp|NODE_USE_ENV_PROXY=0|SRT_DEBUG=true",
        .connector = "/usr/bin/srt",
        .http_port = 3128,
        .socks_port = 3128};
    (void)state;
    char **environment = build(&given);
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_value(environment, rows[i].name, rows[i].value);
    environment_free(environment);
}

static void test_without_a_token_there_is_no_credential(void **state)
{
    static const struct pair rows[] = {
        {"HTTP_PROXY", "http://localhost:3128"},
        {"FTP_PROXY", "socks5h://localhost:1080"},
        {"YARN_HTTPS_PROXY", "http://localhost:3128"},
        {"GIT_CONFIG_PARAMETERS", NULL},
        {"CLOUDSDK_PROXY_USERNAME", NULL},
        {"CLOUDSDK_PROXY_PASSWORD", NULL},
        {"CLOUDSDK_PROXY_PORT", "3128"},
        {"GIT_SSH_COMMAND", SSH "'socat - PROXY:localhost:%h:%p,proxyport=3128'"},
        {"CLAUDE_CODE_HOST_HTTP_PROXY_PORT", "8080"},
        {"CLAUDE_CODE_HOST_SOCKS_PROXY_PORT", "9090"},
    };
    static const struct given given = {.no_token = true, .http_port = 8080, .socks_port = 9090};
    (void)state;
    char **environment = build(&given);
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_value(environment, rows[i].name, rows[i].value);
    environment_free(environment);
}

static void test_what_is_inherited(void **state)
{
    static const struct given given = {
        .inherited = "A=first|nonsense|=x|A=second|TOK=secret|TOK=again|TOKEN=kept|EMPTY=|B=x=y|"
                     "TMPDIR=/host|JAVA_TOOL_OPTIONS=-Dsecret|BASH_FUNC_f%%=() { :; }",
        .withheld = "TOK|HTTP_PROXY|TMPDIR|JAVA_TOOL_OPTIONS|ABSENT",
        .java_agent = "/usr/share/agent.jar"};
    (void)state;
    char **environment = build(&given);
    assert_string_equal(environment[0], "A=first");
    assert_int_equal(occurrences(environment, "A"), 1);
    assert_int_equal(occurrences(environment, ""), 0);
    assert_value(environment, "TOK", NULL);
    assert_value(environment, "TOKEN", "kept");
    assert_value(environment, "EMPTY", "");
    assert_value(environment, "B", "x=y");
    assert_value(environment, "BASH_FUNC_f%%", "() { :; }");
    assert_value(environment, "HTTP_PROXY", "http://" PROXY "3128");
    assert_value(environment, "TMPDIR", "/tmp/claude");
    assert_value(environment, "JAVA_TOOL_OPTIONS", "-javaagent:/usr/share/agent.jar");
    for (size_t i = 0; environment[i] != NULL; i++)
        assert_non_null(strchr(environment[i], '='));
    environment_free(environment);
}

static void test_the_temporary_directory(void **state)
{
    static const struct {
        struct given given;
        const char *directory, *prefix;
    } rows[] = {
        {{.inherited = "CLAUDE_CODE_TMPDIR=/t1|CLAUDE_TMPDIR=/t2", .temporary = "/d"},
         "/t1",
         "/t1/zsh"},
        {{.inherited = "CLAUDE_CODE_TMPDIR=|CLAUDE_TMPDIR=/t2/", .temporary = "/d"},
         "/t2/",
         "/t2/zsh"},
        {{.inherited = "CLAUDE_CODE_TMPDIR=|CLAUDE_TMPDIR=", .temporary = "/d"}, "/d", "/d/zsh"},
        {{.inherited = "TMPDIR=/host"}, "/tmp/claude", "/tmp/claude/zsh"},
        {{.inherited = "CLAUDE_TMPDIR=/t2", .withheld = "CLAUDE_TMPDIR", .temporary = "/d"},
         "/d",
         "/d/zsh"},
        {{.inherited = "TMPDIR=/host|CLAUDE_TMPDIR=/t2", .disabled = true}, "/host", NULL},
        {{.inherited = "CLAUDE_TMPDIR=/t2", .temporary = "/d", .disabled = true}, NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char **environment = build(&rows[i].given);
        assert_value(environment, "TMPDIR", rows[i].directory);
        assert_value(environment, "TMP", rows[i].given.disabled ? NULL : rows[i].directory);
        assert_value(environment, "TEMP", rows[i].given.disabled ? NULL : rows[i].directory);
        assert_value(environment, "TMPPREFIX", rows[i].prefix);
        environment_free(environment);
    }
}

/* Every GIT_CONFIG_KEY_n=value, in order, as "n:value ". */
static void git_values(char **environment, struct buf *out)
{
    for (unsigned n = 0; n < 40; n++) {
        char name[64];
        snprintf(name, sizeof name, "GIT_CONFIG_KEY_%u", n);
        const char *key = value(environment, name);
        snprintf(name, sizeof name, "GIT_CONFIG_VALUE_%u", n);
        const char *text = value(environment, name);
        if (key != NULL && text != NULL && strcmp(key, "safe.directory") == 0)
            buf_printf(out, "%u:%s ", n, text);
    }
}

static void test_git_safe_directories(void **state)
{
#define NINE "/0|/1|/2|/3|/4|/5|/6|/7|/8"
#define EIGHT "/0|/1|/2|/3|/4|/5|/6|/7|/7//"
    static const struct {
        const char *count, *directories, *values, *counted;
    } rows[] = {
        {"X=", "/a/|/|\\a\\|/a", "0:/a 1:/a/* 2:/ 3:/* ", "4"},
        {"GIT_CONFIG_COUNT=1", "/a", "1:/a 2:/a/* ", "3"},
        {"GIT_CONFIG_COUNT=0", "/a", "", "0"},
        {"GIT_CONFIG_COUNT=00", "/a", "0:/a 1:/a/* ", "2"},
        {"GIT_CONFIG_COUNT=", "/a", "0:/a 1:/a/* ", "2"},
        {"GIT_CONFIG_COUNT=many", "/a", "0:/a 1:/a/* ", "2"},
        {"GIT_CONFIG_COUNT=2147483647", "/a", "", "2147483647"},
        {"GIT_CONFIG_COUNT=99999999999999999999999", "/a", "", "99999999999999999999999"},
        {"X=", NINE, "0:* ", "1"},
        {"X=", EIGHT,
         "0:/0 1:/0/* 2:/1 3:/1/* 4:/2 5:/2/* 6:/3 7:/3/* 8:/4 9:/4/* 10:/5 11:/5/* 12:/6 13:/6/* "
         "14:/7 15:/7/* ",
         "16"},
        {"X=", "|///", "0:/ 1:/* ", "2"},
        {"X=", NULL, "", NULL},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct given given = {.inherited = rows[i].count, .directories = rows[i].directories};
        struct buf out;
        buf_init(&out, 1000);
        char **environment = build(&given);
        git_values(environment, &out);
        assert_string_equal(buf_cstr(&out), rows[i].values);
        assert_value(environment, "GIT_CONFIG_COUNT", rows[i].counted);
        environment_free(environment);
        buf_free(&out);
    }
}

static void test_ssh_through_the_proxy(void **state)
{
#define SOCAT " - PROXY:localhost:%h:%p,proxyport=3128,proxyauth=srt.ZWNobyBoaT8+:" TOKEN "'"
    static const struct {
        const char *connector, *socat, *configured, *command;
    } rows[] = {
        {"/opt/srt-1.0/bin/srt", NULL, NULL, SSH "'/opt/srt-1.0/bin/srt connect %h %p'"},
        {"/a b/srt", NULL, NULL, SSH "'\"/a b/srt\" connect %h %p'"},
        {"/a%h/srt", NULL, NULL, SSH "'/a%%h/srt connect %h %p'"},
        {"/a;#(b)*/srt", NULL, NULL, SSH "'\"/a;#(b)*/srt\" connect %h %p'"},
        {"/\xC3\xA9/srt", NULL, NULL, SSH "'\"/\xC3\xA9/srt\" connect %h %p'"},
        {"/it's/srt", NULL, NULL, SSH "'socat" SOCAT},
        {"/a\"b/srt", NULL, NULL, SSH "'socat" SOCAT},
        {"/a$b/srt", NULL, NULL, SSH "'socat" SOCAT},
        {"/a`b/srt", NULL, NULL, SSH "'socat" SOCAT},
        {"/a\\b/srt", NULL, NULL, SSH "'socat" SOCAT},
        {"/a!b/srt", NULL, NULL, SSH "'socat" SOCAT},
        {"/a\nb/srt", NULL, NULL, SSH "'socat" SOCAT},
        {"srt", NULL, NULL, SSH "'socat" SOCAT},
        {"", NULL, NULL, SSH "'socat" SOCAT},
        {NULL, NULL, "/opt/socat", SSH "'/opt/socat" SOCAT},
        {NULL, "/usr/bin/socat", "/opt/socat", SSH "'/usr/bin/socat" SOCAT},
        {NULL, "/a b/socat", NULL, SSH "'\"/a b/socat\"" SOCAT},
        {NULL, "/it's/socat", NULL, SSH "'socat" SOCAT},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct given given = {.inherited = "GIT_SSH_COMMAND=ssh -i key",
                                    .connector = rows[i].connector,
                                    .socat = rows[i].socat,
                                    .socat_path = rows[i].configured};
        char **environment = build(&given);
        assert_value(environment, "GIT_SSH_COMMAND", rows[i].command);
        environment_free(environment);
    }
}

static const char *const trusting[] = {"NODE_EXTRA_CA_CERTS",
                                       "SSL_CERT_FILE",
                                       "CURL_CA_BUNDLE",
                                       "REQUESTS_CA_BUNDLE",
                                       "PIP_CERT",
                                       "GIT_SSL_CAINFO",
                                       "AWS_CA_BUNDLE",
                                       "CARGO_HTTP_CAINFO",
                                       "DENO_CERT",
                                       "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
                                       "NIX_SSL_CERT_FILE",
                                       "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
                                       "HTTPLIB2_CA_CERTS",
                                       "BUNDLE_SSL_CA_CERT",
                                       "npm_config_cafile",
                                       "HEX_CACERTS_PATH",
                                       "PERL_LWP_SSL_CA_FILE"};

/* Whatever was inherited, or is withheld. */
static void test_what_is_trusted(void **state)
{
    const char *inherited = "SSL_CERT_FILE=/own|SSL_CERT_DIR=/dir|PIP_CERT=/own";
    const struct given with = {
        .inherited = inherited, .withheld = "PIP_CERT|DENO_CERT", .bundle = "/b.crt"};
    const struct given without = {.inherited = inherited};
    (void)state;
    char **environment = build(&with);
    for (size_t i = 0; i < COUNT(trusting); i++)
        assert_value(environment, trusting[i], "/b.crt");
    assert_value(environment, "SSL_CERT_DIR", "/dir");
    assert_value(environment, "JAVA_TOOL_OPTIONS", NULL);
    environment_free(environment);
    environment = build(&without);
    assert_value(environment, "SSL_CERT_FILE", "/own");
    assert_value(environment, "PIP_CERT", "/own");
    assert_value(environment, "DENO_CERT", NULL);
    environment_free(environment);
}

#define STORE(path) \
    path " -Djavax.net.ssl.trustStoreType=PKCS12 -Djavax.net.ssl.trustStorePassword=changeit"
#define PROPERTY "-Djavax.net.ssl.trustStore="

/* The store comes last, so that one that is inherited is not read by half of our options. */
static void test_the_java_store(void **state)
{
    static const struct {
        const char *inherited, *agent, *store, *options;
    } rows[] = {
        {"X=", NULL, "/t/s.p12", STORE(PROPERTY "/t/s.p12")},
        {"X=", "/a.jar", "/t/s.p12", "-javaagent:/a.jar " STORE(PROPERTY "/t/s.p12")},
        {"JAVA_TOOL_OPTIONS=", NULL, "/t/s.p12", STORE(PROPERTY "/t/s.p12")},
        {"JAVA_TOOL_OPTIONS=" PROPERTY "/own", "/a.jar", "/t/s.p12",
         "-javaagent:/a.jar " PROPERTY "/own " STORE(PROPERTY "/t/s.p12")},
        {"X=", "/a=b.jar", "/t/s.p12", STORE(PROPERTY "/t/s.p12")},
        {"X=", NULL, "/a b/s.p12", STORE("\"" PROPERTY "/a b/s.p12\"")},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct given given = {
            .inherited = rows[i].inherited, .java_agent = rows[i].agent, .store = rows[i].store};
        char **environment = build(&given);
        assert_value(environment, "JAVA_TOOL_OPTIONS", rows[i].options);
        environment_free(environment);
    }
}

static void test_the_java_agent(void **state)
{
    char existing[] = "/tmp/test_environment.XXXXXX";
    int fd = mkstemp(existing);
    assert_true(fd >= 0);
    close(fd);
    const struct {
        const char *inherited, *agent, *configured, *options;
    } rows[] = {
        {"X=", "/a/b.jar", NULL, "-javaagent:/a/b.jar"},
        {"JAVA_TOOL_OPTIONS=-Dx=y", "/a/b.jar", NULL, "-javaagent:/a/b.jar -Dx=y"},
        {"JAVA_TOOL_OPTIONS=", "/a/b.jar", NULL, "-javaagent:/a/b.jar"},
        {"JAVA_TOOL_OPTIONS=-Dx", NULL, NULL, "-Dx"},
        {"X=", NULL, NULL, NULL},
        {"JAVA_TOOL_OPTIONS=-Dx", "/a b/c.jar", NULL, "\"-javaagent:/a b/c.jar\" -Dx"},
        {"X=", "/a\tb/c.jar", NULL, "\"-javaagent:/a\tb/c.jar\""},
        {"X=", "/it's/c.jar", NULL, "\"-javaagent:/it's/c.jar\""},
        {"X=", "/a\"b/c.jar", NULL, "\"-javaagent:/a\"'\"'\"b/c.jar\""},
        {"JAVA_TOOL_OPTIONS=-Dx", "/a=b/c.jar", NULL, "-Dx"},
        {"X=", "/a/b.jar", "/nowhere/at/all.jar", "-javaagent:/a/b.jar"},
        {"X=", "/a/b.jar", existing, NULL},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct given given = {.inherited = rows[i].inherited,
                                    .java_agent = rows[i].agent,
                                    .java_agent_jar = rows[i].configured};
        char **environment = build(&given);
        if (rows[i].configured == existing) {
            const char *got = value(environment, "JAVA_TOOL_OPTIONS");
            assert_non_null(got);
            assert_string_equal(got + strlen("-javaagent:"), existing);
        } else {
            assert_value(environment, "JAVA_TOOL_OPTIONS", rows[i].options);
        }
        environment_free(environment);
    }
    unlink(existing);
}

static void test_the_order_is_stable(void **state)
{
    static const struct given given = {.inherited = "Z=1|HTTPS_PROXY=x|A=2"};
    (void)state;
    char **first = build(&given), **second = build(&given);
    assert_string_equal(first[0], "Z=1");
    assert_string_equal(first[1], "HTTPS_PROXY=http://" PROXY "3128");
    assert_string_equal(first[2], "A=2");
    assert_string_equal(first[3], "SANDBOX_RUNTIME=1");
    size_t n = 0;
    for (; first[n] != NULL; n++)
        assert_string_equal(first[n], second[n]);
    assert_null(second[n]);
    environment_free(first);
    environment_free(second);
}

static void test_the_user_name(void **state)
{
    char text[300];
    struct buf user;
    (void)state;
    buf_init(&user, 256);
    memset(text, 'a', sizeof text);
    environment_user(&user, text, sizeof text);
    assert_int_equal(buf_len(&user), 4 + 136); /* a hundred characters */
    buf_clear(&user);
    environment_user(&user, "", 0);
    assert_string_equal(buf_cstr(&user), "srt");
    buf_clear(&user);
    for (size_t i = 0; i < sizeof text; i++) /* three bytes a unit: too long a name */
        text[i] = "\xE2\x82\xAC"[i % 3];
    environment_user(&user, text, sizeof text);
    assert_string_equal(buf_cstr(&user), "srt");
    buf_free(&user);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_without_a_token_there_is_no_credential),
        cmocka_unit_test(test_what_is_inherited),
        cmocka_unit_test(test_the_temporary_directory),
        cmocka_unit_test(test_git_safe_directories),
        cmocka_unit_test(test_ssh_through_the_proxy),
        cmocka_unit_test(test_what_is_trusted),
        cmocka_unit_test(test_the_java_store),
        cmocka_unit_test(test_the_java_agent),
        cmocka_unit_test(test_the_order_is_stable),
        cmocka_unit_test(test_the_user_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
