package connector

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/schemas"
)

var (
	customersTable = schemas.Table{Name: "customers"}
	ordersTable    = schemas.Table{Name: "orders", Custom: true}
)

// startService is the service in process and a client that calls it.
func startService(t *testing.T) (*sandbox.Sandbox, *service.Client) {
	t.Helper()
	s, err := sandbox.New(sandbox.Config{
		Entity: "acme", APIKeys: []string{"the-api-key"}, KeepCalls: 100, Dir: t.TempDir(),
		Tables: []sandbox.Table{
			{Name: "customers", Keys: []string{"customerNumber"}, Fields: []sandbox.Field{{Name: "name"}}},
			{Name: "orders", Custom: true, Fields: []sandbox.Field{{Name: "total", Type: sandbox.Number}, {Name: "status"}}},
		},
		ETLs: []sandbox.ETL{{ID: "101", Loads: []sandbox.Load{{Table: "customers", Mode: sandbox.CreateOrUpdate, GenerateErrorFiles: true}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	client, err := service.New(service.Config{
		BaseURL: server.URL, AuthURL: server.URL, Entity: "acme",
		APIKey:  func() (service.Secret, error) { return service.NewSecret("the-api-key"), nil },
		Timeout: 5 * time.Second, Concurrency: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		server.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, client
}

func order(op schemas.Op, status string) *schemas.Write {
	w := &schemas.Write{Op: op, Table: ordersTable, Key: "o1"}
	if status != "" {
		w.Cells = []schemas.Cell{
			{Place: &schemas.Place{Section: schemas.Properties, Name: "status"}, Value: schemas.StringValue(status)},
			{Place: &schemas.Place{Section: schemas.Properties, Name: "total"}, Value: schemas.NumberValue("12.50")},
		}
	}
	return w
}

func customer(op schemas.Op, id, name string) *schemas.Write {
	return &schemas.Write{Op: op, Table: customersTable, Key: "C1", ProfileID: id, Cells: []schemas.Cell{
		{Place: &schemas.Place{Section: schemas.Attributes, Name: "customerNumber"}, Value: schemas.StringValue("C1")},
		{Place: &schemas.Place{Section: schemas.Attributes, Name: "name"}, Value: schemas.StringValue(name)},
	}}
}

// seen is the last call, as `operation status` and whether it was applied.
func seen(s *sandbox.Sandbox) string {
	calls := s.Calls()
	c := calls[len(calls)-1]
	return fmt.Sprintf("%d %d %v", c.Op, c.Status, c.Applied)
}

func TestEachWriteIsItsOperation(t *testing.T) {
	s, client := startService(t)
	for _, c := range []struct {
		write   *schemas.Write
		want    string
		missing int // status of the error, 0: none
	}{
		{customer(schemas.Upsert, "", "Ada"), "1 200 true", 0},
		{customer(schemas.Patch, "p1", "Grace"), "2 200 true", 0},
		{customer(schemas.Patch, "p9", "Grace"), "2 404 false", 404},
		{customer(schemas.Delete, "p1", ""), "3 204 true", 0},
		{customer(schemas.Delete, "p1", ""), "3 404 false", 404},
		{order(schemas.Create, "PLACED"), "4 200 true", 0},
		{order(schemas.Create, "PAID"), "6 200 true", 409},
		{order(schemas.Upsert, "PAID"), "4 200 true", 0},
		{order(schemas.Patch, "SHIPPED"), "5 200 true", 0},
		{order(schemas.Delete, ""), "7 200 true", 0},
		{order(schemas.Patch, "SHIPPED"), "5 404 false", 404},
		{order(schemas.Delete, ""), "7 404 false", 404},
		{order(schemas.Merge, "PLACED"), "4 200 true", 0},
		{order(schemas.Merge, "PAID"), "5 200 true", 0},
	} {
		err := writes.Operations{Client: client}.Call(t.Context(), c.write, writes.Create{})
		if got := seen(s); got != c.want {
			t.Errorf("%s of %s: got call %s, want %s", c.write.Op, c.write.Table.Name, got, c.want)
		}
		e, failed := errors.AsType[*service.Error](err)
		if failed != (c.missing != 0) || failed && e.Status() != c.missing {
			t.Errorf("%s of %s: got %v, want status %d", c.write.Op, c.write.Table.Name, err, c.missing)
		}
	}
}

// A merge keeps the properties that it does not name, whatever operation 4 does, and a
// second call of an attempt counts as one.
func TestMergeCreatesARecordAndElseKeepsWhatItDoesNotName(t *testing.T) {
	s, client := startService(t)
	spent := 0
	operations := writes.Operations{Client: client, Spend: func() { spent++ }}
	status := order(schemas.Merge, "PAID")
	status.Cells = status.Cells[:1]
	for _, c := range []struct {
		write *schemas.Write
		want  string
		spent int
	}{
		{order(schemas.Merge, "PLACED"), "map[businessKey:o1 status:PLACED total:12.50]", 1},
		{status, "map[businessKey:o1 status:PAID total:12.50]", 1},
		{order(schemas.Delete, ""), "map[]", 1},
		{status, "map[businessKey:o1 status:PAID]", 2},
	} {
		if err := operations.Call(t.Context(), c.write, writes.Create{}); err != nil {
			t.Fatal(err)
		}
		row, _ := s.Row("orders", "o1")
		if got := fmt.Sprint(row.Values); got != c.want || spent != c.spent {
			t.Errorf("%v: got %s and %d second calls, want %s and %d", c.write.Op, got, spent, c.want, c.spent)
		}
	}
}

// A merge's second call comes behind an answer, and the first one behind a token: the partition
// may be another member's by then.
func TestRequestBehindAnotherOneAsksWhetherItMay(t *testing.T) {
	s, client := startService(t)
	errLost := errors.New("another member has it")
	operations := writes.Operations{Client: client, May: func() error { return errLost }}
	for first := range 2 { // there is no token before
		err := operations.Call(t.Context(), order(schemas.Merge, "PLACED"), writes.Create{})
		if !errors.Is(err, errLost) || s.CallCount(5) != int64(first) || s.CallCount(4) != 0 {
			t.Errorf("got %v, %d calls of operation 5 and %d of 4, want the error, %d and none", err, s.CallCount(5), s.CallCount(4), first)
		}
	}
}

// A record that somebody else makes, or takes away, between the two calls of a merge.
func TestMergeBeginsAgainWhereTheRecordComesAndGoes(t *testing.T) {
	for _, c := range []struct{ answers, want string }{
		{"404 409 200", ""},
		{"404 409 404 200", ""},
		{"404 409 404 409 404 409", "404"},
		{"404 503", "503"},
		{"404 400", "400"},
	} {
		answers := strings.Fields(c.answers)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Path == "/auth/token" {
				fmt.Fprint(w, `{"accessToken":"t","tokenType":"bearer","expiresIn":"900s"}`)
				return
			}
			if want := []string{http.MethodPut, http.MethodPost}[len(strings.Fields(c.answers[:len(c.answers)-len(strings.Join(answers, " "))]))%2]; r.Method != want {
				t.Errorf("%s: got %s, want %s", c.answers, r.Method, want)
			}
			status, _ := strconv.Atoi(answers[0])
			answers = answers[1:]
			w.WriteHeader(status)
			fmt.Fprint(w, `{"businessKey":"o1"}`)
		}))
		client, err := service.New(service.Config{
			BaseURL: server.URL, AuthURL: server.URL, Entity: "acme", Timeout: 5 * time.Second,
			APIKey: func() (service.Secret, error) { return service.NewSecret("key"), nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		err = writes.Operations{Client: client}.Call(t.Context(), order(schemas.Merge, "PAID"), writes.Create{})
		got := ""
		if e, ok := errors.AsType[*service.Error](err); ok {
			got = strconv.Itoa(e.Status())
		}
		if got != c.want || (err == nil) != (c.want == "") || len(answers) > 0 {
			t.Errorf("%s: got %v, %d answers left, want status %q", c.answers, err, len(answers), c.want)
		}
		client.Close()
		server.Close()
	}
}

func TestNoCallOnlyCreatesOrMergesAProfile(t *testing.T) {
	s, client := startService(t)
	for _, op := range []schemas.Op{schemas.Create, schemas.Merge} {
		err := writes.Operations{Client: client}.Call(t.Context(), customer(op, "", "Ada"), writes.Create{})
		var f calls.Failure
		if !errors.As(err, &f) || f.Transient() || f.Unknown() || f.Overload() || f.Status() != 0 || f.RetryAfter() != 0 {
			t.Errorf("%v: got %#v, want a failure that no repetition mends", op, err)
		}
	}
	if got := len(s.Calls()); got != 0 {
		t.Errorf("calls: got %d, want none", got)
	}
}

// A create is answered 409, perhaps after a try whose outcome is unknown.
func TestCreateThatMayHaveBeenAppliedLooksAtTheRecord(t *testing.T) {
	for _, c := range []struct {
		what    string
		stored  *schemas.Write // before the try that is answered 409
		retried bool
		want    int // status of the error, 0: confirmed
		ops     string
	}{
		{"the record is the one that was sent", order(schemas.Upsert, "PLACED"), true, 0, "4 4 6"},
		{"the record is somebody else's", order(schemas.Upsert, "PAID"), true, 409, "4 4 6"},
		{"nothing was tried before by this process", order(schemas.Upsert, "PLACED"), false, 0, "4 4 6"},
		{"nobody has the key", nil, true, 0, "4"},
	} {
		t.Run(strings.ReplaceAll(c.what, " ", "_"), func(t *testing.T) {
			s, client := startService(t)
			caller := writes.Operations{Client: client}
			if c.stored != nil {
				if err := caller.Call(t.Context(), c.stored, writes.Create{}); err != nil {
					t.Fatal(err)
				}
			}
			err := caller.Call(t.Context(), order(schemas.Create, "PLACED"), writes.Create{Unsure: c.retried})
			e, failed := errors.AsType[*service.Error](err)
			if failed != (c.want != 0) || failed && e.Status() != c.want {
				t.Errorf("got %v, want status %d", err, c.want)
			}
			var ops []string
			for _, call := range s.Calls() {
				if call.Op != 14 {
					ops = append(ops, fmt.Sprint(call.Op))
				}
			}
			if got := strings.Join(ops, " "); got != c.ops {
				t.Errorf("operations: got %s, want %s", got, c.ops)
			}
		})
	}
}

func TestCreateIsTriedAgainIfTheRecordCannotBeRead(t *testing.T) {
	s, client := startService(t)
	caller := writes.Operations{Client: client}
	if err := caller.Call(t.Context(), order(schemas.Upsert, "PLACED"), writes.Create{}); err != nil {
		t.Fatal(err)
	}
	s.Inject(sandbox.Fault{Match: sandbox.Match{Op: 6}, Count: 1, Answer: sandbox.Status(503)})
	err := caller.Call(t.Context(), order(schemas.Create, "PLACED"), writes.Create{Unsure: true})
	var f calls.Failure
	if !errors.As(err, &f) || !f.Transient() {
		t.Fatalf("got %v, want a failure that passes: neither yes nor no was said", err)
	}
	if err := caller.Call(t.Context(), order(schemas.Create, "PLACED"), writes.Create{Unsure: true}); err != nil {
		t.Errorf("the next try: got %v, want it confirmed", err)
	}
}
