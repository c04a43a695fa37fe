//go:build debezium

package debezium_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// modes are the ways in which Debezium is set up in practice, by the name that
// is also the prefix of their topics. Each is what differs from its defaults:
// events with their schema, exact numbers as bytes, times as numbers.
var modes = map[string]map[string]string{
	"schema": {},
	"plain": {
		"converter.schemas.enable": "false", "decimal.handling.mode": "string", "interval.handling.mode": "string",
		"binary.handling.mode": "base64", "skipped.operations": "none",
	},
	"connect": {
		"decimal.handling.mode": "double", "time.precision.mode": "connect", "binary.handling.mode": "hex",
		"hstore.handling.mode": "map",
	},
	"micros": {
		"decimal.handling.mode": "string", "time.precision.mode": "adaptive_time_microseconds",
		"binary.handling.mode": "base64-url-safe", "interval.handling.mode": "string",
	},
	"iso": {"time.precision.mode": "isostring"},
	"flat": {
		"converter.schemas.enable": "false", "decimal.handling.mode": "string", "transforms": "unwrap",
		"transforms.unwrap.type":                           "io.debezium.transforms.ExtractNewRecordState",
		"transforms.unwrap.add.fields":                     "op,source.snapshot",
		"transforms.unwrap.delete.tombstone.handling.mode": "rewrite-with-tombstone",
	},
	"flatschema": {
		"transforms":             "unwrap",
		"transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
		"transforms.unwrap.delete.tombstone.handling.mode": "tombstone",
	},
}

// properties is the file that sets up one engine; the lines come last and win.
func (p *postgres) properties(mode string, lines ...string) string {
	settings := map[string]string{
		"name":                        mode,
		"connector.class":             "io.debezium.connector.postgresql.PostgresConnector",
		"offset.storage":              "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
		"database.hostname":           "127.0.0.1",
		"database.port":               p.port,
		"database.user":               "postgres",
		"database.password":           "",
		"database.dbname":             "postgres",
		"topic.prefix":                mode,
		"schema.include.list":         "public",
		"plugin.name":                 "pgoutput",
		"slot.name":                   mode,
		"publication.name":            mode,
		"publication.autocreate.mode": "all_tables",
		"poll.interval.ms":            "20",
		"extended.headers.enabled":    "false", // the engine's own run id, in every record
	}
	maps.Copy(settings, modes[mode])
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s=%s\n", key, settings[key])
	}
	for _, line := range lines {
		fmt.Fprintln(&text, line)
	}
	file := filepath.Join(p.t.TempDir(), mode+".properties")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return file
}

// libraries are the engine's jars, from Maven's own cache once they are there.
func libraries(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	c := exec.Command("mvn", "-B", "-q", "-f", "engine/pom.xml", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+dir)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("mvn: %v\n%s", err, out)
	}
	return dir
}

// engines runs one engine for each properties file; wait returns when each has
// passed on everything.
func engines(t *testing.T, files ...string) (wait func()) {
	t.Helper()
	args := []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", libraries(t) + "/*", "engine/Engine.java"}
	c := exec.Command("java", append(args, files...)...)
	log := &strings.Builder{}
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		t.Fatalf("java: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		if t.Failed() {
			t.Logf("the engine's log:\n%s", log)
		}
	})
	return func() {
		t.Helper()
		if err := <-ended; err != nil {
			t.Fatalf("the engine ended with: %v", err)
		}
	}
}
