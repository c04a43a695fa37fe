package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

func TestCommandsThatCreateSayThatItMayBeThereAllTheSame(t *testing.T) {
	d := newHost(t)
	d.write("record.json", `{"properties":{"status":"NEW"}}`)
	d.write("keyed.json", `{"businessKey":"o1","properties":{"status":"NEW"}}`)
	for _, tc := range []struct {
		op         int
		line, want string
	}{
		{9, "etl create --mapping customers", "the ETL may have been created all the same"},
		{13, "webhook create --url https://example.com --etl 7", "the subscription may have been created all the same"},
		{4, "record create --table orders --file record.json", "the record may have been created all the same"},
		{4, "record create --table orders --file keyed.json", ""}, // a second one is refused
	} {
		if tc.op == 13 { // all ETLs must be there
			d.change("upsert: {mode", `upsert: {etl: "8", mode`)
		}
		d.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: tc.op}, Apply: true, Answer: sandbox.Reset()})
		code, _, failed := d.run(tc.line)
		if got := strings.Contains(failed, "all the same"); code != exitFailed || got != (tc.want != "") || !strings.Contains(failed, tc.want) {
			t.Errorf("%s: got code %d, %s\nwant %d and %q", tc.line, code, failed, exitFailed, tc.want)
		}
		d.service.ClearFaults()
		d.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: tc.op}, Answer: sandbox.Status(400)})
		if _, _, failed = d.run(tc.line); failed == "" || strings.Contains(failed, "all the same") {
			t.Errorf("%s, refused: got %s, want nothing of a doubt", tc.line, failed)
		}
		d.service.ClearFaults()
	}
}

func TestCallOfWhatNoAddressCanHoldIsAMistakeOfUsage(t *testing.T) {
	d := newHost(t)
	for _, args := range [][]string{
		{"record", "get", "-t", "orders", ""},
		{"record", "delete", "-t", "orders", ".."},
		{"record", "patch", "-t", "orders", ".", `{"properties":{"status":"NEW"}}`},
		{"record", "get", "-t", "..", "o1"},
		{"profile", "delete", "-t", "customers", ""},
		{"profile", "patch", "-t", "customers", "..", "{}"},
		{"imports", "files", ""},
	} {
		if _, code, err := command(t, args...); code != exitUsage || err == nil || !strings.Contains(err.Error(), "cannot be part of an address") {
			t.Errorf("%q: got code %d, %v, want %d", args, code, err, exitUsage)
		}
	}
	if calls := d.service.Calls(); len(calls) != 0 {
		t.Errorf("the service: got %v, want no call", calls)
	}
}

func TestBodyEndsWithItsJSON(t *testing.T) {
	d := newHost(t)
	for _, more := range []string{"} trailing", "]", "}", "{}", `"more"`, "x"} {
		_, code, err := command(t, "record", "create", "-t", "orders", `{"properties":{"a":1}} `+more)
		if code != exitUsage || err == nil || !strings.Contains(err.Error(), "there is something after the JSON") {
			t.Errorf("%s: got code %d, %v, want %d", more, code, err, exitUsage)
		}
	}
	if _, code, err := command(t, "record", "create", "-t", "orders", `{"properties":{"a":1}} `+"\n"); code != exitFine || d.service.Len("orders") != 1 {
		t.Errorf("white space: got code %d, %v, want %d", code, err, exitFine)
	}
}

// host is a directory with a configuration and the service that it names.
type host struct {
	t       *testing.T
	dir     string
	service *sandbox.Sandbox
	url     string // of the service
	stdin   io.Reader
}

const hostConfiguration = `
kafka: {brokers: ["127.0.0.1:1"]}
service: {baseURL: ADDRESS, authURL: ADDRESS, entity: acme, apiKey: key, timeout: 5s}
admin: {webhook: {secretFile: ./secret}}
mappings:
  - name: customers
    topics: [crm.customers]
    profileTable: customers
    key: customerNumber
    routes: [{lane: batch}]
    imports:
      upsert: {mode: CREATE_OR_UPDATE}
      delete: {etl: "7", mode: DELETE}
      columns: [customerNumber, {name: emailAddress, "null": immediate}, "subscriptions#newsletter"]
`

// newHost is a host in the working directory, its configuration in
// feedsink.yaml.
func newHost(t *testing.T) *host {
	t.Helper()
	service, err := sandbox.New(sandbox.Config{
		Entity: "acme", APIKeys: []string{"key"}, KeepCalls: 100, Dir: t.TempDir(), SlotsPerDay: 12,
		Tables: []sandbox.Table{{
			Name: "customers", Keys: []string{"customerNumber"}, Subscriptions: []string{"newsletter"},
			Fields: []sandbox.Field{{Name: "customerNumber"}, {Name: "emailAddress", Format: sandbox.Email}},
		}, {Name: "orders", Custom: true, Open: true}},
		ETLs: []sandbox.ETL{{ID: "7", Loads: []sandbox.Load{{Table: "customers", Mode: sandbox.DeleteRows}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	server, err := service.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = server.Close(), service.Close() })
	d := &host{t: t, dir: t.TempDir(), service: service, url: server.URL()}
	t.Chdir(d.dir)
	d.write("feedsink.yaml", strings.ReplaceAll(hostConfiguration, "ADDRESS", server.URL()))
	d.write("secret", "s3cret\n")
	return d
}

func (d *host) write(name, content string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, name), []byte(content), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// change replaces text in the configuration.
func (d *host) change(from, to string) {
	d.t.Helper()
	data, err := os.ReadFile("feedsink.yaml")
	if err != nil || !bytes.Contains(data, []byte(from)) {
		d.t.Fatalf("feedsink.yaml: %v, or it does not have %q", err, from)
	}
	d.write("feedsink.yaml", strings.Replace(string(data), from, to, 1))
}

// run runs a command as a user types it.
func (d *host) run(line string) (code int, out, failed string) {
	d.t.Helper()
	var printed bytes.Buffer
	root := newRoot()
	root.SetArgs(strings.Fields(line))
	root.SetOut(&printed)
	root.SetErr(&printed)
	root.SetIn(d.stdin)
	err := root.ExecuteContext(d.t.Context())
	if err != nil {
		failed = advised(err).Error() // as exitCode prints it
	}
	return exitCode(err), printed.String(), failed
}
