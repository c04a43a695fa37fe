import java.util.Map;
import org.apache.camel.model.RouteDefinition;

/**
 * From a topic to HTTP calls, one for each event. In flight 0: a consumer for each
 * of 12 partitions, each with one call after the other, so that the order of a
 * partition is kept and an offset is committed after its call. Otherwise the
 * records go to a queue in memory with so many workers: neither holds any more.
 */
final class Calls extends Bridge {
  private static final int PARTITIONS = 12;

  private final String url;
  private final int inFlight;

  Calls(String broker, String topic, String group, String url, int inFlight) {
    super(broker, topic, group);
    this.url = url + "?httpMethod=POST&connectionsPerRoute=" + Math.max(PARTITIONS, inFlight);
    this.inFlight = inFlight;
  }

  @Override
  public void configure() {
    failWithTheFirst();
    String source = source("&consumersCount=" + PARTITIONS);
    if (inFlight == 0) {
      call(from(source));
      return;
    }
    String queue = "seda:calls?size=" + 4 * inFlight;
    from(source).to(queue + "&blockWhenFull=true");
    call(from(queue + "&concurrentConsumers=" + inFlight));
  }

  /** Makes the call's body of an event, and the call. */
  private void call(RouteDefinition route) {
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
        .to(url)
        .process(exchange -> done.incrementAndGet());
  }
}
