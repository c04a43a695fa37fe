import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.camel.Exchange;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.impl.DefaultCamelContext;

/**
 * The sink's job by a route of Apache Camel. Like the roles of the bench it answers
 * a line on stdin with what it has used and done so far, on stdout, and ends with
 * stdin.
 *
 *   java -cp 'LIBS/*:CLASSES' Bridge calls BROKER TOPIC GROUP URL IN_FLIGHT
 *   java -cp 'LIBS/*:CLASSES' Bridge files BROKER TOPIC GROUP FOLDER
 */
abstract class Bridge extends RouteBuilder {
  /** Events whose work is finished. */
  protected final AtomicLong done = new AtomicLong();

  private final String source;

  protected Bridge(String broker, String topic, String group) {
    this.source = "kafka:" + topic + "?brokers=" + broker + "&groupId=" + group + "&autoOffsetReset=earliest"
        + "&valueDeserializer=org.apache.kafka.common.serialization.ByteArrayDeserializer";
  }

  /** The topic from its beginning, with these options as well. */
  protected String source(String options) {
    return source + options;
  }

  /** A figure with failures in it would be of no use. */
  protected void failWithTheFirst() {
    onException(Exception.class).process(exchange -> {
      exchange.getProperty(Exchange.EXCEPTION_CAUGHT, Exception.class).printStackTrace();
      Runtime.getRuntime().halt(1);
    });
  }

  public static void main(String[] args) throws Exception {
    Bridge bridge = args[0].equals("calls")
        ? new Calls(args[1], args[2], args[3], args[4], Integer.parseInt(args[5]))
        : new Sheets(args[1], args[2], args[3], args[4]);
    var context = new DefaultCamelContext();
    context.addRoutes(bridge);
    context.start();
    var questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    questions.readLine(); // the settings, which stand on the command line
    System.out.println("{\"address\":\"\"}");
    while (questions.readLine() != null) {
      System.out.println(bridge.usage());
    }
    Runtime.getRuntime().halt(0);
  }

  private String usage() throws IOException {
    double cpu = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getProcessCpuTime() / 1e9;
    return "{\"cpu\":" + cpu + ",\"rss\":" + memory("VmHWM") + ",\"resident\":" + memory("VmRSS") + ",\"done\":" + done.get() + "}";
  }

  /** A field as Linux keeps it for this program, in bytes. */
  private static long memory(String field) throws IOException {
    for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
      if (line.startsWith(field + ":")) {
        return Long.parseLong(line.replaceAll("\\D", "")) << 10;
      }
    }
    return 0;
  }
}
