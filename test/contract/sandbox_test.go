package contract

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/service"
)

const apiKey = "the-api-key"

// startService starts a sandbox with the tables that the steps write into.
func startService(t *testing.T, shapes sandbox.Shapes, slots int) (*sandbox.Sandbox, string) {
	t.Helper()
	s, err := sandbox.New(sandbox.Config{
		Entity: "acme", APIKeys: []string{apiKey}, SlotsPerDay: slots, Shapes: shapes,
		Tables: []sandbox.Table{
			{
				Name: "customers", Keys: []string{"customerNumber", "emailAddress"},
				Fields: []sandbox.Field{
					{Name: "customerNumber"},
					{Name: "emailAddress", Format: sandbox.Email},
					{Name: "languages", Multi: true, Format: sandbox.Language},
					{Name: "birthDate", Type: sandbox.Date},
					{Name: "lastSeen", Type: sandbox.Timestamp},
					{Name: "age", Type: sandbox.Integer},
					{Name: "score", Type: sandbox.Number},
					{Name: "active", Type: sandbox.Boolean},
				},
				Subscriptions: []string{"newsletter"},
				Segments:      []sandbox.Segment{{Name: "vip"}, {Name: "tier", Values: []string{"gold"}}},
			},
			{
				Name: "orders", Custom: true,
				Fields: []sandbox.Field{{Name: "total", Type: sandbox.Number}, {Name: "status"}},
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for _, remote := range []string{"ftps-1", "ftps-2"} {
		if _, err := s.Folder(sandbox.Location{Remote: remote}); err != nil {
			t.Fatal(err)
		}
	}
	server, err := s.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return s, server.URL()
}

func client(t *testing.T, address string, transport http.RoundTripper) *service.Client {
	t.Helper()
	c, err := service.New(service.Config{
		BaseURL: address, AuthURL: address, Entity: "acme", Timeout: 10 * time.Second, Transport: transport,
		APIKey: func() (service.Secret, error) { return service.NewSecret(apiKey), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// variants are the answers among which a service may choose.
var variants = map[string]sandbox.Shapes{
	"as the document assumes": {},
	"numbers and texts": {
		ID: "number", Errors: "text", Output: "gzip", NoSlot: "text",
		Updated: "record", Results: "text", Failure: "object",
		Counters: [5]string{"read", "errors", "created", "modified", "removed"}, Initial: "CREATED",
	},
	"bare texts and lists": {
		ID: "bare-string", Errors: "list", Output: "zip", NoSlot: "header",
		Results: "files", Failure: "list", Counters: [5]string{"lines_read", "lines_in_error", "lines_inserted", "lines_updated", "lines_deleted"}, Reasons: "codes",
	},
	"bare numbers": {
		ID: "bare-number", Errors: "text", Results: "nested",
		Counters: [5]string{"totalLineCount", "rejectedLineCount", "insertedLineCount", "updatedLineCount", "deletedLineCount"}, Reasons: "first",
	},
	"locations and nothing": {ID: "location", Errors: "empty"},
}

func TestEveryCallAndAnswerFitsTheDocument(t *testing.T) {
	for name, shapes := range variants {
		t.Run(name, func(t *testing.T) {
			s, address := startService(t, shapes, 0)
			s.Hold()
			r := newRecorder(t)
			c := client(t, address, r)
			m := &memory{dir: t.TempDir(), finish: func(execution string) {
				if err := s.Finish(execution); err != nil {
					t.Fatal(err)
				}
			}}
			for _, step := range slices.Concat(steps(), remoteSteps()) {
				s.RevokeTokens() // so that each operation is also met by its 401
				step.do(t, c, m)
			}
			used(t, r, shapes)
			revoked(t, r, s, address)
			gone(t, r, address)

			// An update is answered with or without a body, not both.
			missing := slices.DeleteFunc(r.unanswered(), func(answer string) bool { return answer == "updateRecord 204" })
			if len(missing) > 0 {
				t.Errorf("these answers of the document never came: %v", missing)
			}
		})
	}
}

// used meets the end of a table's imports of the day.
func used(t *testing.T, r *recorder, shapes sandbox.Shapes) {
	t.Helper()
	_, address := startService(t, shapes, 1)
	c, m := client(t, address, r), &memory{}
	etl, err := c.CreateETL(t.Context(), triggered("customers", service.ModeDelete))
	if err != nil {
		t.Fatal(err)
	}
	file := upload("c.csv", "no,born\n")
	m.etl = etl
	for _, s := range []step{
		{"Trigger", "the last slot", func(ctx context.Context, c *service.Client, m *memory) error {
			_, err := c.Trigger(ctx, m.etl, file, nil)
			return err
		}, success},
		{"Trigger", "no slot left", func(ctx context.Context, c *service.Client, m *memory) error {
			_, err := c.Trigger(ctx, m.etl, file, nil)
			return err
		}, service.NoSlot},
		{"OneShot", "no slot left", func(ctx context.Context, c *service.Client, _ *memory) error {
			_, err := c.OneShot(ctx, oneShot(), file, nil)
			return err
		}, service.NoSlot},
	} {
		s.do(t, c, m)
	}
}

// revoked meets a key that is not good any more.
func revoked(t *testing.T, r *recorder, s *sandbox.Sandbox, address string) {
	t.Helper()
	s.RevokeKey(apiKey)
	step{"Authenticate", "revoked key", func(ctx context.Context, c *service.Client, _ *memory) error {
		return c.Authenticate(ctx)
	}, service.Unauthorized}.do(t, client(t, address, r), nil)
	s.AllowKey(apiKey)
}

// gone calls operation 15 by hand, because the client cannot.
func gone(t *testing.T, r *recorder, address string) {
	t.Helper()
	var token string
	c := client(t, address, transport(func(request *http.Request) (*http.Response, error) {
		if header := request.Header.Get("Authorization"); header != apiKey {
			token = header
		}
		return r.RoundTrip(request)
	}))
	_ = c.DeleteRecord(t.Context(), "orders", "none") // which the token is had for
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		address+"/mass-imports/v4/entity/acme/table/customers/import", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", token)
	response, err := r.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusGone {
		t.Errorf("operation 15: got %v, %v; want 410", response, err)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
