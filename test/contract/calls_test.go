package contract

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/feedsink/feedsink/connector/feed"
)

// step is one call of the client and what has to come of it.
type step struct {
	method string // of feed.Client
	about  string
	call   func(ctx context.Context, c *feed.Client, m *memory) error
	want   feed.Kind
}

// Outcomes besides the client's kinds of error.
const (
	success feed.Kind = 0
	foreign feed.Kind = 255 // an error that is none of the client's
)

// memory is what later calls need from earlier ones, and what cannot be known
// before there is a service.
type memory struct {
	profile   string
	etl       string
	execution string
	finish    func(execution string) // ends an execution
	dir       string
}

const csv = "no,born\nC1,31/12/1999\nC2,yesterday\n"

var (
	profile = []byte(`{"attributes":{"customerNumber":"C1","emailAddress":"a@example.com","languages":["fr","en"],
		"birthDate":"1999-12-31","lastSeen":"2026-11-21T10:00:00Z","age":44,"score":-0.5,"active":true},
		"subscriptions":{"newsletter":true},"segments":{"vip":true,"tier":"gold"},
		"dataCollection":{"date":"2026-11-21T10:00:00+01:00","source":"shop","way":"checkout"}}`)
	// Its two unique keys are those of two profiles.
	torn   = []byte(`{"attributes":{"customerNumber":"C1","emailAddress":"b@example.com"}}`)
	record = feed.JSON(`{"businessKey":"a/b","properties":[{"name":"total","value":12.50},{"name":"status","value":"PAID"}]}`)
	change = feed.JSON(`{"properties":[{"name":"status","value":"SENT"}]}`)
)

func load(mode feed.Mode) feed.Load {
	return feed.Load{
		CSV:             feed.CSVFormat{Encoding: "UTF-8", Separator: ",", Enclosing: `"`},
		Transformations: []feed.Transformation{{Header: "born", DateFormat: "dd/MM/yyyy"}},
		Destination: feed.Destination{Type: feed.ProfileTable, ID: "customers", Attributes: []feed.Attribute{
			{Header: "no", Name: "customerNumber"},
			{Header: "born", Name: "birthDate", IgnoreEmptyValues: true, MergeValuesWhenMultivalued: true},
		}},
		Parameters: feed.Parameters{Mode: mode, GenerateErrorFiles: true},
	}
}

func triggered(name string, mode feed.Mode) feed.TriggeredETL {
	return feed.TriggeredETL{
		Name: name, Description: "every field", ReportRecipients: []string{"ops@example.com"},
		Files: []feed.ETLFile{{
			Code: "customers", NamePattern: "customers-$YYYYMMDD.csv", Compression: feed.Zip,
			CompressedNamePattern: "customers-$YYYYMMDD.zip", Load: load(mode),
		}},
		Output: &feed.OutputLocation{Entity: "acme"},
	}
}

func oneShot() feed.OneShotETL {
	return feed.OneShotETL{
		Load: load(feed.ModeUpdateOnly), ReportRecipients: []string{"ops@example.com"},
		Output: &feed.OutputLocation{Entity: "acme"},
	}
}

func fetched() feed.OneShotETL {
	e := oneShot()
	e.Remote = &feed.RemoteFile{
		LocationID: "ftps-1", NamePattern: "customers-$YYYYMMDD.csv", Compression: feed.Gzip,
		CompressedNamePattern: "customers-$YYYYMMDD.csv.gz", DeleteOnSuccess: true,
	}
	return e
}

func upload(name, kind, content string) feed.File {
	return feed.File{Name: name, ContentType: kind, Open: func() (io.ReadCloser, int64, error) {
		return io.NopCloser(bytes.NewReader([]byte(content))), int64(len(content)), nil
	}}
}

// steps is every operation in an order in which each finds what it needs.
func steps() []step {
	return slices.Concat(profileSteps(), recordSteps(), importSteps(), []step{
		{"CreateWebhook", "", func(ctx context.Context, c *feed.Client, m *memory) error {
			_, err := c.CreateWebhook(ctx, feed.Webhook{
				ElementID: m.etl, TargetURL: "http://localhost:1/webhooks/executions",
				Headers: map[string]feed.Secret{"X-Feedsink-Secret": feed.NewSecret("s3cret")},
			})
			return err
		}, success},
		{"Authenticate", "", func(ctx context.Context, c *feed.Client, _ *memory) error { return c.Authenticate(ctx) }, success},
	})
}

