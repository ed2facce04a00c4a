package srt.proxyagent;

/**
 * Tells a JVM, before its main class runs, about the proxy that the environment names: the JVM
 * reads none of those variables by itself. What was given with -D stays.
 */
public final class Agent {
    private Agent() {
    }

    /** Never throws: an exception here would keep the program from starting. */
    public static void premain(String arguments) {
        try {
            prepare();
        } catch (Throwable problem) {
            report(problem.toString());
        }
    }

    private static void prepare() {
        ProxyAddress https = address("HTTPS_PROXY");
        ProxyAddress http = address("HTTP_PROXY");
        setProxy("https", https);
        setProxy("http", http);
        String direct = variable("NO_PROXY");
        if (direct != null && (https != null || http != null)) {
            setUnlessGiven("http.nonProxyHosts", DirectHosts.fromNoProxy(direct));
        }
        // Otherwise Basic is not used for CONNECT.
        setUnlessGiven("jdk.http.auth.tunneling.disabledSchemes", "");
        ProxyAuthenticator.install(https, http);
    }

    private static ProxyAddress address(String name) {
        String text = variable(name);
        if (text == null) {
            return null;
        }
        try {
            return ProxyAddress.parse(text);
        } catch (IllegalArgumentException problem) {
            // The value itself is not shown: it may hold a password.
            report(name + ": " + problem.getMessage());
            return null;
        }
    }

    private static void setProxy(String scheme, ProxyAddress proxy) {
        String host = scheme + ".proxyHost";
        // A port of ours would not belong to a host that somebody else chose.
        if (proxy != null && System.getProperty(host) == null) {
            System.setProperty(host, proxy.host);
            setUnlessGiven(scheme + ".proxyPort", Integer.toString(proxy.port));
        }
    }

    private static void setUnlessGiven(String property, String value) {
        if (System.getProperty(property) == null) {
            System.setProperty(property, value);
        }
    }

    /** The variable in upper or lower case; null when it is empty or not there. */
    private static String variable(String name) {
        String value = System.getenv(name);
        if (value == null || value.trim().isEmpty()) {
            value = System.getenv(name.toLowerCase(java.util.Locale.ROOT));
        }
        return value == null || value.trim().isEmpty() ? null : value.trim();
    }

    private static void report(String text) {
        System.err.println("[srt-proxy-agent] ignoring: " + text);
    }
}
