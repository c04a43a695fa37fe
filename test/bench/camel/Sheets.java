import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.camel.Exchange;

/**
 * From a topic to CSV files through gzip, of 50,000 rows each, by two consumers. It
 * neither compacts, nor checks, nor uploads: each event is a row, and a file on the
 * disk is what counts. Camel's gzip leaves no choice of a level.
 */
final class Sheets extends Bridge {
  private static final int ROWS = 50_000;

  private final String folder;
  private final ObjectReader events = new ObjectMapper().reader();

  Sheets(String broker, String topic, String group, String folder) {
    super(broker, topic, group);
    this.folder = folder;
  }

  @Override
  public void configure() {
    failWithTheFirst();
    from(source("&consumersCount=2&batching=true&maxPollRecords=" + ROWS))
        .process(exchange -> {
          List<List<String>> rows = new ArrayList<>();
          for (Object one : exchange.getMessage().getBody(List.class)) {
            rows.add(row(events.readTree(((Exchange) one).getMessage().getBody(byte[].class))));
          }
          exchange.getMessage().setBody(rows);
          exchange.setProperty("rows", rows.size());
        })
        .marshal().csv()
        .marshal().gzipDeflater()
        .to("file:" + folder + "?fileName=${exchangeId}.csv.gz")
        .process(exchange -> done.addAndGet(exchange.getProperty("rows", Integer.class)));
  }

  /** The columns of the sink's file. */
  private static List<String> row(JsonNode event) throws IOException {
    JsonNode a = event.get("attributes");
    JsonNode segments = event.get("segments");
    return List.of(a.get("customerNumber").asText(), a.get("emailAddress").asText(), a.get("firstName").asText(),
        a.get("lastName").asText(), a.get("languages").toString(), a.get("points").asText(), a.get("lastVisit").asText(),
        event.get("subscriptions").get("newsletter").asText(), segments.get("vip").asText(), segments.get("tier").asText());
  }
}
