package srt.proxyagent;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.Authenticator;
import java.net.InetAddress;
import java.net.PasswordAuthentication;
import java.net.URL;

/** Answers for the proxies of the environment, and leaves the rest to whoever answered before. */
final class ProxyAuthenticator extends Authenticator {
    private final ProxyAddress[] proxies;
    private final Authenticator previous;

    private ProxyAuthenticator(ProxyAddress[] proxies, Authenticator previous) {
        this.proxies = proxies;
        this.previous = previous;
    }

    /** Addresses may be null; nothing is installed when none holds a credential. */
    static void install(ProxyAddress... proxies) {
        for (ProxyAddress proxy : proxies) {
            if (proxy != null && proxy.user != null) {
                Authenticator.setDefault(new ProxyAuthenticator(proxies, previous()));
                return;
            }
        }
    }

    @Override
    protected PasswordAuthentication getPasswordAuthentication() {
        if (getRequestorType() == RequestorType.PROXY) {
            for (ProxyAddress proxy : proxies) {
                if (proxy != null && proxy.user != null && proxy.port == getRequestingPort()
                        && proxy.host.equalsIgnoreCase(bare(getRequestingHost()))) {
                    return new PasswordAuthentication(proxy.user, proxy.password.toCharArray());
                }
            }
        }
        return previous == null ? null : ask();
    }

    private static String bare(String host) {
        return host != null && host.startsWith("[") && host.endsWith("]")
                ? host.substring(1, host.length() - 1) : host;
    }

    /*
     * The calls to get at another authenticator and to ask it are of Java 9; with Java 8, where
     * they are not, none but an agent loaded earlier could have installed one.
     */

    private static Authenticator previous() {
        try {
            return (Authenticator) Authenticator.class.getMethod("getDefault").invoke(null);
        } catch (ReflectiveOperationException absent) {
            return previousOfJava8();
        }
    }

    private static Authenticator previousOfJava8() {
        try {
            Field field = Authenticator.class.getDeclaredField("theAuthenticator");
            field.setAccessible(true);
            return (Authenticator) field.get(null);
        } catch (ReflectiveOperationException | RuntimeException hidden) {
            return null;
        }
    }

    private PasswordAuthentication ask() {
        try {
            Method method = Authenticator.class.getMethod("requestPasswordAuthenticationInstance",
                    String.class, InetAddress.class, int.class, String.class, String.class,
                    String.class, URL.class, RequestorType.class);
            return (PasswordAuthentication) method.invoke(previous, getRequestingHost(),
                    getRequestingSite(), getRequestingPort(), getRequestingProtocol(),
                    getRequestingPrompt(), getRequestingScheme(), getRequestingURL(),
                    getRequestorType());
        } catch (ReflectiveOperationException absent) {
            return askOnJava8();
        }
    }

    /** There the question is asked in fields that the base class fills in. */
    private PasswordAuthentication askOnJava8() {
        try {
            for (Field field : Authenticator.class.getDeclaredFields()) {
                if (field.getName().startsWith("requesting")) {
                    field.setAccessible(true);
                    field.set(previous, field.get(this));
                }
            }
            Method method = Authenticator.class.getDeclaredMethod("getPasswordAuthentication");
            method.setAccessible(true);
            return (PasswordAuthentication) method.invoke(previous);
        } catch (ReflectiveOperationException | RuntimeException hidden) {
            return null;
        }
    }
}