func profileSteps() []step {
	upsert := func(body feed.JSON) func(context.Context, *feed.Client, *memory) error {
		return func(ctx context.Context, c *feed.Client, m *memory) error {
			ref, err := c.UpsertProfile(ctx, "customers", body)
			if err == nil {
				m.profile = ref.ID()
			}
			return err
		}
	}
	patch := func(ctx context.Context, c *feed.Client, m *memory) error {
		_, err := c.PatchProfile(ctx, "customers", m.profile, feed.JSON(`{"attributes":{"score":1}}`))
		return err
	}
	remove := func(ctx context.Context, c *feed.Client, m *memory) error {
		return c.DeleteProfile(ctx, "customers", m.profile)
	}
	return []step{
		{"UpsertProfile", "another", upsert(feed.JSON(`{"attributes":{"customerNumber":"C2","emailAddress":"b@example.com"}}`)), success},
		{"UpsertProfile", "", upsert(profile), success},
		{"UpsertProfile", "keys of two profiles", upsert(torn), feed.Conflict},
		{"UpsertProfile", "an unknown attribute", upsert(feed.JSON(`{"attributes":{"customerNumber":"C1","x":1}}`)), feed.Rejected},
		{"PatchProfile", "", patch, success},
		{"DeleteProfile", "", remove, success},
		{"PatchProfile", "unknown id", patch, feed.NotFound},
		{"DeleteProfile", "unknown id", remove, feed.NotFound},
	}
}

func recordSteps() []step {
	upsert := func(update bool) func(context.Context, *feed.Client, *memory) error {
		return func(ctx context.Context, c *feed.Client, _ *memory) error {
			_, err := c.UpsertRecord(ctx, "orders", record, update)
			return err
		}
	}
	update := func(ctx context.Context, c *feed.Client, _ *memory) error {
		_, err := c.UpdateRecord(ctx, "orders", "a/b", change)
		return err
	}
	get := func(ctx context.Context, c *feed.Client, _ *memory) error {
		r, err := c.GetRecord(ctx, "orders", "a/b")
		if err == nil && (r.ID() == "" || r.Created().IsZero() || r.Updated().IsZero()) {
			return errors.New("the record lacks what the service adds")
		}
		return err
	}
	remove := func(ctx context.Context, c *feed.Client, _ *memory) error {
		return c.DeleteRecord(ctx, "orders", "a/b")
	}
	return []step{
		{"UpsertRecord", "create", upsert(false), success},
		{"UpsertRecord", "create again", upsert(false), feed.Conflict},
		{"UpsertRecord", "update", upsert(true), success},
		{"UpdateRecord", "", update, success},
		{"GetRecord", "", get, success},
		{"DeleteRecord", "", remove, success},
		{"UpdateRecord", "unknown key", update, feed.NotFound},
		{"GetRecord", "unknown key", get, feed.NotFound},
		{"DeleteRecord", "unknown key", remove, feed.NotFound},
	}
}

func importSteps() []step {
	trigger := func(file feed.File) func(context.Context, *feed.Client, *memory) error {
		return func(ctx context.Context, c *feed.Client, m *memory) error {
			e, err := c.Trigger(ctx, m.etl, file, nil)
			if err == nil {
				m.execution = e.ID
			}
			return err
		}
	}
	results := func(ctx context.Context, c *feed.Client, m *memory) error {
		_, err := c.Results(ctx, m.execution)
		return err
	}
	outputs := func(ctx context.Context, c *feed.Client, m *memory) error {
		_, err := c.OutputFiles(ctx, m.execution, io.Discard)
		return err
	}
	return []step{
		{"CreateETL", "", func(ctx context.Context, c *feed.Client, m *memory) (err error) {
			m.etl, err = c.CreateETL(ctx, triggered("customers", feed.ModeCreateOrUpdate))
			return err
		}, success},
		{"CreateETL", "the other spelling of its mode", func(ctx context.Context, c *feed.Client, _ *memory) error {
			_, err := c.CreateETL(ctx, triggered("customers again", feed.ModeCreateUpdate))
			return err
		}, success},
		{"Trigger", "a file that fails", trigger(upload("c.csv", "text/csv", "no,no\n")), success},
		{"Results", "IN_PROGRESS", results, success},
		{"Results", "FAILED", func(ctx context.Context, c *feed.Client, m *memory) error {
			m.finish(m.execution)
			return results(ctx, c, m)
		}, success},
		{"OutputFiles", "none", outputs, feed.NotFound},
		{"Trigger", "", trigger(upload("c.csv", "text/csv", csv)), success},
		{"Results", "FINISHED", func(ctx context.Context, c *feed.Client, m *memory) error {
			m.finish(m.execution)
			return results(ctx, c, m)
		}, success},
		{"OutputFiles", "", outputs, success},
		{"SaveOutputFiles", "", func(ctx context.Context, c *feed.Client, m *memory) error {
			_, err := c.SaveOutputFiles(ctx, m.execution, filepath.Join(m.dir, "errors"), 1<<20)
			return err
		}, success},
		{"OneShot", "", func(ctx context.Context, c *feed.Client, _ *memory) error {
			_, err := c.OneShot(ctx, oneShot(), upload("c.csv", "text/csv", csv), nil)
			return err
		}, success},
		{"Results", "unknown id", func(ctx context.Context, c *feed.Client, _ *memory) error {
			_, err := c.Results(ctx, "none")
			return err
		}, feed.NotFound},
	}
}

