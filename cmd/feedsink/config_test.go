package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// What comes through a pipe can be read once. `-c <(…)` of a shell is one.
func TestConfigurationMayComeThroughAPipe(t *testing.T) {
	d := newHost(t)
	brokers, err := d.newBroker().ListBrokers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.fill(fmt.Sprintf("%s:%d", brokers[0].Host, brokers[0].Port))
	d.change("columns: [customerNumber", "columns: [customerNumber, lastName")
	d.change("routes:", "fields: [{from: key.customerNumber, to: customerNumber}, {from: given, to: firstName}, {from: name, to: lastName}]\n    routes:")
	d.change(`, "subscriptions#newsletter"`, "")
	d.change(`, {name: emailAddress, "null": immediate}`, "")
	data, err := os.ReadFile("feedsink.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ command, text, want string }{
		{"check", strings.Replace(string(data), "upsert: {mode", `upsert: {etl: "8", mode`, 1), "files leave out what fields say of firstName"},
		{"plan", strings.Replace(string(data), "apiKey: key", "apiKey: ${NO_KEY}", 1), "service.apiKey: "},
	} {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(write, tc.text) // it has room for so much
		if err := errors.Join(err, write.Close()); err != nil {
			t.Fatal(err)
		}
		code, out, failed := d.run(tc.command + fmt.Sprintf(" -c /dev/fd/%d", read.Fd()))
		_ = read.Close()
		if code != 0 || !strings.Contains(out, tc.want) {
			t.Errorf("%s: got code %d, %s%s\nwant %s", tc.command, code, out, failed, tc.want)
		}
		d.stdin = strings.NewReader(tc.text)
		if code, out, failed = d.run(tc.command + " -c -"); code != 0 || !strings.Contains(out, tc.want) {
			t.Errorf("%s of standard input: got code %d, %s%s\nwant %s", tc.command, code, out, failed, tc.want)
		}
	}
	if code, _, failed := d.run("run -c -"); code != exitUsage || !strings.HasPrefix(failed, "--config: run reads its file again") {
		t.Errorf("run: got code %d, %s, want %d, as a reload has nothing to read", code, failed, exitUsage)
	}
}

func TestWaitingForStandardInputCanBeInterrupted(t *testing.T) {
	never, _ := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	newHost(t)
	for _, line := range []string{"record create --table orders --file -", "check -c -"} {
		root := newRoot()
		root.SetArgs(strings.Fields(line))
		root.SetIn(never)
		if err := root.ExecuteContext(ctx); exitCode(err) != exitInterrupted {
			t.Errorf("%s: got %v, want the interrupt", line, err)
		}
	}
}

func TestBodyThatIsNoneIsTold(t *testing.T) {
	d := newHost(t)
	for text, want := range map[string]string{"": "the body: is empty", " \n": "the body: is empty", `{"properties":`: "the body: the JSON ends before it is complete"} {
		d.stdin = strings.NewReader(text)
		if code, _, failed := d.run("record create --table orders --file -"); code != exitUsage || !strings.HasPrefix(failed, want) {
			t.Errorf("%q: got code %d, %s, want %s", text, code, failed, want)
		}
	}
}
