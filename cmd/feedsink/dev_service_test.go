package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/service"
)

// playService runs `feedsink dev --service-only` until stop is called, and
// returns what it says of itself, by name.
func playService(t *testing.T, flags ...string) (said map[string]string, stop func() (int, error)) {
	t.Helper()
	r, w := io.Pipe()
	root := newRoot()
	root.SetArgs(append([]string{"dev", "--service-only", "--listen", "127.0.0.1:0"}, flags...))
	root.SetOut(w)
	root.SetErr(io.Discard)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		err := root.ExecuteContext(ctx)
		_ = w.Close() // a pipe's Close returns no error
		ended <- err
	}()
	said = map[string]string{}
	lines := bufio.NewScanner(r)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "Ctrl-C") {
		if name, text, ok := strings.Cut(lines.Text(), "  "); ok {
			said[name] = strings.TrimSpace(text)
		}
	}
	return said, func() (int, error) {
		cancel()
		err := <-ended
		return exitCode(err), err
	}
}

func TestDevServiceOnlyPlaysTheServiceUntilInterrupted(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	said, stop := playService(t)
	url, _, _ := strings.Cut(said["service"], " ")
	for name, want := range map[string]string{"page": url + "/_sandbox/", "entity": "acme", "API key": "playground-key"} {
		if said[name] != want {
			t.Errorf("%s: got %q, want %q", name, said[name], want)
		}
	}
	if !strings.HasPrefix(said["tables"], "customers") || !strings.HasPrefix(said["ETLs"], "101") {
		t.Errorf("got tables %q and ETLs %q, want them named", said["tables"], said["ETLs"])
	}
	if got := request(t, http.MethodGet, said["page"], "", ""); !strings.Contains(got, "<title>Service sandbox</title>") {
		t.Errorf("page: got %.100s", got)
	}

	token := request(t, http.MethodGet, url+"/auth/token", said["API key"], "")
	_, token, _ = strings.Cut(token, `"accessToken":"`)
	token, _, _ = strings.Cut(token, `"`)
	request(t, http.MethodPost, url+"/profiles/v5/entities/"+said["entity"]+"/profile-tables/customers/profiles",
		"Bearer "+token, `{"attributes":{"customerNumber":"C1"}}`)
	_, folder, _ := strings.Cut(said["remote location"], "  ")
	if err := os.WriteFile(filepath.Join(folder, "customers.csv"), []byte("customerNumber\nC2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	request(t, http.MethodPost, url+"/mass-imports/v5/entities/acme/etls/401/trigger-execution", "Bearer "+token, "")
	request(t, http.MethodPost, url+"/_sandbox/executions/1001/finish", "", "")
	if got := request(t, http.MethodGet, url+"/_sandbox/tables/customers/rows", "", ""); !strings.Contains(got, `"C1"`) || !strings.Contains(got, `"C2"`) {
		t.Errorf("rows: got %s, want both", got)
	}

	address := strings.TrimPrefix(url, "http://")
	if _, code, err := command(t, "dev", "--service-only", "--listen", address); code != exitFailed || !strings.Contains(err.Error(), "choose another address with --listen") {
		t.Errorf("an address in use: got code %d, %v, want %d and what to do", code, err, exitFailed)
	}
	if code, err := stop(); code != exitFine || err != nil {
		t.Errorf("interrupted: got code %d, %v, want %d", code, err, exitFine)
	}
	if resp, err := http.Get(url); err == nil {
		_ = resp.Body.Close()
		t.Error("the service answers after the command has ended")
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) != 0 {
		t.Errorf("left behind: got %v %v, want nothing", left, err)
	}
}

const servedConfiguration = `
kafka: {brokers: ["127.0.0.1:1"]}
service: {baseURL: "http://127.0.0.1:1", authURL: "http://127.0.0.1:1", entity: own, apiKey: key}
mappings:
  - name: customers
    topics: [crm]
    profileTable: customers
    key: number
    fields:
      - {from: id, to: number}
      - {from: mail, to: mail, as: email}
      - {from: born, to: born, as: date}
      - {from: tags, to: tags, as: list, of: string}
      - {from: tier, to: S_tier}
    routes: [{lane: batch}]
    imports:
      upsert: {etl: "77", mode: CREATE_OR_UPDATE}
      delete: {mode: DELETE}
      columns: [number, mail, born, tags, S_tier]
      slotsPerDay: 2
      reserve: 0
  - name: orders
    topics: [shop]
    customTable: orders
    key: businessKey
    routes: [{lane: immediate}]
`

func TestDevServiceOnlyHoldsWhatAFileNeeds(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	file := filepath.Join(t.TempDir(), "feedsink.yaml")
	if err := os.WriteFile(file, []byte(servedConfiguration), 0o600); err != nil {
		t.Fatal(err)
	}
	said, stop := playService(t, "-c", file)
	url, _, _ := strings.Cut(said["service"], " ")
	if said["entity"] != "own" || said["tables"] != "customers  profiles by number, 2 imports a day" || said["ETLs"] != "77  customers CREATE_OR_UPDATE" {
		t.Errorf("got entity %q, tables %q, ETLs %q, want those of the file", said["entity"], said["tables"], said["ETLs"])
	}
	client, err := service.New(service.Config{
		BaseURL: url, AuthURL: url, Entity: "own", Timeout: 10 * time.Second,
		APIKey: func() (service.Secret, error) { return service.NewSecret("key"), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	push := func(csv string) error {
		_, err := client.Trigger(t.Context(), "77", service.File{Name: "customers.csv", Open: func() (io.ReadCloser, int64, error) {
			return io.NopCloser(strings.NewReader(csv)), int64(len(csv)), nil
		}}, nil)
		return err
	}
	for _, csv := range []string{"number,mail,born,tags,S_tier\nC1,a@example.com,2000-01-01,\"[\"\"x\"\"]\",gold\n", "number,mail,born,tags,S_tier\nC2,no address,,,\n"} {
		if err := push(csv); err != nil {
			t.Fatal(err)
		}
	}
	if failed, ok := errors.AsType[*service.Error](push("number\nC3\n")); !ok || failed.Kind() != service.NoSlot {
		t.Errorf("a third import: got %v, want that no slot is left", failed)
	}
	if _, err := client.UpsertRecord(t.Context(), "orders", service.JSON(`{"businessKey":"o1","properties":[{"name":"any","value":1}]}`), true); err != nil {
		t.Errorf("a field that the file does not name: got %v, want it taken", err)
	}
	for _, id := range []string{"1001", "1002"} {
		request(t, http.MethodPost, url+"/_sandbox/executions/"+id+"/finish", "", "")
	}
	if got := request(t, http.MethodGet, url+"/_sandbox/tables/customers/rows", "", ""); !strings.Contains(got, `"C1"`) || strings.Contains(got, `"C2"`) {
		t.Errorf("rows: got %s, want C1 and not C2, whose address is none", got)
	}
	if code, err := stop(); code != exitFine || err != nil {
		t.Errorf("interrupted: got code %d, %v, want %d", code, err, exitFine)
	}
	if err := os.WriteFile(file, []byte("mappings: []"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, code, err := command(t, "dev", "--service-only", "-c", file); code != exitUsage {
		t.Errorf("a file that cannot work: got code %d, %v, want %d", code, err, exitUsage)
	}
}

// request sends a call that has to succeed and returns the answer.
func request(t *testing.T, method, url, authorization, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", authorization)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var answer bytes.Buffer
	if _, err := answer.ReadFrom(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: got %d %s, %v, want 200", method, url, resp.StatusCode, &answer, err)
	}
	return answer.String()
}

func TestDevRefusesFlagsThatDoNotGoTogether(t *testing.T) {
	for _, args := range [][]string{
		{"--service-only", "--events", "5"}, {"--service-only", "--seed", "2"}, {"--service-only", "-v"}, {"--listen", "127.0.0.1:0"}, {"-c", "feedsink.yaml"},
	} {
		if _, code, err := command(t, append([]string{"dev"}, args...)...); code != exitUsage {
			t.Errorf("dev %v: got code %d, %v, want %d", args, code, err, exitUsage)
		}
	}
	for _, listen := range []string{"nowhere", "localhost:99999", "localhost:no-port"} {
		_, code, err := command(t, "dev", "--service-only", "--listen", listen)
		if code != exitUsage || err == nil || !strings.Contains(err.Error(), "--listen: ") {
			t.Errorf("--listen %s: got code %d, %v, want %d naming it", listen, code, err, exitUsage)
		}
	}
}

// full is where nothing can be written, as /dev/full.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestDevFailsWhereItsVerdictCannotBeWritten(t *testing.T) {
	root := newRoot()
	root.SetArgs([]string{"dev", "--events", "5"})
	root.SetOut(full{})
	if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("got %v, want the error of the output", err)
	}
}