// everyField is a definition that has each field of the interface, of two files.
func everyField() feed.TriggeredETL {
	e := triggered("customers and orders", feed.ModeCreateOnly)
	e.Paused, e.RemoteLocationID = true, "ftps-1"
	e.Output = &feed.OutputLocation{RemoteLocationID: "ftps-2"}
	e.Files[0].Parameters.GenerateResultFiles = true
	e.Files[0].Destination.Attributes[1] = feed.Attribute{
		Header: "born", Name: "birthDate", IgnoreEmptyValues: true, IgnoreInvalidValues: true,
		IgnoreValuesWhenAlreadyKnown: true, MergeValuesWhenMultivalued: true,
	}
	e.Files = append(e.Files, feed.ETLFile{
		Code: "orders", NamePattern: "orders-$YYYYMMDD.csv", Compression: feed.Plain,
		Load: feed.Load{
			CSV: feed.CSVFormat{Separator: ";"},
			Destination: feed.Destination{Type: feed.CustomTable, ID: "orders", Attributes: []feed.Attribute{
				{Header: "key", Name: "businessKey"}, {Header: "state", Name: "status"},
			}},
			Parameters: feed.Parameters{Mode: feed.ModeDelete},
		},
	})
	return e
}

// remoteETL is one whose file is fetched.
func remoteETL() feed.TriggeredETL {
	e := triggered("customers from afar", feed.ModeCreateOrUpdate)
	e.RemoteLocationID = "ftps-1"
	return e
}

// remoteSteps name the remote locations ftps-1 and ftps-2.
func remoteSteps() []step {
	return []step{
		{"CreateETL", "every field", func(ctx context.Context, c *feed.Client, _ *memory) error {
			_, err := c.CreateETL(ctx, everyField())
			return err
		}, success},
		{"OneShotRemote", "", func(ctx context.Context, c *feed.Client, _ *memory) error {
			_, err := c.OneShotRemote(ctx, fetched(), nil)
			return err
		}, success},
		{"TriggerRemote", "", func(ctx context.Context, c *feed.Client, _ *memory) error {
			etl, err := c.CreateETL(ctx, remoteETL())
			if err == nil {
				_, err = c.TriggerRemote(ctx, etl, nil)
			}
			return err
		}, success},
	}
}

// do makes one call and wants its outcome.
func (s step) do(t *testing.T, c *feed.Client, m *memory) {
	t.Helper()
	err := s.call(t.Context(), c, m)
	got := kind(err)
	if got != s.want {
		t.Errorf("%s %s: got %v (%v), want %v", s.method, s.about, got, err, s.want)
	}
}

// kind is the outcome that err, or no err, is.
func kind(err error) feed.Kind {
	if e, ok := errors.AsType[*feed.Error](err); ok {
		return e.Kind()
	}
	if err != nil {
		return foreign
	}
	return success
}

// TestNoOperationOfTheClientIsLeftOut fails when the client gets a method that
// no step calls.
func TestNoOperationOfTheClientIsLeftOut(t *testing.T) {
	called := map[string]bool{"Close": true, "TokenOK": true} // these two call nothing
	for _, s := range slices.Concat(steps(), remoteSteps()) {
		called[s.method] = true
	}
	for method := range reflect.TypeFor[*feed.Client]().Methods() {
		if !called[method.Name] {
			t.Errorf("no step calls feed.Client.%s", method.Name)
		}
		delete(called, method.Name)
	}
	for name := range called {
		t.Errorf("a step names feed.Client.%s, which does not exist", name)
	}
}
