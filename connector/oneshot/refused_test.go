package oneshot

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/service"
)

// notFound is how operation 11 ends for an execution that the service does not know.
func notFound(t *testing.T) error {
	t.Helper()
	s, err := sandbox.New(sandbox.Config{Entity: "acme", APIKeys: []string{"the-api-key"}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	server := httptest.NewServer(s)
	defer server.Close()
	client, err := service.New(service.Config{
		BaseURL: server.URL, AuthURL: server.URL, Entity: "acme", Timeout: 5 * time.Second, Concurrency: 1,
		APIKey: func() (service.Secret, error) { return service.NewSecret("the-api-key"), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err = client.Results(t.Context(), "17"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Fatalf("an execution that nobody knows: got %v, want a 404", err)
	}
	return err
}

// An execution may take a while to be known everywhere.
func TestExecutionThatIsNotKnownYetIsAskedAgain(t *testing.T) {
	refused := answer{err: notFound(t)}
	running, down := answer{results: service.Results{Status: service.InProgress}}, answer{err: &service.Error{}} // transient
	almost := slices.Repeat([]answer{refused}, forgottenPolls-1)
	synctest.Test(t, func(t *testing.T) {
		for name, before := range map[string][]answer{
			"once":                           {refused},
			"as often as it may be":          almost,
			"again after an answer":          slices.Concat(almost, []answer{running}, almost),
			"again after an outage":          slices.Concat(almost, []answer{down}, almost),
			"once between answers: the last": {running, refused, running, refused},
		} {
			s := &scripted{execution: "17", answers: append(slices.Clone(before), answer{results: counted(service.Finished, 0)})}
			if r, err := run(t.Context(), t, s); err != nil || !r.Whole() || len(s.asked) != len(before)+1 {
				t.Errorf("%s: got %+v, %v after %d polls, want its end after %d", name, r, err, len(s.asked), len(before)+1)
			}
		}
		s := &scripted{execution: "17", answers: []answer{refused}}
		r, err := run(t.Context(), t, s)
		if err == nil || !strings.Contains(err.Error(), "404") || !strings.Contains(err.Error(), "feedsink imports files 17") || r.Execution != "17" {
			t.Errorf("never known: got %+v, %v, want the refusal and how to go on", r, err)
		}
		if len(s.asked) != forgottenPolls || s.asked[len(s.asked)-1] < time.Minute {
			t.Errorf("never known: asked at %v, want %d polls, less and less often", s.asked, forgottenPolls)
		}
	})
}
