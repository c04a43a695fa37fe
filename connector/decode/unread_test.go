package decode

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/router"
)

func TestFieldsThatAreNotReadAreNamedOnce(t *testing.T) {
	var log bytes.Buffer
	counted := map[string]int{}
	unread := NewUnread(slog.New(slog.NewTextHandler(&log, nil)), func(topic string, fields int) { counted[topic] += fields })
	r, problems := router.Compile([]router.Mapping{mapping("a", "json", "none"), mapping("b", "json", router.CloudEvents)})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	one, two := NewReader(r, nil), NewReader(r, nil) // of two lanes
	one.Unread, two.Unread = unread, unread
	decoded := func(reader *Reader, topic, value string) {
		if _, err := reader.Decode(&kafka.Record{Topic: topic, Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
	}
	said := func(want ...string) {
		t.Helper()
		got := strings.Split(strings.TrimSpace(log.String()), "\n")
		log.Reset()
		if len(want) == 0 {
			want = []string{""}
		}
		if len(got) != len(want) {
			t.Fatalf("log: got %q, want %q", got, want)
		}
		for i := range want {
			if !strings.Contains(got[i], want[i]) {
				t.Errorf("log: got %s, want %s", got[i], want[i])
			}
		}
	}
	decoded(&one, "a", `{"a":1,"loyalty":1,"note":"x"}`)
	decoded(&two, "a", `{"a":1,"note":"x","x y":1,"a@example.com":2}`)
	decoded(&one, "b", `{"specversion":"1.0","id":"1","source":"/","type":"sold","data":{"a":1,"note":1}}`)
	said(`msg="new fields that no mapping reads" topic=a fields="[loyalty note]"`, `topic=b fields=[note]`)

	decoded(&two, "b", `{"specversion":"1.0","id":"1","source":"/","type":"sold","data":{"a":1,"note":1}}`)
	for range lookEvery - 2 {
		decoded(&one, "a", `{"a":1}`)
	}
	decoded(&one, "a", `{"a":1,"early":1}`) // the last of the first ones
	said(`topic=a fields=[early]`)
	for range lookEvery - 1 { // not looked at
		decoded(&one, "a", `{"a":1,"late":1}`)
	}
	said()
	decoded(&one, "a", `{"a":1,"late":1}`)
	said(`topic=a fields=[late]`)
	if counted["a"] != 4 || counted["b"] != 1 {
		t.Errorf("counted: got %v, want 4 of a and 1 of b", counted)
	}

	var wide strings.Builder
	for i := range 2 * maxUnread {
		fmt.Fprintf(&wide, `,"f%d":1`, i)
	}
	three := NewReader(r, nil)
	three.Unread = unread
	decoded(&three, "a", `{"a":1`+wide.String()+`}`)
	if counted["a"] != maxUnread {
		t.Errorf("counted of a wide value: got %d in all, want %d", counted["a"], maxUnread)
	}
}

// What is looked at once in a while must not cost what all records cost.
func BenchmarkDecodeLooksForUnreadFields(b *testing.B) {
	value := []byte(`{"a":1,"b":{"c":1,"d":2},"e":"text","f":[1,2,3],"g":null,"h":"more text"}`)
	for name, unread := range map[string]*Unread{"without": nil, "with": NewUnread(slog.New(slog.DiscardHandler), func(string, int) {})} {
		b.Run(name, func(b *testing.B) {
			r, _ := router.Compile([]router.Mapping{mapping("a", "json", "none")})
			reader := NewReader(r, nil)
			reader.Unread = unread
			record := &kafka.Record{Topic: "a", Value: value}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := reader.Decode(record); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
