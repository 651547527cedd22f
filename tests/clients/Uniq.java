import java.io.*;
import java.net.*;
import java.util.*;

/**
 * IDs of one name from agents of UniqGenerator, fetched in batches before they are used up, from the next agent when one
 * fails. Threads share it. For Java 8 and later, with nothing but the JDK.
 */
public final class Uniq {
    /** No agent would answer differently: the request is wrong, or there is no such name. */
    public static final class Refused extends IOException { Refused(String why) { super(why); } }

    private static final int TIMEOUT_MS = 2_000; // of one agent
    private static final long PATIENCE_MS = 15_000; // of one batch
    private final Deque<String> agents;
    private final String path;
    private final int batch;
    private final Deque<String> ids = new ArrayDeque<>();
    private boolean fetching;
    private long batches; // fetched, or not
    private IOException error;

    /** Agents as HOST:PORT, of which the first one is asked first; a path such as /uniq64 or /id/NAME. */
    public Uniq(List<String> agents, String path, int batch) {
        this.agents = new ArrayDeque<>(agents);
        this.path = path + "?n=" + batch;
        this.batch = batch;
    }

    /** The next ID. If there is none it waits for an agent, as long as the patience lasts. */
    public synchronized String get() throws IOException, InterruptedException {
        while (true) {
            if (ids.size() <= batch / 2 && !fetching) {
                Thread fetch = new Thread(this::fetch, "uniq");
                fetch.setDaemon(true);
                try {
                    fetch.start();
                    fetching = true;
                } catch (OutOfMemoryError e) { if (ids.isEmpty()) throw e; } // no more threads: what is there is given
            }
            if (!ids.isEmpty()) return ids.pop();
            for (long before = batches; ids.isEmpty() && batches == before;) wait();
            if (ids.isEmpty() && error != null) throw error;
        }
    }

    private void fetch() {
        List<String> fetched = Collections.emptyList();
        IOException why = null;
        try {
            fetched = ask();
        } catch (IOException e) { why = e; } catch (Throwable e) { why = new IOException(e); }
        synchronized (this) {
            ids.addAll(fetched);
            fetching = false;
            batches++;
            error = why;
            notifyAll();
        }
    }

    /** A batch from the first agent that gives one: each is asked in turn, and again after a pause that grows. */
    private List<String> ask() throws IOException, InterruptedException {
        long end = System.nanoTime() + PATIENCE_MS * 1_000_000;
        for (long pause = 50;; pause = Math.min(2 * pause, 1_000)) {
            IOException last = new IOException("no agents are named");
            for (int i = 0; i < agents.size(); i++) {
                try {
                    return askOne(agents.peek());
                } catch (Refused e) { throw e; } catch (IOException e) {
                    last = new IOException(agents.peek() + ": " + e, e);
                    agents.add(agents.pop()); // it is asked last from now on
                }
            }
            if (System.nanoTime() + pause * 1_000_000 - end > 0) throw last;
            Thread.sleep(pause);
        }
    }

    private List<String> askOne(String agent) throws IOException {
        URL url = new URL("http://" + agent + path);
        HttpURLConnection connection = (HttpURLConnection) url.openConnection(Proxy.NO_PROXY);
        connection.setRequestMethod("POST"); // so that nothing on the way answers from a cache
        connection.setRequestProperty("Accept", "text/plain");
        connection.setInstanceFollowRedirects(false);
        connection.setConnectTimeout(TIMEOUT_MS);
        connection.setReadTimeout(TIMEOUT_MS);
        int status = connection.getResponseCode();
        InputStream stream = status < 400 ? connection.getInputStream() : connection.getErrorStream();
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        byte[] part = new byte[8192];
        for (int n; stream != null && (n = stream.read(part)) >= 0;) bytes.write(part, 0, n);
        String text = bytes.toString("UTF-8");
        if (status == 400 || status == 404 || status == 405) throw new Refused(text);
        List<String> given = Arrays.asList(text.split("\n"));
        // HttpURLConnection gives an answer that was cut off as if it were whole: no ID of it is used.
        if (status != 200 || !text.endsWith("\n") || given.size() != batch) throw new IOException(text);
        return given;
    }
}
