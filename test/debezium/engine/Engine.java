import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.Header;
import io.debezium.engine.format.Json;
import io.debezium.engine.format.KeyValueHeaderChangeEventFormat;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Runs Debezium's embedded engine, once for each properties file named on the
 * command line, all on the same PostgreSQL. What an engine emits goes unchanged
 * to one of two places, as its file says:
 *
 *   feedsink.file=events.jsonl       a line for each event: topic, headers, key and value as texts
 *   feedsink.brokers=127.0.0.1:9092  the topic of each event
 *
 * An engine has seen everything when the table named "finished" changes; that
 * event is not passed on. The program ends when each engine has seen it:
 *
 *   java -cp 'LIBS/*' Engine.java FILE.properties…
 */
public final class Engine implements DebeziumEngine.ChangeConsumer<ChangeEvent<String, String>> {

  /** Where events go. */
  private interface Sink extends AutoCloseable {
    void put(ChangeEvent<String, String> event) throws Exception;

    /** Returns once everything put so far is where it belongs. */
    void flush() throws Exception;
  }

  private final String name;
  private final Sink sink;
  private final DebeziumEngine<ChangeEvent<String, String>> engine;
  private volatile boolean finished;
  private volatile Throwable failure;

  private Engine(String name, Properties properties) throws IOException {
    this.name = name;
    this.sink = properties.containsKey("feedsink.file")
        ? new Lines(Path.of(properties.getProperty("feedsink.file")))
        : new Topics(properties.getProperty("feedsink.brokers"));
    this.engine = DebeziumEngine.create(KeyValueHeaderChangeEventFormat.of(Json.class, Json.class, Json.class))
        .using(properties)
        .using((success, message, error) -> failure = finished ? null : error != null ? error : new IllegalStateException(message))
        .notifying(this)
        .build();
  }

  public static void main(String[] files) throws Exception {
    ExecutorService threads = Executors.newCachedThreadPool();
    List<Engine> engines = new ArrayList<>();
    List<Future<?>> ends = new ArrayList<>();
    for (String file : files) {
      Properties properties = new Properties();
      try (var reader = Files.newBufferedReader(Path.of(file))) {
        properties.load(reader);
      }
      Engine e = new Engine(file, properties);
      engines.add(e);
      ends.add(threads.submit(e.engine));
    }
    for (int i = 0; i < engines.size(); i++) {
      engines.get(i).await(ends.get(i));
    }
    threads.shutdown();
  }

  private void await(Future<?> end) throws Exception {
    while (!finished && !end.isDone()) {
      Thread.sleep(50);
    }
    engine.close();
    end.get();
    sink.close();
    if (!finished) {
      throw new IllegalStateException(name + ": the engine ended by itself", failure);
    }
  }

  @Override
  public void handleBatch(
      List<ChangeEvent<String, String>> events,
      DebeziumEngine.RecordCommitter<ChangeEvent<String, String>> committer) throws InterruptedException {
    boolean last = false;
    try {
      for (ChangeEvent<String, String> event : events) {
        if (event.destination().endsWith(".finished")) {
          last = true;
        } else {
          sink.put(event);
        }
        committer.markProcessed(event);
      }
      sink.flush();
    } catch (InterruptedException e) {
      throw e;
    } catch (Exception e) {
      throw new IllegalStateException(name, e);
    }
    committer.markBatchFinished();
    finished |= last;
  }

  /** One line for each event, with every text as the converters wrote it. */
  private static final class Lines implements Sink {
    private final BufferedWriter out;
    private final com.fasterxml.jackson.databind.ObjectMapper json = new com.fasterxml.jackson.databind.ObjectMapper();

    Lines(Path file) throws IOException {
      out = Files.newBufferedWriter(file);
    }

    @Override
    public void put(ChangeEvent<String, String> event) throws IOException {
      var line = json.createObjectNode();
      line.put("topic", event.destination());
      var headers = line.putObject("headers");
      for (Header<?> header : event.<Object>headers()) {
        headers.put(header.getKey(), (String) header.getValue());
      }
      line.put("key", event.key());
      line.put("value", event.value());
      out.write(line.toString());
      out.newLine();
    }

    @Override
    public void flush() throws IOException {
      out.flush();
    }

    @Override
    public void close() throws IOException {
      out.close();
    }
  }

  /** Each event as a record of its topic; a partition is chosen by the key, as Kafka Connect does. */
  private static final class Topics implements Sink {
    private final Producer<String, String> producer;
    private final List<Future<?>> sent = new ArrayList<>();

    Topics(String brokers) {
      producer = new KafkaProducer<>(Map.of("bootstrap.servers", brokers), new StringSerializer(), new StringSerializer());
    }

    @Override
    public void put(ChangeEvent<String, String> event) {
      var record = new ProducerRecord<>(event.destination(), event.key(), event.value());
      for (Header<?> header : event.<Object>headers()) {
        record.headers().add(header.getKey(), ((String) header.getValue()).getBytes(StandardCharsets.UTF_8));
      }
      sent.add(producer.send(record));
    }

    @Override
    public void flush() throws Exception {
      producer.flush();
      for (Future<?> acknowledgement : sent) {
        acknowledgement.get();
      }
      sent.clear();
    }

    @Override
    public void close() {
      producer.close();
    }
  }
}
