import java.net.HttpURLConnection;
import java.net.URL;
import java.nio.charset.StandardCharsets;

/** Mints by HttpURLConnection with the Accept header that it sent by itself until Java 17.0.12, and without one of our own. */
public class Mint {
    static final String OLD = "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2";

    static String get(String address, String accept) throws Exception {
        HttpURLConnection connection = (HttpURLConnection) new URL(address).openConnection();
        if (accept != null) {
            connection.setRequestProperty("Accept", accept);
        }
        if (connection.getResponseCode() != 200) {
            throw new AssertionError(accept + ": " + connection.getResponseCode());
        }
        return new String(connection.getInputStream().readAllBytes(), StandardCharsets.UTF_8).trim();
    }

    public static void main(String[] args) throws Exception {
        for (String accept : new String[] {OLD, null, "*/*;q=.2", "*"}) {
            String[] ids = get(args[0] + "/uniq64?n=2", accept).split("\n");
            if (ids.length != 2 || Long.parseLong(ids[0]) == Long.parseLong(ids[1])) {
                throw new AssertionError(accept + ": " + String.join(" ", ids));
            }
        }
        System.out.println("java " + System.getProperty("java.version") + ": minted " + get(args[0] + "/uniq64", OLD));
    }
}
