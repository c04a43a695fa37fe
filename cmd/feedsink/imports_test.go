package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/observe"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// situations are a mapping whose import goes well, one that is halted, and one without an import.
func situations() []observe.MappingImports {
	return []observe.MappingImports{
		{
			Mapping: "customers", Table: "clients", Owned: true, SlotsLeft: new(9), SlotsPerDay: 12,
			Import: &contract.ImportStatus{Import: contract.Import{ETL: "101", File: "c.csv.gz", Execution: "1004"}, Step: contract.Importing, Since: noon},
		},
		{Mapping: "consents", Table: "consents", Owned: true, SlotsLeft: new(0), SlotsPerDay: 3, Halted: "import d.csv.gz, execution 12: FAILED: duplicate headers"},
		{Mapping: "quiet", Table: "quiet", Owned: true, SlotsLeft: new(12), SlotsPerDay: 12},
	}
}

// imports is a host with the situations above; consents may be released once.
type imports struct {
	released bool
	taken    []string
}

func (*imports) Imports() any { return situations() }

func (*imports) Import(mapping string) (any, error) {
	for _, m := range situations() {
		if m.Mapping == mapping {
			return m, nil
		}
	}
	return nil, &admin.Refusal{Status: http.StatusNotFound, Message: "mapping " + mapping + ": is not there"}
}

func (i *imports) Release(mapping string) (any, error) {
	if mapping == "orders" {
		return observe.Released{Mapping: mapping, File: "o.csv.gz", Loaded: true, SlotsLeft: new(0)}, nil
	}
	if mapping != "consents" || i.released {
		return nil, &admin.Refusal{Status: http.StatusConflict, Message: "mapping " + mapping + ": is not halted"}
	}
	i.released = true
	return observe.Released{Mapping: mapping, File: "d.csv.gz", SlotsLeft: new(0)}, nil
}

func (i *imports) Reason(_ context.Context, mapping string) (any, error) {
	said := observe.LastMessage{Mapping: mapping}
	if mapping == "consents" {
		ahead := time.Now().Add(time.Minute) // so that it was 0s ago however long the answer takes
		said.Said = &contract.ServiceMessage{File: "d.csv.gz", Execution: "8842", At: ahead, Words: "nobody knows M. Dupont"}
	}
	return said, nil
}

func (i *imports) Roll(_ context.Context, mapping string, reserve bool) (any, error) {
	return observe.Rolled{Mapping: mapping, Files: []string{fmt.Sprint("c.csv.gz, reserve ", reserve)}}, nil
}

func (i *imports) TakeSlot(_ context.Context, mapping string) (any, error) {
	one, err := i.Import(mapping)
	if m, ok := one.(observe.MappingImports); ok && (m.SlotsLeft == nil || *m.SlotsLeft == 0) {
		return nil, &admin.Refusal{Status: http.StatusConflict, Message: "mapping " + mapping + ": no import is left today"}
	}
	i.taken = append(i.taken, mapping)
	return one, err
}

// command runs feedsink in this process.
func command(t *testing.T, args ...string) (out string, code int, err error) {
	t.Helper()
	var b bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&b)
	err = root.ExecuteContext(t.Context())
	return b.String(), exitCode(err), err
}

// sinkServer has the header by which commands know a sink.
func sinkServer(sink http.Handler) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Feedsink", "sink")
		sink.ServeHTTP(w, r)
	}))
}

func TestImportsCommandsAskTheSink(t *testing.T) {
	mux := http.NewServeMux()
	d := &imports{}
	admin.Imports(d)(mux)
	server := sinkServer(mux)
	defer server.Close()

	if _, code, err := command(t, "imports", "release", "--server", server.URL, "--mapping", "consents", "-o", "yaml"); code != exitUsage || d.released {
		t.Errorf("release -o yaml: got code %d, %v, released %v, want %d before anything is released", code, err, d.released, exitUsage)
	}
	out, code, _ := command(t, "imports", "list", "--server", server.URL, "-o", "json")
	var list []observe.MappingImports
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != exitFine || len(list) != len(situations()) {
		t.Fatalf("list -o json: got code %d, %v, %s, want all mappings", code, err, out)
	}
	if imp := list[0].Import; imp.File != "c.csv.gz" || imp.ETL != "101" || imp.Step != contract.Importing || imp.Since.IsZero() || *list[0].SlotsLeft != 9 {
		t.Errorf("list -o json: got %s, want all that is known of the import", out)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"list", exitFine, "consents is halted: import d.csv.gz"},
		{"show --mapping customers", exitFine, "execution   1004"},
		{"show --mapping consents --show-reason", exitFine, "The service said about d.csv.gz, execution 8842, 0s ago:\nnobody knows M. Dupont"},
		{"show --mapping customers --show-reason", exitFine, "has said nothing"},
		{"show --mapping nobody", exitUsage, "mapping nobody: is not there"},
		{"release --mapping consents", exitFine, "consents is released: d.csv.gz is sent again when the next day begins, no slot is left today"},
		{"release --mapping consents", exitFailed, "mapping consents: is not halted"},
		{"release --mapping orders", exitFine, "orders is released: the rows in error of o.csv.gz that its output files name become dead letters"},
	} {
		out, code, err := command(t, append([]string{"imports", "--server", server.URL}, strings.Fields(c.args)...)...)
		if err != nil {
			out += err.Error()
		}
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%s: got code %d, %q, want %d, %q", c.args, code, out, c.code, c.want)
		}
	}
}

