import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.camel.Exchange;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.impl.DefaultCamelContext;

/**
 * The same job by Apache Camel: a route from a topic to HTTP calls, one for each
 * event. Like the roles of the bench it answers a line on stdin with what it has
 * used so far, on stdout, and ends with stdin.
 *
 *   java -cp 'LIBS/*:CLASSES' Bridge BROKER TOPIC GROUP URL IN_FLIGHT
 *
 * IN_FLIGHT 0: a consumer for each of 12 partitions, each with one call after the
 * other, so that the order of a partition is kept and an offset is committed after
 * its call. Otherwise the records go to a queue in memory with so many workers:
 * neither holds any more.
 */
public final class Bridge extends RouteBuilder {
  private static final int PARTITIONS = 12;

  private final String source;
  private final String calls;
  private final int inFlight;

  private Bridge(String broker, String topic, String group, String url, int inFlight) {
    this.source = "kafka:" + topic + "?brokers=" + broker + "&groupId=" + group + "&autoOffsetReset=earliest"
        + "&valueDeserializer=org.apache.kafka.common.serialization.ByteArrayDeserializer"
        + "&consumersCount=" + PARTITIONS;
    this.calls = url + "?httpMethod=POST&connectionsPerRoute=" + Math.max(PARTITIONS, inFlight);
    this.inFlight = inFlight;
  }

  @Override
  public void configure() {
    onException(Exception.class).process(exchange -> {
      exchange.getProperty(Exchange.EXCEPTION_CAUGHT, Exception.class).printStackTrace();
      Runtime.getRuntime().halt(1); // a figure with failed calls in it would be of no use
    });
    if (inFlight == 0) {
      call(from(source));
      return;
    }
    from(source).to("seda:calls?size=" + 4 * inFlight + "&blockWhenFull=true");
    call(from("seda:calls?concurrentConsumers=" + inFlight + "&size=" + 4 * inFlight));
  }

  /** Makes the call's body of an event and calls. */
  private void call(org.apache.camel.model.RouteDefinition route) {
    route.unmarshal().json(Map.class)
        .process(exchange -> {
          Map<?, ?> event = exchange.getMessage().getBody(Map.class);
          event.remove("op");
          event.remove("key");
        })
        .marshal().json()
        .removeHeaders("*")
        .setHeader("Content-Type", constant("application/json"))
        .setHeader("Authorization", constant("Bearer bench"))
        .to(calls);
  }

  public static void main(String[] args) throws Exception {
    var context = new DefaultCamelContext();
    context.addRoutes(new Bridge(args[0], args[1], args[2], args[3], Integer.parseInt(args[4])));
    context.start();
    var questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    questions.readLine(); // the settings, which stand on the command line
    System.out.println("{\"address\":\"\"}");
    while (questions.readLine() != null) {
      System.out.println(usage());
    }
    Runtime.getRuntime().halt(0);
  }

  private static String usage() throws IOException {
    double cpu = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getProcessCpuTime() / 1e9;
    return "{\"cpu\":" + cpu + ",\"rss\":" + memory("VmHWM") + ",\"resident\":" + memory("VmRSS") + "}";
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
