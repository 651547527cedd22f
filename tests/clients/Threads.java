import java.util.Arrays;

/** Prints IDs of all agents from four threads, until its input ends: Threads HOST:PORT ... */
public class Threads {
    private static volatile boolean ended;

    public static void main(String[] agents) throws Exception {
        Uniq ids = new Uniq(Arrays.asList(agents), "/uniq64", 1000);
        Thread[] threads = new Thread[4];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> {
                try {
                    while (!ended) System.out.println(ids.get());
                } catch (Exception e) {
                    e.printStackTrace();
                    System.exit(1);
                }
            });
            threads[i].start();
        }
        while (System.in.read() >= 0) {}
        ended = true;
    }
}