func TestImportsCommandsSayWhatIsWrongWithTheirUse(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	file := filepath.Join(t.TempDir(), "feedsink.yaml")
	if err := os.WriteFile(file, []byte("admin: {listen: nowhere}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"list --server " + gone.URL, exitFailed, "no sink answers at " + gone.URL},
		{"list --server " + gone.URL, exitFailed, "is it running there? --server, or -c"},
		{"list --server " + other.URL, exitFailed, "404 Not Found: what answers there is no admin server of feedsink,"},
		{"list --server " + strings.Replace(other.URL, "http", "https", 1), exitFailed, "does not speak TLS: write http://"},
		{"list --server localhost:8080", exitUsage, "--server: \"localhost:8080\": is no address"},
		{"list --server http://localhost -c " + file, exitUsage, "give one of them"},
		{"list -c " + file, exitUsage, "admin.listen"},
		{"show", exitUsage, "--mapping: name the mapping"},
		{"release", exitUsage, "--mapping: name the mapping"},
		{"release --mapping a b", exitUsage, "unknown command"},
		{"forget", exitUsage, "unknown command"},
		{"list --mapping a", exitUsage, "unknown flag"},
	} {
		_, code, err := command(t, append([]string{"imports"}, strings.Fields(c.args)...)...)
		if code != c.code || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got code %d, %v, want %d, %q", c.args, code, err, c.code, c.want)
		}
	}
	if out, code, _ := command(t, "imports"); code != exitFine || !strings.Contains(out, "release") {
		t.Errorf("without a command: got code %d, %q, want its help", code, out)
	}
}

// What a person has to correct is told from what has failed by the exit code.
func TestCommandsTellAMistakeOfUsageFromAFailure(t *testing.T) {
	d := newHost(t)
	var status int
	sink := sinkServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "the sink's words", status) }))
	defer sink.Close()
	d.change("admin: {webhook", `admin: {listen: "`+sink.Listener.Addr().String()+`", webhook`)
	d.change("upsert: {mode", `upsert: {etl: "1", mode`)
	for _, line := range []string{
		"imports show --mapping nobody", "imports release --mapping nobody", "imports roll --mapping nobody", "pause --mapping nobody",
		"resume --mapping nobody", "imports files --mapping nobody", "reload", "log-level debug",
	} {
		for _, c := range []struct{ status, code int }{{400, exitUsage}, {404, exitUsage}, {401, exitFailed}, {409, exitFailed}, {500, exitFailed}} {
			status = c.status
			if code, _, failed := d.run(line + " -c feedsink.yaml"); code != c.code || failed != "the sink's words" {
				t.Errorf("%s, %d: got code %d, %q, want %d and the sink's words", line, c.status, code, failed, c.code)
			}
		}
	}
	for _, line := range []string{"log-level bogus", "log-level ..", "imports show --mapping ..", "pause --mapping ."} {
		if code, _, failed := d.run(line + " --server http://127.0.0.1:1"); code != exitUsage {
			t.Errorf("%s: got code %d, %q, want %d before anybody is asked", line, code, failed, exitUsage)
		}
	}
}

func TestTokenThatCannotBeReadIsNamedByWhereItStands(t *testing.T) {
	_, _, err := sinkOf("http://127.0.0.1:1", config.Admin{TokenFile: "none"}, "") // as why asks, which does without
	if err == nil || !strings.HasPrefix(err.Error(), "admin.tokenFile: ") {
		t.Errorf("the configuration's: got %v, want admin.tokenFile named", err)
	}
	if code, _, failed := newHost(t).run("imports list --server http://127.0.0.1:1 --token-file other"); code != exitUsage || !strings.HasPrefix(failed, "--token-file: ") {
		t.Errorf("the flag's: got code %d, %q, want %d and --token-file named", code, failed, exitUsage)
	}
}

func TestPasswordOfAnAddressIsNotSaid(t *testing.T) {
	d := newHost(t)
	d.change("upsert: {mode", `upsert: {etl: "1", mode`)
	d.write("customers.csv", "customerNumber\nC1\n")
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	for _, at := range []string{
		"http://me:hunter2@127.0.0.1:1", "https://me:hunter2@" + strings.TrimPrefix(other.URL, "http://"), "http://me:hunter2@" + strings.TrimPrefix(other.URL, "http://"),
		"http://me:hunter2%zz@127.0.0.1:1", "me:hunter2@127.0.0.1:1", "ftp://me:hunter2@127.0.0.1:1",
	} {
		for _, line := range []string{
			"imports list", "pause --mapping customers", "reload", "log-level", "imports files --mapping customers", "import --mapping customers customers.csv",
		} {
			if code, out, failed := d.run(line + " --server " + at); code == 0 || strings.Contains(out+failed, "hunter2") {
				t.Errorf("%s --server %s: got code %d, %s %s, want no password", line, at, code, out, failed)
			}
		}
	}
}

func TestAddressComesFromWhatIsListenedOn(t *testing.T) {
	for listen, want := range map[string]string{
		":8080":          "http://localhost:8080",
		"0.0.0.0:9":      "http://localhost:9",
		"[::]:9":         "http://localhost:9",
		"10.1.2.3:8080":  "http://10.1.2.3:8080",
		"[fd00::1]:8080": "http://[fd00::1]:8080",
		"sink.local:80":  "http://sink.local:80",
		"127.0.0.1:0":    "",
	} {
		if got, err := listenedOn(config.Admin{Listen: listen}); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", listen, got, err, want)
		}
	}
	secured := config.Admin{Listen: ":8443", TLS: config.Certificate{CertFile: "cert.pem"}}
	if got, err := listenedOn(secured); got != "https://localhost:8443" || err != nil {
		t.Errorf("with a certificate: got %q, %v, want https", got, err)
	}
}
